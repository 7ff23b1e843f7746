"""Intervals: the UTC grid of left event time. Every instant at or after `start` lies in exactly one interval.

    start                length
      |<------------------>|
      [      first         [      second       [      third
    --+--------------------+-------------------+------------> event time
      in                  not in the first: it opens the second

Half-open `[start, end)`. The length divides 24 hours and the grid is laid from midnight UTC, so an interval
has the same bounds whatever time zone a process runs in and whatever summer time does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


def utc(t: datetime) -> datetime:
    """The same instant in UTC. A naive datetime is refused: nobody can say which instant it is.

    Arithmetic on datetimes of a zone with summer time is arithmetic on its wall clock: convert first.
    """
    if t.utcoffset() is None:
        raise ValueError(f"{t!r} has no time zone: give an aware datetime, for example tzinfo=UTC")
    return t.astimezone(UTC)


def shifted(t: datetime, by: timedelta) -> datetime:
    """`t + by` in UTC, held at the first or last instant that a datetime can say."""
    try:
        return utc(t) + by
    except OverflowError:
        return EARLIEST if by < timedelta(0) else LATEST


def micros(of: datetime | timedelta) -> int:
    """Microseconds, exactly: of an instant since 1970, or of a duration."""
    return (utc(of) - EPOCH if isinstance(of, datetime) else of) // MICROSECOND


def at_micros(us: int) -> datetime:
    """The instant in UTC that many microseconds after 1970 began."""
    return EPOCH + timedelta(microseconds=us)


@dataclass(frozen=True, order=True)
class Interval:
    """`[start, end)` of left event time: the unit that is closed, checked and published."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", utc(self.start))
        object.__setattr__(self, "end", utc(self.end))
        if self.end <= self.start:
            raise ValueError(f"an interval ends after its start, not [{self.start}, {self.end})")

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    def contains(self, t: datetime) -> bool:
        """Start in, end out."""
        return self.start <= t < self.end

    def __str__(self) -> str:
        return f"[{self.start:%Y-%m-%dT%H:%M:%SZ}, {self.end:%Y-%m-%dT%H:%M:%SZ})"


def is_length(length: timedelta) -> bool:
    """Whether intervals of this length come round at midnight: positive and a divisor of 24 hours."""
    return timedelta(0) < length <= DAY and DAY % length == timedelta(0)


def nearest_lengths(length: timedelta) -> tuple[timedelta, ...]:
    """The possible lengths, in whole seconds, around one that does not divide 24 hours: one or two, ascending.

    >>> [str(fitting) for fitting in nearest_lengths(timedelta(minutes=7))]
    ['0:06:45', '0:07:12']
    """
    fitting = [timedelta(seconds=n) for n in range(1, 86_401) if 86_400 % n == 0]
    below = max((one for one in fitting if one <= length), default=fitting[0])
    above = min((one for one in fitting if one >= length), default=DAY)
    return tuple(sorted({below, above}))


def on_grid(t: datetime, length: timedelta) -> bool:
    """Whether an interval of this length begins at `t`."""
    return (utc(t) - EPOCH) % _checked(length) == timedelta(0)


def grid_around(t: datetime, length: timedelta) -> tuple[datetime, datetime]:
    """The start of the interval of this length that holds `t`, and its end."""
    below = utc(t) - (utc(t) - EPOCH) % _checked(length)
    return below, below + length


def interval_of(t: datetime, start: datetime, length: timedelta) -> Interval:
    """The interval that `t` lies in. Before `start` it still names the grid's; nothing is published there.

    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> str(interval_of(noon + timedelta(minutes=19), noon, timedelta(minutes=10)))
    '[2026-11-01T12:10:00Z, 2026-11-01T12:20:00Z)'
    """
    _check_on_grid(start, length)
    first = utc(start) + (utc(t) - utc(start)) // length * length
    return Interval(first, first + length)


def intervals_between(lo: datetime, hi: datetime, length: timedelta) -> Iterator[Interval]:
    """Every interval that lies wholly in `[lo, hi)`, oldest first; `lo` is on the grid."""
    _check_on_grid(lo, length)
    start, hi = utc(lo), utc(hi)
    while hi - start >= length:
        yield Interval(start, start + length)
        start += length


def _checked(length: timedelta) -> timedelta:
    if not is_length(length):
        raise ValueError(f"an interval of {length} does not divide 24 hours: 10 minutes or 1 hour would")
    return length


def _check_on_grid(t: datetime, length: timedelta) -> None:
    if not on_grid(t, length):
        below, above = grid_around(t, length)
        raise ValueError(f"{t} is not on the UTC grid of {length}: {below} and {above} are")
