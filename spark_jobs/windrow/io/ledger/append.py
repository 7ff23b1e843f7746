"""A pass of the late ledger goes on record in one commit: its lines, and what it was complete up to. Exactly once.

The transaction version of the table is the number of the pass. The caller holds the ledger's lock from before it reads
what a pass would bring, so no two passes compute the same number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.home import Home
from windrow.io.delta import crash_points, tables
from windrow.io.delta.session import frame_of
from windrow.io.ledger.table import APP_ID, path_of
from windrow.schemas import LATE
from windrow.transforms.ledger.columns import DDL
from windrow.transforms.ledger.passes import Pass


def append(home: Home, made: Pass, lines: Sequence[Mapping[str, Any]]) -> None:
    """Commit a pass without Spark; mostly it has no lines and only records how far the ledger is complete."""
    crash_points.point("late.before_commit")
    data = pa.Table.from_pylist([{name: line.get(name) for name in LATE.names} for line in lines], LATE)
    properties = CommitProperties(
        custom_metadata={"userMetadata": made.to_json()}, app_transactions=[Transaction(APP_ID, made.number)]
    )
    write_deltalake(path_of(home), data, mode="append", commit_properties=properties)
    crash_points.point("late.after_commit")


def append_frame(home: Home, made: Pass, lines: DataFrame, others: Sequence[Mapping[str, Any]]) -> None:
    """Commit a pass with Spark.

    Args:
        lines: the columns of `schemas.LATE` without `pass`.
        others: more lines, with all of these columns that they do not leave null.
    Raises:
        WriteSkipped: the table already has a pass of this number, so Delta skipped the commit silently.
    """
    crash_points.point("late.before_commit")
    numbered = lines.withColumn("pass", F.lit(made.number).cast("bigint")).select(*LATE.names)
    if others:
        cells = [tuple(line.get(name) for name in LATE.names) for line in others]
        numbered = numbered.unionByName(frame_of(lines.sparkSession, cells, DDL))
    (
        numbered.hint("rebalance")  # as few files as the lines need
        .write.format("delta")
        .mode("append")
        .option("txnAppId", APP_ID)
        .option("txnVersion", str(made.number))
        .option("userMetadata", made.to_json())
        .save(path_of(home))
    )
    written = tables.version_of(path_of(home), APP_ID)
    if written != made.number:
        raise tables.WriteSkipped(
            f"{path_of(home)}: pass {made.number} is not in the table (it is at {written}). Run again."
        )
    crash_points.point("late.after_commit")


def frame(spark: SparkSession, home: Home) -> DataFrame:
    """All lines of the ledger; an empty table is created where there is none."""
    if tables.opened(path_of(home)) is None:
        write_deltalake(path_of(home), LATE.empty_table(), mode="append")
    return spark.read.format("delta").load(path_of(home))
