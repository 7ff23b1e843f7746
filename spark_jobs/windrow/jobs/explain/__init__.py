"""Why a left row has these labels, in four moves.

question ─▶ which row is meant            question.py   looks up one landed row
read     ─▶ a case                        case.py       everything on record about the row
compute  ─▶ verdicts, states, an outcome  streams.py, outcome.py, answer.py
words    ─▶ a sentence for each of them   words.py, lines.py
"""
