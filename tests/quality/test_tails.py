"""Exact tails against sums over every count, which nothing but the definition is in."""

from __future__ import annotations

from math import comb, exp, lgamma, log
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.quality.tails import DOUBT, distance, least_share


def mixed(count: int, expected: float, variance: float) -> float:
    """Probability of a count: Poisson with a gamma mean."""
    size = 1 / variance
    ways = lgamma(count + size) - lgamma(size) - lgamma(count + 1)
    return exp(ways + size * log(size / (size + expected)) + count * log(expected / (size + expected)))


@given(st.integers(0, 60), st.floats(0.5, 60), st.floats(0.01, 2))
@settings(deadline=None)
def test_a_distance_is_the_normal_quantile_of_the_tail(count: int, expected: float, variance: float) -> None:
    found = distance(count, expected, variance)
    if count < expected:
        tail = sum(mixed(one, expected, variance) for one in range(count + 1))
        wanted = min(0.0, NormalDist().inv_cdf(min(tail, 0.5)))
    else:
        tail = sum(mixed(one, expected, variance) for one in range(count, count + 4000))
        wanted = max(0.0, -NormalDist().inv_cdf(min(tail, 0.5)))
    assert found == pytest.approx(wanted, abs=1e-3)


def test_a_count_that_cannot_be_has_a_distance_all_the_same() -> None:
    assert distance(0, 1e9, 1e-6) < -30
    assert distance(10**9, 1, 1e-6) > 30


@given(st.integers(1, 300), st.data())
def test_a_least_share_leaves_just_the_doubt_that_it_is_less(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(1, whole))
    share = least_share(part, whole)
    assert share is not None
    assert 0 < share < part / whole
    at_least = sum(comb(whole, n) * share**n * (1 - share) ** (whole - n) for n in range(part, whole + 1))
    assert at_least == pytest.approx(DOUBT, rel=1e-6)


def test_nothing_of_something_is_no_share_and_nothing_of_nothing_has_none() -> None:
    assert least_share(0, 10) == 0.0
    assert least_share(0, 0) is None
