"""One import error for all unusable pipeline files. This file has no DAG, so that none is disabled by it."""

from windrow_airflow.factory import refuse_wrong_files

refuse_wrong_files()  # Airflow reads only files in which the word "dag" stands
