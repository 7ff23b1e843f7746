"""The `canaries` table: what the broker has acknowledged of the canaries that were sent. Read with and without Spark.

A record is in the table only after its acknowledgement, so a canary in it that does not arrive was lost. One that was
sent by a process that died before it wrote here is not missed by anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from windrow.home import Home, Table
from windrow.io.delta import scan, tables
from windrow.io.delta.lookup import Range
from windrow.schemas import CANARIES
from windrow.semantics.canary.schedule import Acknowledged


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append acknowledged records (columns of `schemas.CANARIES`) in one commit; nothing without a row."""
    if rows:
        tables.append_next(home.table(Table.CANARIES), CANARIES, rows, app_id="windrow.canaries")


def since(home: Home, served_at: datetime) -> list[Acknowledged]:
    """Return what was acknowledged of the pairs whose left row was served at this time or later."""
    columns = ["stream", "number", "served_at", "delay_s"]
    rows = tables.read(home.table(Table.CANARIES), columns, [("served_at", ">=", served_at)])
    return [
        Acknowledged(
            row["stream"],
            row["number"],
            row["served_at"],
            None if row["delay_s"] is None else timedelta(seconds=row["delay_s"]),
        )
        for row in rows
    ]


def of_interval(home: Home, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return what was acknowledged of the pairs served in [start, end), by time."""
    rows = tables.read(home.table(Table.CANARIES), filters=[("served_at", ">=", start), ("served_at", "<", end)])
    return sorted(rows, key=lambda row: (row["served_at"], row["event_time"], row["stream"]))


def between(spark: SparkSession, home: Home, lo: datetime, hi: datetime) -> DataFrame | None:
    """Return what was acknowledged of the pairs served in [lo, hi), perhaps of others; None where nothing was."""
    return scan.rows(spark, home.table(Table.CANARIES), [Range("served_at", lo, hi)])
