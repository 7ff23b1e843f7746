"""Writers that commit to one table at the same moment without a lock: delta-rs in a process, Spark's log store here."""

from __future__ import annotations

import json
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from windrow.io.delta import store, tables

PATIENCE = 300
"""Seconds for a round: the other process may start and import beside two workers of the suite."""
SCHEMA = pa.schema([("round", pa.int64())])


def commit_each_round(table: str, rounds: int, together: Barrier) -> None:
    """Append one row per round, as every writer of a small table does; the other writer commits at the same time."""
    for n in range(rounds):
        together.wait(PATIENCE)
        tables.append_next(table, SCHEMA, [{"round": n}], app_id="lock-step")


def spark_commit(spark: SparkSession, table: str) -> Callable[[int], int]:
    """Return a function that commits with the log store that Spark uses for this table, and returns the version.

    Its commits have a message (the round) and no rows. Where another writer was faster it tries the next version. The
    path is the log's own, as in a commit of Spark: Delta chooses the store by the scheme of a path, and takes its
    default for one without.
    """
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table)
    log_store, conf = log.store(), spark._jsc.hadoopConfiguration()

    def write(version: int, n: int) -> bool:
        info = {"commitInfo": {"timestamp": n, "operation": "WRITE", "userMetadata": str(n)}}
        lines = jvm.java.util.ArrayList()
        lines.add(json.dumps(info))
        file = jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{version:020d}.json")
        try:
            log_store.write(file, jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines.iterator()), False, conf)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in str(error.java_exception):
                raise
            return False
        return True

    def commit(n: int) -> int:
        opened = tables.opened(table)
        assert opened is not None
        version = opened.version() + 1
        while not write(version, n):
            version += 1
        return version

    return commit


def commit_file(table: str, version: int) -> str:
    """Return the location of a version's commit."""
    return f"{table}/_delta_log/{version:020d}.json"


def message(table: str, version: int) -> str | None:
    """Return the message of a version's commit; None for one without."""
    lines = map(json.loads, store.read(commit_file(table, version)).decode().splitlines())
    return next((line["commitInfo"].get("userMetadata") for line in lines if "commitInfo" in line), None)
