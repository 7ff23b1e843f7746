"""What has landed and is neither closed nor published, from the registers: no row and no landing table is read.

    clock          newest observation, and a few earlier ones ─▶ landed rows by event time
    publications   open intervals that are published, because they were forced
    quality        open intervals that expectations block, for the same reason

Which rows wait, and what the bounds decide, is in `semantics.waiting` (rule 24). No Spark, no broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice, takewhile

from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.registers import clocks, judgements, publications
from windrow.io.registers.clocks import Observation
from windrow.semantics.clock import ClockRow
from windrow.semantics.close import may_be_forced
from windrow.semantics.intervals import Interval
from windrow.semantics.waiting import Decision, Grid, Landed, decide, landed_by


def decided(home: Home, clock: Observation) -> Decision | None:
    """Return what the bounds of the pipeline file decide; None where its policy forces nothing, and nothing is read.

    Args:
        clock: an observation; a retry that finds its plans recorded does not ask again.
    """
    pipeline = home.pipeline
    if pipeline.waiting.policy != "force" or not clock.rows:
        return None
    landed = landed_at(pipeline, clock, clocks.earlier(home, clock.number))
    first = grid(pipeline, clock, ()).first_open.start
    published = publications.starts_from(home, first)
    blocked = judgements.blocked_intervals(home, ahead(grid(pipeline, clock, published), landed, pipeline.catch_up))
    passed = grid(pipeline, clock, published | blocked)
    return decide(landed, passed, pipeline.waiting.bounds, pipeline.catch_up)


def landed_at(pipeline: Pipeline, clock: Observation, earlier: Iterable[ClockRow]) -> Landed:
    """Return what had landed at an observation.

    Args:
        earlier: what `clocks.earlier` returns for it.
    """
    return landed_by(clock.rows, earlier, start=pipeline.start, left=pipeline.left.topics, topics=pipeline.topics)


def grid(pipeline: Pipeline, clock: Observation, passed: Iterable[datetime]) -> Grid:
    """Return the intervals that may wait.

    Args:
        passed: starts of intervals that do not: published or blocked; closed ones among them do not matter.
    """
    bare = Grid(pipeline.start, pipeline.interval, clock.frontier(pipeline))
    first = bare.first_open.start
    return Grid(bare.start, bare.length, bare.frontier, frozenset(start for start in passed if start >= first))


def ahead(open_: Grid, landed: Landed, most: int) -> list[Interval]:
    """Return the oldest waiting intervals that could be forced; expectations may have blocked some when they were.

    Args:
        most: how many intervals are forced at most; twice as many are returned.
    """
    waiting = islice(open_.waiting(), 2 * most)
    return list(takewhile(lambda interval: may_be_forced(interval, landed.newest_left_at), waiting))
