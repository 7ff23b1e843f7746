"""Measures from counts that are written by hand, without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from support.generated import PIPELINE, START
from windrow.config import parse
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan
from windrow.transforms.numbers import measure_rows

FILE = parse(PIPELINE, "generated.yaml")
FIRST, SECOND = (
    Plan("generated", "run", Interval(START + n * FILE.interval, START + (n + 1) * FILE.interval), {}, "hash")
    for n in (0, 1)
)


def measures(counts: dict[str, Any], nulls: dict[str, dict[str, int]]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {FIRST.id: {}, SECOND.id: {}}
    for row in measure_rows(FILE, (FIRST, SECOND), counts, nulls, {"landing_read": 9}):
        found[row["plan"]][row["name"]] = row["value"]
    return found


def test_measures_are_rates_and_balances_of_the_counts_of_their_own_interval() -> None:
    start = FIRST.interval.start
    counts = {
        "rows": {FIRST.id: {"rows": 4, "positive": 1, "negative": 2, "unknown": 1, "unknown.forced": 1}},
        "repeated": {FIRST.id: {"duplicate_row_ids": 2}},
        "left": {start: {"left_landed": 6, "left_duplicate": 1, "left_filtered": 3}},
        "right.clicks": {start: {"read": 5, "matched": 2, "unmatched": 1, "duplicate": 1, "filtered": 1}},
        "conflict.clicks": {start: {"conflict": 7}},
    }
    found = measures(counts, {FIRST.id: {"score": 1}})
    first, second = found[FIRST.id], found[SECOND.id]
    wanted = {
        "rows": 4, "unknown.forced": 1, "label_rate": 1 / 3, "unknown_rate": 1 / 4, "null_rate.score": 1 / 4,
        "null_rate_max": 1 / 4, "duplicate_row_ids": 2, "left_landed": 6, "left_filtered": 3, "left_imbalance": 1,
        "clicks.imbalance": 0, "clicks.conflict": 7, "left_conflict": 0, "landing_read": 9,
    }  # fmt: skip
    assert {name: first[name] for name in wanted} == wanted
    nothing = {
        "rows": 0, "label_rate": None, "null_rate_max": None, "left_imbalance": 0, "clicks.read": 0,
        "clicks.conflict": 0, "landing_read": 9,
    }  # fmt: skip
    assert {name: second[name] for name in nothing} == nothing
    assert FIRST.interval.length == timedelta(minutes=5)
