"""Observed lag: how far the watermark was behind the wall clock, and which partition held it, over time.

----+------------------------+-----------------+----> time
   w_p of the slowest     newest event      landed at
    = the watermark        that landed
    |<------- behind ------------------------->|
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from windrow.semantics.clock import ClockRow, PartitionClock, holder, topic_clock, watermark
from windrow.semantics.close import frontier


@dataclass(frozen=True)
class ClockReading:
    """Every partition of the pipeline as one landing run left it, at `at` by the clock of the landing host."""

    at: datetime
    clocks: tuple[PartitionClock, ...]

    @property
    def behind(self) -> timedelta | None:
        """How far the watermark is behind `at`; None without a watermark."""
        mark = watermark(self.clocks)
        return None if mark is None else self.at - mark

    @property
    def held_by(self) -> str:
        """The partition that decides the watermark, as `topic/partition`; `nothing` without a partition."""
        slowest = holder(self.clocks)
        return "nothing" if slowest is None else name_of(slowest)

    @property
    def waiting(self) -> int:
        """Records on the broker that have not landed, over all partitions."""
        return sum(clock.lag for clock in self.clocks)


@dataclass(frozen=True)
class PartitionLag:
    """The lag of one partition over a stretch of time."""

    name: str
    held: float
    """Share of the time in which it held the watermark."""
    most_records: int
    """Most records that waited for landing."""
    usual_behind: timedelta | None
    """Median time between its newest landed event and the clock of the landing host."""
    most_behind: timedelta | None


def name_of(clock: PartitionClock) -> str:
    """`topic/partition`."""
    return f"{clock.topic}/{clock.partition}"


def readings_of(rows: Iterable[ClockRow]) -> list[ClockReading]:
    """Rows of the `clock` table as readings, in the order of their observations."""
    by_observation: dict[int, list[ClockRow]] = defaultdict(list)
    for row in rows:
        by_observation[row["observation"]].append(row)
    return [_reading(by_observation[number]) for number in sorted(by_observation)]


def until_closed(
    readings: Sequence[ClockReading], end: datetime, after: timedelta, grace: timedelta
) -> list[ClockReading]:
    """The readings up to the first one that closes every window of rows before `end`; all of them if none does."""
    for n, reading in enumerate(readings):
        closed_to = frontier(watermark(reading.clocks), after, grace)
        if closed_to is not None and closed_to >= end:
            return list(readings[: n + 1])
    return list(readings)


def complete_until(clocks: Iterable[PartitionClock], topics: Collection[str]) -> datetime | None:
    """Event time before which every record of the topics has landed, their least clock; None if one has no clock."""
    clocks = list(clocks)
    of_topics = [topic_clock(clock for clock in clocks if clock.topic == topic) for topic in topics]
    return None if None in of_topics else min(filter(None, of_topics), default=None)


def thinned(readings: Sequence[ClockReading], most: int) -> list[ClockReading]:
    """At most `most` readings (at least 2), evenly chosen, among them the first and the last."""
    if len(readings) <= most:
        return list(readings)
    last = len(readings) - 1
    return [readings[round(i * last / (most - 1))] for i in range(most)]


def shares_held(readings: Sequence[ClockReading]) -> dict[str, float]:
    """Partition → share of the time in which it held the watermark, the largest first.

    A reading counts until the next one.
    """
    seconds: dict[str, float] = defaultdict(float)
    for reading, following in pairwise(readings):
        seconds[reading.held_by] += (following.at - reading.at).total_seconds()
    total = sum(seconds.values())
    if not total:  # one reading, or all at one instant
        return {readings[-1].held_by: 1.0} if readings else {}
    return {name: s / total for name, s in sorted(seconds.items(), key=lambda item: (-item[1], item[0]))}


def by_partition(readings: Sequence[ClockReading]) -> list[PartitionLag]:
    """One value per partition, by share of the time in which it held the watermark, then by records waiting."""
    held = shares_held(readings)
    records: dict[str, int] = defaultdict(int)
    behind: dict[str, list[timedelta]] = defaultdict(list)
    for reading in readings:
        for clock in reading.clocks:
            name = name_of(clock)
            records[name] = max(records[name], clock.lag)
            behind[name] += [reading.at - clock.newest_at] if clock.newest_at else []
    lags = [PartitionLag(n, held.get(n, 0.0), records[n], _median(behind[n]), _longest(behind[n])) for n in records]
    return sorted(lags, key=lambda lag: (-lag.held, -lag.most_records, lag.name))


def _reading(rows: Sequence[ClockRow]) -> ClockReading:
    clocks = sorted((PartitionClock.of_row(row) for row in rows), key=lambda clock: clock.identity)
    return ClockReading(max(row["landed_at"] for row in rows), tuple(clocks))


def _median(values: Sequence[timedelta]) -> timedelta | None:
    return sorted(values)[len(values) // 2] if values else None


def _longest(values: Sequence[timedelta]) -> timedelta | None:
    return max(values, default=None)
