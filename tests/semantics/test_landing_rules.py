"""Rules of landing without a broker: the offsets that come next, lost ranges, bounds of a gap, rows of the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from support.scenario import START, at, seconds
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.landing import offsets
from windrow.semantics.landing.batch import Batch, Partition, Topic
from windrow.semantics.landing.clock_rows import Counts, check_delivered, clock_rows
from windrow.semantics.landing.gaps import NOTHING, AcceptedGap, GivenUp, Lost, NoSuchGap, gaps_of, gaps_text
from windrow.semantics.landing.offsets import OffsetsGone, next_batch, refuse_not_lost
from windrow.semantics.records import Gap

COUNTS = dict.fromkeys(("read", "landed", "quarantined", "skipped", "before_start"), 0)
LOST = Lost("t", 0, 5, 7)
ACCEPTED = AcceptedGap(LOST, 0, batch=5, newest_before=at(50), accepted_at=at(100), who="ann", why="retention")


def topic(begin: int, end: int, topic_id: str = "id") -> Topic:
    return Topic("t", topic_id, (Partition(0, begin, end),))


def row(next_offset: int, end_offset: int | None = None, **changes: Any) -> dict[str, Any]:
    """A row of the clock after batch 4 of epoch 0."""
    known = {"topic": "t", "topic_id": "id", "epoch": 0, "batch": 4, "partition": 0, "next_offset": next_offset}
    end = next_offset if end_offset is None else end_offset
    return {**known, "end_offset": end, "newest_at": at(50), "clock_at": at(50), "gap": None, **COUNTS, **changes}


def landed(batch: Batch, previous: list[dict[str, Any]], counts: dict[int, Counts]) -> dict[str, Any]:
    (after,) = clock_rows(batch, previous, counts, out_of_orderness=seconds(10), idle=IdlePolicy("wait"))
    return dict(after)


NEXT: list[tuple[str, Topic, list[dict[str, Any]], tuple[int, int], tuple[int, int, int]]] = [
    ("without a position, from the earliest offset", topic(3, 9), [], (0, 1), (3, 9, 9)),
    ("from the position on", topic(3, 9), [row(5)], (0, 5), (5, 9, 9)),
    ("nothing new", topic(3, 9), [row(9)], (0, 5), (9, 9, 9)),
    ("a topic created again, in another epoch", topic(0, 4, "new"), [row(9)], (1, 5), (0, 4, 4)),
    ("a backlog, in steps", topic(0, 50), [row(10)], (0, 5), (10, 30, 50)),
]


@pytest.mark.parametrize(("known", "previous", "number", "taken"), [c[1:] for c in NEXT], ids=[c[0] for c in NEXT])
def test_the_next_batch(
    known: Topic,
    previous: list[dict[str, Any]],
    number: tuple[int, int],
    taken: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "RECORDS_PER_PARTITION", 20)
    batch = next_batch(known, START, previous, NOTHING)
    assert ((batch.epoch, batch.number), batch.ranges[0]) == (number, taken)
    assert batch.is_empty == (taken[0] == taken[1])
    assert Batch.from_json(batch.to_json()) == batch


def test_lost_offsets_are_refused_until_a_person_gives_them_up() -> None:
    with pytest.raises(OffsetsGone, match=r"offsets \[5, 7\) are gone .* --accept-gap t/0:5-7 --reason"):
        next_batch(topic(7, 9), at(100), [row(5)], NOTHING)
    batch = next_batch(topic(7, 9), at(100), [row(5)], GivenUp((LOST,), "ann", "retention"))
    assert (batch.gaps, batch.ranges[0]) == ((ACCEPTED,), (7, 9, 9))
    assert Batch.from_json(batch.to_json()) == batch


def test_a_broker_that_lost_landed_offsets_is_refused_for_good() -> None:
    with pytest.raises(OffsetsGone, match="the next offset to land is 5, but the broker's log ends at 4"):
        next_batch(topic(0, 4), START, [row(5)], GivenUp((Lost("t", 0, 4, 5),)))


def test_a_range_can_be_given_up_again_but_not_if_it_was_never_lost() -> None:
    refuse_not_lost(GivenUp((LOST,)), [topic(7, 9)], [row(5)])
    refuse_not_lost(GivenUp((LOST,)), [topic(7, 9)], [row(9, gap=gaps_text([ACCEPTED]))])
    with pytest.raises(NoSuchGap, match=r"t/0:5-7 is not lost, .* lost ranges: none"):
        refuse_not_lost(GivenUp((LOST,)), [topic(3, 9)], [row(5)])


@pytest.mark.parametrize("text", ["t/0:7-7", "t/0:7-5", "t:5-7", "t/0", ""])
def test_a_range_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(NoSuchGap, match="is not a lost range"):
        Lost.parse(text)


def test_a_gap_ends_with_the_record_behind_it_once_that_is_within_the_pin() -> None:
    gap = ACCEPTED.ended(batch=7, event_at=at(80))
    bounds = [gap.at_pin(pin, seconds(10), max_skew=timedelta(minutes=1)) for pin in (6, 7)]
    assert bounds == [Gap("t", at(40), at(160)), Gap("t", at(40), at(90))]
    nothing_before = replace(gap, newest_before=None)
    assert nothing_before.at_pin(7, seconds(10), timedelta(0)) == Gap("t", None, at(90))


def test_counts_add_up_over_batches_and_start_again_with_the_epoch() -> None:
    batch = Batch("t", "id", 0, 5, at(100), {0: (5, 10, 12)})
    before = row(5, landed=4, read=5, skipped=1)
    after = landed(batch, [before], {0: Counts(landed=2, quarantined=1, newest_at=at(90))})
    assert {name: after[name] for name in COUNTS} == {
        "read": 10, "landed": 6, "quarantined": 1, "skipped": 3, "before_start": 0
    }  # fmt: skip
    assert (after["batch"], after["next_offset"], after["end_offset"], after["clock_at"]) == (5, 10, 12, at(80))
    again = landed(Batch("t", "new", 1, 6, at(100), {0: (0, 2, 2)}), [after], {0: Counts(landed=2)})
    assert (again["read"], again["landed"], again["newest_at"], again["clock_at"]) == (2, 2, None, at(80))


def test_an_empty_batch_keeps_its_number_for_the_next() -> None:
    assert landed(Batch("t", "id", 0, 5, at(100), {0: (5, 5, 5)}), [row(5)], {})["batch"] == 4


def test_the_clock_carries_a_gap_on_and_ends_it_with_the_first_record_behind_it() -> None:
    accepting = Batch("t", "id", 0, 5, at(100), {0: (7, 7, 7)}, (ACCEPTED,))
    assert not accepting.is_empty
    carried = landed(accepting, [row(5)], {})
    assert gaps_of([carried]) == (ACCEPTED,)
    behind = landed(Batch("t", "id", 0, 6, at(200), {0: (7, 8, 8)}), [carried], {0: Counts(1, first_at=at(80))})
    assert gaps_of([behind]) == (ACCEPTED.ended(6, at(80)),)


def test_a_batch_must_hold_one_row_per_delivered_record() -> None:
    batch, counts = Batch("t", "id", 0, 1, START, {0: (0, 3, 3)}), {0: Counts(landed=2, quarantined=1)}
    check_delivered(batch, counts, 3)
    check_delivered(batch, counts, None)
    for delivered in (2, 4):
        with pytest.raises(BalanceBroken, match=f"holds 3 rows, but {delivered} records were delivered"):
            check_delivered(batch, counts, delivered)
