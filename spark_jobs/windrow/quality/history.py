"""The label rate of an interval against the intervals published before it. Pure.

    sigma² = spread of the earlier rates        how much this pipeline's rate moves anyway
           + rate · (1 - rate) / n              how much n rows move it by chance
    z      = (this rate - earlier rate) / sigma

It says nothing (None) where nothing can be said: fewer than `ENOUGH` earlier intervals with a decided row,
no decided row here, or too few of them to expect anything. A short history counts as a restless one: a
spread of `PRIOR_SPREAD` of the rate itself is mixed in with the weight of `PRIOR_WEIGHT` intervals. A label
rate that goes to zero is then about z = -4 after three intervals and about z = -10 after twenty-four steady
ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

ENOUGH = 3
PRIOR_SPREAD = 0.3
PRIOR_WEIGHT = 3
EXPECTED = 5
"""The usual condition for treating a count as roughly normal: at least this many of either kind."""


class LabelRateHistory(NamedTuple):
    """Mean label rate of the earlier intervals (pooled), and how far this one is from it."""

    mean: float | None
    z: float | None


def label_rate_history(earlier: Sequence[tuple[int, int]], positive: int, negative: int) -> LabelRateHistory:
    """Compare an interval's counts with (positive, negative) of earlier publications; order does not matter.

    Give it publications of one config only: under another window the label rate is another thing.

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
    here = positive + negative
    likely = (mean * total + 1) / (total + 2)  # never quite 0 or 1: no history proves "never"
    if max(positive, here * likely) < EXPECTED or max(negative, here * (1 - likely)) < EXPECTED:
        return LabelRateHistory(mean, None)
    spread = _spread([p / n for p, n in decided], likely)
    sigma = sqrt(spread + likely * (1 - likely) / here)
    return LabelRateHistory(mean, (positive / here - mean) / sigma)


def _spread(rates: Sequence[float], likely: float) -> float:
    middle = sum(rates) / len(rates)
    seen = sum((rate - middle) ** 2 for rate in rates)
    prior = (PRIOR_SPREAD * min(likely, 1 - likely)) ** 2
    return (seen + PRIOR_WEIGHT * prior) / (len(rates) - 1 + PRIOR_WEIGHT)
