"""What is known about one interval's window right now: published, closed, or open and who holds it up.

One look reads the publications register and the newest observation of the clock; it starts no Spark and asks
no broker. Whether the interval is closed is decided by `windrow.semantics.close` and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.config import Pipeline, find
from windrow.home import Home
from windrow.places import Places
from windrow.semantics.clock import PartitionClock, holder, watermark
from windrow.semantics.close import closes_at, frontier, is_closed
from windrow.semantics.intervals import Interval


@dataclass(frozen=True)
class Window:
    """One look at an interval. `published` is its newest publication; `landed_at` the newest landing."""

    pipeline: Pipeline
    interval: Interval
    clocks: tuple[PartitionClock, ...]
    landed_at: datetime | None
    published: Mapping[str, Any] | None

    @property
    def is_closed(self) -> bool:
        """Rule 4, by the clocks of this look."""
        at = frontier(watermark(self.clocks), self.pipeline.after, self.pipeline.grace)
        return is_closed(self.interval, at)

    @property
    def closes_at(self) -> datetime:
        """The watermark that closes the interval."""
        return closes_at(self.interval, self.pipeline.after, self.pipeline.grace)

    @property
    def holder(self) -> PartitionClock | None:
        """The partition that decides the watermark."""
        return holder(self.clocks)

    def describe(self, now: datetime) -> str:
        """One line for the log: where the clock is, which partition holds it, and what is missing."""
        known = f" It is published as number {self.published['number']}." if self.published is not None else ""
        if self.is_closed:
            reached = _at(watermark(self.clocks))
            return f"{self.interval} is closed: watermark {reached}, needed {_at(self.closes_at)}.{known}"
        held = self.holder
        if held is None:
            return (
                f"{self.interval} is open: nothing has been landed yet, so there is no clock. "
                f"Is the DAG {self.pipeline.name}.land on, and is the broker up?{known}"
            )
        return (
            f"{self.interval} is open: it closes at watermark {_at(self.closes_at)}, "
            f"which is at {_at(held.clock_at)}{_short_of(held.clock_at, self.closes_at)}. "
            f"Held by {held.topic}/{held.partition}: {self._missing(held)}.{self._stale(now)}{known}"
        )

    def _missing(self, held: PartitionClock) -> str:
        if held.lag:
            return f"{held.lag} records behind (next offset {held.next_offset} of {held.end_offset}); land them"
        newest = f"newest event {_at(held.newest_at)}" if held.newest_at else "no event ever"
        if self.pipeline.idle.mode == "wait":
            return f"caught up, {newest}, and `idle: wait` lets only events move it; new events are missing"
        return (
            f"caught up, {newest}; new events move it, "
            f"or idling once a landing is {_length(self.pipeline.idle.after)} past what is needed"
        )

    def _stale(self, now: datetime) -> str:
        if self.landed_at is None or now - self.landed_at <= max(3 * self.pipeline.land_every, timedelta(minutes=5)):
            return ""
        return (
            f" The last landing was {_length(now - self.landed_at)} ago: "
            f"is the DAG {self.pipeline.name}.land paused or failing?"
        )


def look(pipeline: str, interval: Interval, environ: Mapping[str, str] = os.environ) -> Window:
    """Read the register and the clock. Blocks: call it in a thread where there is an event loop."""
    from windrow.io.registers import (
        clocks,
        publications,  # delta-rs is not wanted at import
    )

    places = Places.from_env(environ)
    home = Home(find(pipeline, places.pipelines), places)
    seen = clocks.observe(home)
    return Window(
        pipeline=home.pipeline,
        interval=interval,
        clocks=seen.clocks,
        landed_at=max((row["landed_at"] for row in seen.rows if row["landed_at"]), default=None),
        published=publications.published(home, interval.start),
    )


def utc_now() -> datetime:
    """The wall clock, for messages only: it decides nothing."""
    return datetime.now(UTC)


def _at(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z" if at is not None else "minus infinity (no event yet)"


def _short_of(at: datetime | None, needed: datetime) -> str:
    return f", {_length(needed - at)} short" if at is not None else ""


def _length(length: timedelta) -> str:
    return str(timedelta(seconds=round(length.total_seconds())))
