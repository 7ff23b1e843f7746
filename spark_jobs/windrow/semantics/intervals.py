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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAY, MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


def utc(t: datetime) -> datetime:
    """Return the same instant in UTC.

    Convert before any arithmetic: in a zone with summer time Python adds durations to the wall clock.

    Raises:
        ValueError: `t` has no time zone, so it names no instant.
    """
    if t.utcoffset() is None:
        raise ValueError(f"{t!r} has no time zone: give an aware datetime, for example tzinfo=UTC")
    return t.astimezone(UTC)


def shifted(t: datetime, by: timedelta) -> datetime:
    """`t + by` in UTC, clamped to the first and last instant that a datetime can hold."""
    try:
        return utc(t) + by
    except OverflowError:
        return EARLIEST if by < timedelta(0) else LATEST


def micros(of: datetime | timedelta) -> int:
    """Whole microseconds of a duration, or of an instant since 1970."""
    return (utc(of) - EPOCH if isinstance(of, datetime) else of) // MICROSECOND


def at_micros(us: int) -> datetime:
    """Instant in UTC that is `us` microseconds after the start of 1970."""
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
        """Duration from start to end."""
        return self.end - self.start

    def contains(self, t: datetime) -> bool:
        """Whether `t` is in the interval: at or after its start and before its end."""
        return self.start <= t < self.end

    def __str__(self) -> str:
        return f"[{self.start:%Y-%m-%dT%H:%M:%SZ}, {self.end:%Y-%m-%dT%H:%M:%SZ})"


def is_length(length: timedelta) -> bool:
    """Whether intervals of this length start at every midnight: it is positive and divides 24 hours."""
    return timedelta(0) < length <= DAY and DAY % length == timedelta(0)


def nearest_lengths(length: timedelta) -> tuple[timedelta, ...]:
    """The nearest valid lengths, in whole seconds, below and above a length that does not divide 24 hours.

    Returns:
        One or two lengths, ascending.

    >>> [str(fitting) for fitting in nearest_lengths(timedelta(minutes=7))]
    ['0:06:40', '0:07:12']
    """
    fitting = [timedelta(seconds=n) for n in range(1, 86_401) if 86_400 % n == 0]
    below = max((one for one in fitting if one <= length), default=fitting[0])
    above = min((one for one in fitting if one >= length), default=DAY)
    return tuple(sorted({below, above}))


def on_grid(t: datetime, length: timedelta) -> bool:
    """Whether an interval of this length begins at `t`."""
    return (utc(t) - EPOCH) % _checked(length) == timedelta(0)


def grid_around(t: datetime, length: timedelta) -> tuple[datetime, datetime]:
    """Start and end of the interval of this length that holds `t`."""
    below = utc(t) - (utc(t) - EPOCH) % _checked(length)
    return below, below + length


def interval_of(t: datetime, start: datetime, length: timedelta) -> Interval:
    """Interval that holds `t`. The grid also extends to times before `start`, where nothing is published.

    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> str(interval_of(noon + timedelta(minutes=19), noon, timedelta(minutes=10)))
    '[2026-11-01T12:10:00Z, 2026-11-01T12:20:00Z)'
    """
    _check_on_grid(start, length)
    first = utc(start) + (utc(t) - utc(start)) // length * length
    return Interval(first, first + length)


def intervals_between(lo: datetime, hi: datetime, length: timedelta) -> Iterator[Interval]:
    """Every interval that lies wholly in `[lo, hi)`, oldest first; `lo` must be on the grid."""
    _check_on_grid(lo, length)
    start, hi = utc(lo), utc(hi)
    while hi - start >= length:
        yield Interval(start, start + length)
        start += length


def stretches(
    intervals: Iterable[Interval], reach: timedelta = timedelta(0), most: int | None = None
) -> list[Interval]:
    """Merge intervals that are at most `reach` apart, and then the nearest neighbours until at most `most` remain.

    Returns:
        The merged intervals, ascending.

    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> short = [Interval(noon + n * MICROSECOND, noon + (n + 1) * MICROSECOND) for n in (0, 1, 2, 5)]
    >>> [stretch.length // MICROSECOND for stretch in stretches(short)]
    [3, 1]
    """
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if merged and interval.start - merged[-1].end <= reach:
            merged[-1] = Interval(merged[-1].start, interval.end)
        else:
            merged.append(interval)
    while most is not None and len(merged) > most:
        n = min(range(len(merged) - 1), key=lambda i: merged[i + 1].start - merged[i].end)
        merged[n : n + 2] = [Interval(merged[n].start, merged[n + 1].end)]
    return merged


def _checked(length: timedelta) -> timedelta:
    if not is_length(length):
        raise ValueError(f"an interval of {length} does not divide 24 hours: 10 minutes or 1 hour would")
    return length


def _check_on_grid(t: datetime, length: timedelta) -> None:
    if not on_grid(t, length):
        below, above = grid_around(t, length)
        raise ValueError(f"{t} is not on the UTC grid of {length}: {below} and {above} are")
