"""Measures from counts that are written by hand, without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.generated import PIPELINE, START
from windrow.config import parse
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan
from windrow.transforms import numbers
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
        "duplicates": {start: {"left_duplicate": 1}},
        "volume.served": {start: {"partitions": {"t.served/0": (5, 4), "t.served/3": (4, 2)}}},
        "volume.clicks": {start: {"partitions": {"t.engagements/0": (30, 20)}}},
        "unread": {start: {"topics": {"t.served": 1}}},
        "right.clicks": {start: {"read": 5, "matched": 2, "unmatched": 1, "duplicate": 1, "filtered": 1}},
        "conflict.clicks": {start: {"conflict": 7}},
    }
    found = measures(counts, {FIRST.id: {"score": 1}})
    first, second = found[FIRST.id], found[SECOND.id]
    wanted = {
        "rows": 4, "unknown.forced": 1, "label_rate": 1 / 3, "unknown_rate": 1 / 4, "null_rate.score": 1 / 4,
        "null_rate_max": 1 / 4, "duplicate_row_ids": 2, "left_landed": 6, "left_filtered": 3, "left_imbalance": 1,
        "clicks.imbalance": 0, "clicks.conflict": 7, "left_conflict": 0, "landing_read": 9,
        "volume.served": 6, "volume.t.served/0": 5, "volume.t.served/3": 4,
        "records.t.served": 10, "quarantined.t.served": 1, "quarantine_rate.t.served": 0.1,
        "volume.clicks": 20, "volume.t.engagements/0": 30,
        "records.t.engagements": 30, "quarantined.t.engagements": 0, "quarantine_rate.t.engagements": 0,
    }  # fmt: skip
    assert {name: first[name] for name in wanted} == wanted
    nothing = {
        "rows": 0, "label_rate": None, "null_rate_max": None, "left_imbalance": 0, "clicks.read": 0,
        "clicks.conflict": 0, "landing_read": 9,
        "volume.served": 0, "volume.clicks": 0, "records.t.served": 0, "quarantine_rate.t.served": None,
    }  # fmt: skip
    assert not [name for name in second if name.startswith("volume.") and "/" in name]
    assert {name: second[name] for name in nothing} == nothing
    assert FIRST.interval.length == timedelta(minutes=5)


def test_streams_that_share_a_topic_have_volumes_of_their_own_and_the_widest_counts_for_the_topic() -> None:
    text = PIPELINE.replace("topic: t.served", "topic: [t.served, t.engagements]").replace("engaged_at", "served_at")
    shared = parse(text.replace("out_of_orderness: 1m", "out_of_orderness: 20s"), "generated.yaml")
    start = FIRST.interval.start
    counts = {
        "rows": {},
        "repeated": {},
        "volume.served": {
            start: {"partitions": {"t.served/0": (7, 7), "t.engagements/0": (50, 3), "t.engagements/1": (2, 2)}}
        },
        "volume.clicks": {start: {"partitions": {"t.engagements/0": (48, 20)}}},
        "unread": {start: {"topics": {"t.engagements": 5}}},
    }  # fmt: skip
    found = {row["name"]: row["value"] for row in measure_rows(shared, (FIRST,), counts, {}, {})}
    wanted = {
        "volume.served.t.served": 7, "volume.served.t.engagements": 5, "volume.clicks": 20, "left_landed": 12,
        "volume.t.served/0": 7, "volume.t.engagements/0": 50, "volume.t.engagements/1": 2,
        "records.t.engagements": 57, "quarantined.t.engagements": 5,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert "volume.served" not in found


def test_a_topic_of_very_many_partitions_is_counted_as_a_whole_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "PARTITIONS", 3)
    for many in (3, 4):
        partitions = {f"t.served/{n}": (2, 1) for n in range(many)}
        counts = {"rows": {}, "repeated": {}, "volume.served": {FIRST.interval.start: {"partitions": partitions}}}
        found = measures(counts, {})[FIRST.id]
        assert found["volume.served"] == many
        assert found["records.t.served"] == 2 * many
        assert sum("/" in name for name in found) == (many if many == 3 else 0)
