"""health: what the tables of pipelines say about their state. No Spark, no lock; nothing is written.

read      clock, register, judgements of intervals without a publication: newest rows only    (`io.registers.recent`)
compute   findings in words                                                   (`semantics.fleet.health`)
          the newest intervals as a strip                                     (`semantics.fleet.strip`)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from windrow.config import Pipeline, PipelineInvalid
from windrow.home import Home, Table
from windrow.io.registers import clocks, judgements, publications, recent, snapshots, unclosed
from windrow.jobs.plan.far_start import far_start, late_start
from windrow.outcomes import Condition
from windrow.places import Places
from windrow.semantics.clock import PartitionClock, current, holder
from windrow.semantics.fleet.health import (
    SLACK,
    STOPPED,
    Finding,
    Seen,
    Status,
    Terms,
    Topic,
    findings,
    is_held,
    status,
)
from windrow.semantics.fleet.strip import Cell, cells, shown
from windrow.semantics.intervals import Interval, at_micros, micros, shifted
from windrow.semantics.waiting import Decision

LOOKED_AT = 1_000
"""Newest intervals without a publication whose judgements are read."""


@dataclass(frozen=True)
class Runs:
    """What Airflow knows of a pipeline's DAGs, by DAG id."""

    paused: Sequence[str] = ()
    failed: Mapping[str, datetime | None] = field(default_factory=dict)
    """those whose newest ended run failed → start of the interval of that run"""


@dataclass(frozen=True)
class Health:
    """What is seen of a pipeline, what follows from it for a person, and its newest intervals."""

    seen: Seen
    findings: Sequence[Finding]
    strip: Sequence[Cell] = ()
    newest: Cell | None = None
    """the newest interval with a publication, also where that is older than the strip"""

    @property
    def status(self) -> Status:
        """The worst of the findings."""
        return status(self.findings)

    @property
    def reason(self) -> str:
        """The worst finding in words; empty where all is well."""
        return self.findings[0].text if self.findings else ""


def look(
    names: Iterable[str],
    places: Places,
    now: datetime,
    *,
    runs: Mapping[str, Runs] | None = None,
    known: recent.Recent | None = None,
) -> list[Health]:
    """Return the health of each pipeline, in the order of the names; an unusable file or table makes it `failing`.

    Args:
        runs: what Airflow knows, by pipeline; without it nothing counts as paused or failed.
        known: what was read before, for a process that looks again and again.
    """
    known = known or recent.Recent()
    known.look_again(places)
    return [_of(name, places, now, (runs or {}).get(name, Runs()), known) for name in names]


def worst_first(found: Iterable[Health]) -> list[Health]:
    """Return pipelines with the worst status first, then by name."""
    return sorted(found, key=lambda one: (-one.status, one.seen.name))


def _of(name: str, places: Places, now: datetime, runs: Runs, known: recent.Recent) -> Health:
    try:
        found = health(Home(known.pipelines.find(name), places), known)
    except PipelineInvalid as invalid:
        found = Health(Seen(name, broken=f"its file cannot be used: {invalid}"), ())
    except Condition as condition:
        found = Health(Seen(name, broken=str(condition)), ())
    seen = replace(found.seen, paused=runs.paused, failed=runs.failed)
    return replace(found, seen=seen, findings=findings(seen, now))


def health(home: Home, known: recent.Recent) -> Health:
    """Return what the tables of a pipeline say, without findings.

    Raises:
        GridChanged: the pipeline file has another `interval`, or a later `start`, than what is published.
        TableDamaged: a table cannot be read.
    """
    clock_path = home.table(Table.CLOCK)
    pipeline, register, quality = home.pipeline, home.table(Table.PUBLICATIONS), home.table(Table.QUALITY)
    clock = known.of(clock_path, "newest", lambda: clocks.observed(home, known.lookup(clock_path)))
    publications.require_grid(pipeline, grid := recent.grid(home, known))
    starts = grid.starts
    frontier = clock.frontier(pipeline)
    holes = known.of(register, ("holes", frontier), lambda: publications.holes(pipeline, starts, frontier))
    judged = known.lookup(quality)
    blocked = known.of(quality, ("blocked", *_ends(holes)), lambda: judgements.blocked(judged, holes[-LOOKED_AT:]))
    intervals = shown(pipeline.start, pipeline.interval, _newest(pipeline, clock, newest := recent.newest(starts)))
    measured = recent.measures_since(home, since := intervals[0].start, known)
    complete = {row["plan"]: row["value"] for row in measured if row["name"] == "positive_complete"}
    published = recent.rows_since(home, min(since, newest or since), known)  # after a long stall none is in the strip
    rows = [{**row, "positive_complete": complete.get(row["plan_id"])} for row in published]
    strip = cells(intervals, standing := publications.standing(rows), blocked, frontier)
    last = standing[max(standing)] if standing else {}
    newest_published = [Interval(newest, shifted(newest, pipeline.interval))] if newest else []
    grid_of = pipeline.start, pipeline.interval
    far = None if len(starts) else known.of(clock_path, ("far start", *grid_of), lambda: far_start(home, clock))
    late = None if len(starts) else known.of(clock_path, ("late start", *grid_of), lambda: late_start(home, clock))
    held = known.of(home.table(Table.SNAPSHOTS), "held", lambda: snapshots.held(home))
    seen = Seen(
        name=pipeline.name,
        terms=terms(pipeline),
        landed_at=max((row["landed_at"] for row in clock.rows), default=None),
        watermark=clock.watermark,
        clocks=clock.clocks,
        topics=[_topic(pipeline, topic, clock.clocks) for topic in pipeline.topics if clock.of_topic(topic)],
        published_until=last.get("interval_end"),
        verdict=last.get("verdict"),
        why=last.get("why"),
        unpublished=holes,
        blocked=blocked,
        far_start=(far.cause, far.move) if far else None,
        late_start=late,
        policy=pipeline.waiting.policy,
        waiting=_waiting(home, clock, starts, known),
        snapshots=held.number,
        snapshot_bytes=held.bytes,
    )
    if is_held(seen):
        seen = replace(seen, held_since=_held_since(home, clock, known))
    return Health(seen, (), strip, next(iter(cells(newest_published, standing, (), None)), None))


def _waiting(
    home: Home, clock: clocks.Observation, starts: publications.Instants, known: recent.Recent
) -> Decision | None:
    """What has landed and is neither closed nor published, and what the bounds decide."""
    if not clock.rows:
        return None
    quality = home.table(Table.QUALITY)
    judged = known.lookup(quality)
    return unclosed.decision(
        home.pipeline,
        clock,
        recent.earlier_clocks(home, clock.number, known),
        published_from=lambda first: {at_micros(int(start)) for start in starts[starts >= micros(first)]},
        blocked_among=lambda some: known.of(
            quality, ("open", *_ends(some)), lambda: judgements.blocked(judged, some)
        ).keys(),
    )


def terms(pipeline: Pipeline) -> Terms:
    """Return what the pipeline's file lets people expect; its rhythm of landing and its idling count as slack."""
    idling = pipeline.idle.after if pipeline.idle.mode == "caught_up" else timedelta()
    return Terms(
        interval=pipeline.interval,
        closing=pipeline.after + pipeline.grace,
        out_of_orderness=max(pipeline.out_of_orderness(topic) for topic in pipeline.topics),
        slack=SLACK + pipeline.land_every + idling,
        start=pipeline.start,
        idle_mode=pipeline.idle.mode,
    )


def _topic(pipeline: Pipeline, name: str, known: Iterable[PartitionClock]) -> Topic:
    """A topic may be silent if every stream that reads it may be: features, and labels with `silence: negative`."""
    mine = [clock for clock in current(known) if clock.topic == name]
    waits = [timedelta()] if name in pipeline.left.topics else []
    waits += [one.window.after for one in pipeline.label_streams if name in one.topics and one.silence == "unknown"]
    usual = max(STOPPED, 2 * pipeline.interval, pipeline.idle.after) + pipeline.land_every
    return Topic(
        name,
        newest_at=max((clock.newest_at for clock in mine if clock.newest_at), default=None),
        lag=sum(clock.lag for clock in mine),
        patience=usual + min(waits) if waits else None,
    )


def _newest(pipeline: Pipeline, clock: clocks.Observation, published: datetime | None) -> datetime:
    """The newest served event that has landed, or what is published or closed beyond it."""
    served = [row["newest_at"] for topic in pipeline.left.topics for row in clock.of_topic(topic)]
    frontier = clock.frontier(pipeline)
    at = [one for one in (*served, frontier, published) if one is not None]
    return max(at, default=pipeline.start)


def _held_since(home: Home, clock: clocks.Observation, known: recent.Recent) -> datetime | None:
    slowest = holder(clock.clocks)
    if slowest is None:
        return None
    return recent.held_since(home, slowest.topic, slowest.partition, slowest.clock_at, clock.number, known)


def _ends(holes: Sequence[Interval]) -> tuple[object, ...]:
    """Names a list of intervals without a publication for as long as none of them is published."""
    return (len(holes), holes[0].start, holes[-1].start) if holes else ()
