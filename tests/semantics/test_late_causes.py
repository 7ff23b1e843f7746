"""Causes of late records, and what a person's deletion does to the ledger: each boundary with both of its sides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from support.scenario import START, L, R, at, join_at, landed, right, seconds, spec
from windrow.semantics.ledger import Newer, apply, cause, ledger
from windrow.semantics.records import Record

CLOSED_AT = at(111)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("record_at", "event_clock", "how", "why"),
    [
        (at(50), None, {"drained": True}, "drained"),
        (at(500), at(111), {"drained": True}, "drained"),
        (at(50), None, {"forced": True}, "forced"),
        (at(500), at(111), {"forced": True}, "forced"),
        (at(50), None, {}, "idle_advance"),  # no event of its partition by the plan
        (at(500), at(110.999999), {}, "idle_advance"),
        (at(500), at(111), {}, "producer_delay"),
        (at(121), at(111), {}, "lag"),  # out-of-orderness 10: an event of that moment would not have closed it
        (at(121) + MICROSECOND, at(111), {}, "producer_delay"),
        (None, at(111), {}, "producer_delay"),
    ],
)
def test_a_late_record_has_one_cause(record_at, event_clock, how, why) -> None:  # type: ignore[no-untyped-def]
    assert cause(record_at, CLOSED_AT, event_clock, seconds(10), **how) == why


def ledger_between(before: list[Record], after: list[Record], watermark: float = 200, **rules):  # type: ignore[no-untyped-def]
    """The ledger of the first interval between two states of the landing tables; it is applied as well."""
    by = spec(right(**rules))
    then = {"left": 1, "right": 1}
    published, rebuilt = join_at(0, before, by, then), join_at(0, after, by, {"left": 9, "right": 9})
    newer = Newer(
        {r.row_id: r for r in after},
        then,
        {("right", 2): at(watermark), ("left", 2): at(watermark)},
        {("right", 0, 0): at(111), ("left", 0, 0): at(100)},
        {"left": seconds(0), "right": seconds(0)},
    )
    lines = ledger(published, rebuilt, by, newer)
    assert apply(published.rows, lines) == rebuilt.rows
    return lines


def test_a_late_label_says_by_how_much_it_missed_and_why() -> None:
    records = landed(L("k", 0), R("k", 90, batch=2, record_at=at(300)))
    (line,) = ledger_between(records[:1], records)
    assert (line.kind, line.missed_by, line.cause) == ("late_label", seconds(89), "producer_delay")
    assert line.state == (("negative", None), ("positive", None))


@pytest.mark.parametrize(("watermark", "missed_by"), [(110, None), (111, seconds(0)), (112, seconds(1))])
def test_what_came_before_the_closing_missed_nothing(watermark: float, missed_by: timedelta | None) -> None:
    """A forced or drained publication is older than the closing of its interval."""
    records = landed(L("k", 0), R("k", 90, batch=2))
    (line,) = ledger_between(records[:1], records, watermark)
    assert line.missed_by == missed_by


def test_a_late_left_row_of_a_partition_that_idled_says_so() -> None:
    records = landed(L("k", 0), L("k", 0.5, batch=2, record_at=at(0.5)))
    (line,) = ledger_between(records[:1], records)
    assert (line.kind, line.missed_by, line.cause) == ("late_left", seconds(89), "idle_advance")


def test_what_was_not_late_has_no_cause() -> None:
    records = landed(L("k", 0), R("k", 5), R("k", 6))
    first, second = ledger_between(records, [records[0], records[2]]), ledger_between(records, records)
    assert [(line.kind, line.cause, line.missed_by) for line in first] == [("erased", None, None)]
    assert second == ()


def test_an_erased_label_leaves_and_takes_the_state_with_it() -> None:
    records = landed(L("k", 0), R("k", 5))
    (line,) = ledger_between(records, records[:1])
    assert (line.kind, line.vanished, line.appeared) == ("erased", records[1], None)
    assert line.state == (("positive", None), ("negative", None))


def test_an_erased_label_that_was_taken_gives_its_place_to_the_next() -> None:
    records = landed(L("k", 0), R("k", 5), R("k", 6))
    (line,) = ledger_between(records, [records[0], records[2]], take="first")
    assert (line.kind, line.vanished, line.appeared) == ("erased", records[1], records[2])


def test_an_erased_left_row_leaves() -> None:
    records = landed(L("k", 0), L("j", 0))
    (line,) = ledger_between(records, records[:1])
    assert (line.kind, line.row_id, line.gone) == ("erased", records[1].row_id, records[1].row_id)


def test_a_retry_that_lands_late_with_a_lesser_row_id_wins_and_is_not_erasure() -> None:
    """Vector 22, the winner landing last."""
    winner = R("k", 5, p=0, offset=9, batch=2, values={"id": "e"})
    loser = R("k", 5, p=1, offset=4, values={"id": "e"})
    records = landed(L("k", 0), loser, winner)
    (line,) = ledger_between(records[:2], records, event_id="id")
    assert (line.kind, line.vanished, line.appeared) == ("winner_changed", loser, winner)
    assert line.missed_by == seconds(89)


def test_an_erased_winner_gives_its_place_to_its_own_retry() -> None:
    winner, loser = R("k", 5, p=0, offset=9, values={"id": "e"}), R("k", 5, p=1, offset=4, values={"id": "e"})
    records = landed(L("k", 0), loser, winner)
    (line,) = ledger_between(records, records[:2], event_id="id")
    assert (line.kind, line.vanished, line.appeared, line.state) == ("erased", winner, loser, None)


def test_a_quarantined_label_that_lands_late_changes_the_state_alone() -> None:
    bad = R("k", None, batch=2, quarantined="event_time_missing", record_at=START)
    records = landed(L("k", 0), bad)
    (line,) = ledger_between(records[:1], records)
    assert (line.kind, line.state) == ("state_changed", (("negative", None), ("unknown", "label_quarantined")))
    later = [records[0], replace(records[1], event_at=at(101), record_at=None)]
    assert ledger_between(records[:1], later) == ()
