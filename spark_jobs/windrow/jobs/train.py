"""train: plan, join, check and publish in one process, as the DAG `<name>.training` does in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.io.registers.plans import Request
from windrow.jobs.check import Refusal, check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import Known, Mode, plan_all, plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.quality.validation import preload
from windrow.semantics.plan import Plan

Each = Callable[[dict[str, Any]], None]
"""Called with the register row of every publication as soon as it is made."""


@dataclass(frozen=True)
class Round:
    """What one round of training did."""

    published: list[dict[str, Any]]
    """register rows"""
    blocked: dict[str, Refusal]
    """plan id → why"""


def train_all(ctx: Context, run: str, *, drain: bool = False, each: Each = lambda row: None) -> Iterator[Round]:
    """Publish every closed unpublished interval, oldest first, `catch_up` of them per round; yields each round.

    Args:
        drain: declare the end of the stream; every interval with rows closes.
    """
    tried: set[datetime] = set()
    known = Known(ctx)
    while planned := plan_all(
        ctx, f"{run}/{len(tried)}", most=ctx.pipeline.catch_up, drain=drain, tried=tried, known=known
    ):
        tried |= {plan.interval.start for plan in planned}
        yield carry_out(ctx, planned, each, known)
        known = Known(ctx)


def train_one(
    ctx: Context,
    run: str,
    at: datetime,
    mode: Mode,
    each: Each = lambda row: None,
    forced: Request | None = None,
) -> Round:
    """Publish the interval that starts at `at`.

    Args:
        mode: `republish` publishes it again if it is published.
        forced: who publishes it before it closes, and why.
    """
    known = Known(ctx)
    planned = plan_interval(ctx, run, at, mode, along=1, forced=forced, known=known)
    return carry_out(ctx, planned, each, known)


def carry_out(ctx: Context, planned: tuple[Plan, ...], each: Each, known: Known | None = None) -> Round:
    """Join, check and publish the plans of a run; what an interrupted try has published stands.

    Args:
        planned: plans with the same pins.
        each: called with the register row of each publication, as soon as it stands.
        known: clock and register, where the caller has read them.

    Raises:
        Locked: another process writes candidates or publishes.
        BalanceBroken: the counts of a candidate do not add up.
        NothingToDo, Superseded: other runs have published every one of the intervals since.
    """
    preload()
    make_candidates(ctx, planned, known)
    blocked = check(ctx, planned)
    return Round(publish(ctx, planned, each=each), blocked)
