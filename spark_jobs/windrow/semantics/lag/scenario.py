"""What consumer lag would have cost: the values of the analysis. `lag_simulation.simulate` works it out.

    record time on the broker ──+ injected lag──▶ arrival ──▶ landed ──▶ the clock moves ──▶ rows close
                                                  (ties in row order)    (a policy)          (`close.is_closed`)

               window of the row       grace
        |<------------------------->|<------->|
    ----+---------------x-----------+---------+------------> event time
       l.t            label                    the clock beyond this: the row leaves with what has arrived

A label is *lost* where its row had left before it arrived; a row is *missing* where its window had closed before
it arrived itself. Nothing but the clock differs between the policies: each buffers all labels, each closes by
the same predicate. The analysis starts at the first and ends with the last arrival of the events it is given:
rows that the clock has not closed by then are `open`, and nothing is said about them but their number.

Lag is studied after Twitter's pipeline for logged features, where a lagging left consumer is harmless as long as
an event is consumed inside its window, and a lagging right one loses labels unless the clock waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from windrow.outcomes import BadInput
from windrow.semantics.intervals import MICROSECOND, is_length, shifted, utc

ZERO = timedelta(0)
LOOK_EVERY = timedelta(minutes=1)
"""How often open rows are counted for their peak: at each full minute of arrival time, and at the end."""

PolicyKind = Literal["slowest", "fastest_side", "newest_partition", "idle_timeout", "wall"]
LagKind = Literal["constant", "pause", "drain"]


class Unusable(BadInput, ValueError):
    """What was asked for cannot be analysed. Trying again does not help; the message says what would."""


@dataclass(frozen=True)
class Lag:
    """Lag injected on a side: left | right | both | a stream or a topic. `partitions`: numbers; without any, all lag.

        constant   every record arrives `delay` later
        pause      nothing arrives from `start` to `end`; then all at once, or at `rate` times the pace in which it
                   was written, until it is caught up
        drain      at `start` the consumer is `delay` behind; with every `rate` seconds of records it gains one second

    Make one with `constant`, `pause`, `drain`. Arrival never overtakes: a later record time never arrives earlier.
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
            raise Unusable(f"a lag is not negative: {self.delay}. Nothing arrives before it was written")
        if self.rate is not None and self.rate < 1:
            raise Unusable(f"the rate of a {self.kind} is a whole number of at least 1, not {self.rate}")
        if any(p < 0 for p in self.partitions):
            raise Unusable(f"partitions are numbered from 0, not {min(self.partitions)}")
        if self.kind == "pause" and (self.start is None or self.end is None or utc(self.end) <= utc(self.start)):
            raise Unusable(f"a pause ends after it begins, not from {self.start} to {self.end}")
        if self.kind == "drain" and (self.start is None or self.rate is None):
            raise Unusable("a drain needs the instant at which the consumer is behind, and a rate")

    @classmethod
    def constant(cls, side: str, delay: timedelta, partitions: tuple[int, ...] = ()) -> Lag:
        return cls("constant", side, partitions, delay=delay)

    @classmethod
    def pause(
        cls, side: str, start: datetime, end: datetime, rate: int | None = None, partitions: tuple[int, ...] = ()
    ) -> Lag:
        return cls("pause", side, partitions, start=start, end=end, rate=rate)

    @classmethod
    def drain(cls, side: str, start: datetime, delay: timedelta, rate: int, partitions: tuple[int, ...] = ()) -> Lag:
        return cls("drain", side, partitions, delay=delay, start=start, rate=rate)

    def arrival(self, record_at: datetime) -> datetime:
        """When a record of a lagging partition arrives."""
        if self.kind == "constant":
            return shifted(record_at, self.delay)
        assert self.start is not None
        written = utc(record_at) - utc(self.start)
        if written < ZERO:
            return utc(record_at)
        if self.kind == "drain":
            assert self.rate is not None
            return shifted(record_at, max(ZERO, self.delay - written // self.rate))
        assert self.end is not None
        return max(utc(record_at), shifted(self.end, written // self.rate if self.rate else ZERO))


@dataclass(frozen=True)
class Policy:
    """A clock: what makes rows close. Each is looked at when an event has arrived.

        slowest            ours (rules 2 to 4): the least over all partitions of newest event minus out-of-orderness
        fastest_side       Kafka Streams' stream time: the newest event of all
        newest_partition   Spark: of each topic the newest event of all its partitions minus out-of-orderness, and
                           of the topics the least
        idle_timeout       Flink: as slowest, but a partition that was not heard for `idle_after` does not count;
                           where none counts the clock stands
        wall               the time itself

    The last two run on wall time: they are looked at every `tick` of the UTC grid too, before what arrives then.
    No clock goes back. Partitions of a topic's earlier epochs hold nobody (slowest, idle_timeout).
    """

    kind: PolicyKind
    tick: timedelta | None = None
    idle_after: timedelta | None = None

    def __post_init__(self) -> None:
        if (self.tick is not None) != self.on_wall_time:
            raise Unusable(f"{self.kind} {'needs a' if self.on_wall_time else 'has no'} tick")
        if self.tick is not None and self.tick < timedelta(seconds=1):
            raise Unusable(f"a tick is at least a second, not {self.tick}")
        if (self.idle_after is not None) != (self.kind == "idle_timeout"):
            raise Unusable("idle_timeout, and no other policy, says after how long a partition is idle")
        if self.idle_after is not None and self.idle_after <= ZERO:
            raise Unusable(f"a partition is idle after more than nothing, not {self.idle_after}")

    @property
    def on_wall_time(self) -> bool:
        return self.kind in ("idle_timeout", "wall")


@dataclass(frozen=True)
class Scenario:
    """One line of the analysis. None takes the pipeline's own value; `interval` None closes row by row.

    before, after: the window of every right stream (so `after` is also what closing waits for).
    out_of_orderness: of every topic.
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
                raise Unusable(f"{name} is not negative: {value}")
        if self.interval is not None and not is_length(self.interval):
            raise Unusable(f"an interval of {self.interval} does not divide 24 hours: 10 minutes or 1 hour would")


@dataclass(frozen=True)
class Spread:
    """How long something took, over `count` rows. Quantiles are `rounded` (at most 1/32 too long), the rest exact."""

    count: int
    p50: timedelta
    p90: timedelta
    p99: timedelta
    max: timedelta
    total: timedelta


@dataclass(frozen=True)
class Outcome:
    """What a scenario would have done to the left rows of the range and to their labels. None: cannot be known.

    rows_total: left rows. rows_missing: closed before they arrived; they are in no result. rows_closed_too_early:
    the missing ones, and those that left before a label of theirs arrived. rows_open: not closed by the last
    arrival; no label of theirs counts as lost.
    labels_total: pairs of a left row and a label in its window, of the label streams, before `take`. labels_lost:
    pairs whose row was missing or had left before the label arrived.
    states_flipped: (state with all labels, state as it left) → rows, with `missing` as the second where the row is;
    only those that differ.
    delay: by how much later than without the injected lag, over the rows that are later (`rows_delayed`); None where
    no row left in both. wait: from the row's event time until it left (0 where it left before), over the rows
    that left; None where none did.
    open_rows_peak: most rows that had arrived and not left, looked at every `LOOK_EVERY` of arrival time.
    """

    rows_total: int
    rows_missing: int
    rows_closed_too_early: int
    rows_open: int
    labels_total: int
    labels_lost: int
    states_flipped: Mapping[tuple[str, str], int]
    delay: Spread | None
    wait: Spread | None
    open_rows_peak: int

    @property
    def recall(self) -> float | None:
        """Share of the labels that left with their rows; None without a label."""
        return None if self.labels_total == 0 else 1 - self.labels_lost / self.labels_total

    @property
    def rows_delayed(self) -> int | None:
        """Rows that left later than without the injected lag; None where none can be compared."""
        return None if self.delay is None else self.delay.count


def rounded(micros: int) -> int:
    """A duration in microseconds, rounded up to six binary digits: what quantiles are counted in.

    A histogram with a relative error of at most 1/32 and few buckets, after Masson, Rim and Lee, "DDSketch"
    (VLDB 2019); of its parts, however cut, the sum is the same.

    >>> rounded(63), rounded(64), rounded(65), rounded(1_000_000)
    (63, 64, 66, 1015808)
    """
    digits = max(0, micros.bit_length() - 6)
    return -(-micros >> digits) << digits


def spread(counted: Mapping[int, int], largest: int, total: int) -> Spread:
    """From durations in microseconds: `rounded` → how many, and the largest and the sum of the exact ones."""
    many = sum(counted.values())

    def quantile(percent: int) -> timedelta:
        rank, below = -(-many * percent // 100), 0
        for value in sorted(counted):
            below += counted[value]
            if below >= rank:
                return MICROSECOND * value
        return ZERO

    return Spread(many, quantile(50), quantile(90), quantile(99), MICROSECOND * largest, MICROSECOND * total)
