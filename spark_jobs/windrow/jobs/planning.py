"""Planning: which intervals a run is about, at which pins, recorded before work starts. No Spark.

scheduled, retry, cleared run ─▶ plan_interval ─┐
everything closed and missing ─▶ plan_all ──────┼▶ record: one plan an interval, all at the pins of one observation
a range, on request (`plan`)  ─▶ plan_range ────┘
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal

from windrow.io.delta import crash_points
from windrow.io.registers import clocks, judgements, plans, publications
from windrow.jobs.run import BadRequest, Context, WindowStillOpen
from windrow.outcomes import NothingToDo
from windrow.semantics.clock import NotCaughtUp, holder
from windrow.semantics.clock import drain as drained_watermark
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.intervals import Interval, on_grid
from windrow.semantics.plan import Plan

Mode = Literal["publish", "republish"]
_SHORT = ("number", "interval", "interval_end")
"""What planning the next intervals needs of a register that grows."""


def plan_interval(
    ctx: Context, run: str, at: datetime, mode: Mode, along: int, forced: plans.Asked | None = None
) -> tuple[Plan, ...]:
    """The plans of a run that is about one interval; a retry gets the recorded ones.

    `forced`: who publishes the interval alone before it closes, and why; its rows carry the reason `forced`.

    Raises:
        WindowStillOpen: the interval is not closed, and nobody forces it.
        NothingToDo: mode is publish, and it is published.
        BadRequest: no interval starts there.
    """
    recorded = plans.of_run(ctx.home, run)
    if recorded:
        return recorded
    interval = interval_at(ctx, at)
    rows, seen = known(ctx, _SHORT)
    frontier = seen.frontier(ctx.pipeline)
    if mode == "publish" and interval.start in publications.standing(rows):
        raise NothingToDo(f"{interval} is published")
    if not is_closed(interval, frontier) and forced is None:
        raise WindowStillOpen(why_open(ctx, interval, seen))
    chosen = [interval]
    if mode == "publish" and forced is None:
        holes = publications.holes(ctx.pipeline, rows, frontier)
        blocked = judgements.blocked_intervals(ctx.home, holes) | {interval.start}
        others = [i for i in holes if i.start not in blocked]
        chosen = sorted([interval, *others[: max(0, along - 1)]])
    return record(ctx, run, chosen, seen, rows, drained=False, asked=forced)


def plan_all(
    ctx: Context, run: str, *, most: int, drain: bool = False, tried: Collection[datetime] = ()
) -> tuple[Plan, ...]:
    """Plans for the oldest closed unpublished intervals, at most `most`; none where there is no hole.

    With `drain`, every interval that holds a left row counts as closed; every partition must be caught up. `tried`:
    starts of intervals that this command has had its turn with.
    """
    rows, seen = known(ctx, _SHORT)
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


def record(
    ctx: Context,
    run: str,
    chosen: Sequence[Interval],
    seen: clocks.Observation,
    rows: list[dict[str, Any]],
    *,
    drained: bool,
    asked: plans.Asked | None = None,
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
    recorded = plans.record(ctx.home, made, ctx.now(), asked)
    crash_points.point("join.planned")
    return recorded


def known(ctx: Context, columns: Sequence[str] = ()) -> tuple[list[dict[str, Any]], clocks.Observation]:
    """Every publication (`columns`: these of it), repaired, and then the clock: in this order a plan's pins are never
    older than those of a publication that it knows of. All must be of this file's interval length, or rows would be
    lost or doubled.
    """
    rows = publications.repaired(ctx.home, columns)
    for row in rows:
        length = row["interval_end"] - row["interval"]
        if length != ctx.pipeline.interval:
            raise BadRequest(
                f"{ctx.pipeline.name} has published intervals of {length}, and its file now says "
                f"{ctx.pipeline.interval}: their borders do not fit, and rows would be missing or come twice. Put "
                "`interval` back, or give the pipeline a new name."
            )
    return rows, clocks.observe(ctx.home)


def interval_at(ctx: Context, at: datetime) -> Interval:
    """The interval that starts there.

    Raises:
        BadRequest: none does.
    """
    length = ctx.pipeline.interval
    if at < ctx.pipeline.start or not on_grid(at, length):
        raise BadRequest(
            f"no interval of {ctx.pipeline.name} starts at {at}: they start at {ctx.pipeline.start} and every "
            f"{length} from there"
        )
    return Interval(at, at + length)


def why_open(ctx: Context, interval: Interval, seen: clocks.Observation) -> str:
    """What an interval waits for, and who holds it."""
    needed = closes_at(interval, ctx.pipeline.after, ctx.pipeline.grace)
    slowest = holder(seen.clocks)
    who = f"{slowest.topic}/{slowest.partition}, {slowest.lag} records behind" if slowest else "nothing landed yet"
    return (
        f"{interval} closes when the watermark is at {needed}; it is at {seen.watermark}, held by {who}. "
        f"`windrow clock {ctx.pipeline.name}` shows more; waiting helps."
    )
