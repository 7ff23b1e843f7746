"""The Spark session: UTC, Delta, and gone when nobody waits for it any more.

What the session needs (jars, the Delta extension, JVM options) stands in one spark-defaults.conf that
spark-submit and an in-process session are both given; only the name, and the master of an in-process session,
are said here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def session(app: str, master: str) -> SparkSession:
    """Start, or join, the session of this process. Under spark-submit the master is the submitter's."""
    builder = SparkSession.builder.appName(app)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master)
    spark = builder.getOrCreate()
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone != "UTC":
        raise RuntimeError(
            f"the Spark session runs in time zone {zone}, not UTC: give it Windrow's spark-defaults.conf "
            "(`make setup` writes it) or add spark.sql.session.timeZone=UTC to yours"
        )
    # A row's data must not stop a job: in `where` and `labels` a division by zero, a failed cast or an index behind
    # an array's end is null.
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.legacy.sizeOfNull", "false")
    return spark


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], ddl: str) -> DataFrame:
    """A small frame of what this process knows, `ddl` its schema; instants are aware.

    It goes by Arrow: rows of a list would go through a Python worker, whose start takes longer than most queries.
    """
    schema = schema_of(ddl)
    columns = to_arrow_schema(schema, timezone="UTC")
    cells = [[list(cell.items()) if isinstance(cell, Mapping) else cell for cell in row] for row in rows]
    table = pa.Table.from_pylist([dict(zip(columns.names, row, strict=True)) for row in cells], columns)
    return spark.createDataFrame(table, schema)


def schema_of(ddl: str) -> StructType:
    """The columns that `ddl` names, as Spark has them; a session must run."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def leave_with_parent(submitter: int | None = None, leave: Callable[[int], None] = os._exit) -> None:
    """Exit when the process that started this one, or the task that submitted it, is gone.

    On a kill of spark-submit the JVM dies and the Python driver lives on; on a kill of the task both do. Nobody
    would ever see what they go on to do.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent and (submitter is None or psutil.pid_exists(submitter)):
            time.sleep(1.0)
        leave(137)

    threading.Thread(target=watch, name="leave-with-parent", daemon=True).start()
