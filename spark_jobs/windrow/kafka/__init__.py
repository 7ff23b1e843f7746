"""How a process reaches Kafka: addresses, the file that says who this client is, answers and refusals."""
