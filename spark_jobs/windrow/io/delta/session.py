"""The Spark session: it runs in UTC with Delta, or does not start, and it ends with the process that waits for it.

Jars, the Delta extension and JVM options are in one spark-defaults.conf, which spark-submit and an in-process
session both use. Only the name, and the master of an in-process session, are set here. Behind a gateway where Spark
runs already, as in an engine (`windrow.engine`), a process has a session of its own in that Spark, and never stops it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark import SparkConf, SparkContext
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
NEW_FILES = {
    "spark.sql.sources.commitProtocolClass": "windrow.NewFiles",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 would have no bounds in the log
}
"""Files for a commit by delta-rs are written where they stay (see `appending`); every other write is as without it."""


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
    spark = _shared() or _own(app, master, secrets)
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone != "UTC":
        raise RuntimeError(
            f"the Spark session runs in time zone {zone}, not UTC: give it Windrow's spark-defaults.conf "
            "(`make setup` writes it) or add spark.sql.session.timeZone=UTC to yours"
        )
    for name, value in (NO_ERROR_OF_DATA | NEW_FILES).items():
        spark.conf.set(name, value)
    return spark


def _own(app: str, master: str, secrets: Path | None) -> SparkSession:
    builder = SparkSession.builder.appName(app)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master)
    if secrets:
        further = _properties(secrets)
        SparkContext._ensure_initialized()  # Java runs before it is told: what it starts with stands in its arguments
        for name, value in further.items():
            builder = builder.config(name, value)
    return builder.getOrCreate()


when_shared: list[Callable[[str], None]] = []
"""Called with the id of the session that this process gets in a running Spark."""
_is_shared = False


def _shared() -> SparkSession | None:
    """A session in the Spark that runs behind this process's gateway; None where it has no gateway, or no Spark runs.

    It has nothing of other sessions: no setting, no view, and nothing of what they have read of tables.

    Raises:
        RuntimeError: the Spark has stopped.
    """
    global _is_shared
    if "PYSPARK_GATEWAY_PORT" not in os.environ or SparkContext._active_spark_context is not None:
        return None
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    found = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
    if not found.isDefined():
        return None
    first = found.get()
    if first.sparkContext().isStopped():
        raise RuntimeError("the Spark behind this process's gateway has stopped; run it again")
    java = jvm.JavaSparkContext.fromSparkContext(first.sparkContext())
    context = SparkContext(gateway=SparkContext._gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
    _take_share()
    own = first.newSession()
    for tell in when_shared:
        tell(own.sessionUUID())
    _is_shared = True
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    shared = SparkSession(context, own)
    jvm.org.apache.spark.sql.classic.SparkSession.setDefaultSession(first)  # PySpark has made it this process's
    return shared


def _take_share() -> None:
    """Let what this thread starts in Spark count as its process's, among the processes that share the cores fairly."""
    SparkContext.getOrCreate().setLocalProperty("spark.scheduler.pool", f"job-{os.getpid() % 32}")


def threads(count: int) -> ThreadPoolExecutor:
    """Return threads that ask Spark side by side; in an engine they have, together, the share of one process.

    Args:
        count: of threads, at most.
    """
    return ThreadPoolExecutor(count, initializer=_take_share if _is_shared else None)


def is_shared() -> bool:
    """Whether this process's session is in a Spark that ran before, as in an engine."""
    return _is_shared


def stop() -> None:
    """Stop this process's Spark, if it has one of its own."""
    if not _is_shared and (spark := SparkSession.getActiveSession()) is not None:
        spark.stop()


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


_WATCH = "leave-with-parent"


def leave_with_parent(
    parent: int | None = None, submitter: int | None = None, leave: Callable[[int], None] = os._exit
) -> None:
    """Start a thread, once, that exits when the process that started this one, or the task that submitted it, is gone.

    When spark-submit is killed, the JVM dies and the Python driver lives on; when the task is killed, both live on.
    Without this thread they would go on working, and nobody would see the result.

    Args:
        parent: process id of the process that started this one, where it is known; it may be gone already.
        submitter: process id of the task, where it is known.
        leave: how to exit, with an exit code; tests replace it.
    """
    started_by = parent or os.getppid()

    def watch() -> None:
        while os.getppid() == started_by and (submitter is None or psutil.pid_exists(submitter)):
            time.sleep(1.0)
        leave(137)

    if not any(thread.name == _WATCH for thread in threading.enumerate()):
        threading.Thread(target=watch, name=_WATCH, daemon=True).start()
