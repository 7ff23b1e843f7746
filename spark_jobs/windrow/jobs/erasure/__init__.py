"""Erasure of keys (rule 22): the job, the keys that it is given, and its report."""
