"""How patiently Airflow's processes wait for each other's writes to the one SQLite file (seconds)."""

CONNECT_ARGS = {"timeout": 60}
