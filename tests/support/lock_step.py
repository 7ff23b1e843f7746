"""Two kinds of writer that commit to one local table in the same instant: delta-rs, and Spark's own log store.

A table on a local disk has no atomic "create if absent" that both share: Spark looks whether a version is there and
then renames its file to it, over whatever another process has put there in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from windrow.io.delta import tables
from windrow.io.delta.locks import held

SCHEMA = pa.schema([("round", pa.int64())])


def commit_each_round(table: Path, lock: Path, rounds: int, together: Barrier) -> None:
    """Append one row per round, as every writer of a small table does; the other writer commits at the same time."""
    for n in range(rounds):
        together.wait(60)
        with held(lock):
            tables.append_once(str(table), SCHEMA, [{"round": n}], app_id="lock-step", version=n + 1)


def spark_commit(spark: SparkSession, table: Path) -> Callable[[int], int]:
    """Return a function that commits with the log store that Spark uses for this table, and returns the version.

    Its commits have a message (the round) and no rows.
    """
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(table))
    store, conf = log.store(), spark._jsc.hadoopConfiguration()

    def commit(n: int) -> int:
        opened = tables.opened(str(table))
        assert opened is not None
        version = opened.version() + 1
        info = {"commitInfo": {"timestamp": n, "operation": "WRITE", "userMetadata": str(n)}}
        lines = jvm.java.util.ArrayList()
        lines.add(json.dumps(info))
        file = jvm.org.apache.hadoop.fs.Path(str(commit_file(table, version)))
        store.write(file, jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines.iterator()), False, conf)
        return version

    return commit


def commit_file(table: Path, version: int) -> Path:
    """Return the path of a version's commit."""
    return table / "_delta_log" / f"{version:020d}.json"
