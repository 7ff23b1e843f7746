"""Pages that Airflow serves for Windrow behind its own sign-in, and the links to them."""
