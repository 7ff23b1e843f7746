"""How far the distribution of a column has moved: two histograms compared, as pure functions.

A histogram counts rows by bucket, and its buckets never change, so that histograms of intervals add up:

    … -2  -1  0  1  2 …     numbers: 0, and beyond it 8 buckets each time that the size doubles (`bucket_of`)
    0 … 63                  categories: the remainder of a hash; no value is kept
    NULL                    rows without a value

PSI is the population stability index: the sum over groups of (p - q) ln(p / q). KS is the greatest distance of two
distribution functions (Kolmogorov and Smirnov). Of both, what chance alone explains is taken off: of PSI its mean
where nothing has moved, (groups - 1) (1/n + 1/m) (B. Yurdakul, Statistical Properties of the Population Stability
Index, 2018); of KS the distance that it passes once in a million times (Smirnov's bound).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import floor, isnan, log, log2, sqrt
from typing import Literal, NamedTuple

Histogram = Mapping[int, int]
"""Bucket → rows."""
Kind = Literal["number", "category"]

NULL = -(2**31)
"""Bucket of rows without a value."""
NAN = 2**31 - 1
"""Bucket of what is no number."""
PER_DOUBLING = 8
"""Buckets of numbers each time that their size doubles: a bucket is 9 % wide."""
SHIFT = 9_000
"""Added to the buckets of numbers beyond 0, so that the least of them is above 0."""
FARTHEST = 2 * SHIFT
CATEGORIES = 64
"""Buckets of a column of categories."""
GROUPS = 10
"""Groups of about equal size in which the reference is compared."""
LEAST_ROWS = 200
"""Rows that an interval and its reference need."""
LEAST_INTERVALS = 3
"""Intervals that a reference needs."""
RARELY = 1e-6
"""How often chance alone passes the bound that is taken off KS."""


class Drift(NamedTuple):
    """How far a column has moved, beyond chance; None where it is not known."""

    psi: float | None = None
    ks: float | None = None
    """None for categories: they have no order"""


def bucket_of(value: float) -> int:
    """Bucket of a number.

    >>> [bucket_of(x) - bucket_of(1.0) for x in (1.0, 1.08, 1.1, 2.0, 0.5)]
    [0, 0, 1, 8, -8]
    >>> bucket_of(0.0), bucket_of(-1.0) == -bucket_of(1.0), bucket_of(float("nan")) == NAN
    (0, True, True)
    """
    if isnan(value):
        return NAN
    if value == 0:
        return 0
    size = abs(value)
    steps = FARTHEST if size == float("inf") else min(FARTHEST, floor(PER_DOUBLING * log2(size)) + SHIFT)
    return steps if value > 0 else -steps


def added(histograms: Iterable[Histogram]) -> dict[int, int]:
    """Return the histogram of all rows.

    >>> added([{1: 2}, {1: 1, NULL: 4}]) == {1: 3, NULL: 4}
    True
    """
    total: Counter[int] = Counter()
    for one in histograms:
        total.update(one)
    return dict(total)


def drift(references: Sequence[Sequence[Histogram]], now: Histogram, kind: Kind) -> Drift:
    """Return how far a column has moved from the nearest of several references; without one it is not known.

    Args:
        references: each the histograms of several intervals.
        now: of the interval.
    """
    known = [_drift(added(one), now, kind) for one in references if len(one) >= LEAST_INTERVALS]
    return min((one for one in known if one.psi is not None), key=lambda one: one.psi or 0.0, default=Drift())


def from_one(reference: Histogram, now: Histogram, kind: Kind) -> Drift:
    """Return how far a column has moved from one interval that a person has chosen."""
    return _drift(reference, now, kind)


def _drift(reference: Histogram, now: Histogram, kind: Kind) -> Drift:
    if min(sum(reference.values()), sum(now.values())) < LEAST_ROWS:
        return Drift()
    return Drift(psi(reference, now, kind), ks(reference, now) if kind == "number" else None)


def psi(reference: Histogram, now: Histogram, kind: Kind) -> float:
    """Return the population stability index beyond chance; 0 where nothing has moved.

    >>> even = {bucket: 1_000 for bucket in range(10)}
    >>> psi(even, even, "category"), round(psi(even, {**even, 0: 6_000}, "category"), 2)
    (0.0, 0.54)
    """
    groups = _ordered_groups(reference) if kind == "number" else _category_groups(reference)
    p, q = (_by_group(histogram, groups, kind) for histogram in (reference, now))
    names = sorted(p.keys() | q.keys())
    n, m = (sum(counts.values()) for counts in (p, q))
    total = 0.0
    for name in names:
        # half a row is added to each group, so that an empty one has a logarithm
        share, share_now = ((counts[name] + 0.5) / (sum_ + 0.5 * len(names)) for counts, sum_ in ((p, n), (q, m)))
        total += (share_now - share) * log(share_now / share)
    return max(0.0, total - (len(names) - 1) * (1 / n + 1 / m))


def ks(reference: Histogram, now: Histogram) -> float | None:
    """Return the greatest distance of two distribution functions beyond chance; None without numbers on both sides.

    Distances within a bucket are not seen, so it is a lower bound.

    >>> low, high = {1: 1_000}, {9: 1_000}
    >>> ks(low, low), round(ks(low, high), 2), ks(low, {NULL: 5})
    (0.0, 0.88, None)
    """
    p, q = (_numbers(histogram) for histogram in (reference, now))
    n, m = sum(p.values()), sum(q.values())
    if not n or not m:
        return None
    buckets = sorted(p.keys() | q.keys())
    below, below_now = (list(accumulate(counts[bucket] for bucket in buckets)) for counts in (p, q))
    distance = max(abs(a / n - b / m) for a, b in zip(below, below_now, strict=True))
    return max(0.0, distance - sqrt(log(2 / RARELY) / 2 * (1 / n + 1 / m)))


def _numbers(histogram: Histogram) -> Counter[int]:
    return Counter({bucket: rows for bucket, rows in histogram.items() if bucket not in (NULL, NAN)})


def _ordered_groups(reference: Histogram) -> list[int]:
    """Greatest bucket of each group: neighbouring buckets until a group holds its share of the numbers."""
    counts = _numbers(reference)
    wanted, ends, held = sum(counts.values()) / GROUPS, [], 0
    for bucket in sorted(counts):
        held += counts[bucket]
        if held >= wanted:
            ends.append(bucket)
            held = 0
    return ends


def _category_groups(reference: Histogram) -> list[int]:
    """Buckets with at least one row in a hundred; the others are one group."""
    least = sum(reference.values()) / 100
    return sorted(bucket for bucket, rows in reference.items() if rows >= least and bucket not in (NULL, NAN))


def _by_group(histogram: Histogram, groups: Sequence[int], kind: Kind) -> Counter[int]:
    """Rows by group; what is in no group is one, and so are NULL and NAN."""
    known, others = set(groups), NAN - 1

    def group_of(bucket: int) -> int:
        if bucket in (NULL, NAN) or (kind == "category" and bucket in known):
            return bucket
        if kind == "category" or not groups:
            return others
        place = bisect_left(groups, bucket)
        return groups[place] if place < len(groups) else others

    counts: Counter[int] = Counter()
    for bucket, rows in histogram.items():
        counts[group_of(bucket)] += rows
    return counts
