"""Recall: the share of the labels that come within a given time, from data in which the youngest are still missing.

    row      observed until (the label topic's clock)
     |<------- horizon ------->|
    -+----x--------x-----------+----o------> time since the row was served
          labels that have landed   a label that has not landed yet, because its row is too young

A delay is only observed if it is shorter than its row's horizon: the sample is truncated on the right, and young rows
show short delays only. A plain histogram would therefore advise windows that are too short. The estimate is the
product limit (Kaplan & Meier, JASA 53, 1958) in reversed time (Lagakos, Barraj & De Gruttola, Biometrika 75, 1988; for
reporting delays Kalbfleisch & Lawless, JASA 84, 1989): of the labels that would have been observed at delay u, the
share that came at u and not earlier. Its variance has Greenwood's form. The intervals are Wilson's (JASA 22, 1927) at
the effective sample size (Dorey & Korn, Statistics in Medicine 6, 1987); unlike Greenwood's own they have a width even
where no label was missed.

Nothing is known about labels beyond the longest delay that can be judged: all shares are of the labels within it.
Assumed: the delay of a label does not depend on when its row was served, and labels are independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import accumulate, pairwise
from math import sqrt

Z = 1.959964
"""Quantile of the normal distribution for 95 % intervals."""

MIN_AT_RISK = 30
"""Labels that must have been observable at a delay before the delay is judged."""


class TooFewLabels(ValueError):
    """The data hold too few labels to answer; the message says what would help."""


@dataclass(frozen=True)
class DelayCounts:
    """Labels by delay. Bin 0 holds delays of zero and below, bin i those in `(step * (i - 1), step * i]`."""

    step: timedelta
    bins: int
    counts: Mapping[tuple[int, int], int]
    """(bin, horizon) → labels. The horizon is a number of bins: the bins below it were observed in full."""

    def __post_init__(self) -> None:
        if self.step <= timedelta(0) or self.bins < 1:
            raise ValueError(f"delays need a positive step and at least one bin, not {self.step} and {self.bins}")
        if any(n < 0 or not 0 <= bin_ <= self.bins or horizon < 0 for (bin_, horizon), n in self.counts.items()):
            raise ValueError(f"a bin lies outside 0 to {self.bins}, or a count is negative")

    @property
    def labels(self) -> int:
        """Labels that count: those whose own bin was observed in full."""
        return sum(n for (bin_, horizon), n in self.counts.items() if bin_ < horizon)


@dataclass(frozen=True)
class Estimate:
    """A share with its 95 % interval. `weight` is the sample size at which a plain proportion is as precise."""

    share: float
    weight: float

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return _wilson(self.share, self.weight)[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return _wilson(self.share, self.weight)[1]

    def times(self, other: Estimate) -> Estimate:
        """Share of two independent events together; its variance by the delta method.

        >>> Estimate(0.5, 100).times(Estimate(0.5, 100))
        Estimate(share=0.25, weight=150.0)
        """
        share = self.share * other.share
        variance = self.share**2 * other._variance + other.share**2 * self._variance
        least = min(self.weight, other.weight)
        return Estimate(share, share * (1 - share) / variance if variance > 0 else least)

    @property
    def _variance(self) -> float:
        return self.share * (1 - self.share) / self.weight if self.weight else 0.0


@dataclass(frozen=True)
class Curve:
    """The share of labels that come within each delay; 1 at the widest by definition."""

    step: timedelta
    points: tuple[Estimate, ...]
    """Point i is the share at or below `step * i`."""
    labels: int

    @property
    def widest(self) -> timedelta:
        """The longest delay that can be judged."""
        return self.step * (len(self.points) - 1)

    def at(self, within: timedelta) -> Estimate:
        """The share within a delay: the grid point at or before it; the last point from `widest` on."""
        return self.points[max(0, min(within // self.step, len(self.points) - 1))]

    @cached_property
    def bin_shares(self) -> tuple[tuple[int, float], ...]:
        """(bin, share) of the bins that hold labels; the shares add up to 1."""
        shares = [0.0, *(point.share for point in self.points)]
        return tuple((i, b - a) for i, (a, b) in enumerate(pairwise(shares)) if b > a)

    @property
    def tail(self) -> float:
        """The share in the last quarter of the range. Where it is large, more labels come beyond the range."""
        return 1 - self.at(self.widest * 3 / 4).share

    def quantile(self, share: float) -> timedelta:
        """The shortest delay of the grid within which at least this share comes."""
        return self.step * next(i for i, p in enumerate(self.points) if p.share >= share)


def estimate(delays: DelayCounts, min_at_risk: int = MIN_AT_RISK) -> Curve:
    """Estimate the distribution of delays, corrected for truncation.

    Three labels came in the first minute and two in the second; one of the three has a row that is too young to have
    a label in the second. A plain histogram would put 0.6 of the labels into the first minute:

    >>> minute = timedelta(minutes=1)
    >>> curve = estimate(DelayCounts(minute, 2, {(1, 2): 1, (1, 3): 2, (2, 3): 2}), min_at_risk=1)
    >>> [round(point.share, 2) for point in curve.points]
    [0.0, 0.5, 1.0]

    Raises:
        TooFewLabels: fewer than `min_at_risk` labels could have come as late as even the second bin.
    """
    came, at_risk = _risk_sets(delays)
    last = max((i for i in range(delays.bins + 1) if at_risk[i] >= min_at_risk), default=0)
    if last < 1:
        raise TooFewLabels(
            f"{delays.labels} labels are old enough to be counted, and at least {min_at_risk} are needed; "
            "take a longer or an older range"
        )
    points = [Estimate(1.0, float("inf"))]
    share, greenwood, smallest_set = 1.0, 0.0, float("inf")
    for i in range(last, 0, -1):  # in reversed time: the product limit starts at the longest delay
        smallest_set = min(smallest_set, at_risk[i])
        if at_risk[i] == came[i]:
            share = 0.0
        elif share:
            share *= 1 - came[i] / at_risk[i]
            greenwood += came[i] / (at_risk[i] * (at_risk[i] - came[i]))
        # The sample size at which a plain proportion has this variance. A share of 0 or 1 has a variance of zero; then
        # the smallest risk set so far says how much is known.
        weight = (1 - share) / (share * greenwood) if share and greenwood else smallest_set
        points.append(Estimate(share, weight))
    return Curve(delays.step, tuple(reversed(points)), delays.labels)


def _risk_sets(delays: DelayCounts) -> tuple[list[int], list[int]]:
    """For each bin: labels that came in it, and its risk set.

    In reversed time the risk set of bin i holds the labels that came in bin i or earlier and whose row was old enough
    to show a label in bin i. A label that came in bin b of a row with horizon h is thus in the sets b to h - 1: it is
    added at b, removed at h, and running sums give the sizes of all sets in one pass.
    """
    size = delays.bins + 1
    came = [0] * size
    enter, leave = [0] * (size + 1), [0] * (size + 1)
    for (bin_, horizon), n in delays.counts.items():
        if bin_ < horizon:  # a bin that was observed in part would count short delays only
            came[bin_] += n
            enter[bin_] += n
            leave[min(horizon, size)] += n
    at_risk = list(accumulate(a - b for a, b in zip(enter, leave, strict=True)))
    return came, at_risk[:size]


def _wilson(share: float, weight: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if weight == float("inf"):
        return share, share
    if weight <= 0:
        return 0.0, 1.0
    middle = share + Z * Z / (2 * weight)
    half = Z * sqrt(share * (1 - share) / weight + Z * Z / (4 * weight * weight))
    scale = 1 + Z * Z / weight
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
