"""The slice of a key's labels inside a window, compared with looking at each label."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from windrow.io.delta.session import frame_of
from windrow.transforms.join import cut

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 1, tzinfo=UTC)


def _cases() -> list[tuple[int, list[int] | None, int, int]]:
    """Number, ascending times with repeats, a window: every size up to 20, powers of two and their neighbours."""
    draws = random.Random(7)
    sizes = [*range(20), 31, 32, 33, 63, 64, 65, 127, 128, 200]
    cases: list[tuple[list[int] | None, int, int]] = [(None, 0, 10)]
    for size in sizes:
        for _ in range(12):
            times = sorted(draws.randrange(2 * size + 2) for _ in range(size))
            lo, hi = sorted(draws.choices(range(-1, 2 * size + 4), k=2))
            cases.append((times, lo, hi))
        times = [5] * size
        cases += [(times, 5, 5), (times, 4, 6), (times, 6, 7), (times, 3, 4)]
    return [(number, *case) for number, case in enumerate(cases)]


def test_a_window_holds_what_looking_at_each_label_finds(spark: Any) -> None:
    at = [START + timedelta(microseconds=n) for n in range(-1, 500)]
    cases = _cases()
    rows = [(n, t and [at[x + 1] for x in t], t is not None, at[lo + 1], at[hi + 1]) for n, t, lo, hi in cases]
    table = frame_of(spark, rows, "n int, t array<timestamp>, there boolean, lo timestamp, hi timestamp")
    times = F.when(F.col("there"), F.coalesce("t", F.array().cast("array<timestamp>")))
    # each element remembers its place, so that one of equal times cannot stand for another
    group = F.transform(times, lambda time, place: F.struct(time.alias("time"), place.alias("place")))
    held = cut(group, times, F.col("lo"), F.col("hi"))
    found = {row["n"]: row["held"] for row in table.select("n", held["place"].alias("held")).collect()}
    expected = {
        n: None if t is None else list(range(bisect_left(t, lo), bisect_right(t, hi))) for n, t, lo, hi in cases
    }
    assert found == expected
    assert sum(0 < len(expected[n] or []) < len(t or []) for n, t, _, _ in cases) > 100
