"""Canaries on paper: when a record is due, what a mark holds, which pairs are found, and what the clock hears."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from support.scenario import PINS, L, R, at, join_at, labels_of, landed, right, seconds, spec, states_of
from windrow.semantics.canary.pairs import Pair, Pairs, pairs_of
from windrow.semantics.canary.schedule import Acknowledged, Due, Rhythm
from windrow.semantics.explain import verdicts
from windrow.semantics.intervals import Interval, micros
from windrow.semantics.match import Mark
from windrow.semantics.records import JoinSpec, Left
from windrow.semantics.reference import event_clocks

MARK = Mark((("key", "c"),))
MINUTE = timedelta(minutes=1)
RHYTHM = Rhythm("served", {"clicks": 10 * MINUTE, "buys": 20 * MINUTE}, MINUTE, (seconds(1), 10 * MINUTE))


def marked(**changes: object) -> JoinSpec:
    return spec(right(canary=MARK), left=Left("served", ("left",), ("key",), canary=MARK), **changes)


def sent(due: Due, served_at: datetime | None = None) -> Acknowledged:
    return Acknowledged(due.stream, due.number, served_at or due.served_at, due.delay)


def test_a_canary_has_every_column_in_its_range() -> None:
    mark = Mark((("user", (5, 6)), ("device", "canary-")))
    for user, device, is_canary in ((5, "canary-1", True), (6, "canary-", True), (7, "canary-1", False)):
        assert mark.holds({"user": user, "device": device}) is is_canary
    assert not mark.holds({"user": 5, "device": "phone"})
    assert not mark.holds({"user": 5, "device": None})


def test_a_slot_has_one_left_row_and_nothing_is_made_up_for() -> None:
    (row,) = RHYTHM.due(at(30), [])
    assert row == Due("served", micros(at(0)) // micros(MINUTE), at(30))
    assert RHYTHM.due(at(30), [sent(row)]) == []
    assert [due.delay for due in RHYTHM.due(at(59.9), [sent(row)])] == [seconds(1)] * 2  # no second row in its slot
    late = [due for due in RHYTHM.due(at(200), []) if due.delay is None]
    assert [due.served_at for due in late] == [at(200)], "the slots between have no row"


def test_a_label_is_due_from_its_delay_to_the_end_of_its_window() -> None:
    row = Acknowledged("served", 7, at(0))

    def due(when: float, *known: Acknowledged) -> set[tuple[str, timedelta | None]]:
        found = RHYTHM.due(at(when), [row, Acknowledged("served", 8, at(when)), *known])
        return {(one.stream, one.delay) for one in found if one.served_at == at(0)}

    assert due(0.999999) == set()
    assert due(1) == {("clicks", seconds(1)), ("buys", seconds(1))}
    assert due(1, Acknowledged("clicks", 7, at(0), seconds(1))) == {("buys", seconds(1))}
    assert due(600) == {(name, delay) for name in RHYTHM.labels for delay in RHYTHM.delays}
    assert due(600.000001) == {("buys", delay) for delay in RHYTHM.delays}, "the window of clicks is over"
    assert due(1200.000001) == set()


def test_the_next_look_is_at_the_next_slot_or_label() -> None:
    row = Acknowledged("served", 7, at(30))
    assert RHYTHM.next_at(at(30), [row]) == at(31)
    known = [row, *(Acknowledged(name, 7, at(30), seconds(1)) for name in RHYTHM.labels)]
    assert RHYTHM.next_at(at(31), known) == at(60)


def test_events_of_all_pairs_have_different_ids() -> None:
    dues = [
        Due(stream, 7, at(served), delay)
        for served in (0, 0.000001)
        for stream, delay in [("served", None), *((name, delay) for name in RHYTHM.labels for delay in RHYTHM.delays)]
    ]
    assert len({RHYTHM.event_id(due) for due in dues}) == len(dues) == 10
    assert all(0 < RHYTHM.event_id(due) < 2**63 for due in dues)


def test_a_pair_is_found_if_both_have_landed_by_the_pins_and_the_window_holds_them() -> None:
    records = landed(L("c1", 0), L("c2", 0.5), L("k", 0), R("c1", 100), R("c1", 101), R("c2", 1, batch=2), R("k", 1))
    labels = [r for r in records if r.row_id.topic == "right"]

    def pair(n: int, served_at: float, name: str = "labels", off_by: float = 0) -> Pair:
        return Pair(name, at(served_at), "right", 0, labels[n].row_id.offset, labels[n].order[0] + seconds(off_by))

    interval = Interval(at(0), at(1))
    acknowledged = [pair(0, 0), pair(1, 0), pair(2, 0.5), pair(3, 0), pair(0, 0.5), pair(0, 1), pair(0, 0, "views")]
    acknowledged += [pair(0, 0, off_by=0.000001)]  # lost by the broker, which gave its offset to another one
    found = pairs_of(acknowledged, records, marked(), interval, {**PINS, "right": 1})
    # beyond the window; above the pin; no canary; of another row; served in another interval; of no label stream
    assert found == {"labels": Pairs(sent=6, matched=1)}
    assert found["labels"].recall == 1 / 6
    assert pairs_of(acknowledged, records, marked(), interval, PINS)["labels"].matched == 2
    assert pairs_of([], records, marked(), interval, PINS)["labels"].recall is None


def test_a_canary_is_never_a_row_nor_the_label_of_one() -> None:
    records = landed(L("c1", 0), L("k", 0), R("c1", 5), R("k", 6), L("c1", 0, values={"id": "x"}))
    joined = join_at(0, records, marked())
    assert [row.values["key"] for row in joined.rows] == ["k"]
    assert labels_of(joined) == [[6.0]]
    assert (joined.balance.left.landed, joined.balance.left.canary, joined.balance.right["labels"].canary) == (3, 2, 1)


def test_labels_that_are_all_canaries_are_silence() -> None:
    records = landed(L("k", 0), L("z", 500), R("c1", 400))
    disorder = {"right": seconds(0)}
    heard = event_clocks(records, PINS, disorder, marked().streams)
    assert heard == {"right": ()}
    assert event_clocks(records, PINS, disorder) == {"right": (at(400),)}, "without the mark it would be heard"
    assert states_of(join_at(0, records, marked(event_clocks=heard))) == [("unknown", "side_silent")]


def test_the_labels_of_a_canary_are_explained_as_its_matches() -> None:
    records = landed(L("c1", 0), R("c1", 5), R("c1", 101))
    by = marked()
    found = verdicts(records[0], records, by, by.right[0], PINS)
    assert [(one.kind, one.record.event_at) for one in found] == [("matched", at(5)), ("after_window", at(101))]
    unmarked = replace(by, left=replace(by.left, canary=None))
    assert verdicts(records[0], records, unmarked, unmarked.right[0], PINS)[0].kind != "matched"
