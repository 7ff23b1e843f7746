"""What several test files share: worlds, generated traffic, the oracle's side, a running Airflow."""
