"""A Spark session for a job, with the environment that the local set-up prepared."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from windrow.io.session import leave_with_parent, session
from windrow.places import Places
from windrow.platform import jars


def spark_for(name: str, places: Places) -> SparkSession:
    """Start or join this process's session. Under spark-submit the driver leaves when its submitter is gone."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        task = os.environ.get("WINDROW_TASK_PID")
        leave_with_parent(int(task) if task else None)
    else:
        jars.ensure(places)
        for variable, value in jars.environment(places).items():
            os.environ.setdefault(variable, value)
    return session(f"windrow {name}", places.spark_master)
