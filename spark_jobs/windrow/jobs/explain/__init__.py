"""Why a left row has these labels: question, case, outcome, answer in words."""
