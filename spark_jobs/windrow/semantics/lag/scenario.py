"""What a lag analysis tries out: injected lag, the clock that closes rows, and changed settings.

    record time on the broker ──+ injected lag──▶ arrival ──▶ landed ──▶ the clock advances ──▶ rows close
                                                  (ties in row order)    (by its policy)        (`close.is_closed`)

               window of the row       grace
        |<------------------------->|<------->|
    ----+---------------x-----------+---------+------------> event time
       l.t            label                    the clock is beyond this: the row leaves with the labels it has

A label is *lost* if its row had left before it arrived. A row is *missing* if its window had closed before the row
itself arrived. The policies differ in their clock alone: each buffers all labels and closes by the same predicate. The
analysis runs from the first to the last arrival of its events; rows that the clock has not closed by then are *open*,
and only their number is reported.

The analysis follows a study of Twitter's pipeline for logged features. It found that a lagging left consumer is
harmless as long as an event is consumed inside its window, and that a lagging right consumer loses labels unless the
clock waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from windrow.outcomes import BadInput
from windrow.semantics.intervals import is_length, shifted, utc

ZERO = timedelta(0)

PolicyKind = Literal["slowest", "fastest_side", "newest_partition", "idle_timeout", "wall"]
LagKind = Literal["constant", "pause", "drain"]


class NotAnalysable(BadInput, ValueError):
    """The request cannot be analysed. A retry does not help; the message says what to change."""


@dataclass(frozen=True)
class Lag:
    """Lag injected on a side: left, right, both, a stream or a topic.

        constant   every record arrives `delay` later
        pause      nothing arrives from `start` to `end`; then the backlog arrives at once, or at `rate` times the pace
                   in which it was written, until the consumer has caught up
        drain      at `start` the consumer is `delay` behind; it gains one second with every `rate` seconds of records

    Make one with `constant`, `pause` or `drain`. Records keep their order: a later record time never arrives earlier.

    Args:
        partitions: numbers of the partitions that lag; empty means all.
    """

    kind: LagKind
    side: str
    partitions: tuple[int, ...] = ()
    delay: timedelta = ZERO
    start: datetime | None = None
    end: datetime | None = None
    rate: int | None = None

    def __post_init__(self) -> None:
        if self.delay < ZERO:
            raise NotAnalysable(f"a lag is not negative: {self.delay}. Nothing arrives before it was written")
        if self.rate is not None and self.rate < 1:
            raise NotAnalysable(f"the rate of a {self.kind} is a whole number of at least 1, not {self.rate}")
        if any(p < 0 for p in self.partitions):
            raise NotAnalysable(f"partitions are numbered from 0, not {min(self.partitions)}")
        if self.kind == "pause" and (self.start is None or self.end is None or utc(self.end) <= utc(self.start)):
            raise NotAnalysable(f"a pause ends after it begins, not from {self.start} to {self.end}")
        if self.kind == "drain" and (self.start is None or self.rate is None):
            raise NotAnalysable("a drain needs the instant at which the consumer is behind, and a rate")

    @classmethod
    def constant(cls, side: str, delay: timedelta, partitions: tuple[int, ...] = ()) -> Lag:
        """Every record of the side arrives `delay` later."""
        return cls("constant", side, partitions, delay=delay)

    @classmethod
    def pause(
        cls, side: str, start: datetime, end: datetime, rate: int | None = None, partitions: tuple[int, ...] = ()
    ) -> Lag:
        """The side stands still in [start, end), then catches up: at once, or at `rate` times the written pace."""
        return cls("pause", side, partitions, start=start, end=end, rate=rate)

    @classmethod
    def drain(cls, side: str, start: datetime, delay: timedelta, rate: int, partitions: tuple[int, ...] = ()) -> Lag:
        """The side is `delay` behind at `start`, and gains one second with every `rate` seconds of records."""
        return cls("drain", side, partitions, delay=delay, start=start, rate=rate)

    def arrival(self, record_at: datetime) -> datetime:
        """Instant at which a record of a lagging partition arrives.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
        >>> pause = Lag.pause("left", noon, noon + timedelta(minutes=20), rate=2)
        >>> f"{pause.arrival(noon + timedelta(minutes=10)):%H:%M}"
        '12:25'
        """
        if self.kind == "constant":
            return shifted(record_at, self.delay)
        assert self.start is not None
        since_start = utc(record_at) - utc(self.start)
        if since_start < ZERO:
            return utc(record_at)
        if self.kind == "drain":
            assert self.rate is not None
            return shifted(record_at, max(ZERO, self.delay - since_start // self.rate))
        assert self.end is not None
        return max(utc(record_at), shifted(self.end, since_start // self.rate if self.rate else ZERO))


@dataclass(frozen=True)
class Policy:
    """The clock that closes rows. It is read after every arrival.

        slowest            Windrow (rules 2 to 4): the least over all partitions of newest event minus out-of-orderness
        fastest_side       Kafka Streams' stream time: the newest event of all
        newest_partition   Spark: for each topic the newest event of all its partitions minus out-of-orderness; the
                           least of these over the topics
        idle_timeout       Flink: as slowest, but a partition without a record for `idle_after` does not count; where
                           no partition counts, the clock stands
        wall               the wall clock

    The last two depend on wall time: they are also read at every `tick` of the UTC grid, before the records that arrive
    at that instant. No clock goes back. Partitions of a topic's earlier epochs hold no clock (slowest, idle_timeout).
    """

    kind: PolicyKind
    tick: timedelta | None = None
    idle_after: timedelta | None = None

    def __post_init__(self) -> None:
        if (self.tick is not None) != self.is_on_wall_time:
            raise NotAnalysable(f"{self.kind} {'needs a' if self.is_on_wall_time else 'has no'} tick")
        if self.tick is not None and self.tick < timedelta(seconds=1):
            raise NotAnalysable(f"a tick is at least a second, not {self.tick}")
        if (self.idle_after is not None) != (self.kind == "idle_timeout"):
            raise NotAnalysable("idle_after belongs to idle_timeout, which needs it, and to no other policy")
        if self.idle_after is not None and self.idle_after <= ZERO:
            raise NotAnalysable(f"idle_after is longer than 0s, not {self.idle_after}")

    @property
    def is_on_wall_time(self) -> bool:
        """Whether the clock moves with wall time, and so is read at ticks too."""
        return self.kind in ("idle_timeout", "wall")


@dataclass(frozen=True)
class LagScenario:
    """One combination of clock, lag and settings to try out. None keeps the pipeline's own value.

    Args:
        before: how long before its row a label may come, for all right streams.
        after: how long after its row a label may come, for all right streams; closing waits for it too.
        out_of_orderness: for all topics.
        interval: length of the intervals that rows close with; None closes row by row.
    """

    policy: Policy
    lag: Lag | None = None
    before: timedelta | None = None
    after: timedelta | None = None
    grace: timedelta | None = None
    out_of_orderness: timedelta | None = None
    interval: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("before", "after", "grace", "out_of_orderness"):
            value = getattr(self, name)
            if value is not None and value < ZERO:
                raise NotAnalysable(f"{name} is not negative: {value}")
        if self.interval is not None and not is_length(self.interval):
            raise NotAnalysable(f"an interval of {self.interval} does not divide 24 hours: 10 minutes or 1 hour would")
