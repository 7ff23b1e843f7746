"""Clocks: how far event time has come, from what has landed and from what the broker reports.

The clock `w_p` of a partition p promises that every event of p with `t < w_p` has landed. The clock of a topic and the
watermark W are minima, so the slowest partition of the slowest side decides. No clock ever goes back.

                 out-of-orderness
                |<--------------->|
    ------------+-----------------+----------------------> event time of partition p
               w_p           newest trusted event

                 out-of-orderness      idle.after
                |<--------------->|<---------------->|
    ------------+-----------------+------------------+---> only if p is caught up: its position is the end offset,
            w_p at least                             T     for which the broker was asked after landing time T was read

A partition with lag never advances by waiting. A new partition starts at its topic's clock. In a topic without a clock
it has none either (minus infinity), and holds W until it gets a record or is idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.outcomes import StillOpen
from windrow.semantics.intervals import LATEST, shifted, utc

END_OF_STREAM = LATEST
"""The watermark of a drained pipeline: no more records will come, so every interval closes."""

ClockRow = Mapping[str, Any]
"""A row of the `clock` table by column name (`schemas.CLOCK`)."""


class NotCaughtUp(StillOpen):
    """A drain was requested while records wait to be landed."""


@dataclass(frozen=True)
class IdlePolicy:
    """What the clock of an idle partition does: `caught_up` follows the landing time, `wait` stands still.

    Args:
        after: how far behind the landing time the clock follows, in addition to the out-of-orderness.
    """

    mode: Literal["caught_up", "wait"]
    after: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.mode not in ("caught_up", "wait"):
            raise ValueError(f"idle mode is caught_up or wait, not {self.mode!r}")
        if self.after < timedelta(0):
            raise ValueError(f"idle after must not be negative: {self.after}")


@dataclass(frozen=True)
class PartitionClock:
    """One partition at the end of a landing batch.

    `newest_at` is the newest trusted event time that has landed. `clock_at` is w_p; None is minus infinity.
    """

    topic: str
    epoch: int
    partition: int
    next_offset: int
    end_offset: int
    newest_at: datetime | None
    clock_at: datetime | None

    def __post_init__(self) -> None:
        for name in ("newest_at", "clock_at"):
            at = getattr(self, name)
            if at is not None:
                object.__setattr__(self, name, utc(at))

    @classmethod
    def of_row(cls, row: ClockRow) -> PartitionClock:
        """The clock in a row of the `clock` table: its fields are columns of the same names."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    @property
    def identity(self) -> tuple[str, int, int]:
        """Topic, epoch and partition number."""
        return (self.topic, self.epoch, self.partition)

    @property
    def lag(self) -> int:
        """Offsets between the position and the end of the partition."""
        return max(0, self.end_offset - self.next_offset)

    @property
    def caught_up(self) -> bool:
        """Whether position and end offset are equal. A position beyond the end does not prove that all has landed."""
        return self.next_offset == self.end_offset

    def event_clock(self, out_of_orderness: timedelta) -> datetime | None:
        """The clock by events alone, without idling; None without a trusted event."""
        return None if self.newest_at is None else shifted(self.newest_at, -out_of_orderness)


@dataclass(frozen=True)
class Progress:
    """How far a partition is landed at the end of a landing batch.

    Args:
        newest_at: newest trusted event time of this batch, or of all batches so far; both give the same clock.
        landed_at: time of the landing host, read before the broker was asked for `end_offset`.
    """

    topic: str
    epoch: int
    partition: int
    next_offset: int
    end_offset: int
    newest_at: datetime | None
    landed_at: datetime


def advance(
    previous: PartitionClock | None,
    progress: Progress,
    *,
    out_of_orderness: timedelta,
    idle: IdlePolicy,
    topic_clock: datetime | None,
) -> PartitionClock:
    """The partition's clock after a landing batch, also after one that landed nothing.

    Args:
        previous: the partition's clock before the batch; None for a partition that is new.
        topic_clock: the topic's clock before the batch, where a new partition starts.
    """
    newest_at = latest(previous.newest_at if previous else None, progress.newest_at)
    now = PartitionClock(
        progress.topic,
        progress.epoch,
        progress.partition,
        progress.next_offset,
        progress.end_offset,
        newest_at,
        clock_at=None,
    )
    if previous is not None and previous.identity != now.identity:
        raise ValueError(f"{now.identity} cannot follow {previous.identity}: pass its own last clock, or None")
    by_events = now.event_clock(out_of_orderness)
    by_idling = None
    if idle.mode == "caught_up" and now.caught_up:
        by_idling = shifted(progress.landed_at, -idle.after - out_of_orderness)
    floor = previous.clock_at if previous else topic_clock
    return replace(now, clock_at=latest(floor, by_events, by_idling))


def topic_clock(partitions: Iterable[PartitionClock]) -> datetime | None:
    """The least clock of a topic's partitions; None if one of them has no clock, or if there are no partitions."""
    clocks = [p.clock_at for p in current(partitions)]
    if not clocks or None in clocks:
        return None
    return min(c for c in clocks if c is not None)


def watermark(partitions: Iterable[PartitionClock]) -> datetime | None:
    """W: the least clock over all topics.

    Args:
        partitions: all partitions of all topics, also those without a record.
    """
    return topic_clock(partitions)


def holder(partitions: Iterable[PartitionClock]) -> PartitionClock | None:
    """The partition that holds W back: the one with the least clock; of several, the one with most lag, then by name.

    None if there is no partition.
    """

    def slowest_first(p: PartitionClock) -> tuple[bool, datetime, int, tuple[str, int, int]]:
        return (p.clock_at is not None, p.clock_at or LATEST, -p.lag, p.identity)

    return min(current(partitions), key=slowest_first, default=None)


def drain(partitions: Iterable[PartitionClock]) -> datetime:
    """The watermark of a drained pipeline, `END_OF_STREAM`.

    Raises:
        NotCaughtUp: records of some partition wait to be landed.
    """
    behind = [p for p in current(partitions) if not p.caught_up]
    if behind:
        lags = ", ".join(f"{p.topic}/{p.partition} at {p.next_offset} of {p.end_offset}" for p in behind)
        raise NotCaughtUp(f"cannot drain while records wait: {lags}. Land them first, then drain again")
    return END_OF_STREAM


def current(partitions: Iterable[PartitionClock]) -> list[PartitionClock]:
    """Partitions of the newest epoch of each topic: those of a deleted topic are gone and must not hold W back."""
    partitions = list(partitions)
    newest: dict[str, int] = {}
    for p in partitions:
        newest[p.topic] = max(p.epoch, newest.get(p.topic, p.epoch))
    return [p for p in partitions if p.epoch == newest[p.topic]]


def latest(*clocks: datetime | None) -> datetime | None:
    """The latest of some instants; None if there is none."""
    return max((utc(c) for c in clocks if c is not None), default=None)
