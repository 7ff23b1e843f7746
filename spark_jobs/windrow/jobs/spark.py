"""A Spark session for a job, with the environment that the local set-up prepared."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.delta.session import leave_with_parent, session
from windrow.outcomes import NeedsSpark
from windrow.places import Places
from windrow.platform import jars

LARGE = 500_000
"""Rows of a run from which its driver compiles for long work."""


def remember_size(home: Home, rows: int) -> None:
    """Note how much a run reads, for the drivers that start from now on. It is about speed only."""
    note = home.places.large(home.pipeline.name)
    if rows >= LARGE:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    else:
        note.unlink(missing_ok=True)


def spark_for(name: str, places: Places, pipeline: Pipeline | None = None) -> SparkSession:
    """Start or join this process's session. Under spark-submit the driver leaves when its submitter is gone.

    `pipeline`: whose work it is.

    Raises:
        NeedsSpark: WINDROW_WITHOUT_SPARK is set.
    """
    if os.environ.get("WINDROW_WITHOUT_SPARK"):
        raise NeedsSpark(f"{name}: rows must be read or written; run it with Spark")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        task = os.environ.get("WINDROW_TASK_PID")
        leave_with_parent(int(task) if task else None)
    else:
        jars.ensure(places)
        large = pipeline is not None and places.large(pipeline.name).exists()
        for variable, value in jars.environment(places, large=large).items():
            os.environ.setdefault(variable, value)
    return session(f"windrow {name}", places.spark_master)
