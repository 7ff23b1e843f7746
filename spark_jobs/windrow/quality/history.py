"""The label rate of an interval compared with the intervals published before it: a distance in standard deviations.

Only rows whose list of labels is known to be complete count, in this interval and in the earlier ones: positives of a
silent or forced stretch come without negatives, and a rate over them would be 1. Earlier intervals count by
their rows.

    spread²  variance of the earlier rates beyond chance, over intervals with at least a tenth of the usual rows:
             how much this pipeline's rate moves
    count    of the rarer class (positives, as a rule) among n rows: Poisson, with a mean that itself moves by `spread`
    z        its exact distance from the mean (`tails`): negative below the history, positive above

An exact tail holds for small counts too: where 15 clicks are expected, none at all is z = -4.8 after a steady day.
A short history is assumed to be a restless one: a standard deviation of `PRIOR_SPREAD` times the rate is mixed in with
the weight of `PRIOR_WEIGHT` intervals, and |z| stays below `SHORT_MOST`. Power and false alarms are measured by
`benchmarks/gates.py`.

Sources: spread beyond chance by moments, DerSimonian and Laird 1986 (Control. Clin. Trials 7); effective number of
unequal parts, Kish 1965.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

from windrow.quality.tails import distance

ENOUGH = 3
"""Earlier intervals that make a history; also overridden ones in a row that make a new level."""
PRIOR_SPREAD = 0.3
"""Assumed standard deviation of the rates of a pipeline without history, as a share of the rate."""
PRIOR_WEIGHT = 3
"""Number of intervals that this assumption counts as."""
SHORT, SHORT_MOST = 6, 7.5
"""With fewer earlier intervals than the first number, |z| is at most the second: it warns and does not block."""


class Earlier(NamedTuple):
    """An earlier publication, as far as it is history: rows with a complete list of labels."""

    positive: int
    negative: int
    overridden: bool = False
    """whether a person published it although it was blocked"""

    @classmethod
    def of(cls, publication: Mapping[str, Any], complete: float | None) -> Earlier:
        """Return a publication as history.

        Args:
            publication: its register row.
            complete: its measure `positive_complete`; None where it was measured before these were counted. Then its
                positives count if the label of every row is known.
        """
        if complete is None:
            is_known = publication["negative"] and not publication["unknown"]
            complete = publication["positive"] if is_known else 0
        return cls(int(complete), publication["negative"], publication["verdict"] == "overridden")


class LabelRateHistory(NamedTuple):
    """Mean label rate of the earlier intervals (pooled over rows), and this one's distance in standard deviations."""

    mean: float | None
    z: float | None


def label_rate_history(earlier: Sequence[Earlier], positive: int, negative: int) -> LabelRateHistory:
    """Compare an interval's counts with those of earlier publications.

    z is None without `ENOUGH` earlier intervals, or without a row in this one.

    Args:
        earlier: publications of the same config, oldest first: the label rate under another window is not comparable.
        positive: rows with a label and a complete list.
        negative: rows known to have none.

    >>> label_rate_history([Earlier(10, 990)] * 3, 10, 990)
    LabelRateHistory(mean=0.01, z=0.0)
    >>> label_rate_history([Earlier(10, 990)] * 2, 10, 990)
    LabelRateHistory(mean=None, z=None)
    """
    decided = sorted((p, p + n) for p, n, _ in trusted(earlier) if p + n > 0)
    if len(decided) < ENOUGH:
        return LabelRateHistory(None, None)
    mean = sum(p for p, _ in decided) / sum(n for _, n in decided)
    rows = positive + negative
    if not rows:
        return LabelRateHistory(mean, None)
    if mean <= 0.5:
        z = _distance(decided, positive, rows)
    else:
        z = -_distance([(n - p, n) for p, n in decided], negative, rows)
    most = SHORT_MOST if len(decided) < SHORT else float("inf")
    return LabelRateHistory(mean, max(-most, min(most, z)))


class _Decided(Protocol):
    @property
    def overridden(self) -> bool:
        """Whether a person published it although it was blocked."""


_One = TypeVar("_One", bound=_Decided)


def trusted(earlier: Sequence[_One]) -> Sequence[_One]:
    """Return the intervals that are history: without the overridden ones, or from the newest new level on.

    What a person overrode was not like its history, so it is not history for others, until several in a row say that
    the level has changed for good.

    Args:
        earlier: oldest first.
    """
    level = next((n for n, one in enumerate(reversed(earlier)) if not one.overridden), len(earlier))
    return earlier[-level:] if level >= ENOUGH else [one for one in earlier if not one.overridden]


def _distance(decided: Sequence[tuple[int, int]], count: int, rows: int) -> float:
    """Return z of a count of the rarer class.

    Args:
        decided: (count, rows) of each earlier interval.
        count: of this interval, among `rows`.
    """
    total = sum(n for _, n in decided)
    # never quite 0: no history proves "never"
    rate = (sum(p for p, _ in decided) + 1) / (total + 2)
    usual = median(n for _, n in decided)
    moved, parts = _spread([(p, n) for p, n in decided if 10 * n >= usual], rate)
    relative = moved * (1 + 1 / parts) + (1 - rate) / (rate * total)
    return distance(count, rows * rate, relative)


def _spread(decided: Sequence[tuple[int, int]], rate: float) -> tuple[float, float]:
    """Return the variance of the earlier rates beyond chance, and the effective number of intervals that it rests on.

    The variance is relative to the squared rate, and has the prior mixed in.
    """
    total = sum(n for _, n in decided)
    parts = total**2 / sum(n * n for _, n in decided)
    squares = parts * sum(n / total * (p / n - rate) ** 2 for p, n in decided)
    chance = parts * rate * (1 - rate) * (len(decided) - 1) / total
    beyond = max(0.0, squares - chance) / rate**2
    return (beyond + PRIOR_WEIGHT * PRIOR_SPREAD**2) / (parts - 1 + PRIOR_WEIGHT), parts
