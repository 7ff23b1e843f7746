"""The late ledger: what a rebuild at the newest pins would change, kept line by line."""
