"""train: what `<name>.training` does, in one process: plan, join, check, publish, for every closed interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.io.registers import plans
from windrow.io.training import candidates
from windrow.jobs.check import Refusal, check
from windrow.jobs.join import make_candidates, planned_of
from windrow.jobs.plan_intervals import plan_range
from windrow.jobs.planning import Mode, interval_at, plan_all, plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import BadRequest, Context
from windrow.quality.gate import load_beside
from windrow.semantics.plan import Plan


@dataclass(frozen=True)
class Round:
    """What one round of training did."""

    published: list[dict[str, Any]]
    blocked: dict[str, Refusal]
    """plan id → why"""


def train_all(
    ctx: Context, run: str, *, drain: bool = False, each: Callable[[dict[str, Any]], None] = lambda row: None
) -> Iterator[Round]:
    """Publish every closed unpublished interval, oldest first, `catch_up` of them a round."""
    tried: set[datetime] = set()
    while planned := plan_all(ctx, f"{run}/{len(tried)}", most=ctx.pipeline.catch_up, drain=drain, tried=tried):
        tried |= {plan.interval.start for plan in planned}
        yield _round(ctx, planned, each)


def train_one(
    ctx: Context,
    run: str,
    at: datetime,
    mode: Mode,
    each: Callable[[dict[str, Any]], None] = lambda row: None,
    forced: plans.Asked | None = None,
) -> Round:
    """Publish one interval, with `forced` before it closes."""
    return _round(ctx, plan_interval(ctx, run, at, mode, along=1, forced=forced), each)


def _round(ctx: Context, planned: tuple[Plan, ...], each: Callable[[dict[str, Any]], None]) -> Round:
    load_beside()
    make_candidates(ctx, planned)
    blocked = check(ctx, planned)
    return Round(publish(ctx, planned, each=each), blocked)


def override(ctx: Context, at: datetime, who: str, why: str) -> dict[str, Any]:
    """Publish the blocked candidate of an interval, on a person's word, which is recorded with it."""
    planned = plans.last_of_interval(ctx.home, interval_at(ctx, at).start)
    if planned is None or not candidates.is_made(ctx.home, (planned,)):
        raise BadRequest(f"no candidate of the interval at {at}; `windrow train` makes one")
    return publish(ctx, (planned,), override=(who, why))[0]


def rebuild(
    ctx: Context,
    run: str,
    begin: datetime,
    end: datetime,
    each: Callable[[dict[str, Any]], None],
    why: plans.Asked | None = None,
) -> Round:
    """Publish the closed intervals of `[begin, end)` again with new pins (rule 16), all of them, from one join."""
    return _round(ctx, plan_range(ctx, run, begin, end, why, everything=True), each)


def carry_out(ctx: Context, run: str, each: Callable[[dict[str, Any]], None]) -> Round:
    """Carry out the recorded plans of a run; what it has published before it was interrupted is left alone."""
    return _round(ctx, planned_of(ctx, run), each)
