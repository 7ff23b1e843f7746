"""How a process reaches Kafka: the brokers' addresses and the file that says who it is."""
