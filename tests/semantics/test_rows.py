"""Rows: emission, label states, duplicates, filters, pins and the balance, on the reference join."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from support.scenario import (
    PINS,
    L,
    R,
    as_of_pins,
    at,
    join_at,
    labels_of,
    landed,
    right,
    seconds,
    spec,
    states_of,
)
from windrow.semantics.intervals import Interval
from windrow.semantics.labels import DOUBTS, LabelState, label_state
from windrow.semantics.match import Mark
from windrow.semantics.paper.account import account, closed_intervals
from windrow.semantics.records import Left, Record, RowId
from windrow.semantics.reference import reference_join

BY_ID = right(event_id="id")
SILENT: dict = {"event_clocks": {}}


def test_a_row_without_labels_is_emitted_with_an_empty_list() -> None:
    joined = join_at(0, landed(L("k", 0)), spec())
    assert (labels_of(joined), states_of(joined)) == ([[]], [("negative", None)])


def test_an_interval_without_left_rows_is_an_empty_entry() -> None:
    joined = join_at(5, landed(L("k", 0), R("k", 7)), spec())
    assert joined.rows == ()
    assert joined.balance.right["labels"].unmatched == 1


def test_rows_stand_in_row_order_and_so_do_their_labels() -> None:
    records = landed(L("k", 0.5), L("k", 0.25, p=1), L("k", 0.25), R("k", 2), R("k", 1, p=1), R("k", 1))
    joined = join_at(0, records, spec())
    assert [(r.event_at, r.row_id.partition) for r in joined.rows] == [
        (at(0.25), 0),
        (at(0.25), 1),
        (at(0.5), 0),
    ]
    assert [(m.event_at, m.row_id.partition) for m in joined.rows[0].matches["labels"]] == [
        (at(1), 0),
        (at(1), 1),
        (at(2), 0),
    ]


@pytest.mark.parametrize(("take", "kept"), [("all", [1, 2, 3]), ("first", [1]), ("last", [3])])
def test_take_keeps_one_match_and_counts_the_rest(take: str, kept: list[int]) -> None:
    joined = join_at(0, landed(L("k", 0), R("k", 3), R("k", 1), R("k", 2)), spec(right(take=take)))
    assert labels_of(joined) == [kept]
    assert joined.not_taken["labels"] == 3 - len(kept)
    assert joined.balance.right["labels"].matched == 3


def test_an_inner_stream_drops_rows_without_a_match_and_counts_them() -> None:
    features = right("features", role="feature", topics=("other",), join="inner")
    other = Record(RowId("other", 0, 0, 0), 1, at(1), {"key": "k"})
    joined = join_at(0, [*landed(L("k", 0), L("j", 0), R("j", 1)), other], spec(features, right()))
    assert [row.values["key"] for row in joined.rows] == ["k"]
    assert (joined.balance.left.landed, joined.balance.left.unpaired) == (2, 1)
    assert joined.balance.right["labels"].matched == 1, "it met a row, though an unpaired one"


def test_two_streams_of_one_topic_take_each_its_own_records() -> None:
    clicks = right("clicks", where=lambda v: v["action"] == "click")
    likes = right("likes", where=lambda v: v["action"] == "like", after=seconds(1))
    sent = [R("k", t, values={"action": a}) for t, a in ((1, "click"), (1, "like"), (2, "like"), (3, "view"))]
    joined = join_at(0, landed(L("k", 0), *sent), spec(clicks, likes))
    assert (labels_of(joined, "clicks"), labels_of(joined, "likes")) == ([[1]], [[1]])
    counts = joined.balance.right
    assert (counts["clicks"].read, counts["clicks"].filtered) == (4, 3)
    assert (counts["likes"].read, counts["likes"].filtered, counts["likes"].unmatched) == (3, 1, 1)


def test_a_where_that_is_unknown_leaves_the_record_out() -> None:
    joined = join_at(0, landed(L("k", 0), R("k", 1)), spec(right(where=lambda v: None)))
    assert (labels_of(joined), joined.balance.right["labels"].filtered) == ([[]], 1)


def test_a_filtered_record_may_lack_its_event_time_and_a_selected_one_cannot_be_read_without() -> None:
    records = landed(L("k", 0), R("k", None))
    filtered = join_at(0, records, spec(right(where=lambda v: False)))
    selected = join_at(0, records, spec())
    assert filtered.balance.right["labels"].read == selected.balance.right["labels"].read == 0
    assert [joined.rows[0].label_reason for joined in (filtered, selected)] == [None, "label_quarantined"]


@pytest.mark.parametrize(
    ("second", "joined", "duplicate", "conflict"),
    [
        ({"t": 5}, [5], 1, 0),
        ({"t": 5, "more": 2}, [5], 1, 1),
        ({"t": 6}, [5, 6], 0, 1),
        ({"t": 5, "id": "f"}, [5, 5], 0, 0),
    ],
)
def test_one_event_is_one_id_at_one_time(second: dict, joined: list[int], duplicate: int, conflict: int) -> None:
    values = {"id": second.get("id", "e"), "more": second.get("more", 1)}
    records = landed(L("k", 0), R("k", 5, values={"id": "e", "more": 1}), R("k", second["t"], values=values))
    result = join_at(0, records, spec(BY_ID))
    assert labels_of(result) == [joined]
    assert (result.balance.right["labels"].duplicate, result.conflict["labels"]) == (duplicate, conflict)


def test_without_an_event_id_every_offset_is_a_row() -> None:
    twice = [R("k", 5, values={"id": None}), R("k", 5, values={"id": None})]
    assert labels_of(join_at(0, landed(L("k", 0), *twice), spec(BY_ID))) == [[5, 5]]
    assert labels_of(join_at(0, landed(L("k", 0), *twice), spec())) == [[5, 5]]


def test_the_least_row_id_that_has_landed_by_the_pin_wins() -> None:
    late_winner = R("k", 5, p=0, offset=1, batch=2, values={"id": "e"})
    records = landed(L("k", 0), R("k", 5, p=1, offset=4, values={"id": "e"}), late_winner)
    for pin, partition in ((1, 1), (2, 0)):
        joined = join_at(0, records, spec(BY_ID), {"left": 1, "right": pin})
        assert [m.row_id.partition for m in joined.rows[0].matches["labels"]] == [partition]


def test_of_two_landings_of_one_offset_the_first_counts() -> None:
    records = landed(L("k", 0), R("k", 5, offset=3, batch=2), R("k", 5, offset=3, batch=1))
    assert [m.batch for m in join_at(0, records, spec()).rows[0].matches["labels"]] == [1]


def test_a_filter_comes_before_a_duplicate() -> None:
    view, click = ({"id": "e", "action": a} for a in ("view", "click"))
    clicks = right(event_id="id", where=lambda v: v["action"] == "click")
    joined = join_at(0, landed(L("k", 0), R("k", 5, values=view), R("k", 5, values=click)), spec(clicks))
    assert labels_of(joined) == [[5]]
    assert (joined.balance.right["labels"].filtered, joined.balance.right["labels"].duplicate) == (1, 0)


def test_labels_are_read_for_the_windows_of_the_interval_both_ends_in() -> None:
    by = spec(right(before=seconds(5)), interval=seconds(10))
    inside, outside = [R("j", -5), R("j", 110)], [R("j", -5.000001), R("j", 110.000001)]
    assert join_at(0, landed(L("k", 0), *inside, *outside), by).balance.right["labels"].read == 2


def test_one_label_counts_once_however_many_rows_it_matches() -> None:
    joined = join_at(0, landed(L("k", 0), L("k", 0), R("k", 1)), spec())
    assert (labels_of(joined), joined.balance.right["labels"].matched) == ([[1], [1]], 1)


def test_an_interval_off_the_grid_or_before_the_start_is_refused() -> None:
    for start in (0.5, -1):
        with pytest.raises(ValueError, match="not on the grid"):
            reference_join([], spec(), Interval(at(start), at(start + 1)), PINS)


def test_a_right_key_that_cannot_pair_with_the_lefts_is_refused() -> None:
    with pytest.raises(ValueError, match="does not pair"):
        spec(right(key=("key", "more")))


# ---- label states


def quarantined(key: object, t: float | None, logged: float | None = 0) -> Record:
    return replace(R(key, t), quarantined="wrong_type", record_at=None if logged is None else at(logged))


@pytest.mark.parametrize(
    ("bad", "before", "skew", "state"),
    [
        (quarantined("k", 100), 0, 0, ("unknown", "label_quarantined")),
        (quarantined("k", 100.000001), 0, 0, ("negative", None)),
        (quarantined("k", -5), 5, 0, ("unknown", "label_quarantined")),
        (quarantined("k", -5.000001), 5, 0, ("negative", None)),
        (quarantined("k", None, logged=0), 0, 0, ("unknown", "label_quarantined")),
        (quarantined("k", None, logged=-0.000001), 0, 0, ("negative", None)),
        (quarantined("k", None, logged=-8), 5, 3, ("unknown", "label_quarantined")),
        (quarantined("k", None, logged=-8.000001), 5, 3, ("negative", None)),
        (quarantined("k", None, logged=10**6), 0, 0, ("unknown", "label_quarantined")),
        (quarantined("k", None, logged=None), 0, 0, ("unknown", "label_quarantined")),
        (quarantined("j", 5), 0, 0, ("negative", None)),
        (quarantined(None, 5), 0, 0, ("negative", None)),
        (replace(quarantined("k", 5), batch=10**10), 0, 0, ("negative", None)),
    ],
)
def test_a_quarantined_label_marks_the_rows_that_it_could_have_matched(
    bad: Record, before: float, skew: float, state: tuple[str, str | None]
) -> None:
    by = spec(right(before=seconds(before)), max_skew=seconds(skew))
    assert states_of(join_at(0, landed(L("k", 0), bad), by)) == [state]


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("click", ("unknown", "label_quarantined")),
        (None, ("unknown", "label_quarantined")),
        ("view", ("negative", None)),
    ],
)
def test_a_quarantined_record_is_a_label_unless_where_says_for_certain_that_it_is_none(
    action: str | None, state: tuple[str, str | None]
) -> None:
    clicks = right(where=lambda v: None if v["action"] is None else v["action"] == "click")
    bad = replace(R("k", 5, values={"action": action}), quarantined="wrong_type")
    assert states_of(join_at(0, landed(L("k", 0), bad), spec(clicks))) == [state]


def test_a_quarantined_record_is_no_sign_of_life() -> None:
    records = landed(R("k", 5), quarantined("k", 1000))
    assert as_of_pins(records)["right"] == (at(5),)
    assert as_of_pins(records, {"right": 0}) == {"right": (), "other": ()}, "nor is what landed above the pin"


def test_a_quarantined_feature_is_no_doubt_about_labels() -> None:
    features = right("features", role="feature", topics=("other",))
    bad = Record(RowId("other", 0, 0, 0), 1, at(5), {"key": "k"}, quarantined="wrong_type")
    assert states_of(join_at(0, [*landed(L("k", 0)), bad], spec(features, right()))) == [("negative", None)]


def test_a_left_row_with_a_null_key_meets_nothing_and_is_unknown() -> None:
    joined = join_at(0, landed(L(None, 0), R(None, 5)), spec())
    assert (labels_of(joined), states_of(joined)) == ([[]], [("unknown", "null_key")])
    assert joined.balance.right["labels"].read == 0  # a label without a key cannot be read


def test_a_reason_also_stands_on_a_positive_whose_list_may_be_incomplete() -> None:
    joined = join_at(0, landed(L("k", 0), R("k", 5)), spec(**SILENT))
    assert states_of(joined) == [("positive", "side_silent")]


def test_one_partition_beyond_the_window_proves_the_label_side_alive() -> None:
    two = spec(event_clocks={"right": (None, at(100), at(100.000001))})
    assert states_of(join_at(0, landed(L("k", 0)), two)) == [("negative", None)]


def test_of_a_topic_that_was_made_again_only_the_last_life_says_how_far_it_was_heard() -> None:
    records = landed(R("k", 500), R("k", 60, epoch=1), R("k", 90, epoch=1, p=1))
    assert as_of_pins(records)["right"] == (at(60), at(90))
    assert as_of_pins(records[:1])["right"] == (at(500),)


def test_one_incomplete_label_stream_of_two_makes_the_state_unknown() -> None:
    other = right("likes", topics=("other",))
    half = {"right": (at(1000),)}
    assert states_of(join_at(0, landed(L("k", 0)), spec(right(), other, event_clocks=half))) == [
        ("unknown", "side_silent")
    ]
    assert states_of(join_at(0, landed(L("k", 0), R("k", 5)), spec(right(), other, event_clocks=half))) == [
        ("positive", "side_silent")
    ]


def test_a_drain_takes_silence_for_completeness_and_nothing_else() -> None:
    records = landed(L("k", 0), L("j", 0), L(None, 0), R("j", 5))
    assert states_of(join_at(0, records, spec(drained=True, **SILENT))) == [
        ("negative", "drained"),
        ("positive", "drained"),
        ("unknown", "null_key"),
    ]
    assert states_of(join_at(0, records, spec(drained=True)))[:2] == [("negative", None), ("positive", None)]


def test_the_first_doubt_in_order_of_precedence_is_the_reason() -> None:
    for n, doubt in enumerate(DOUBTS):
        assert label_state(has_label=False, doubts=DOUBTS[n:]) == LabelState("unknown", doubt)
    with pytest.raises(ValueError, match="not doubts"):
        label_state(has_label=False, doubts=("rain",))


# ---- the account of a whole history


def test_every_record_of_the_left_topics_is_accounted_for_once() -> None:
    features = right("features", role="feature", topics=("other",), join="inner")
    other = Record(RowId("other", 0, 0, 0), 1, at(1), {"key": "k"})
    bad = replace(L("k", None), quarantined="malformed")
    served = landed(
        L("k", 0, values={"id": "a"}),  # emitted
        L("k", 0, values={"id": "a"}),  # duplicate
        L("j", 0, values={"id": "b"}),  # unpaired
        L("k", -1, values={"id": "c"}),  # before the start
        L("k", 900, values={"id": "d"}),  # open
        L("k", 1, values={"id": "no"}),  # filtered
        L("c1", 0, values={"id": "a"}),  # canary
        L("c2", 900, values={"id": "no"}),  # filtered, because `where` comes first
        bad,
    )
    replayed = replace(served[0], batch=2)
    left = Left("served", ("left",), ("key",), "id", where=lambda v: v["id"] != "no", canary=Mark((("key", "c"),)))
    found = account([*served, replayed, other], spec(features, left=left), PINS, at(900))
    assert vars(found) == {
        "read": 10,
        "replayed": 1,
        "quarantined": 1,
        "filtered": 2,
        "canary": 1,
        "before_start": 1,
        "open": 1,
        "emitted": 1,
        "duplicate": 1,
        "unpaired": 1,
        "erased": 0,
    }


def test_closed_intervals_run_from_the_start_without_a_hole() -> None:
    records = landed(L("k", 0), L("k", 3), L("k", 9))
    closed = list(closed_intervals(records, spec(), PINS, at(5)))
    assert [(i.start, i.length) for i in closed] == [(at(n), timedelta(seconds=1)) for n in range(5)]
    assert list(closed_intervals(records, spec(), PINS, None)) == []
