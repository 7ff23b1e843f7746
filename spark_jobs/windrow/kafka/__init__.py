"""How a process asks Kafka."""
