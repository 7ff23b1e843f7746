"""What has landed and is neither closed nor published, from the registers: no row and no landing table is read.

    clock          newest observation, and a few earlier ones ─▶ landed rows by event time
    publications   open intervals that are published, because they were forced
    quality        open intervals that expectations block, for the same reason

Which rows wait, and what the bounds decide, is in `semantics.waiting` (rule 24). No Spark, no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import lookup
from windrow.io.registers import clocks, judgements, publications
from windrow.io.registers.clocks import Observation
from windrow.semantics.clock import ClockRow
from windrow.semantics.close import may_be_forced
from windrow.semantics.intervals import Interval
from windrow.semantics.waiting import Decision, Grid, decide, landed_by


def decided(home: Home, clock: Observation) -> Decision | None:
    """Return what the bounds of the pipeline file decide; None where its policy forces nothing, and nothing is read.

    Args:
        clock: an observation; a retry that finds its plans recorded does not ask again.
    """
    if home.pipeline.waiting.policy != "force" or not clock.rows:
        return None
    return decision(
        home.pipeline,
        clock,
        clocks.earlier(lookup.opened(home.table(Table.CLOCK)), clock.number),
        published_from=lambda first: {row["interval"] for row in publications.since(home, first, ["interval"])},
        blocked_among=lambda intervals: judgements.blocked_intervals(home, intervals),
    )


def decision(
    pipeline: Pipeline,
    clock: Observation,
    earlier: Iterable[ClockRow],
    *,
    published_from: Callable[[datetime], Set[datetime]],
    blocked_among: Callable[[Sequence[Interval]], Set[datetime]],
) -> Decision:
    """Return how much waits at an observation, and what the bounds decide.

    Args:
        earlier: what `clocks.earlier` returns for it.
        published_from: gives the starts of the published intervals from an instant on.
        blocked_among: gives the starts of those of some intervals that expectations block.
    """
    landed = landed_by(clock.rows, earlier, start=pipeline.start, left=pipeline.left.topics, topics=pipeline.topics)
    open_ = Grid(pipeline.start, pipeline.interval, clock.frontier(pipeline))
    unpublished = replace(open_, passed=frozenset(published_from(open_.first_open.start)))
    # expectations may have blocked some of those that could be forced, when they were
    ahead = islice(unpublished.waiting(), 2 * pipeline.catch_up)
    could_be_forced = list(takewhile(lambda interval: may_be_forced(interval, landed.newest_left_at), ahead))
    grid = replace(unpublished, passed=unpublished.passed | blocked_among(could_be_forced))
    return decide(landed, grid, pipeline.waiting.bounds, pipeline.catch_up)
