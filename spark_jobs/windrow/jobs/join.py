"""join: plan a run's intervals, then write their candidates and measures. Plans are recorded before work starts.

--mode publish     the interval if it is closed and unpublished, and up to --along closed unpublished ones
--mode republish   the interval alone, with new pins, whether it is published or not (backfill, cleared run)
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from windrow.io import candidates, clocks, crash, plans, publications, quality
from windrow.jobs.run import BadRequest, Context, NothingToDo, WindowStillOpen, instant, job
from windrow.jobs.spark import spark_for
from windrow.semantics.clock import NotCaughtUp, holder
from windrow.semantics.clock import drain as drained_watermark
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.intervals import Interval, intervals_between, on_grid
from windrow.semantics.plan import Plan

Mode = Literal["publish", "republish"]


def plan_interval(ctx: Context, run: str, at: datetime, mode: Mode, along: int) -> tuple[Plan, ...]:
    """The plans of a run that is about one interval; a retry gets the recorded ones.

    Raises:
        WindowStillOpen: the interval is not closed.
        NothingToDo: mode is publish, and it is published.
        BadRequest: no interval starts there.
    """
    recorded = plans.of_run(ctx.pipeline, ctx.places, run)
    if recorded:
        return recorded
    interval = _interval(ctx, at)
    rows, seen = _known(ctx)
    frontier = seen.frontier(ctx.pipeline)
    if mode == "publish" and interval.start in publications.standing(rows):
        raise NothingToDo(f"{interval} is published")
    if not is_closed(interval, frontier):
        raise WindowStillOpen(_why_open(ctx, interval, seen))
    chosen = [interval]
    if mode == "publish":
        holes = publications.holes(ctx.pipeline, rows, frontier)
        blocked = quality.blocked_intervals(ctx.pipeline, ctx.places, holes) | {interval.start}
        others = [i for i in holes if i.start not in blocked]
        chosen = sorted([interval, *others[: max(0, along - 1)]])
    return record(ctx, run, chosen, seen, rows, drained=False)


def plan_all(
    ctx: Context, run: str, *, most: int, drain: bool = False, tried: Collection[datetime] = ()
) -> tuple[Plan, ...]:
    """Plans for the oldest closed unpublished intervals, at most `most`; none where there is no hole.

    With `drain`, every interval that holds a left row counts as closed; every partition must be caught up. `tried`:
    starts of intervals that this command has had its turn with.
    """
    rows, seen = _known(ctx)
    frontier = seen.frontier(ctx.pipeline)
    if drain:
        if {row["topic"] for row in seen.rows} != set(ctx.pipeline.topics):
            raise NotCaughtUp(f"not every topic has landed yet: `windrow land {ctx.pipeline.name}`, then drain again")
        drained_watermark(seen.clocks)
        newest = [c.newest_at for c in seen.clocks if c.topic in ctx.pipeline.left.topics and c.newest_at]
        ends = [max(newest) + ctx.pipeline.interval] if newest else []
        frontier = max([*ends, *([frontier] if frontier else [])], default=None)
    holes = publications.holes(ctx.pipeline, rows, frontier)
    chosen = [interval for interval in holes if interval.start not in tried][:most]
    return record(ctx, run, chosen, seen, rows, drained=drain) if chosen else ()


def plan_range(ctx: Context, run: str, begin: datetime, end: datetime) -> tuple[Plan, ...]:
    """Plans for every interval of `[begin, end)`, published or not, with new pins.

    Raises:
        WindowStillOpen: the range reaches past the frontier.
        BadRequest: its bounds are not interval bounds.
    """
    if end <= begin:
        raise BadRequest(f"the range ends at {end}, at or before it begins at {begin}")
    first, last = _interval(ctx, begin), _interval(ctx, end - ctx.pipeline.interval)
    rows, seen = _known(ctx)
    if not is_closed(last, seen.frontier(ctx.pipeline)):
        raise WindowStillOpen(_why_open(ctx, last, seen))
    chosen = list(intervals_between(first.start, last.end, ctx.pipeline.interval))
    return record(ctx, run, chosen, seen, rows, drained=False)


def record(
    ctx: Context,
    run: str,
    chosen: Sequence[Interval],
    seen: clocks.Observation,
    rows: list[dict[str, Any]],
    *,
    drained: bool,
) -> tuple[Plan, ...]:
    """Record one plan an interval, all with the pins of one observation."""
    standing = publications.standing(rows)
    made = (
        Plan(
            pipeline=ctx.pipeline.name,
            run=run,
            interval=interval,
            pins=seen.pins,
            config_hash=ctx.pipeline.config_hash,
            watermark=seen.clocks,
            drained=drained,
            supersedes=standing[interval.start]["number"] if interval.start in standing else None,
        )
        for interval in chosen
    )
    recorded = plans.record(ctx.pipeline, ctx.places, made, ctx.now())
    crash.point("join.planned")
    return recorded


def make_candidates(ctx: Context, planned: tuple[Plan, ...]) -> dict[str, Any]:
    """Write candidates and measures of the plans, or find them written."""
    _refuse_other_config(ctx, planned)
    if not candidates.is_made(ctx.pipeline, ctx.places, planned):
        spark = spark_for(f"join {ctx.pipeline.name}", ctx.places)
        landing = candidates.landing_measures(clocks.observe(ctx.pipeline, ctx.places))
        candidates.make(spark, ctx.pipeline, ctx.places, planned, landing)
    return {
        "run": planned[0].run,
        "plans": [plan.id for plan in planned],
        "intervals": [plan.interval.start for plan in planned],
    }


def _known(ctx: Context) -> tuple[list[dict[str, Any]], clocks.Observation]:
    """Every publication, repaired, and then the clock: in this order a plan's pins are never older than those of a
    publication that it knows of. All must be of this file's interval length, or rows would be lost or doubled.
    """
    rows = publications.repaired(ctx.pipeline, ctx.places)
    for row in rows:
        length = row["interval_end"] - row["interval"]
        if length != ctx.pipeline.interval:
            raise BadRequest(
                f"{ctx.pipeline.name} has published intervals of {length}, and its file now says "
                f"{ctx.pipeline.interval}: their borders do not fit, and rows would be missing or come twice. Put "
                "`interval` back, or give the pipeline a new name."
            )
    return rows, clocks.observe(ctx.pipeline, ctx.places)


def _refuse_other_config(ctx: Context, planned: tuple[Plan, ...]) -> None:
    for plan in planned:
        if plan.config_hash != ctx.pipeline.config_hash:
            raise BadRequest(
                f"plan {plan.id} of {plan.interval} was recorded under another pipeline file "
                f"({plan.config_hash[:12]}, now {ctx.pipeline.config_hash[:12]}). Clear the run for a new plan, "
                "or put the file back."
            )


def _interval(ctx: Context, at: datetime) -> Interval:
    length = ctx.pipeline.interval
    if at < ctx.pipeline.start or not on_grid(at, length):
        raise BadRequest(
            f"no interval of {ctx.pipeline.name} starts at {at}: they start at {ctx.pipeline.start} and every "
            f"{length} from there"
        )
    return Interval(at, at + length)


def _why_open(ctx: Context, interval: Interval, seen: clocks.Observation) -> str:
    needed = closes_at(interval, ctx.pipeline.after, ctx.pipeline.grace)
    slowest = holder(seen.clocks)
    who = f"{slowest.topic}/{slowest.partition}, {slowest.lag} records behind" if slowest else "nothing landed yet"
    return (
        f"{interval} closes when the watermark is at {needed}; it is at {seen.watermark}, held by {who}. "
        f"`windrow clock {ctx.pipeline.name}` shows more; waiting helps."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of spark_jobs/join.py."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--run", required=True, help="key of the run; a retry has the same")
        parser.add_argument("--interval", required=True, help="start of the interval, 2026-11-01T00:00:00Z")
        parser.add_argument("--mode", choices=("publish", "republish"), default="publish")
        parser.add_argument("--along", type=int, default=None, help="intervals one run takes at most")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        along = args.along if args.along is not None else ctx.pipeline.catch_up
        planned = plan_interval(ctx, args.run, instant(args.interval), args.mode, along)
        return make_candidates(ctx, planned)

    return job(__doc__ or "", declare, execute, argv)
