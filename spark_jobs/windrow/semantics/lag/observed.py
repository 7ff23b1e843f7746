"""Observed lag: how far the watermark was behind the clock on the wall, and which partition held it, over time.

----+------------------------+-----------------+----> time
   w_p of the slowest     newest event      landed at
    = the watermark        that landed
    |<------- behind ------------------------->|
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from windrow.semantics.clock import PartitionClock, holder, watermark


@dataclass(frozen=True)
class Sighting:
    """What one landing run saw: every partition of the pipeline at `at`, the landing host's clock."""

    at: datetime
    clocks: tuple[PartitionClock, ...]

    @property
    def behind(self) -> timedelta | None:
        """How far the watermark is behind `at`; None where there is no watermark yet."""
        mark = watermark(self.clocks)
        return None if mark is None else self.at - mark

    @property
    def held_by(self) -> str:
        """The partition that decides the watermark, as `topic/partition`."""
        slowest = holder(self.clocks)
        return "nothing" if slowest is None else name_of(slowest)

    @property
    def waiting(self) -> int:
        """Records on the broker that have not landed, over all partitions."""
        return sum(clock.lag for clock in self.clocks)


@dataclass(frozen=True)
class PartitionLag:
    """One partition over a stretch of time."""

    name: str
    held: float
    """Share of the time in which it held the watermark."""
    most_records: int
    """Most records that waited for landing."""
    usual_behind: timedelta | None
    """Median of the time between its newest landed event and the landing host's clock."""
    most_behind: timedelta | None


def name_of(clock: PartitionClock) -> str:
    """`topic/partition`."""
    return f"{clock.topic}/{clock.partition}"


def thinned(sightings: Sequence[Sighting], most: int) -> list[Sighting]:
    """At most `most` sightings, evenly taken, the first and the last among them."""
    if len(sightings) <= most:
        return list(sightings)
    last = len(sightings) - 1
    return [sightings[round(i * last / (most - 1))] for i in range(most)]


def shares_held(sightings: Sequence[Sighting]) -> dict[str, float]:
    """Who held the watermark for which share of the time, most first. A sighting counts until the next one."""
    seconds: dict[str, float] = defaultdict(float)
    for this, following in pairwise(sightings):
        seconds[this.held_by] += (following.at - this.at).total_seconds()
    total = sum(seconds.values())
    if not total:  # one sighting, or all at one instant
        return {sightings[-1].held_by: 1.0} if sightings else {}
    return {name: s / total for name, s in sorted(seconds.items(), key=lambda item: (-item[1], item[0]))}


def by_partition(sightings: Sequence[Sighting]) -> list[PartitionLag]:
    """One line a partition, the one that held the watermark longest first, then the one that fell furthest behind."""
    held = shares_held(sightings)
    records: dict[str, int] = defaultdict(int)
    behind: dict[str, list[timedelta]] = defaultdict(list)
    for sighting in sightings:
        for clock in sighting.clocks:
            name = name_of(clock)
            records[name] = max(records[name], clock.lag)
            behind[name] += [sighting.at - clock.newest_at] if clock.newest_at else []
    lines = [PartitionLag(n, held.get(n, 0.0), records[n], _median(behind[n]), _most(behind[n])) for n in records]
    return sorted(lines, key=lambda line: (-line.held, -line.most_records, line.name))


def sightings(rows: Iterable[Mapping[str, object]]) -> list[Sighting]:
    """Rows of the `clock` table as sightings, in the order of their observations."""
    found: dict[int, list[Mapping[str, object]]] = defaultdict(list)
    for row in rows:
        found[row["observation"]].append(row)  # type: ignore[index]
    return [_sighting(found[number]) for number in sorted(found)]


def _sighting(rows: Sequence[Mapping[str, object]]) -> Sighting:
    fields = ("topic", "epoch", "partition", "next_offset", "end_offset", "newest_at", "clock_at")
    clocks = (PartitionClock(**{name: row[name] for name in fields}) for row in rows)  # type: ignore[arg-type]
    at = max(row["landed_at"] for row in rows)  # type: ignore[type-var]
    return Sighting(at, tuple(sorted(clocks, key=lambda c: c.identity)))  # type: ignore[arg-type]


def _median(values: Sequence[timedelta]) -> timedelta | None:
    return sorted(values)[len(values) // 2] if values else None


def _most(values: Sequence[timedelta]) -> timedelta | None:
    return max(values, default=None)
