"""The servers that the local platform starts: Kafka, Airflow, an object store, PostgreSQL, Spark; or all of them."""
