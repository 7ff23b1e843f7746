"""State of an interval's window: published, closed, or open and held by a partition.

A look reads the publications and the newest observation of the clock, without Spark or the broker. `Looks` is for a
process that looks every few seconds: what has not changed since its last look is not read again.
`windrow.semantics.close` decides whether the interval is closed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from windrow.config import Pipeline, find
from windrow.home import Home, Table
from windrow.places import Places
from windrow.semantics.clock import PartitionClock, holder, watermark
from windrow.semantics.close import closes_at, frontier, is_closed
from windrow.semantics.intervals import Interval
from windrow.text import counted, shown_duration, shown_instant

if TYPE_CHECKING:
    from windrow.io.registers.clocks import Observation


@dataclass(frozen=True)
class WindowState:
    """State of an interval at one look. `published`: its newest publication; `landed_at`: the newest landing."""

    pipeline: Pipeline
    interval: Interval
    clocks: tuple[PartitionClock, ...]
    landed_at: datetime | None
    published: Mapping[str, Any] | None
    forced: str = ""
    """why the bounds of the pipeline file have the interval published before it closes (rule 24); empty: they do not"""
    far_start: str = ""
    """why nothing is published before a person corrects or confirms `start`; empty where nothing is wrong with it"""

    @property
    def is_ready(self) -> bool:
        """Whether a run of the schedule may publish the interval now."""
        return not self.far_start and (self.is_closed or bool(self.forced))

    @property
    def is_before_start(self) -> bool:
        """Whether `start` was moved behind the interval, so that nothing of it will be published."""
        return self.interval.start < self.pipeline.start

    @property
    def is_over(self) -> bool:
        """Whether a run of the schedule has nothing to publish: another one has done it, or nobody will."""
        return self.is_before_start or self.published is not None

    @property
    def is_closed(self) -> bool:
        """Whether the clocks of this look close the interval (rule 4)."""
        at = frontier(watermark(self.clocks), self.pipeline.after, self.pipeline.grace)
        return is_closed(self.interval, at)

    @property
    def closes_at(self) -> datetime:
        """Watermark at which the interval closes."""
        return closes_at(self.interval, self.pipeline.after, self.pipeline.grace)

    @property
    def holder(self) -> PartitionClock | None:
        """The partition that decides the watermark."""
        return holder(self.clocks)

    def describe(self, now: datetime) -> str:
        """A line for the log: the clock, the partition that holds it, and what is missing."""
        if self.is_before_start:
            return f"{self.interval} is before the `start` of {self.pipeline.name}, {_at(self.pipeline.start)}."
        if self.far_start:
            return f"{self.interval} waits: {self.far_start}"
        note = f" It is published as number {self.published['number']}." if self.published is not None else ""
        if self.is_closed:
            reached = _at(watermark(self.clocks))
            return f"{self.interval} is closed: watermark {reached}, needed {_at(self.closes_at)}.{note}"
        if self.forced:
            return f"{self.interval} is open, and is published before it closes: {self.forced}.{note}"
        held = self.holder
        if held is None:
            return (
                f"{self.interval} is open: nothing has been landed yet, so there is no clock. "
                f"Is the DAG {self.pipeline.name}.land on, and is the broker up?{note}"
            )
        return (
            f"{self.interval} is open: it closes at watermark {_at(self.closes_at)}, "
            f"which is at {_at(held.clock_at)}{_short_of(held.clock_at, self.closes_at)}. "
            f"Held by {held.topic}/{held.partition}: {self._missing(held)}.{self._stale(now)}{note}"
        )

    def _missing(self, held: PartitionClock) -> str:
        if held.lag:
            return (
                f"{counted(held.lag, 'record')} behind (next offset {held.next_offset} of {held.end_offset}); land them"
            )
        newest = f"newest event {_at(held.newest_at)}" if held.newest_at else "no event yet"
        if self.pipeline.idle.mode == "wait":
            return f"caught up, {newest}; with `idle: wait` only new events move it"
        return (
            f"caught up, {newest}; new events move it, "
            f"or idling once a landing is {shown_duration(self.pipeline.idle.after)} past what is needed"
        )

    def _stale(self, now: datetime) -> str:
        if self.landed_at is None or now - self.landed_at <= max(3 * self.pipeline.land_every, timedelta(minutes=5)):
            return ""
        return (
            f" The last landing was {shown_duration(now - self.landed_at)} ago: "
            f"is the DAG {self.pipeline.name}.land paused or failing?"
        )


def look(
    pipeline: str, interval: Interval, environ: Mapping[str, str] = os.environ, *, is_scheduled: bool = False
) -> WindowState:
    """Read publications and clock. Blocking: with an event loop, call it in a thread.

    Args:
        is_scheduled: whether the bounds of the pipeline file may force the interval, as they do in a run of the
            schedule only.

    Raises:
        PipelineInvalid: the pipeline file is missing or cannot be used.
        GridChanged: the interval was published with another length than the file now says.
    """
    from windrow.io.registers import clocks, publications  # imported late: they import delta-rs

    places = Places.from_env(environ)
    home = Home(find(pipeline, places.pipelines, places.expectations), places)
    published = publications.published(home, interval.start)
    return _state(home, interval, clocks.observe(home), published, is_scheduled=is_scheduled)


class Looks:
    """Looks of many threads of one process; one of them looks at a time."""

    def __init__(self) -> None:
        from windrow.io.registers import recent  # imported late: it imports delta-rs

        self._turn = threading.Lock()
        self._known = recent.Recent()

    def look(
        self, pipeline: str, interval: Interval, environ: Mapping[str, str] = os.environ, *, is_scheduled: bool = False
    ) -> WindowState:
        """Return what the function `look` returns, and raise what it raises."""
        from windrow.io.registers import clocks, publications

        places, known = Places.from_env(environ), self._known
        with self._turn:
            known.look_again(places)
            home = Home(known.pipelines.find(pipeline), places)
            clock, register = home.table(Table.CLOCK), home.table(Table.PUBLICATIONS)
            observed = known.of(clock, "newest", lambda: clocks.observed(home, known.lookup(clock)))
            published = known.of(register, interval, lambda: publications.published(home, interval.start))
            return _state(home, interval, observed, published, is_scheduled=is_scheduled)


def _state(
    home: Home,
    interval: Interval,
    observed: Observation,
    published: Mapping[str, Any] | None,
    *,
    is_scheduled: bool,
) -> WindowState:
    from windrow.io.registers import publications, unclosed
    from windrow.jobs.plan.far_start import far_start

    if published is not None and published["interval_end"] != interval.end:
        publications.require_grid(home.pipeline, publications.registered_grid(home))
    beyond = unclosed.decided(home, observed) if is_scheduled else None
    window = WindowState(
        pipeline=home.pipeline,
        interval=interval,
        clocks=observed.clocks,
        landed_at=max((row["landed_at"] for row in observed.rows if row["landed_at"]), default=None),
        published=published,
        forced=beyond.reason if beyond and interval in beyond.forced else "",
    )
    if published is None and window.is_ready:
        return replace(window, far_start=str(far_start(home, observed) or ""))
    return window


def utc_now() -> datetime:
    """The wall clock, used only in messages."""
    return datetime.now(UTC)


def _at(at: datetime | None) -> str:
    return shown_instant(at, missing="minus infinity (no event yet)")


def _short_of(at: datetime | None, needed: datetime) -> str:
    return f", {shown_duration(needed - at)} short" if at is not None else ""
