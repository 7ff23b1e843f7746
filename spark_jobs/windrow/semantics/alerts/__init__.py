"""Conditions that a person is told of: which ones hold now, and what began or ended since the last look."""
