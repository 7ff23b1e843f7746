"""The clocks that a lag analysis compares, one event at a time. Each returns W: how far event time has come.

    arrival ──▶ `read(now, event)` ──▶ W          a tick of the wall clock: `read(now, None)`

`SlowestPartition` is Windrow's own and calls `semantics.clock`. The others are those of other engines, over the same
arrivals. W is None before it is known, and never goes back.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from windrow.semantics.clock import IdlePolicy, PartitionClock, Progress, advance, current, watermark
from windrow.semantics.intervals import shifted
from windrow.semantics.lag.scenario import Policy
from windrow.semantics.lag.setting import Event, LagSetting, PartitionId

WAIT = IdlePolicy("wait")
"""Records do not show whether a partition was caught up, so time alone moves no clock."""


class Clock(Protocol):
    """Event time, as one engine sees it."""

    def read(self, now: datetime, event: Event | None) -> datetime | None:
        """W at `now`, after `event` has arrived, or at a tick (None)."""


def clock_of(policy: Policy, setting: LagSetting, first_arrival: datetime) -> Clock:
    """The clock of a policy before any arrival."""
    if policy.kind == "slowest":
        return SlowestPartition(setting)
    if policy.kind == "fastest_side":
        return FastestSide()
    if policy.kind == "newest_partition":
        return NewestPartition(setting)
    if policy.kind == "wall":
        return WallClock()
    assert policy.idle_after is not None
    return IdleTimeout(setting, policy.idle_after, first_arrival)


class SlowestPartition:
    """Windrow: the slowest partition of the slowest side decides."""

    def __init__(self, setting: LagSetting) -> None:
        self.setting = setting
        self.partitions = {key: PartitionClock(*key, 0, 0, None, None) for key in setting.partition_ids}

    def read(self, now: datetime, event: Event | None) -> datetime | None:
        """The watermark of rule 3."""
        if event is not None:
            before = self.partitions[event.partition_id]
            seen = Progress(
                *event.partition_id,
                next_offset=before.next_offset + 1,
                end_offset=before.next_offset + 1,
                newest_at=event.event_at,
                landed_at=now,
            )
            self.partitions[event.partition_id] = advance(
                before,
                seen,
                out_of_orderness=self.setting.out_of_orderness[before.topic],
                idle=WAIT,
                topic_clock=None,
            )
        return watermark(self.partitions.values())


class FastestSide:
    """Kafka Streams' stream time: the newest event of all inputs and partitions; only grace allows for disorder."""

    def __init__(self) -> None:
        self.w: datetime | None = None

    def read(self, now: datetime, event: Event | None) -> datetime | None:
        """The newest event time so far."""
        if event is not None:
            self.w = _later(self.w, event.event_at)
        return self.w


class NewestPartition:
    """Spark: an input's newest event over all its partitions minus its delay; the slowest input decides."""

    def __init__(self, setting: LagSetting) -> None:
        self.delay = setting.out_of_orderness
        self.inputs: dict[str, datetime | None] = {topic: None for topic, _, _ in setting.partition_ids}

    def read(self, now: datetime, event: Event | None) -> datetime | None:
        """The least clock of the inputs."""
        if event is not None:
            topic = event.row_id.topic
            self.inputs[topic] = _later(self.inputs[topic], shifted(event.event_at, -self.delay[topic]))
        return _least(list(self.inputs.values()))


class IdleTimeout:
    """Flink: watermarks by partition; a partition without a recent record does not count, even if records wait in it.

    A partition without any record is idle `idle_after` after the first arrival of all.
    """

    def __init__(self, setting: LagSetting, idle_after: timedelta, first_arrival: datetime) -> None:
        self.delay, self.idle_after = setting.out_of_orderness, idle_after
        holding = current(PartitionClock(*key, 0, 0, None, None) for key in setting.partition_ids)
        self.clocks: dict[PartitionId, datetime | None] = {p.identity: None for p in holding}
        self.last_arrival = dict.fromkeys(self.clocks, first_arrival)
        self.w: datetime | None = None

    def read(self, now: datetime, event: Event | None) -> datetime | None:
        """The least clock of the partitions that are not idle; the last one where all are idle."""
        if event is not None and event.partition_id in self.clocks:
            clock = shifted(event.event_at, -self.delay[event.row_id.topic])
            self.clocks[event.partition_id] = _later(self.clocks[event.partition_id], clock)
            self.last_arrival[event.partition_id] = now
        active = [clock for key, clock in self.clocks.items() if now - self.last_arrival[key] < self.idle_after]
        least = _least(active)
        if least is not None:
            self.w = _later(self.w, least)
        return self.w


class WallClock:
    """Processing time: a window closes at its time, whether or not its records have arrived."""

    def read(self, now: datetime, event: Event | None) -> datetime | None:
        """The wall clock itself, `now`."""
        return now


def _later(known: datetime | None, new: datetime) -> datetime:
    return new if known is None else max(known, new)


def _least(clocks: list[datetime | None]) -> datetime | None:
    """The least clock; None (minus infinity) if one is None or there are no clocks."""
    known = [c for c in clocks if c is not None]
    return min(known) if known and len(known) == len(clocks) else None
