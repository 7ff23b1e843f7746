"""Plans keep their id through every text, and a balance that is off by one is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from support.scenario import START, at
from windrow.semantics.balance import Balance, BalanceBroken, LeftBalance, RightBalance, landing_measures
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intact import offset_faults, pin_faults, row_faults
from windrow.semantics.intervals import Interval
from windrow.semantics.landing.batch import Batch, Reconsidered
from windrow.semantics.landing.undelivered import Account, Committed
from windrow.semantics.plan import Plan

PLAN = Plan(
    pipeline="feed",
    run="scheduled__1/clear-0",
    interval=Interval(at(0), at(600)),
    pins={"t.served": 7, "t.engagements": 9},
    config_hash="c0ffee",
    watermark=(
        PartitionClock("t.served", 0, 1, 5, 9, at(700.000001), at(690)),
        PartitionClock("t.engagements", 0, 0, 0, 0, None, None),
    ),
    supersedes=3,
)


def test_a_plan_survives_its_text_with_the_same_id() -> None:
    again = Plan.from_json(PLAN.to_json())
    assert again == PLAN
    assert (again.id, hash(again)) == (PLAN.id, hash(PLAN))
    assert Plan.from_json(json.dumps(json.loads(PLAN.to_json()), indent=2)).id == PLAN.id


def test_a_plans_id_is_of_its_values_and_not_of_their_spelling() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    same = replace(
        PLAN,
        pins={"t.engagements": 9, "t.served": 7},
        watermark=tuple(reversed(PLAN.watermark)),
        interval=Interval(START.astimezone(berlin), at(600).astimezone(berlin)),
    )
    assert same.id == PLAN.id
    assert len(PLAN.id) == 16


@pytest.mark.parametrize(
    "change",
    [
        {"run": "scheduled__1/clear-1"},
        {"pins": {"t.served": 8, "t.engagements": 9}},
        {"interval": Interval(at(600), at(1200))},
        {"config_hash": "decaf"},
        {"watermark": ()},
        {"drained": True},
        {"supersedes": None},
        {"pipeline": "food"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_plan_that_differs_in_anything_has_another_id(change: dict) -> None:
    assert replace(PLAN, **change).id != PLAN.id


GOOD = Balance(
    LeftBalance(landed=10, emitted=7, duplicate=2, unpaired=1),
    {"clicks": RightBalance(read=10, matched=4, unmatched=3, duplicate=2, filtered=1)},
)


def test_a_balance_that_holds_passes_and_states_its_measures() -> None:
    GOOD.check()
    measures = GOOD.measures()
    assert (measures["rows"], measures["clicks.read"], measures["right_imbalance"]) == (7, 10, 0)
    assert Balance.from_measures(measures, ["clicks"]) == GOOD
    assert json.loads(GOOD.to_json()) == measures


@pytest.mark.parametrize("count", ["landed", "emitted", "duplicate", "unpaired"])
@pytest.mark.parametrize("off", [-1, 1])
def test_a_left_count_that_is_off_by_one_is_refused(count: str, off: int) -> None:
    broken = replace(GOOD, left=replace(GOOD.left, **{count: getattr(GOOD.left, count) + off}))
    with pytest.raises(BalanceBroken, match="left: landed"):
        broken.check()


@pytest.mark.parametrize("count", ["read", "matched", "unmatched", "duplicate", "filtered"])
@pytest.mark.parametrize("off", [-1, 1])
def test_a_right_count_that_is_off_by_one_is_refused(count: str, off: int) -> None:
    side = GOOD.right["clicks"]
    broken = replace(GOOD, right={"clicks": replace(side, **{count: getattr(side, count) + off})})
    assert broken.measures()["right_imbalance"] == 1
    with pytest.raises(BalanceBroken, match="clicks: read"):
        broken.check()


def test_a_negative_count_is_refused_even_where_the_sum_is_right() -> None:
    with pytest.raises(BalanceBroken, match="negative count in left"):
        Balance(LeftBalance(landed=1, emitted=2, duplicate=-1)).check()


def test_a_measure_that_is_absent_or_no_whole_number_breaks_the_balance() -> None:
    for value in (None, 0.5):
        with pytest.raises(BalanceBroken, match=r"clicks\.matched"):
            Balance.from_measures({**GOOD.measures(), "clicks.matched": value}, ["clicks"])


def test_a_landing_must_account_for_every_offset() -> None:
    counts = {"read": 11, "landed": 7, "quarantined": 2, "skipped": 1, "unexplained": 1}
    assert landing_measures([counts, counts])["landing_imbalance"] == 0
    for part in ("landed", "quarantined", "skipped", "unexplained"):
        assert landing_measures([counts, {**counts, part: counts[part] - 1}])["landing_imbalance"] == 1
    doubled = landing_measures([counts, {**counts, "landed": 8}])
    assert (doubled["landing_imbalance"], doubled["landing_duplicate_row_ids"]) == (1, 1)
    both = landing_measures([{**counts, "landed": 8}, {**counts, "landed": 6}])
    assert (both["landing_imbalance"], both["landing_duplicate_row_ids"]) == (2, 1)  # one does not hide the other
    assert doubled["landing_quarantine_rate"] == 4 / 19
    assert landing_measures([])["landing_quarantine_rate"] is None


def batch_of(number: int, *ranges: tuple[int, int], again: bool = False) -> Batch:
    offsets = {partition: (start, until, until) for partition, (start, until) in enumerate(ranges)}
    decided = Reconsidered("ann", "mended") if again else None
    return Batch("t", "id", 0, number, at(0), offsets, reconsidered=decided)


def clock_of(**counts: int) -> dict[str, Any]:
    return {**dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained"), 0), **counts}


COMMITTED = [
    Committed(batch_of(4, (9, 9), again=True), 3, None),  # rows of earlier offsets
    Committed(batch_of(3, (6, 9)), 1, None),  # by an earlier version: what was not delivered was skipped
    Committed(batch_of(2, (4, 6)), 0, Account(2, {0: 1}, {0: 1})),
]
LATER = clock_of(read=9, landed=5, skipped=3, unexplained=1)
BEFORE = clock_of(read=4, landed=4)


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        ({}, []),
        ({"skipped": 4}, ["do not add up by 1", "4 offsets of t as skipped, its landing commits 3"]),
        ({"read": 10, "skipped": 4}, ["10 offsets of t as read, its landing commits 9", "4 offsets of t as skipped"]),
        ({"skipped": 4, "unexplained": 0}, ["as skipped", "0 offsets of t as unexplained, its landing commits 1"]),
        ({"landed": 6, "skipped": 2}, ["2 offsets of t as skipped"]),
    ],
)
def test_what_the_clock_counts_is_what_the_landing_commits_say(forged: dict[str, int], words: list[str]) -> None:
    faults = offset_faults("t", [{**LATER, **forged}], COMMITTED, [BEFORE])
    assert len(faults) == len(words)
    assert all(word in fault for word, fault in zip(words, faults, strict=True))


def test_rows_of_a_landing_table_are_those_that_were_landed_less_those_that_were_erased_on_record() -> None:
    clock = [clock_of(landed=5, quarantined=1), clock_of(landed=2)]
    assert row_faults("t", clock, 8) == []
    assert row_faults("t", clock, 7, erased={1: 1}) == []
    assert row_faults("t", clock, 7) == ["the landing table of t holds 7 rows, and 8 were landed"]
    assert row_faults("t", clock, 9) == ["the landing table of t holds 9 rows, and 8 were landed"]


def test_a_clock_behind_a_plan_is_named() -> None:
    plan = replace(PLAN, pins={"t": 3, "u": 1, "left the pipeline": 9})
    assert pin_faults({"t": 3, "u": 2}, [plan.pins]) == []
    assert pin_faults({"t": 2, "u": 1}, [plan.pins]) == ["the clock of t is at batch 2, and a plan was made at batch 3"]
