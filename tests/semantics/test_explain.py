"""Why a row has these labels, on the reference join: every verdict, each boundary inside and outside."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support.generated import AFTER, BEFORE, START, history, oracle_records, oracle_spec
from windrow.semantics.explain import Verdict, outside, row_at, verdicts, winner_of
from windrow.semantics.intervals import intervals_between
from windrow.semantics.match import matches
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import reference_join

ZERO, MICROSECOND, SECOND = timedelta(0), timedelta(microseconds=1), timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
PINS = {"l": 1, "r": 1}


def spec(**changes: Any) -> JoinSpec:
    rules: dict[str, Any] = {"before": 30 * SECOND, "after": MINUTE, "event_id": "id"} | changes
    clocks = {"r": (START + timedelta(days=1),)}
    return JoinSpec(
        Left("l", ("l",), ("k",), "id"), (Right("r", ("r",), ("k",), **rules),), START, MINUTE, ZERO, MINUTE, clocks
    )


def left(at: timedelta = ZERO, key: Any = 1, event_id: str | None = None, offset: int = 0, batch: int = 1) -> Record:
    return Record(RowId("l", 0, 0, offset), batch, START + at, {"k": key, "id": event_id})


def right(offset: int, at: timedelta | None, key: Any = 1, batch: int = 1, **more: Any) -> Record:
    bad = {"quarantined": more.pop("quarantined", None), "record_at": more.pop("record_at", None)}
    event_at = None if at is None else START + at
    return Record(RowId("r", 0, 0, offset), batch, event_at, {"k": key, "id": None, **more}, **bad)


def kinds_of(records: list[Record], rules: JoinSpec | None = None, **more: Any) -> list[tuple[str, timedelta | None]]:
    return [(v.kind, v.missed_by) for v in all_verdicts(records, rules, **more)]


def all_verdicts(records: list[Record], rules: JoinSpec | None = None, **more: Any) -> tuple[Verdict, ...]:
    used = rules or spec()
    return verdicts(records[0], records, used, used.right[0], PINS, **more)


@pytest.mark.parametrize(
    ("at", "verdict"),
    [
        (-30 * SECOND, ("matched", None)),
        (-30 * SECOND - MICROSECOND, ("before_window", MICROSECOND)),
        (MINUTE, ("matched", None)),
        (MINUTE + MICROSECOND, ("after_window", MICROSECOND)),
        (-40 * SECOND, ("before_window", 10 * SECOND)),
        (65 * SECOND, ("after_window", 5 * SECOND)),
    ],
)
def test_a_miss_says_how_far_outside_the_window_it_is(at: timedelta, verdict: tuple[str, Any]) -> None:
    assert kinds_of([left(), right(0, at)]) == [verdict]


@pytest.mark.parametrize("before", [ZERO, SECOND, MINUTE])
@pytest.mark.parametrize("after", [ZERO, SECOND, MINUTE])
@pytest.mark.parametrize("micros", [-90_000_001, -60_000_000, -1_000_001, -1, 0, 1, 1_000_000, 60_000_001])
def test_what_is_outside_by_an_amount_matches_when_moved_by_it_and_not_by_less(
    before: timedelta, after: timedelta, micros: int
) -> None:
    at = START + timedelta(microseconds=micros)
    by = outside(START, at, before, after)
    assert matches(START, at, before, after) == (by == ZERO)
    assert matches(START, at - by, before, after)
    if by:
        less = by - MICROSECOND if by > ZERO else by + MICROSECOND
        assert not matches(START, at - less, before, after)


def test_late_is_about_batches_and_says_how_far_the_watermark_was() -> None:
    records = [left(), right(0, SECOND, batch=3), right(1, SECOND, batch=1)]
    found = all_verdicts(records, lateness={("r", 3): 7 * SECOND})
    assert [(v.kind, v.missed_by, v.batches) for v in found] == [("late", 7 * SECOND, 2), ("matched", None, None)]


def test_a_late_label_outside_the_window_missed_the_window_first() -> None:
    (verdict,) = all_verdicts([left(), right(0, 61 * SECOND, batch=2)])
    assert (verdict.kind, verdict.missed_by, verdict.batches) == ("after_window", SECOND, 1)


def test_a_retry_names_the_row_that_stands_for_it_even_under_another_key() -> None:
    records = [left(), right(1, SECOND, id="e"), right(0, SECOND, key=2, id="e"), right(2, SECOND, id="f")]
    found = {v.record.row_id.offset: (v.kind, v.winner) for v in all_verdicts(records)}
    assert found == {1: ("duplicate", RowId("r", 0, 0, 0)), 2: ("matched", None)}


def test_take_says_what_it_left_out() -> None:
    records = [left(), right(0, SECOND), right(1, 2 * SECOND)]
    assert kinds_of(records, spec(take="first")) == [("matched", None), ("not_taken", None)]
    assert kinds_of(records, spec(take="last")) == [("not_taken", None), ("matched", None)]


def test_a_row_that_where_leaves_out_is_filtered_inside_the_window_only() -> None:
    rules = spec(where=lambda values: values.get("action") == "click")
    records = [left(), right(0, SECOND, action="view"), right(1, 2 * MINUTE, action="view")]
    assert kinds_of(records, rules) == [("filtered", None)]


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        ("12", 12, "near_key"),
        ("ab", " AB ", "near_key"),
        ("12", "012", "near_key"),
        ("12", "12", "matched"),
        ("12", "13", None),
        (1, True, None),
    ],
)
def test_a_key_that_reads_the_same_and_is_not_equal_is_a_near_key(ours: Any, theirs: Any, kind: str | None) -> None:
    assert [k for k, _ in kinds_of([left(key=ours), right(0, SECOND, key=theirs)])] == ([kind] if kind else [])


def test_a_near_key_outside_the_window_explains_nothing() -> None:
    assert kinds_of([left(key="12"), right(0, 61 * SECOND, key=12)]) == []


def test_half_a_key_is_no_near_miss() -> None:
    rules = replace(spec(), left=Left("l", ("l",), ("k", "m")), right=(Right("r", ("r",), ("k", "m"), MINUTE),))
    row = replace(left(), values={"k": 1, "m": 2})
    assert kinds_of([row, replace(right(0, SECOND), values={"k": 1, "m": 3})], rules) == []


@pytest.mark.parametrize(
    ("bad", "kinds"),
    [
        (right(0, MINUTE, quarantined="wrong_type"), ["quarantined"]),
        (right(0, MINUTE + MICROSECOND, quarantined="wrong_type"), []),
        (right(0, None, quarantined="event_time_missing", record_at=START - 90 * SECOND), ["quarantined"]),
        (right(0, None, quarantined="event_time_missing", record_at=START - 90 * SECOND - MICROSECOND), []),
        (right(0, SECOND, key="1", quarantined="wrong_type"), ["quarantined"]),
        (right(0, SECOND, key=None, quarantined="null_key"), []),
    ],
)
def test_a_quarantined_label_has_a_verdict_where_it_could_have_matched(bad: Record, kinds: list[str]) -> None:
    assert [k for k, _ in kinds_of([left(), bad])] == kinds


def test_a_row_that_lost_against_a_retry_names_the_winner_as_of_the_pins() -> None:
    rows = [left(event_id="e", offset=4), left(event_id="e", offset=2, batch=2)]
    assert winner_of(rows, spec().left, rows[0], PINS) is None
    assert winner_of(rows, spec().left, rows[0], {"l": 2, "r": 1}) == RowId("l", 0, 0, 2)
    assert row_at(rows, spec(), rows[0], {"l": 2, "r": 1}) is None


@pytest.mark.parametrize("seed", range(4))
def test_verdicts_add_up_to_the_reference_join_on_generated_histories(seed: int) -> None:
    """All matches and nothing else is `matched`, every other verdict is true, and silence means nothing was near."""
    records = oracle_records(history(seed))
    pins = {"t.served": 1, "t.engagements": 1}
    rules = oracle_spec(records, pins)
    by_id = {r.row_id: r for r in records}
    kinds: dict[str, int] = {}
    for interval in intervals_between(START, START + timedelta(minutes=25), timedelta(minutes=5)):
        for row in reference_join(records, rules, interval, pins).rows:
            near = around(records, by_id[row.row_id])
            assert row_at(near, rules, by_id[row.row_id], pins) == row
            found = verdicts(by_id[row.row_id], near, rules, rules.right[0], pins)
            assert {v.record.row_id for v in found if v.kind == "matched"} == {m.row_id for m in row.matches["clicks"]}
            if row.label_reason == "label_quarantined":
                assert "quarantined" in {v.kind for v in found}
            for v in found:
                kinds[v.kind] = kinds.get(v.kind, 0) + 1
                at = v.record.event_at
                if v.kind == "before_window":
                    assert at is not None
                    assert v.missed_by == row.event_at - BEFORE - at > ZERO
                if v.kind == "after_window":
                    assert at is not None
                    assert v.missed_by == at - row.event_at - AFTER > ZERO
    assert {"matched", "before_window", "after_window", "duplicate", "filtered"} <= kinds.keys()


def around(records: list[Record], row: Record) -> list[Record]:
    """What a keyed look-up would hand in: the row's key, and retries of what it found."""
    same = [r for r in records if all(r.values.get(k) == row.values.get(k) for k in ("user_id", "item_id"))]
    ids = {(name, r.values.get(name)) for r in same for name in ("event_id", "request_id") if r.values.get(name)}
    return [r for r in records if r in same or any((n, r.values.get(n)) in ids for n in ("event_id", "request_id"))]
