"""Waiting: what has landed and is neither closed nor published, and what its bounds decide (rule 24). Pure functions.

      closed           ( waits for the clock: counted, shown, bounded        )
    --------)[ oldest  )[         )[         )[    ·     )[            ------> event time
            F          |<------- age ------->|     newest landed left event
                       '- end of the oldest waiting interval

Rows are counted from the totals that landings leave in the clock, so no row is read: a landing that moved the newest
event of a partition from a to b, and landed n rows of it, counts as n rows at even distances in (a, b]. Age is event
time: nothing grows older while nothing lands, and no clock on a wall is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Literal

from windrow.semantics.clock import ClockRow, PartitionClock, current
from windrow.semantics.close import may_be_forced
from windrow.semantics.intervals import Interval, interval_of, micros, shifted
from windrow.text import counted, duration_text, size_text

Policy = Literal["wait", "alert", "force"]


@dataclass(frozen=True)
class Bounds:
    """How much may wait, and what happens beyond it; None is no bound.

    Args:
        max_age: of the oldest waiting interval, from its end to the newest landed left event.
        policy: `wait` shows, `alert` tells a person, `force` publishes the oldest waiting intervals before they close.
    """

    max_rows: int | None = None
    max_bytes: int | None = None
    max_age: timedelta | None = None
    policy: Policy = "wait"


@dataclass(frozen=True)
class Part:
    """Rows that count as spread at even distances in (after, until]; with equal bounds all are at `until`."""

    rows: int
    bytes: int
    after: datetime
    until: datetime

    def rows_from(self, at: datetime) -> int:
        """Number of its rows at or after an instant.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
        >>> part = Part(4, 0, noon, noon + timedelta(minutes=4))
        >>> [part.rows_from(noon + timedelta(minutes=m)) for m in (0, 1, 2, 4, 5)]
        [4, 4, 3, 1, 0]
        """
        if at > self.until:
            return 0
        if at <= self.after or self.until <= self.after:
            return self.rows
        before = -(-self.rows * micros(at - self.after) // micros(self.until - self.after)) - 1
        return self.rows - before

    def bytes_from(self, at: datetime) -> int:
        """Share of its bytes that belongs to these rows."""
        return self.bytes * self.rows_from(at) // self.rows if self.rows else 0


@dataclass(frozen=True)
class Landed:
    """What had landed at one observation of the clock, as far as waiting is concerned."""

    parts: tuple[Part, ...]
    newest_left_at: datetime | None
    """newest trusted event time of the left topics"""
    is_behind: bool = False
    """whether records of some partition wait to be landed, or a topic has never landed"""


@dataclass(frozen=True)
class Grid:
    """The intervals that may wait: those from `start` on that are open and not passed over.

    Args:
        frontier: event time before which every window has closed; None without a watermark.
        passed: starts of open intervals that do not wait: they are published, or expectations block them.
    """

    start: datetime
    length: timedelta
    frontier: datetime | None
    passed: frozenset[datetime] = frozenset()

    @property
    def first_open(self) -> Interval:
        """The oldest interval that is not closed."""
        at = self.start if self.frontier is None else max(self.start, self.frontier)
        return interval_of(at, self.start, self.length)

    def waiting(self) -> Iterator[Interval]:
        """Yield the waiting intervals, oldest first, without end."""
        interval = self.first_open
        while True:
            if interval.start not in self.passed:
                yield interval
            interval = Interval(interval.end, shifted(interval.end, self.length))


@dataclass(frozen=True)
class Waiting:
    """How much waits."""

    rows: int
    """landed rows of all topics"""
    bytes: int
    """of landing tables, for these rows"""
    oldest: Interval
    """the oldest waiting interval, with rows or without"""
    age: timedelta
    """from its end to the newest landed left event"""


@dataclass(frozen=True)
class Decision:
    """What the bounds decide at one observation."""

    waiting: Waiting
    exceeded: tuple[str, ...] = ()
    """each bound that is exceeded, in words with figures"""
    forced: tuple[Interval, ...] = ()
    """intervals to publish before they close, oldest first"""

    @property
    def reason(self) -> str:
        """Why intervals are forced, for the record: `waiting: 1,200 rows > max_rows 1,000`."""
        return f"waiting: {', '.join(self.exceeded)}"


def landed_by(
    newest: Sequence[ClockRow],
    earlier: Iterable[ClockRow],
    *,
    start: datetime,
    left: Collection[str],
    topics: Collection[str],
) -> Landed:
    """Return what had landed at the newest observation, from its totals and those of a few earlier ones.

    Rows of which nothing earlier is known count as spread from `start` on. Totals of a topic that was made anew begin
    anew, so its earlier rows are not counted.

    Args:
        newest: rows of the newest observation.
        earlier: rows of earlier observations, in any order.
        start: of the first interval.
        left: topics of the left stream.
        topics: every topic of the pipeline, landed or not.
    """
    before: dict[tuple[str, int, int], list[ClockRow]] = {}
    for row in earlier:
        before.setdefault((row["topic"], row["epoch"], row["partition"]), []).append(row)
    clocks = current(PartitionClock.of_row(row) for row in newest)
    present = {clock.identity for clock in clocks}
    parts: list[Part] = []
    for row in newest:
        at = (row["topic"], row["epoch"], row["partition"])
        if at in present:
            known = sorted(before.get(at, ()), key=lambda one: int(one["observation"]))
            parts += _parts_of([*known, row], start)
    served = [clock.newest_at for clock in clocks if clock.topic in left and clock.newest_at is not None]
    return Landed(tuple(parts), max(served, default=None), is_behind(clocks, topics))


def is_behind(clocks: Collection[PartitionClock], topics: Collection[str]) -> bool:
    """Whether records of some partition wait to be landed, or a topic has never landed.

    Args:
        clocks: of the present partitions.
        topics: every topic of the pipeline.
    """
    return any(clock.lag for clock in clocks) or {clock.topic for clock in clocks} != set(topics)


def measure(landed: Landed, grid: Grid) -> Waiting:
    """Return how much waits."""
    spans = [Interval(start, shifted(start, grid.length)) for start in grid.passed if start >= grid.first_open.start]
    rows, size = _beyond(landed.parts, grid.first_open.start)
    for span in spans:
        rows_of_it, size_of_it = _within(landed.parts, span)
        rows, size = rows - rows_of_it, size - size_of_it
    return _waiting(landed, rows, size, next(grid.waiting()))


def decide(landed: Landed, grid: Grid, bounds: Bounds, most: int) -> Decision:
    """Return how much waits, which bounds it exceeds and, with `force`, which intervals are published for that.

    The oldest waiting intervals are forced, as few as bring the rest within every bound. None is forced while records
    wait to be landed: then landing is what is behind, and the labels may be among them. None is forced before a left
    event at or after its end has landed (`semantics.close.may_be_forced`).

    Args:
        most: how many intervals are forced at most.
    """
    first = measure(landed, grid)
    exceeded = tuple(_exceeded(first, bounds))
    if bounds.policy != "force" or not exceeded or landed.is_behind:
        return Decision(first, exceeded)
    forced: list[Interval] = []
    rest = first
    for interval, following in islice(pairwise(grid.waiting()), most):
        if not any(_exceeded(rest, bounds)) or not may_be_forced(interval, landed.newest_left_at):
            break
        forced.append(interval)
        rows, size = _within(landed.parts, interval)
        rest = _waiting(landed, rest.rows - rows, rest.bytes - size, following)
    return Decision(first, exceeded, tuple(forced))


def _exceeded(waiting: Waiting, bounds: Bounds) -> Iterator[str]:
    """Yield each exceeded bound in words; equal to the bound is within it."""
    if bounds.max_rows is not None and waiting.rows > bounds.max_rows:
        yield f"{counted(waiting.rows, 'row')} > max_rows {bounds.max_rows:,}"
    if bounds.max_bytes is not None and waiting.bytes > bounds.max_bytes:
        yield f"{size_text(waiting.bytes)} > max_bytes {size_text(bounds.max_bytes)}"
    if bounds.max_age is not None and waiting.age > bounds.max_age:
        yield f"{duration_text(_whole_seconds(waiting.age))} > max_age {duration_text(bounds.max_age)}"


def _waiting(landed: Landed, rows: int, size: int, oldest: Interval) -> Waiting:
    newest = landed.newest_left_at
    age = timedelta() if newest is None else max(timedelta(), newest - oldest.end)
    return Waiting(max(0, rows), max(0, size), oldest, age)


def _parts_of(rows: Sequence[ClockRow], start: datetime) -> Iterator[Part]:
    """Yield a part per step between observations of one partition, oldest first; the first one begins at `start`."""
    after, known_rows, known_bytes = start, 0, 0
    for row in rows:
        total, size = (row.get("landed") or 0) - (row.get("before_start") or 0), row.get("bytes") or 0
        until = row["newest_at"] or after
        if total > known_rows:
            yield Part(total - known_rows, max(0, size - known_bytes), min(after, until), until)
        after, known_rows, known_bytes = max(after, until), max(known_rows, total), max(known_bytes, size)


def _beyond(parts: Iterable[Part], at: datetime) -> tuple[int, int]:
    """Rows and bytes at or after an instant."""
    there = [part for part in parts if part.until >= at]
    return sum(part.rows_from(at) for part in there), sum(part.bytes_from(at) for part in there)


def _within(parts: Iterable[Part], span: Interval) -> tuple[int, int]:
    """Rows and bytes in an interval."""
    there = [part for part in parts if part.until >= span.start]
    rows, size = _beyond(there, span.start)
    rows_behind, size_behind = _beyond(there, span.end)
    return rows - rows_behind, size - size_behind


def _whole_seconds(length: timedelta) -> timedelta:
    return timedelta(seconds=int(length.total_seconds()))
