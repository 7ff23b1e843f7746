"""How many rows an interval has, compared with earlier intervals: a distance in standard deviations.

    recent      the intervals right before it            a change that came suddenly is far from both
    same hour   the same hour of the seven days before   a slope of the day is near the one or the other
                                                         the nearer of the two counts

Counts are of the landed rows up to each plan's pins, so the same rows always get the same distance, whenever they are
judged; no clock of the host is read.

    rare gaps     earlier empty intervals are left out: an outage is not what is usual
    often empty   where more than a third of the earlier intervals are empty, one more is usual
    floods        an earlier interval counts as at most `FLOOD` times the median, so that one does not hide a loss
    spread²       variance of the earlier counts beyond chance. A short history is assumed to be a restless one: a
                  standard deviation of `PRIOR_SPREAD` is mixed in with the weight of `PRIOR_WEIGHT` intervals

The tail is exact (`tails`). Power and false alarms are measured by `benchmarks/gates.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from windrow.quality.tails import distance
from windrow.semantics.intervals import Interval

RECENT, LEAST_RECENT, RECENTLY = 24, 6, timedelta(hours=6)
"""Intervals that are recent: this many, as far as they are of the last six hours, but at least the second number."""
DAYS = 7
"""Earlier days whose same hour is compared with."""
ENOUGH = 3
"""Earlier intervals that make a history."""
PRIOR_SPREAD = 0.3
"""Assumed standard deviation of the counts of a pipeline without history, as a share of their mean."""
PRIOR_WEIGHT = 3
"""Number of intervals that this assumption counts as."""
FLOOD = 4
"""An earlier count is taken for at most this many times the median."""

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Volume(NamedTuple):
    """Rows of an interval against those of earlier ones; None without enough of them."""

    usual: float | None
    """mean of the earlier counts that it was compared with"""
    z: float | None
    """distance in standard deviations: negative where rows are missing"""


def recent(length: timedelta) -> int:
    """Return how many intervals of a length are recent.

    >>> [recent(timedelta(minutes=minutes)) for minutes in (1, 15, 30, 60, 1440)]
    [24, 24, 12, 6, 6]
    """
    return max(LEAST_RECENT, min(RECENT, RECENTLY // length))


def recent_before(interval: Interval) -> list[datetime]:
    """Return the starts of the intervals right before this one: twice as many as are needed, some may be missing."""
    length = interval.length
    return [interval.start - n * length for n in range(1, 2 * recent(length) + 1)]


def same_hour_before(interval: Interval) -> list[datetime]:
    """Return the starts of the intervals in the same hour of the days before; of longer intervals, at the same time.

    >>> from datetime import UTC
    >>> at = datetime(2026, 11, 8, 6, 40, tzinfo=UTC)
    >>> [f"{start:%d %H:%M}" for start in same_hour_before(Interval(at, at + timedelta(minutes=20)))][:4]
    ['07 06:00', '07 06:20', '07 06:40', '06 06:00']
    """
    start, length = interval.start, interval.length
    into = timedelta(minutes=start.minute, seconds=start.second, microseconds=start.microsecond)
    steps = range(-(into // length), -(-(HOUR - into) // length)) if length < HOUR else range(1)
    return [start - day * DAY + n * length for day in range(1, DAYS + 1) for n in steps]


def newest_filled(counts: Sequence[int], most: int) -> list[int]:
    """Return the newest counts: up to `most` that are not 0, and the zeros among them.

    Args:
        counts: oldest first.

    >>> newest_filled([7, 0, 8, 0, 0, 9], 2)
    [8, 0, 0, 9]
    """
    filled = [n for n, count in enumerate(counts) if count][-most:]
    return list(counts[filled[0] if len(filled) == most else 0 :])


def volume(newest: Sequence[int], same_hour: Sequence[int], rows: int) -> Volume:
    """Compare the rows of an interval with those of earlier ones.

    Args:
        newest: rows of the intervals right before it, in any order.
        same_hour: rows of the intervals in the same hour of earlier days, in any order.

    >>> found = volume([100] * 24, [], 0)
    >>> found.usual, round(found.z)
    (100.0, -11)
    >>> volume([100, 100], [], 0)
    Volume(usual=None, z=None)
    """
    found = [one for one in (_compared(newest, rows), _compared(same_hour, rows)) if one.z is not None]
    if not found:
        return Volume(None, None)
    nearest = min(found, key=lambda one: abs(one.z or 0.0))
    are_on_one_side = all((one.z or 0.0) * (nearest.z or 0.0) >= 0 for one in found)
    return nearest if are_on_one_side else Volume(nearest.usual, 0.0)


def _compared(earlier: Sequence[int], rows: int) -> Volume:
    filled = [count for count in earlier if count]
    if len(filled) < ENOUGH:
        return Volume(None, None)
    most = FLOOD * median(filled)
    counts = [min(count, most) for count in filled]
    total, number = sum(counts), len(counts)
    mean = total / number
    if not rows and 3 * (len(earlier) - number) > len(earlier):
        return Volume(mean, 0.0)
    squares, chance = sum((count - mean) ** 2 for count in counts), mean * (number - 1)
    beyond = max(0.0, squares - chance) / mean**2
    moved = (beyond + PRIOR_WEIGHT * PRIOR_SPREAD**2) / (number - 1 + PRIOR_WEIGHT)
    return Volume(mean, distance(rows, mean, moved * (1 + 1 / number) + 1 / total))
