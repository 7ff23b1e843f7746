"""How far a distribution has moved: nothing without rows, 0 by chance, and more the farther it moves."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from windrow.io.training.sampled import histogram
from windrow.semantics.drift import LEAST_ROWS, NULL, Drift, added, bucket_of, drift, from_one, ks, psi

STEADY = [dict.fromkeys(range(10), 100)] * 3


def test_without_enough_rows_or_intervals_nothing_is_said() -> None:
    now = {1: 1000}
    assert drift([STEADY[:2]], now, "number") == Drift()
    assert drift([], now, "number") == Drift()
    assert drift([STEADY], {1: LEAST_ROWS - 1}, "number") == Drift()
    assert drift([STEADY], {1: LEAST_ROWS}, "number").psi is not None
    assert from_one({1: LEAST_ROWS - 1}, now, "category") == Drift()


def test_the_nearest_reference_counts() -> None:
    night, now = [dict.fromkeys(range(50, 60), 100)] * 3, dict.fromkeys(range(50, 60), 100)
    assert drift([STEADY], now, "number").psi == pytest.approx(14, abs=1)
    assert drift([STEADY, night], now, "number") == Drift(0.0, 0.0)


def test_chance_alone_is_hardly_ever_a_drift() -> None:
    draw = random.Random(7)

    def interval() -> dict[int, int]:
        return added({bucket_of(draw.lognormvariate(1, 1)): 1} for _ in range(500))

    found = [drift([[interval() for _ in range(6)]], interval(), "number") for _ in range(100)]
    assert max(one.psi or 0 for one in found) < 0.1
    assert max(one.ks or 0 for one in found) == 0


def test_values_that_are_lost_and_a_constant_that_changes_are_seen() -> None:
    assert psi({1: 1000}, {1: 500, NULL: 500}, "category") > 1
    assert psi({1: 1000}, {1: 500, NULL: 500}, "number") > 1
    assert ks({5: 1000}, {4: 1000}) == pytest.approx(0.88, abs=0.01)  # the index of a constant sees no value below it


def test_columns_are_counted_in_the_buckets_of_their_values() -> None:
    draw = random.Random(3)
    values = [draw.choice((1, -1)) * draw.lognormvariate(0, 4) for _ in range(500)]
    values += [0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1.8e308]
    counted = histogram(pa.chunked_array([[*values, None]]), "number")
    assert counted == {**Counter(map(bucket_of, values)), NULL: 1}
