"""The clocks that a lag analysis compares, one event at a time. Each says how far event time has come.

    arrival ──▶ `look(now, event)` ──▶ W          a tick of the wall clock: `look(now, None)`

`Slowest` is the product's own: `semantics.clock` and nothing else. The others are those of other engines, as they
would stand over the same arrivals. W is None before there is one, and never goes back.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from windrow.semantics.clock import IdlePolicy, PartitionClock, Progress, advance, current, watermark
from windrow.semantics.intervals import shifted
from windrow.semantics.lag.scenario import Policy
from windrow.semantics.lag.setting import Event, Place, Setting

STANDS = IdlePolicy("wait")
"""Nobody knows afterwards whether a partition was caught up: time alone moves nothing."""


class Clock(Protocol):
    """Event time, as one engine sees it."""

    def look(self, now: datetime, event: Event | None) -> datetime | None:
        """W, after an event has arrived, or at a tick."""


def clock_of(policy: Policy, setting: Setting, first_arrival: datetime) -> Clock:
    """The clock of a policy before anything has arrived."""
    if policy.kind == "slowest":
        return Slowest(setting)
    if policy.kind == "fastest_side":
        return FastestSide()
    if policy.kind == "newest_partition":
        return NewestPartition(setting)
    if policy.kind == "wall":
        return Wall()
    assert policy.idle_after is not None
    return IdleTimeout(setting, policy.idle_after, first_arrival)


class Slowest:
    """Windrow: the slowest partition of the slowest side decides."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.partitions = {place: PartitionClock(*place, 0, 0, None, None) for place in setting.places}

    def look(self, now: datetime, event: Event | None) -> datetime | None:
        if event is not None:
            before = self.partitions[event.place]
            offset = before.next_offset + 1
            self.partitions[event.place] = advance(
                before,
                Progress(*event.place, next_offset=offset, end_offset=offset, newest_at=event.event_at, landed_at=now),
                out_of_orderness=self.setting.out_of_orderness[before.topic],
                idle=STANDS,
                topic_clock=None,
            )
        return watermark(self.partitions.values())


class FastestSide:
    """Kafka Streams' stream time: the newest event of all inputs and partitions; its only slack is the grace."""

    def __init__(self) -> None:
        self.at: datetime | None = None

    def look(self, now: datetime, event: Event | None) -> datetime | None:
        if event is not None:
            self.at = _later(self.at, event.event_at)
        return self.at


class NewestPartition:
    """Spark: an input's newest event over all its partitions minus its delay; the slowest input decides."""

    def __init__(self, setting: Setting) -> None:
        self.delay = setting.out_of_orderness
        self.inputs: dict[str, datetime | None] = {topic: None for topic, _, _ in setting.places}

    def look(self, now: datetime, event: Event | None) -> datetime | None:
        if event is not None:
            topic = event.row_id.topic
            self.inputs[topic] = _later(self.inputs[topic], shifted(event.event_at, -self.delay[topic]))
        return _least(list(self.inputs.values()))


class IdleTimeout:
    """Flink: watermarks by partition; who was not heard for a while does not count, whatever still waits there.

    A partition that was never heard counts from the first arrival of all.
    """

    def __init__(self, setting: Setting, idle_after: timedelta, first_arrival: datetime) -> None:
        self.delay, self.idle_after = setting.out_of_orderness, idle_after
        holding = current(PartitionClock(*place, 0, 0, None, None) for place in setting.places)
        self.clocks: dict[Place, datetime | None] = {p.identity: None for p in holding}
        self.heard = dict.fromkeys(self.clocks, first_arrival)
        self.at: datetime | None = None

    def look(self, now: datetime, event: Event | None) -> datetime | None:
        if event is not None and event.place in self.clocks:
            clock = shifted(event.event_at, -self.delay[event.row_id.topic])
            self.clocks[event.place] = _later(self.clocks[event.place], clock)
            self.heard[event.place] = now
        active = [clock for place, clock in self.clocks.items() if now - self.heard[place] < self.idle_after]
        least = _least(active)
        if least is not None:
            self.at = _later(self.at, least)
        return self.at


class Wall:
    """Processing time: what has not arrived by then does not exist."""

    def look(self, now: datetime, event: Event | None) -> datetime | None:
        return now


def _later(known: datetime | None, new: datetime) -> datetime:
    return new if known is None else max(known, new)


def _least(clocks: list[datetime | None]) -> datetime | None:
    """None is minus infinity, and so is the least of nothing."""
    known = [c for c in clocks if c is not None]
    return min(known) if known and len(known) == len(clocks) else None
