"""Spark session of a job, under spark-submit, in an engine, or in a process of its own.

Every session has the one configuration of `platform.jars`. Under spark-submit and in an engine a job ends with the task
that started it; where Spark is switched off, the job ends with NeedsSpark before anything is read.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from windrow.config import Pipeline
from windrow.io.delta.session import leave_with_parent, session
from windrow.outcomes import NeedsSpark
from windrow.places import Places
from windrow.platform import jars


def spark_for(name: str, places: Places, pipeline: Pipeline | None = None) -> SparkSession:
    """Return this process's session, started if there is none.

    Args:
        name: what the session is for; Spark's pages show it.
        places: the master, the JARs and the marks of large pipelines.
        pipeline: a new JVM uses the optimising compiler if its runs are large; without a pipeline it never does.
    Raises:
        NeedsSpark: WINDROW_WITHOUT_SPARK is set.
        BadInput: the file that WINDROW_SPARK_SECRETS names is missing or open to others.
    """
    if os.environ.get("WINDROW_WITHOUT_SPARK"):
        raise NeedsSpark(f"{name}: rows must be read or written; run it with Spark")
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # the driver must not outlive the task that started it
        task = os.environ.get("WINDROW_TASK_PID")
        leave_with_parent(submitter=int(task) if task else None)
    else:
        jars.ensure(places)
        is_large = pipeline is not None and places.large(pipeline.name).exists()
        options = jars.FOR_LARGE if is_large else None
        for variable, value in jars.environment(places, options=options).items():
            os.environ.setdefault(variable, value)
    return session(f"windrow {name}", places.spark_master, places.spark_secrets)
