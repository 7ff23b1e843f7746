"""A rebuild that nobody sees, compared with what is published and the late ledger; and the record of that.

    the ledger's last pass ─▶ its pins, its clock, the publications and the training version that it looked at
         └▶ the same intervals joined at these pins, by the join's own code, compared row by row; nothing is written

The rebuilt rows are compared where they are made. As candidates they would be waiting to be published, or forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, INTERVAL, PAIRED, PUBLICATION, ROW_ID
from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.io.delta.session import frame_of
from windrow.io.ledger.due import Due
from windrow.io.ledger.table import path_of
from windrow.io.registers import clocks
from windrow.io.training import inputs, versions
from windrow.schemas import RECONCILED
from windrow.semantics.intervals import Interval, at_micros
from windrow.semantics.plan import Plan
from windrow.transforms import ledger
from windrow.transforms.join import join_plans
from windrow.transforms.reconcile import DIFFERENT, differences

SHOWN = 20
"""Rows of a comparison that are named: row ids and columns, no values."""


@dataclass(frozen=True)
class Difference:
    """A row that the ledger does not explain."""

    interval: datetime
    row: str
    """topic/epoch/partition/offset"""
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """By interval start: `rows` of the rebuild, `ledger_lines`, `unexplained`; and the first rows that differ."""

    counts: Mapping[datetime, Mapping[str, int]]
    shown: tuple[Difference, ...]


def compare(spark: SparkSession, home: Home, work: Due, starts: Sequence[datetime], run: str) -> Compared:
    """Rebuild published intervals of one config and compare them. At least one start."""
    numbers = [(start, work.standing[start]["number"]) for start in starts]
    known = frame_of(spark, numbers, f"{INTERVAL} timestamp, {PUBLICATION} bigint")
    plans = [_plan(home.pipeline, work, start, run) for start in sorted(starts)]
    counting = ledger.counting(spark.read.format("delta").load(path_of(home)), known)
    counts: dict[datetime, dict[str, int]] = {
        start: {"rows": 0, "ledger_lines": 0, "unexplained": 0} for start in starts
    }
    shown: list[Difference] = []
    clock = clocks.observe(home)
    for drained in sorted({plan.drained for plan in plans}):
        mine = tuple(plan for plan in plans if plan.drained == drained)
        read = inputs.read(spark, home, mine, clock)
        rebuilt = join_plans(home.pipeline, mine, read).where(F.col(PAIRED)).persist()
        lines = counting.where(F.col("interval").isin([plan.interval.start for plan in mine])).persist()
        published = versions.intervals_at(spark, home, [p.interval.start for p in mine], work.training_version)
        found = differences(published, lines, rebuilt, home.pipeline).persist()
        for name, frame in (("rows", rebuilt), ("ledger_lines", lines), ("unexplained", found)):
            _count(counts, name, frame)
        shown += _first(found)
        for frame in (found, lines, rebuilt):
            frame.unpersist()
        inputs.release(read)
    return Compared(counts, tuple(sorted(shown, key=lambda one: (one.interval, one.row))[:SHOWN]))


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put outcomes on record, in one commit."""
    with held(home.lock(Table.RECONCILED)):
        tables.append_once(home.table(Table.RECONCILED), RECONCILED, rows)


def recorded(home: Home) -> list[dict[str, Any]]:
    """Every outcome, oldest first."""
    rows = tables.read(home.table(Table.RECONCILED))
    return sorted(rows, key=lambda row: (row["reconciled_at"], row["interval"]))


def _plan(pipeline: Pipeline, work: Due, start: datetime, run: str) -> Plan:
    """The rebuild of an interval as the ledger means it: the newest pins; a drained publication stays drained."""
    standing = Plan.from_json(work.standing[start]["plan"])
    interval = Interval(start, start + pipeline.interval)
    return replace(work.known, run=run, interval=interval, drained=standing.drained)


def _count(counts: dict[datetime, dict[str, int]], name: str, frame: DataFrame) -> None:
    start = INTERVAL if INTERVAL in frame.columns else "interval"
    for row in frame.groupBy(F.unix_micros(start).alias("at")).agg(F.count(F.lit(1)).alias("n")).collect():
        counts[at_micros(row["at"])][name] = row["n"]


def _first(found: DataFrame) -> list[Difference]:
    """The first rows by row order: their ids and the columns, for a person."""
    named = F.concat_ws("/", *[F.col(f"_id.{name}") for name in ROW_ID])
    rows = found.orderBy(INTERVAL, EVENT_TIME, "_id").limit(SHOWN)
    return [
        Difference(at_micros(row["at"]), row["row"], tuple(row[DIFFERENT]))
        for row in rows.select(F.unix_micros(INTERVAL).alias("at"), named.alias("row"), DIFFERENT).collect()
    ]
