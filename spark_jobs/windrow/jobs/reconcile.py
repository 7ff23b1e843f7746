"""reconcile: live rows plus late ledger = a rebuild, checked on real rows; holes are named. Nothing is published.

By default the intervals of yesterday (UTC). The ledger is extended first, and the rebuild is made at the batches that
it is then complete up to. A difference that it does not explain fails the run and names the rows and their columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windrow.io.ledger import extend, reconcile
from windrow.io.ledger.due import Due
from windrow.io.ledger.reconcile import Compared, Difference
from windrow.io.registers import publications
from windrow.jobs.options import OptionalFrom, OptionalTo, PipelineName
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NeedsPerson, NothingToDo
from windrow.schemas import RECONCILED
from windrow.semantics.clock import watermark
from windrow.semantics.close import frontier
from windrow.semantics.intervals import DAY


class NotReconciled(NeedsPerson):
    """Published rows are not what a rebuild and the ledger say. Trying again does not help: a person looks."""


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
        """Rows that the ledger does not explain; 0 is right."""
        return sum(row["unexplained"] or 0 for row in self.intervals)


def yesterday(ctx: Context) -> tuple[datetime, datetime]:
    """The UTC day before today."""
    today = ctx.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - DAY, today


def reconcile_range(ctx: Context, begin: datetime, end: datetime) -> Reconciled:
    """Compare the published intervals that start in `[begin, end)`, and put the outcome on record.

    Raises:
        NothingToDo: nothing is published or closed there. BadRequest: the range is none.
    """
    if end <= begin:
        raise BadRequest(f"the range ends at {end}, at or before it begins at {begin}")
    run = f"reconcile__{ctx.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    work = extend.extend(ctx.home, lambda: spark_for("reconcile", ctx.places, ctx.pipeline))
    if work is None:
        raise NothingToDo(f"{ctx.pipeline.name}: nothing is published yet")
    starts = [start for start in sorted(work.standing) if begin <= start < end]
    same = [s for s in starts if work.standing[s]["config_hash"] == ctx.pipeline.config_hash]
    rows: list[dict[str, Any]] = []
    shown: list[Difference] = []
    for day in _days(same):
        spark = spark_for(f"reconcile {ctx.pipeline.name}", ctx.places, ctx.pipeline)
        compared = reconcile.compare(spark, ctx.home, work, day, run)
        rows += _outcomes(work, compared)
        shown += compared.shown
    rows += [{"interval": s, "publication": work.standing[s]["number"], "outcome": "config_changed"}
             for s in starts if s not in same]  # fmt: skip
    rows += [{"interval": start, "outcome": "hole"} for start in _holes(ctx, work, begin, end)]
    if not rows:
        raise NothingToDo(f"{ctx.pipeline.name}: no interval from {begin} to {end} is closed or published")
    whole = {"run": run, "pass": work.number, "reconciled_at": ctx.now()}
    blank: dict[str, Any] = dict.fromkeys(RECONCILED.names)
    told = tuple(sorted(({**blank, **row, **whole} for row in rows), key=lambda row: row["interval"]))
    reconcile.record(ctx.home, told)
    return Reconciled(told, tuple(shown[: reconcile.SHOWN]))


def check(ctx: Context, done: Reconciled) -> None:
    """Raises NotReconciled, naming the rows, where the ledger does not explain a difference."""
    if not done.unexplained:
        return
    lines = (f"{one.interval:%Y-%m-%dT%H:%M:%SZ}  {one.row}  {', '.join(one.columns)}" for one in done.shown)
    rows = "\n".join(f"    {line}" for line in lines)
    raise NotReconciled(
        f"{done.unexplained} rows in {len(done.of('differs'))} intervals are not what a rebuild makes of them, and the "
        f"late ledger does not say so. The first {len(done.shown)} (interval, row id, columns):\n{rows}\n"
        "Either published rows or landed rows were changed by somebody, or the ledger is wrong. "
        f"`windrow verify {ctx.pipeline.name}` tells which: it rebuilds a publication at its own pins."
    )


def _days(starts: Sequence[datetime]) -> list[list[datetime]]:
    """A UTC day of intervals is one join."""
    days: dict[Any, list[datetime]] = {}
    for start in starts:
        days.setdefault(start.date(), []).append(start)
    return list(days.values())


def _outcomes(work: Due, compared: Compared) -> list[dict[str, Any]]:
    return [
        {
            "interval": start,
            "publication": work.standing[start]["number"],
            "outcome": "differs" if counts["unexplained"] else "equal",
            **counts,
        }
        for start, counts in compared.counts.items()
    ]


def _holes(ctx: Context, work: Due, begin: datetime, end: datetime) -> list[datetime]:
    until = frontier(watermark(work.known.watermark), ctx.pipeline.after, ctx.pipeline.grace)
    holes = publications.holes(ctx.pipeline, [dict(row) for row in work.standing.values()], until)
    return [hole.start for hole in holes if begin <= hole.start < end]


def range_or_yesterday(ctx: Context, begin: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
    """Return the range of a command line: both bounds, or neither for yesterday (UTC)."""
    if (begin is None) != (end is None):
        raise BadRequest("--from and --to belong together; without both it is yesterday, UTC")
    return (begin, end) if begin is not None and end is not None else yesterday(ctx)


def execute(pipeline: PipelineName, begin: OptionalFrom = None, end: OptionalTo = None) -> Mapping[str, Any]:
    """Compare the intervals of the range, by default those of yesterday (UTC); unexplained differences fail the run."""
    ctx = context(pipeline)
    done = reconcile_range(ctx, *range_or_yesterday(ctx, begin, end))
    check(ctx, done)
    return {
        "intervals": [{n: row[n] for n in ("interval", "outcome", "unexplained")} for row in done.intervals],
        "holes": [row["interval"] for row in done.of("hole")],
        "unexplained": done.unexplained,
    }


main = job(execute)
