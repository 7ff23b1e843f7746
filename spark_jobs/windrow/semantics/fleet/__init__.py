"""The state of every pipeline: its status in words, and its newest intervals as a strip."""
