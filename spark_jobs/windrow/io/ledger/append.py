"""Record a pass of the late ledger in one commit: its lines, and what it was complete up to. Exactly once.

The transaction version of the table is the number of the pass. The caller holds the ledger's lock from before it reads
what a pass would bring, so no two passes compute the same number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from windrow.home import Home
from windrow.io.delta import appending, crash_points, scan, tables
from windrow.io.delta.lookup import Range
from windrow.io.delta.session import frame_of, schema_of
from windrow.io.ledger.table import APP_ID, path_of
from windrow.schemas import LATE
from windrow.transforms.given import given
from windrow.transforms.ledger.columns import DDL
from windrow.transforms.ledger.due import stretches_of
from windrow.transforms.ledger.passes import Pass


def append(home: Home, new_pass: Pass, lines: Sequence[Mapping[str, Any]]) -> None:
    """Commit a pass without Spark; usually it has no lines and only records how far the ledger is complete.

    Args:
        lines: values by column of `schemas.LATE`; a missing one is null.
    """
    crash_points.point("late.before_commit")
    number, message = new_pass.number, new_pass.to_json()
    tables.append_once(path_of(home), LATE, lines, app_id=APP_ID, version=number, message=message, merge_files=False)
    crash_points.point("late.after_commit")


def append_frame(home: Home, new_pass: Pass, lines: DataFrame, others: Sequence[Mapping[str, Any]]) -> None:
    """Commit a pass with Spark.

    Args:
        lines: the columns of `schemas.LATE` without `pass`.
        others: more lines, values by column of `schemas.LATE`; a missing one is null.
    Raises:
        WriteSkipped: the table already has a pass of this number.
    """
    crash_points.point("late.before_commit")
    numbered = lines.withColumn("pass", given(new_pass.number)).select(*LATE.names)
    if others:
        cells = [tuple(line.get(name) for name in LATE.names) for line in others]
        numbered = numbered.unionByName(frame_of(lines.sparkSession, cells, DDL))
    path = path_of(home)
    table = appending.prepare(path, numbered.schema)
    appending.append(
        numbered.hint("rebalance"),  # as few files as the lines need
        path,
        table,
        app_id=APP_ID,
        version=new_pass.number,
        message=new_pass.to_json(),
        statistics=LATE.names,
    )
    crash_points.point("late.after_commit")


def frame(spark: SparkSession, home: Home, starts: Sequence[datetime]) -> DataFrame:
    """Return the lines about the intervals with these starts, and perhaps others; whether they count is not asked."""
    wanted = stretches_of(starts, home.pipeline.interval, timedelta(0))
    found = scan.rows(spark, path_of(home), *[[Range("interval", s.start, s.end)] for s in wanted])
    return scan.nothing(spark, schema_of(DDL)) if found is None else found
