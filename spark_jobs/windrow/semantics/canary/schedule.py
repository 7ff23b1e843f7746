"""When canaries are sent: a left row in each slot of the grid, and its labels at their delays.

    every      |<-- slot -->|<-- slot -->|              slots lie on the grid of 1970
    left row    ●             ●                         at the first look at a slot, once per slot
    label          ◆             ◆                      delay 1s: at the first look from then on
    label                     ◆             ◆           delay 1m: the same
                              └ only while the row's window is open: what is sent later would be no loss

Nothing is made up for: a slot that nobody looked at has no row. An event time is the time of sending, so canaries are
as much in order as other records. What was sent is known from what the broker has acknowledged, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.semantics.intervals import at_micros, micros

EVENTS_PER_PAIR = 1_000
"""More events than a pair can have: 32 streams with 16 delays."""


@dataclass(frozen=True)
class Acknowledged:
    """A record of a pair that the broker has acknowledged. `delay`: of a label; None for the left row."""

    stream: str
    number: int
    served_at: datetime
    delay: timedelta | None = None


@dataclass(frozen=True)
class Due:
    """A record to be sent now.

    Args:
        number: of the slot; it chooses key and partition, the same for all records of a pair.
        served_at: event time of the left row, which names the pair; of the left row itself it is now.
    """

    stream: str
    number: int
    served_at: datetime
    delay: timedelta | None = None


@dataclass(frozen=True)
class Rhythm:
    """What a pipeline file says about sending.

    Args:
        left: name of the left stream.
        labels: label stream → length of its window after the row.
    """

    left: str
    labels: Mapping[str, timedelta]
    every: timedelta
    delays: Sequence[timedelta]

    @property
    def longest(self) -> timedelta:
        """How long after its row a label may be sent at most."""
        return max(self.labels.values())

    def event_id(self, due: Due) -> int:
        """Number that no other event has: retries of a record, if there were any, would be one event."""
        order = [(name, delay) for name in self.labels for delay in self.delays]
        place = 0 if due.delay is None else 1 + order.index((due.stream, due.delay))
        return micros(due.served_at) * EVENTS_PER_PAIR + place

    def due(self, now: datetime, sent: Iterable[Acknowledged]) -> list[Due]:
        """Return what is to be sent now, the left row first.

        Args:
            sent: what the broker has acknowledged, at least of pairs whose windows are open.
        """
        sent = tuple(sent)
        waiting = [due for at, due in self._labels(sent) if at <= now <= due.served_at + self.labels[due.stream]]
        slot = self._slot(now)
        is_served = any(one.delay is None and one.served_at >= slot for one in sent)
        return waiting if is_served else [Due(self.left, micros(slot) // micros(self.every), now), *waiting]

    def next_at(self, now: datetime, sent: Iterable[Acknowledged]) -> datetime:
        """Return when something is due next, if everything that is due has been sent."""
        return min([self._slot(now) + self.every, *(at for at, _ in self._labels(sent) if at > now)])

    def _labels(self, sent: Iterable[Acknowledged]) -> Iterator[tuple[datetime, Due]]:
        """Labels of acknowledged left rows that were not sent, and when each is due."""
        sent = tuple(sent)
        known = {(one.stream, one.served_at, one.delay) for one in sent}
        for row in sent:
            for stream in self.labels if row.delay is None else ():
                for delay in self.delays:
                    if (stream, row.served_at, delay) not in known:
                        yield row.served_at + delay, Due(stream, row.number, row.served_at, delay)

    def _slot(self, now: datetime) -> datetime:
        length = micros(self.every)
        return at_micros(micros(now) // length * length)
