"""Canaries: when which record of a pair is sent, and what became of the pairs of an interval (rule 23)."""
