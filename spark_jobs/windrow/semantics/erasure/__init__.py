"""Erasure (rule 22): the hash by which an erased key is known, on paper and in Spark."""
