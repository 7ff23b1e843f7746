"""Recall: which share of the labels come within a given time, from data in which the youngest are still missing.

    row      seen until (the label topic's clock)
     |<------- horizon ------->|
    -+----x--------x-----------+----o------> time since the row was served
          labels that can have landed    a label that nobody has seen yet, of a row that is not old enough

A delay is only seen where it is shorter than its row's horizon: the sample is truncated on the right, and
young rows show short delays only. A plain histogram would therefore advise windows that are too short. The
estimate is the product limit in reversed time (Lagakos, Barraj & De Gruttola, Biometrika 75, 1988; for reporting
delays Kalbfleisch & Lawless, JASA 84, 1989): of the labels that would have been seen at delay u, which share
came at u and not earlier. Its variance is of Greenwood's form; intervals are Wilson's (JASA 22, 1927) at the
effective sample size (Dorey & Korn, Statistics in Medicine 6, 1987), which stay honest where nothing was missed.

What lies beyond the widest time looked at cannot be known from these data: shares are of the labels within it.
Assumed: a row's delays do not depend on when it was served, and labels are independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import accumulate, pairwise
from math import sqrt

Z = 1.959964
"""Quantile of the normal distribution for intervals that hold 95 % of the time."""

LEAST = 30
"""Labels that must have been able to come as late as a delay, before anything is said about it."""


class CannotBeKnown(ValueError):
    """The data do not hold the answer; the message says why, and what would help."""


@dataclass(frozen=True)
class Delays:
    """Counted delays. Bin 0 holds delays of zero and below, bin i those in `(step * (i - 1), step * i]`."""

    step: timedelta
    bins: int
    counts: Mapping[tuple[int, int], int]
    """(bin, bins before its horizon) → labels. A bin is seen whole where it is below the second number."""

    def __post_init__(self) -> None:
        if self.step <= timedelta(0) or self.bins < 1:
            raise ValueError(f"delays need a positive step and at least one bin, not {self.step} and {self.bins}")
        if any(n < 0 or not 0 <= bin_ <= self.bins or seen < 0 for (bin_, seen), n in self.counts.items()):
            raise ValueError(f"a bin lies outside 0 to {self.bins}, or a count is negative")

    @property
    def labels(self) -> int:
        """Labels that count: those whose own bin was seen whole."""
        return sum(n for (bin_, seen), n in self.counts.items() if bin_ < seen)

    @property
    def unripe(self) -> int:
        """Labels that came just before their row's horizon and are left out, because their bin is only part seen."""
        return sum(n for (bin_, seen), n in self.counts.items() if bin_ >= seen)


@dataclass(frozen=True)
class Estimate:
    """A share with its 95 % interval. `weight` is the sample size that a plain proportion would need for it."""

    share: float
    weight: float

    @property
    def low(self) -> float:
        return _wilson(self.share, self.weight)[0]

    @property
    def high(self) -> float:
        return _wilson(self.share, self.weight)[1]

    def times(self, other: Estimate) -> Estimate:
        """Both of two independent things, by the delta method."""
        share = self.share * other.share
        spread = self.share**2 * other._variance + other.share**2 * self._variance
        least = min(self.weight, other.weight)
        return Estimate(share, share * (1 - share) / spread if spread > 0 else least)

    @property
    def _variance(self) -> float:
        return self.share * (1 - self.share) / self.weight if self.weight else 0.0


@dataclass(frozen=True)
class Curve:
    """The share of labels that come within each delay; 1 at the widest by definition."""

    step: timedelta
    points: tuple[Estimate, ...]
    """The share at or below `step * i`."""
    labels: int

    @property
    def widest(self) -> timedelta:
        """The longest delay that can be judged."""
        return self.step * (len(self.points) - 1)

    def at(self, within: timedelta) -> Estimate:
        """The share within a delay: that of the grid point at or before it; everything from the widest on."""
        return self.points[max(0, min(within // self.step, len(self.points) - 1))]

    @cached_property
    def filled(self) -> tuple[tuple[int, float], ...]:
        """Bins that hold labels, with their share; the shares add up to 1."""
        shares = [0.0, *(point.share for point in self.points)]
        return tuple((i, b - a) for i, (a, b) in enumerate(pairwise(shares)) if b > a)

    @property
    def tail(self) -> float:
        """The share that comes in the last quarter of what can be judged: where it is large, more lies beyond."""
        return 1 - self.at(self.widest * 3 / 4).share

    def quantile(self, share: float) -> timedelta:
        """The least grid delay within which at least this share comes."""
        return self.step * next(i for i, p in enumerate(self.points) if p.share >= share)


def estimate(delays: Delays, least: int = LEAST) -> Curve:
    """The distribution of delays, cleared of truncation.

    Raises:
        CannotBeKnown: fewer than `least` labels could have come as late as even the second bin.
    """
    came, able = _risk_sets(delays)
    judged = [i for i in range(delays.bins + 1) if able[i] >= least]
    last = max(judged, default=0)
    if last < 1:
        raise CannotBeKnown(
            f"{delays.labels} labels are old enough to be counted, and at least {least} are needed; "
            "take a longer or an older range"
        )
    points = [Estimate(1.0, float("inf"))]
    share, spread, weakest = 1.0, 0.0, float("inf")
    for i in range(last, 0, -1):  # the product limit runs from the longest delay to the shortest
        weakest = min(weakest, able[i])
        if able[i] == came[i]:
            share = 0.0
        elif share:
            share *= 1 - came[i] / able[i]
            spread += came[i] / (able[i] * (able[i] - came[i]))
        weight = (1 - share) / (share * spread) if share and spread else weakest
        points.append(Estimate(share, weight))
    return Curve(delays.step, tuple(reversed(points)), delays.labels)


def _risk_sets(delays: Delays) -> tuple[list[int], list[int]]:
    """Of each bin: labels that came in it, and labels that came in it or earlier and could have come in it."""
    size = delays.bins + 1
    came = [0] * size
    enters, leaves = [0] * (size + 1), [0] * (size + 1)
    for (bin_, seen), n in delays.counts.items():
        if bin_ < seen:
            came[bin_] += n
            enters[bin_] += n
            leaves[min(seen, size)] += n
    able = list(accumulate(a - b for a, b in zip(enters, leaves, strict=True)))
    return came, able[:size]


def _wilson(share: float, weight: float) -> tuple[float, float]:
    if weight == float("inf"):
        return share, share
    if weight <= 0:
        return 0.0, 1.0
    middle = share + Z * Z / (2 * weight)
    half = Z * sqrt(share * (1 - share) / weight + Z * Z / (4 * weight * weight))
    scale = 1 + Z * Z / weight
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
