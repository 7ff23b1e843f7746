"""reconcile: check on real rows that live rows plus late ledger equal a rebuild, and name holes. Nothing is published.

    extend the ledger ─▶ its pins, its clock, the publications and the training version of its last pass
    read     landed rows at these pins, published rows, the lines that count
    compute  the same intervals joined again by `transforms.join`, and compared row by row
    write    one outcome per interval: equal, differs, config_changed, hole

By default the intervals of yesterday (UTC). A difference that the ledger does not explain fails the run, which names
the rows and their columns. The rebuilt rows are not written; as candidates they could be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, INTERVAL, PAIRED, PUBLICATION, ROW_ID
from windrow.home import Home
from windrow.io.delta.session import frame_of
from windrow.io.ledger import append, reconciled
from windrow.io.ledger.state import with_rows
from windrow.io.registers import clocks, publications
from windrow.io.training import inputs, versions
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.ledger import extend_table
from windrow.jobs.options import OptionalFrom, OptionalTo, PipelineName
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NeedsPerson, NothingToDo
from windrow.schemas import RECONCILED
from windrow.semantics.clock import watermark
from windrow.semantics.close import frontier
from windrow.semantics.intervals import DAY, Interval, at_micros
from windrow.semantics.plan import Plan
from windrow.text import counted, instant_text, short_instant_text, shown_instant
from windrow.transforms.content import row_hashes
from windrow.transforms.join import join_plans
from windrow.transforms.ledger import columns
from windrow.transforms.ledger.passes import Due
from windrow.transforms.reconcile import DIFFERENT, differences, in_question

SHOWN = 20
"""Rows of a comparison that are named: row ids and columns, no values."""


class NotReconciled(NeedsPerson):
    """Published rows are not what a rebuild and the ledger say. Trying again does not help: a person looks."""


@dataclass(frozen=True)
class Difference:
    """A row that the ledger does not explain."""

    interval: datetime
    row: str
    """topic/epoch/partition/offset"""
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Reconciled:
    """Rows of `schemas.RECONCILED`, oldest interval first, and the first rows that differ."""

    intervals: tuple[Mapping[str, Any], ...]
    shown: tuple[Difference, ...]

    def of(self, outcome: str) -> list[Mapping[str, Any]]:
        """The intervals with an outcome: equal, differs, hole, config_changed."""
        return [row for row in self.intervals if row["outcome"] == outcome]

    @property
    def unexplained(self) -> int:
        """Number of rows that the ledger does not explain; 0 is right."""
        return sum(row["unexplained"] or 0 for row in self.intervals)


def yesterday(ctx: Context) -> tuple[datetime, datetime]:
    """Return start and end of the UTC day before today."""
    start = datetime.combine(ctx.yesterday, time.min, UTC)
    return start, start + DAY


def reconcile_range(ctx: Context, begin: datetime, end: datetime) -> Reconciled:
    """Compare the published intervals that start in `[begin, end)`, and record the outcomes.

    Returns:
        One row per interval, and the first rows that the ledger does not explain.

    Raises:
        NothingToDo: nothing is published or closed there.
        BadRequest: the range ends at or before its begin.
        CommitsLost, TableDamaged, TrainingBehind: commits or files of a table were lost.
        TablesDisagree: there is nothing to compare, and the tables of the pipeline disagree.
    """
    if end <= begin:
        raise BadRequest(f"the range ends at {shown_instant(end)}, at or before it begins at {shown_instant(begin)}")
    run = f"reconcile__{instant_text(ctx.now())}"
    work = extend_table(ctx.home, lambda: spark_for("reconcile", ctx.places, ctx.pipeline))
    if work is None:
        require_intact(ctx.home)
        raise NothingToDo(f"{ctx.pipeline.name}: nothing is published yet")
    is_wanted, is_comparable = work.standing.between(begin, end), work.standing.is_comparable
    comparable = work.standing.where(is_wanted & is_comparable)
    rows, shown = _compared(ctx, with_rows(ctx.home, work, comparable), comparable, run)
    rows += [_outcome(work, start, "config_changed") for start in work.standing.where(is_wanted & ~is_comparable)]
    rows += [{"interval": start, "outcome": "hole"} for start in _holes(ctx, work, begin, end)]
    if not rows:
        begin_to_end = f"{shown_instant(begin)} to {shown_instant(end)}"
        raise NothingToDo(f"{ctx.pipeline.name}: no interval from {begin_to_end} is closed or published")
    shared = {"run": run, "pass": work.number, "reconciled_at": ctx.now()}
    blank: dict[str, Any] = dict.fromkeys(RECONCILED.names)
    outcomes = tuple(sorted(({**blank, **row, **shared} for row in rows), key=lambda row: row["interval"]))
    reconciled.record(ctx.home, outcomes)
    return Reconciled(outcomes, tuple(shown[:SHOWN]))


def check(ctx: Context, done: Reconciled) -> None:
    """Fail where the ledger does not explain a difference, or where the tables of the pipeline disagree.

    Raises:
        NotReconciled: names the first rows and their columns.
        TablesDisagree: names tables and files.
    """
    if not done.unexplained:
        require_intact(ctx.home)
        return
    rows = "\n".join(
        f"    {short_instant_text(one.interval)}  {one.row}  {', '.join(one.columns)}" for one in done.shown
    )
    raise NotReconciled(
        f"{counted(done.unexplained, 'row')} in {counted(len(done.of('differs')), 'interval')}: not what a rebuild "
        "makes, and the late ledger does not explain it. "
        f"The first {len(done.shown)} (interval, row id, columns):\n{rows}\n"
        "Either published rows or landed rows were changed by hand, or the ledger is wrong. "
        f"`windrow verify {ctx.pipeline.name}` tells which: it rebuilds a publication at its own pins."
    )


def _compared(
    ctx: Context, work: Due, starts: Sequence[datetime], run: str
) -> tuple[list[dict[str, Any]], list[Difference]]:
    """Return outcomes of published intervals of the current config, and the first rows that differ.

    One join takes the intervals of a day with the same `drained`: the join knows only one value for all its plans.
    """
    counts: dict[datetime, dict[str, int]] = {
        start: {"rows": 0, "ledger_lines": 0, "unexplained": 0} for start in starts
    }
    plans = [_rebuild_of(work, start, ctx.pipeline.interval, run) for start in starts]
    ordered = sorted(plans, key=lambda plan: (plan.interval.start.date(), plan.drained, plan.interval.start))
    shown: list[Difference] = []
    for _, group in groupby(ordered, key=lambda plan: (plan.interval.start.date(), plan.drained)):
        spark = spark_for(f"reconcile {ctx.pipeline.name}", ctx.places, ctx.pipeline)
        shown += _compare(spark, ctx.home, work, tuple(group), counts)
    rows = [
        {**_outcome(work, start, "differs" if found["unexplained"] else "equal"), **found}
        for start, found in counts.items()
    ]
    return rows, sorted(shown, key=lambda one: (one.interval, one.row))


def _compare(
    spark: SparkSession, home: Home, work: Due, plans: tuple[Plan, ...], counts: dict[datetime, dict[str, int]]
) -> list[Difference]:
    """Rebuild the intervals of the plans in memory and compare them; return the first rows that differ.

    Args:
        counts: gets `rows`, `ledger_lines` and `unexplained` of each interval.
    """
    starts = [plan.interval.start for plan in plans]
    read = inputs.read(spark, home, plans, clocks.observe(home))
    published = versions.intervals_at(spark, home, starts, work.training_version)
    numbers = [(start, work.standing.number_of(start)) for start in starts]
    standing = frame_of(spark, numbers, f"{INTERVAL} timestamp, {PUBLICATION} bigint")
    ledger = append.frame(spark, home, starts).where(F.col("interval").isin(starts))

    lines = columns.counting(ledger, standing).persist()
    rebuilt = join_plans(home.pipeline, plans, read).where(F.col(PAIRED))
    hashes = row_hashes(rebuilt, home.pipeline).persist()
    ids = in_question(row_hashes(published, home.pipeline), lines, hashes).persist()
    ids.count()  # before Spark plans how to find their rows, so that it knows how few there are
    found = differences(published, lines, rebuilt, ids, home.pipeline).persist()

    for name, frame, start in (
        ("rows", hashes, INTERVAL),
        ("ledger_lines", lines, "interval"),
        ("unexplained", found, INTERVAL),
    ):
        for row in frame.groupBy(F.unix_micros(start).alias("at")).agg(F.count(F.lit(1)).alias("n")).collect():
            counts[at_micros(row["at"])][name] = row["n"]
    shown = _first(found)
    for frame in (found, ids, hashes, lines):
        frame.unpersist()
    inputs.release(read)
    return shown


def _rebuild_of(work: Due, start: datetime, length: timedelta, run: str) -> Plan:
    """Return the plan of a rebuild as the ledger means it: at the newest pins; a drained publication stays drained."""
    return replace(work.known, run=run, interval=Interval(start, start + length), drained=work.plan_of(start).drained)


def _first(found: DataFrame) -> list[Difference]:
    """Return the first rows that differ, in row order."""
    row_id = F.concat_ws("/", *[F.col(f"_id.{name}") for name in ROW_ID])
    rows = found.orderBy(INTERVAL, EVENT_TIME, "_id").limit(SHOWN)
    return [
        Difference(at_micros(row["at"]), row["row"], tuple(row[DIFFERENT]))
        for row in rows.select(F.unix_micros(INTERVAL).alias("at"), row_id.alias("row"), DIFFERENT).collect()
    ]


def _outcome(work: Due, start: datetime, outcome: str) -> dict[str, Any]:
    return {"interval": start, "publication": work.standing.number_of(start), "outcome": outcome}


def _holes(ctx: Context, work: Due, begin: datetime, end: datetime) -> list[datetime]:
    """Return the starts of the closed intervals in `[begin, end)` that have no publication."""
    until = frontier(watermark(work.known.watermark), ctx.pipeline.after, ctx.pipeline.grace)
    holes = publications.holes(ctx.pipeline, work.standing.starts, until)
    return [hole.start for hole in holes if begin <= hole.start < end]


def range_or_yesterday(ctx: Context, begin: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
    """Return the range of a command line: both bounds, or neither for yesterday (UTC).

    Raises:
        BadRequest: only one bound is given.
    """
    if (begin is None) != (end is None):
        raise BadRequest("--from and --to belong together; without both it is yesterday, UTC")
    return (begin, end) if begin is not None and end is not None else yesterday(ctx)


def execute(pipeline: PipelineName, begin: OptionalFrom = None, end: OptionalTo = None) -> Mapping[str, Any]:
    """Compare the intervals of the range, by default those of yesterday (UTC); unexplained differences fail the run.

    Raises:
        BadRequest: only one bound is given, or the range ends at or before its begin.
        Condition: those of `reconcile_range` and `check`.
    """
    ctx = context(pipeline)
    done = reconcile_range(ctx, *range_or_yesterday(ctx, begin, end))
    check(ctx, done)
    return {
        "intervals": [{n: row[n] for n in ("interval", "outcome", "unexplained")} for row in done.intervals],
        "holes": [row["interval"] for row in done.of("hole")],
        "unexplained": done.unexplained,
    }


main = job(execute)
