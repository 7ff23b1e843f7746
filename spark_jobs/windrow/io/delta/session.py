"""The Spark session: it runs in UTC with Delta, or does not start, and it ends with the process that waits for it.

Jars, the Delta extension and JVM options are in one spark-defaults.conf, which spark-submit and an in-process
session both use. Only the name, and the master of an in-process session, are set here.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from windrow.files import read_private

NO_ERROR_OF_DATA = {
    "spark.sql.ansi.enabled": "false",  # a division by zero, a failed cast or an index beyond the end is null
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.legacy.codingErrorAction": "true",  # bytes that are not text in a character set are replaced
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.allowNullComparisonResultInArraySort": "true",  # equal
}
"""Settings under which the data of one row cannot stop a job, in `where` and `labels`."""


def session(app: str, master: str, secrets: Path | None = None) -> SparkSession:
    """Return the session of this process, started if there is none.

    Args:
        app: name of the application.
        master: Spark master of a session in a process of its own; under spark-submit the submitter's is used.
        secrets: file of further Spark properties, as spark-submit reads them; their values are shown nowhere.
    Raises:
        BadInput: there is no such file, or others than its owner may read it.
        RuntimeError: the session does not run in UTC.
    """
    builder = SparkSession.builder.appName(app)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master)
    for name, value in _properties(secrets).items() if secrets else ():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone != "UTC":
        raise RuntimeError(
            f"the Spark session runs in time zone {zone}, not UTC: give it Windrow's spark-defaults.conf "
            "(`make setup` writes it) or add spark.sql.session.timeZone=UTC to yours"
        )
    for name, value in NO_ERROR_OF_DATA.items():
        spark.conf.set(name, value)
    return spark


def _properties(file: Path) -> dict[str, str]:
    """Return the properties of a file: one per line, name and value divided by blanks or `=`; `#` begins a comment."""
    text = read_private(file, "WINDROW_SPARK_SECRETS")
    lines = [line.strip() for line in text.splitlines()]
    pairs = [re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], ddl: str) -> DataFrame:
    """Return a small DataFrame made from values of this process.

    The rows travel as an Arrow table: a list of rows would need a Python worker, whose start takes longer than most
    queries.

    Args:
        rows: one sequence of cells per row; instants are aware, maps are mappings.
        ddl: names and types of the columns.
    """
    schema = schema_of(ddl)
    columns = to_arrow_schema(schema, timezone="UTC")
    cells = [[list(cell.items()) if isinstance(cell, Mapping) else cell for cell in row] for row in rows]
    table = pa.Table.from_pylist([dict(zip(columns.names, row, strict=True)) for row in cells], columns)
    return spark.createDataFrame(table, schema)


def schema_of(ddl: str) -> StructType:
    """Return the schema that `ddl` describes; a session must be running."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def leave_with_parent(submitter: int | None = None, leave: Callable[[int], None] = os._exit) -> None:
    """Start a thread that exits when the process that started this one, or the task that submitted it, is gone.

    When spark-submit is killed, the JVM dies and the Python driver lives on; when the task is killed, both live on.
    Without this thread they would go on working, and nobody would see the result.

    Args:
        submitter: process id of the task, where it is known.
        leave: how to exit, with an exit code; tests replace it.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent and (submitter is None or psutil.pid_exists(submitter)):
            time.sleep(1.0)
        leave(137)

    threading.Thread(target=watch, name="leave-with-parent", daemon=True).start()
