"""Why a verdict is what it is, in one line that a person reads at three in the morning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windrow.quality.suites import suites_for
from windrow.quality.verdicts import Judgement, explain_failure
from windrow.quality.wording import failure

from .conftest import EXPECTATIONS

Measures = dict[str, float | None]
Judge = Callable[..., Judgement]

LINES = [
    ({"quarantine_least.feed.clicks": 0.014, "quarantine_rate.feed.clicks": 0.023},
     "warned: quarantine feed.clicks at least 1.4 % > 1 %"),
    ({"quarantine_least.feed.clicks": 0.9, "quarantine_rate.feed.clicks": 1.0},
     "blocked: quarantine feed.clicks at least 90 % > 50 %"),
    ({"null_rate_max": 1.0, "null_rate.position": 1.0}, "blocked: null rate of position 100 % ≥ 100 %"),
    ({"null_rate_max": 0.6, "null_rate.position": 0.6}, "warned: null rate of position 60 % > 50 %"),
    ({"unknown_rate": 0.2001}, "warned: unknown rate 20.01 % > 20 %"),
    ({"unknown_rate": 2815 / 2826}, "warned: unknown rate 99.6 % > 20 %"),
    ({"unknown_rate": 0.99996}, "warned: unknown rate 99.996 % > 20 %"),
    ({"unknown_rate": 1.0}, "warned: unknown rate 100 % > 20 %"),
    ({"left_key_null_rate": 0.06}, "warned: left key null rate 6 % > 5 %"),
    ({"label_rate_z": -9.34, "positive_complete": 0.0}, "blocked: label rate 0 %, usual 11 % (z -9.3 < -8)"),
    ({"label_rate_z": 4.5, "positive_complete": 222.0},
     "warned: label rate 20.1 %, usual 11 % (z 4.5 > 4)"),
    ({"volume_z.clicks": -5.21, "volume.clicks": 3.0}, "warned: volume clicks 3, usual 115 (z -5.2 < -4)"),
    ({"volume_z.clicks": 7.0, "volume.clicks": 3000.0}, "warned: volume clicks 3000, usual 115 (z 7.0 > 6)"),
    ({"partition_z.feed.clicks/3": -6.0, "partition_usual.feed.clicks/3": 41.25},
     "warned: partition feed.clicks/3 has no row, usual 41.25 (z -6.0 < -5)"),
    ({"first_empty.served": 1.0}, "warned: served has no row, for the first time"),
    ({"duplicate_row_ids": 2.0}, "blocked: duplicate_row_ids 2, not 0"),
    ({"null_row_id": None}, "blocked: null_row_id is null"),
    ({"label_rate": float("nan")}, "error: label_rate: NaN, not a number (nothing to measure is null)"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "line"), LINES)
def test_the_line_names_subject_value_and_bound(judged: Judge, measures: Measures, broken: Measures, line: str) -> None:
    judgement = judged({**measures, **broken})
    assert judgement.line == line
    text = judgement.report.read_text()
    assert str(judgement.why).replace(">", "&gt;").replace("<", "&lt;") in text


def test_a_passed_verdict_has_no_reason_and_an_empty_one_says_so(
    judged: Judge, measures: Measures, empty_measures: Measures
) -> None:
    assert judged(measures).line == "passed"
    assert judged(empty_measures).line == "empty: no row"


def test_what_blocks_is_named_and_what_only_warns_is_left_out(judged: Judge, measures: Measures) -> None:
    broken = {
        "unknown_rate": 0.5,
        "duplicate_row_ids": 1.0,
        "null_arrays": 1.0,
        "null_row_id": 1.0,
        "left_imbalance": 1.0,
    }
    assert judged({**measures, **broken}).why == (
        "left_imbalance 1, not 0; duplicate_row_ids 1, not 0; null_row_id 1, not 0; and 1 more"
    )


def test_several_columns_without_a_value_are_named_and_many_are_counted(judged: Judge, measures: Measures) -> None:
    some = {f"null_rate.f{n}": 1.0 for n in range(5)}
    judgement = judged({**measures, **some, "null_rate_max": 1.0})
    assert judgement.why == "null rate of f0, f1, f2 and 2 more 100 % ≥ 100 %"


def test_a_block_by_null_rate_names_the_column_and_offers_clear_and_the_form(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, "null_rate_max": 1.0, "null_rate.position": 1.0})
    text = explain_failure(judgement)
    assert "is not published, blocked: null rate of position 100 % ≥ 100 %" in text.splitlines()[0]
    moves = text[text.index("The same plan") :]
    assert "Clear `join` with downstream, in the run of this interval in feed.training" in moves
    assert "the form of feed.override (Trigger), with interval 2026-11-01T00:00:00Z and a reason" in moves
    assert moves.index("Clear") < moves.index("windrow train")
    assert moves.index("feed.override") < moves.index("windrow override")


@pytest.mark.parametrize("text", ["first_empty.a", "quarantine_least.a", "volume_z.a", "partition_z.a/1", "x_rate"])
def test_words_need_no_other_measure(text: str) -> None:
    words = failure(text, 7.0, {"min_value": 1, "max_value": 5}, "expect_column_values_to_be_between", {})
    assert "a" in words
    assert "None" not in words


@pytest.mark.parametrize(
    ("observed", "kwargs", "type_", "words"),
    [
        (
            7.0,
            {"value_set": [5, 6]},
            "expect_column_values_to_be_in_set",
            "rows 7: values to be in set value_set [5, 6]",
        ),
        (7.0, {"min_value": 8, "strict_min": True}, "expect_column_max_to_be_between", "rows 7 ≤ 8"),
        (8.0, {"min_value": 8, "strict_min": True}, "expect_column_max_to_be_between", "rows 8 ≤ 8"),
        (9.0, {"max_value": 8}, "expect_column_max_to_be_between", "rows 9 > 8"),
        (9.0, {"min_value": 9}, "expect_column_max_to_be_between", "rows 9: >= 9"),
    ],
)
def test_other_types_and_sides_are_said_too(observed: float, kwargs: dict[str, Any], type_: str, words: str) -> None:
    assert failure("rows", observed, kwargs, type_, {}) == words


def test_every_distance_and_share_of_the_suites_has_words_of_its_own() -> None:
    entries = [e for suite in suites_for(EXPECTATIONS, "training_rows") for e in suite.expectations]
    for column in {e.column.replace("*", "a") for e in entries if "_z" in e.column or "least" in e.column}:
        assert not failure(column, 99.0, {"max_value": 5}, "expect_column_max_to_be_between", {}).startswith(column)
