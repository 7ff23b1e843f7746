"""The label rate of an interval compared with the intervals published before it.

    sigma² = variance of the earlier rates      how much this pipeline's rate moves from interval to interval
           + rate · (1 - rate) / n              how much it moves by chance with n rows
    z      = (this rate - earlier rate) / sigma

z is None if it cannot be judged: fewer than `ENOUGH` earlier intervals with a decided row, no decided row in this one,
or too few of them. A short history is assumed to be a restless one: a standard deviation of `PRIOR_SPREAD` times the
rate is mixed in with the weight of `PRIOR_WEIGHT` intervals. A label rate that falls to zero then has a z of about -4
after three intervals, and of about -10 after twenty-four steady ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

ENOUGH = 3
"""Earlier intervals that make a history."""
PRIOR_SPREAD = 0.3
"""Assumed standard deviation of the rates of a pipeline without history, as a share of the rate."""
PRIOR_WEIGHT = 3
"""Number of intervals that this assumption counts as."""
EXPECTED = 5
"""The usual condition for treating a count as roughly normal: at least this many positives and negatives."""


class LabelRateHistory(NamedTuple):
    """Mean label rate of the earlier intervals (pooled over rows), and this one's distance in standard deviations."""

    mean: float | None
    z: float | None


def label_rate_history(earlier: Sequence[tuple[int, int]], positive: int, negative: int) -> LabelRateHistory:
    """Compare an interval's counts with those of earlier publications.

    Args:
        earlier: (positive, negative) of each, in any order. They must have the same config: the label rate under
            another window is not comparable.
        positive: rows with a label.
        negative: rows known to have none.

    >>> label_rate_history([(10, 990)] * 3, 10, 990)
    LabelRateHistory(mean=0.01, z=0.0)
    >>> label_rate_history([(10, 990)] * 2, 10, 990)
    LabelRateHistory(mean=None, z=None)
    """
    decided = [(p, p + n) for p, n in earlier if p + n > 0]
    if len(decided) < ENOUGH:
        return LabelRateHistory(None, None)
    total = sum(n for _, n in decided)
    mean = sum(p for p, _ in decided) / total
    rows = positive + negative
    likely = (mean * total + 1) / (total + 2)  # never quite 0 or 1: no history proves "never"
    if max(positive, rows * likely) < EXPECTED or max(negative, rows * (1 - likely)) < EXPECTED:
        return LabelRateHistory(mean, None)
    variance = _variance([p / n for p, n in decided], likely)
    sigma = sqrt(variance + likely * (1 - likely) / rows)
    return LabelRateHistory(mean, (positive / rows - mean) / sigma)


def _variance(rates: Sequence[float], likely: float) -> float:
    middle = sum(rates) / len(rates)
    squares = sum((rate - middle) ** 2 for rate in rates)
    prior = (PRIOR_SPREAD * min(likely, 1 - likely)) ** 2
    return (squares + PRIOR_WEIGHT * prior) / (len(rates) - 1 + PRIOR_WEIGHT)
