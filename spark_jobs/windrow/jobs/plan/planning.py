"""Planning: which intervals a run works on and at which pins, recorded before work starts. No Spark.

one interval (scheduled, retry, cleared run) ─▶ plan_interval ─┐
every closed interval without publication    ─▶ plan_all ──────┼▶ record: one plan per interval,
a range, on request (`survey`)               ─▶ plan_range ────┘          all at the pins of one observation

The first two also plan open intervals where more waits than the pipeline file allows and says `force` (rule 24).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Literal

from windrow.io.delta import crash_points
from windrow.io.landing import joined
from windrow.io.registers import clocks, judgements, plans, publications, unclosed
from windrow.io.registers.clocks import Observation
from windrow.io.registers.plans import BY_BOUNDS, Request
from windrow.jobs.run import BadRequest, Context, WindowStillOpen
from windrow.outcomes import NothingToDo
from windrow.semantics.clock import NotCaughtUp, holder
from windrow.semantics.clock import drain as refuse_lag
from windrow.semantics.close import closes_at, is_closed, may_be_forced
from windrow.semantics.intervals import Interval, on_grid
from windrow.semantics.landing.offsets import refuse_drain
from windrow.semantics.plan import Plan
from windrow.semantics.waiting import Decision
from windrow.text import counted, duration_text, shown_instant

Mode = Literal["publish", "republish"]


class Known:
    """Register and clock as one run finds them: each is read once, when it is first used.

    Use the register first: the pins of a plan are then never older than those of a publication in the register.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    @cached_property
    def published(self) -> publications.Grid:
        """Where every publication lies, repaired.

        Raises:
            GridChanged: one has another interval length than the pipeline file, or is before its start.
        """
        found = publications.grid(self._ctx.home)
        publications.require_grid(self._ctx.pipeline, found)
        return found

    @property
    def last_number(self) -> int:
        """Number of the newest publication; 0 before the first."""
        return int(self.published.numbers.max(initial=0))

    @cached_property
    def clock(self) -> Observation:
        """The newest clock observation."""
        return clocks.observe(self._ctx.home)


def plan_interval(
    ctx: Context,
    run: str,
    at: datetime,
    mode: Mode,
    along: int,
    forced: Request | None = None,
    known: Known | None = None,
) -> tuple[Plan, ...]:
    """Record the plans of a run for one interval, and return them; a retry gets the recorded ones.

    Args:
        at: start of the interval.
        mode: `republish` plans the interval even if it is published.
        along: how many intervals the run takes at most, with `publish`: this one and older ones that are missing.
        forced: who publishes the interval before it closes, and why; only this interval is planned, and its rows get
            the reason `forced`.
        known: register and clock, where the caller has them.

    With `publish`, intervals that the bounds of the pipeline file force are planned as well; the reason of their plans
    is the bound that is exceeded.

    Raises:
        WindowStillOpen: the interval is not closed, and nobody forces it, or no left row behind it has landed.
        NothingToDo: the mode is `publish`, and the interval is published.
        BadRequest: no interval starts at `at`.
    """
    if recorded := plans.of_run(ctx.home, run):
        return recorded
    interval = interval_at(ctx, at)
    known = known or Known(ctx)
    published, clock = known.published, known.clock
    frontier = clock.frontier(ctx.pipeline)
    if mode == "publish" and published.number_of(interval.start) is not None:
        raise NothingToDo(f"{interval} is published")
    beyond = unclosed.decided(ctx.home, clock) if mode == "publish" and forced is None else None
    by_bounds = beyond.forced if beyond else ()
    if not is_closed(interval, frontier) and interval not in by_bounds:
        _refuse_open(ctx, interval, clock, is_forced=forced is not None)
    chosen = [interval]
    if mode == "publish" and forced is None:
        holes = publications.holes(ctx.pipeline, published.starts, frontier)
        left_alone = judgements.blocked_intervals(ctx.home, holes) | {interval.start}
        others = [one for one in (*holes, *by_bounds) if one.start not in left_alone]
        chosen = sorted([interval, *others[: max(0, along - 1)]])
    requests = {interval: forced} if forced else _by_policy(chosen, beyond)
    return record(ctx, run, chosen, clock, published, requests, drained=False)


def plan_all(
    ctx: Context,
    run: str,
    *,
    most: int,
    drain: bool = False,
    tried: Collection[datetime] = (),
    known: Known | None = None,
) -> tuple[Plan, ...]:
    """Record plans for the oldest closed unpublished intervals, and return them; empty where every one is published.

    Behind them come the intervals that the bounds of the pipeline file force; a drain closes these too.

    Args:
        most: how many intervals at most.
        drain: every interval that holds a left row counts as closed; every record that the broker has must have landed.
        tried: starts of intervals that this command has worked on before.
        known: register and clock, where the caller has them.

    Raises:
        NotCaughtUp: a drain while records wait to be landed.
        BrokerUnreachable, TopicMissing: a drain, and the broker does not answer, or has no such topic.
    """
    known = known or Known(ctx)
    published, clock = known.published, known.clock
    frontier = clock.frontier(ctx.pipeline)
    if drain:
        if {row["topic"] for row in clock.rows} != set(ctx.pipeline.topics):
            raise NotCaughtUp(f"not every topic has landed yet: `windrow land {ctx.pipeline.name}`, then drain again")
        refuse_lag(clock.clocks)
        refuse_unlanded(ctx, clock)
        newest = _newest_left_at(ctx, clock)
        ends = [newest + ctx.pipeline.interval] if newest else []
        frontier = max([*ends, *([frontier] if frontier else [])], default=None)
    holes = publications.holes(ctx.pipeline, published.starts, frontier)
    beyond = None if drain else unclosed.decided(ctx.home, clock)
    by_bounds = beyond.forced if beyond else ()
    chosen = [one for one in (*holes, *by_bounds) if one.start not in tried][:most]
    requests = _by_policy(chosen, beyond)
    return record(ctx, run, chosen, clock, published, requests, drained=drain) if chosen else ()


def record(
    ctx: Context,
    run: str,
    chosen: Sequence[Interval],
    clock: Observation,
    published: publications.Grid,
    requests: Mapping[Interval, Request] | None = None,
    *,
    drained: bool,
) -> tuple[Plan, ...]:
    """Record one plan per interval, all with the pins of one observation, and return them, oldest interval first.

    Args:
        chosen: the intervals.
        published: the publications; a plan names the one that it will supersede.
        requests: why intervals are wanted, and by whom, where they are not just due.
        drained: whether the plans declare the end of the stream.

    Raises:
        ColumnJoinedLater: rows of an interval landed before a column that decides about them.
    """
    joined.require_whole(ctx.home, chosen[0].start, chosen[-1].end, clock.pins)
    made = (
        Plan(
            pipeline=ctx.pipeline.name,
            run=run,
            interval=interval,
            pins=clock.pins,
            config_hash=ctx.pipeline.config_hash,
            watermark=clock.clocks,
            drained=drained,
            supersedes=published.number_of(interval.start),
        )
        for interval in chosen
    )
    recorded = plans.record(ctx.home, made, ctx.now(), requests)
    crash_points.point("join.planned")
    return recorded


def _by_policy(chosen: Collection[Interval], beyond: Decision | None) -> dict[Interval, Request]:
    """Return why the forced ones of some intervals are planned: the bounds that are exceeded."""
    if beyond is None:
        return {}
    return {one: Request(beyond.reason, BY_BOUNDS) for one in beyond.forced if one in chosen}


def _refuse_open(ctx: Context, interval: Interval, clock: Observation, *, is_forced: bool) -> None:
    """Refuse an open interval, unless a person forces it and a left row behind it has landed.

    Raises:
        WindowStillOpen: says what the interval waits for.
    """
    if not is_forced:
        raise WindowStillOpen(why_open(ctx, interval, clock))
    newest = _newest_left_at(ctx, clock)
    if not may_be_forced(interval, newest):
        raise WindowStillOpen(
            f"{interval} cannot be forced yet: its left rows are still to come, the newest landed event of "
            f"{ctx.pipeline.left.name} is at {shown_instant(newest, 'no time')}. `windrow land {ctx.pipeline.name}`, "
            f"and force it once an event at or after {shown_instant(interval.end)} has landed; where the stream has "
            f"ended, `windrow train {ctx.pipeline.name} --drain`"
        )


def refuse_unlanded(ctx: Context, clock: Observation) -> None:
    """Refuse a drain while the broker has records that have not landed.

    Raises:
        NotCaughtUp: it has some.
        BrokerUnreachable, TopicMissing: the broker does not answer, or has no such topic.
    """
    from windrow.io.landing import broker  # loads Spark's classes, which no other plan needs

    topics = broker.describe(ctx.places.brokers, ctx.pipeline.topics)
    refuse_drain(topics.values(), clock.rows)


def _newest_left_at(ctx: Context, clock: Observation) -> datetime | None:
    newest = (c.newest_at for c in clock.clocks if c.topic in ctx.pipeline.left.topics)
    return max((at for at in newest if at is not None), default=None)


def recorded_plans(ctx: Context, run: str, first: str) -> tuple[Plan, ...]:
    """Return the recorded plans of a run; `first` names the step that records them, for the message.

    Raises:
        BadRequest: it has recorded none.
    """
    planned = plans.of_run(ctx.home, run)
    if not planned:
        raise BadRequest(f"run {run!r} has recorded no plan; the {first} comes first")
    return planned


def interval_at(ctx: Context, at: datetime) -> Interval:
    """Return the interval that starts at an instant.

    Raises:
        BadRequest: no interval starts there.
    """
    length = ctx.pipeline.interval
    if at < ctx.pipeline.start or not on_grid(at, length):
        raise BadRequest(
            f"no interval of {ctx.pipeline.name} starts at {shown_instant(at)}: they start at "
            f"{shown_instant(ctx.pipeline.start)} and every {duration_text(length)} from there"
        )
    return Interval(at, at + length)


def why_open(ctx: Context, interval: Interval, clock: Observation) -> str:
    """Return a sentence about what an open interval waits for, and which partition holds it.

    Args:
        interval: one that is not closed.
    """
    needed = closes_at(interval, ctx.pipeline.after, ctx.pipeline.grace)
    slowest = holder(clock.clocks)
    lag = f", {counted(slowest.lag, 'record')} behind" if slowest else ""
    who = f"{slowest.topic}/{slowest.partition}{lag}" if slowest else "nothing landed yet"
    return (
        f"{interval} closes when the watermark is at {shown_instant(needed)}; it is at "
        f"{shown_instant(clock.watermark)}, held by {who}. "
        f"`windrow clock {ctx.pipeline.name}` shows more; waiting helps."
    )
