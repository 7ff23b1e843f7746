"""Clocks: how far event time has come, from what has landed and from what the broker says.

`w_p` of a partition promises: every event of p with `t < w_p` has landed. Topic clock and watermark W are
plain minima, so the slowest partition of the slowest side decides. No clock ever goes back.

                 out-of-orderness
                |<--------------->|
    ------------+-----------------+----------------------> event time of partition p
               w_p           newest trusted event

                 out-of-orderness      idle.after
                |<--------------->|<---------------->|
    ------------+-----------------+------------------+---> only when p is caught up: position = end offset,
            w_p at least                             T     asked for at landing time T (T is read first)

A partition with lag never advances by waiting. A partition never seen before starts at its topic's clock;
in a topic that nobody has clocked yet it has none (minus infinity) and holds W until it gets a record or is
idle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from windrow.outcomes import StillOpen
from windrow.semantics.intervals import LATEST, shifted, utc

END_OF_STREAM = LATEST
"""The watermark of a drained pipeline: nothing more will come, everything closes."""


class NotCaughtUp(StillOpen):
    """A drain was asked for while records wait to be landed."""


@dataclass(frozen=True)
class IdlePolicy:
    """What a partition without records does: `caught_up` follows the landing clock, `wait` stands still."""

    mode: Literal["caught_up", "wait"]
    after: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.mode not in ("caught_up", "wait"):
            raise ValueError(f"idle mode is caught_up or wait, not {self.mode!r}")
        if self.after < timedelta(0):
            raise ValueError(f"idle after is not negative: {self.after}")


@dataclass(frozen=True)
class PartitionClock:
    """One partition at the end of a landing batch. `clock_at` is w_p; None is minus infinity."""

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

    @property
    def identity(self) -> tuple[str, int, int]:
        return (self.topic, self.epoch, self.partition)

    @property
    def lag(self) -> int:
        """Offsets between the position and the end of the partition."""
        return max(0, self.end_offset - self.next_offset)

    @property
    def caught_up(self) -> bool:
        """Position and end offset are equal. A position behind or beyond the end proves nothing."""
        return self.next_offset == self.end_offset

    def event_clock(self, out_of_orderness: timedelta) -> datetime | None:
        """Where events alone have brought the clock: no idling in it. None without a trusted event."""
        return None if self.newest_at is None else shifted(self.newest_at, -out_of_orderness)


def advance(
    previous: PartitionClock | None,
    *,
    topic: str,
    epoch: int,
    partition: int,
    next_offset: int,
    end_offset: int,
    newest_at: datetime | None,
    landed_at: datetime,
    out_of_orderness: timedelta,
    idle: IdlePolicy,
    topic_clock: datetime | None,
) -> PartitionClock:
    """The partition's clock after a landing batch, also after one that landed nothing.

    `newest_at`: newest trusted event time of this batch, or ever: both give the same. `landed_at`: the
    landing host's clock, read before `end_offset` was asked for. `topic_clock`: the topic's clock before this
    batch; a partition without a `previous` starts there.
    """
    newest_at = _latest(previous.newest_at if previous else None, newest_at)
    now = PartitionClock(topic, epoch, partition, next_offset, end_offset, newest_at, None)
    if previous is not None and previous.identity != now.identity:
        raise ValueError(f"{now.identity} cannot follow on {previous.identity}: give its own last clock, or None")
    by_events = now.event_clock(out_of_orderness)
    by_idling = None
    if idle.mode == "caught_up" and now.caught_up:
        by_idling = shifted(landed_at, -idle.after - out_of_orderness)
    floor = previous.clock_at if previous else topic_clock
    return replace(now, clock_at=_latest(floor, by_events, by_idling))


def topic_clock(partitions: Iterable[PartitionClock]) -> datetime | None:
    """The least clock of a topic's partitions; None when one has none, or when there is no partition."""
    clocks = [p.clock_at for p in current(partitions)]
    if not clocks or None in clocks:
        return None
    return min(c for c in clocks if c is not None)


def watermark(partitions: Iterable[PartitionClock]) -> datetime | None:
    """W: the least clock over all topics. Give the full vector, partitions without a record included."""
    return topic_clock(partitions)


def holder(partitions: Iterable[PartitionClock]) -> PartitionClock | None:
    """The partition that decides W: the least clock; of equal ones the one with most lag, then by name."""

    def slowest_first(p: PartitionClock) -> tuple[bool, datetime, int, tuple[str, int, int]]:
        return (p.clock_at is not None, p.clock_at or LATEST, -p.lag, p.identity)

    return min(current(partitions), key=slowest_first, default=None)


def drain(partitions: Iterable[PartitionClock]) -> datetime:
    """The watermark of a drain, `END_OF_STREAM`: only where every partition is caught up."""
    behind = [p for p in current(partitions) if not p.caught_up]
    if behind:
        lags = ", ".join(f"{p.topic}/{p.partition} at {p.next_offset} of {p.end_offset}" for p in behind)
        raise NotCaughtUp(f"cannot drain while records wait: {lags}. Land them first, then drain again")
    return END_OF_STREAM


def current(partitions: Iterable[PartitionClock]) -> list[PartitionClock]:
    """The newest epoch of each topic: the partitions of a deleted topic no longer exist and hold nothing."""
    partitions = list(partitions)
    newest: dict[str, int] = {}
    for p in partitions:
        newest[p.topic] = max(p.epoch, newest.get(p.topic, p.epoch))
    return [p for p in partitions if p.epoch == newest[p.topic]]


def _latest(*clocks: datetime | None) -> datetime | None:
    return max((utc(c) for c in clocks if c is not None), default=None)
