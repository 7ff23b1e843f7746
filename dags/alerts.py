"""The DAG that looks at every pipeline and tells people what began and what ended (dags/README.md, Alerts)."""

from windrow_airflow.alerts.dag import make_alerts_dag

globals().update(make_alerts_dag())
