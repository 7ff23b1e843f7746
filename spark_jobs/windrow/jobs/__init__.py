"""One job a module: arguments, read, execute, write. Airflow and the `windrow` command run the same functions."""
