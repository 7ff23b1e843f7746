"""From Kafka to the landing tables: positions, batches, gaps, and the landed rows themselves."""
