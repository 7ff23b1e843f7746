"""The DAGs of every pipeline file in dags/pipelines and in the folders of WINDROW_PIPELINES."""

from windrow_airflow.factory import make_dags

globals().update(make_dags())
