"""Kafka and the landing tables, read and written: the broker's offsets, the commits, the landed rows."""
