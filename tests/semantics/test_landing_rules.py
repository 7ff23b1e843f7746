"""Rules of landing without a broker: the offsets that come next, lost ranges, bounds of a gap, rows of the clock."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scenario import START, at, seconds
from windrow.outcomes import ExitCode, exit_code
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import IdlePolicy, NotCaughtUp
from windrow.semantics.landing import offsets, spread
from windrow.semantics.landing.batch import Batch, Offsets, Partition, Reconsidered, Topic
from windrow.semantics.landing.clock_rows import Counts, check_accounted, check_delivered, clock_rows, undelivered
from windrow.semantics.landing.gaps import NOTHING, AcceptedGap, GivenUp, Lost, NoSuchGap, gaps_of, gaps_text
from windrow.semantics.landing.host_clock import ClockAhead, refuse_clock_ahead
from windrow.semantics.landing.offsets import (
    OffsetsGone,
    TopicCompacted,
    next_batch,
    reconsidering_batch,
    refuse_compacted,
    refuse_drain,
    refuse_not_lost,
)
from windrow.semantics.landing.replaced import A_MARKER, LastRecord, OffsetsReplaced, refuse_replaced, to_compare
from windrow.semantics.landing.undelivered import (
    Account,
    Explained,
    LogBatch,
    Neighbours,
    account_of,
    explain,
    gap_ranges,
    size,
)
from windrow.semantics.records import Gap

COUNTS = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0)
LOST = Lost("t", 0, 5, 7)
ACCEPTED = AcceptedGap(LOST, 0, batch=5, newest_before=at(50), accepted_at=at(100), who="ann", why="retention")


def topic(begin: int, end: int, topic_id: str = "id") -> Topic:
    return Topic("t", topic_id, (Partition(0, begin, end),))


def row(next_offset: int, end_offset: int | None = None, **changes: Any) -> dict[str, Any]:
    """A row of the clock after batch 4 of epoch 0."""
    known = {"topic": "t", "topic_id": "id", "epoch": 0, "batch": 4, "partition": 0, "next_offset": next_offset}
    end = next_offset if end_offset is None else end_offset
    return {**known, "end_offset": end, "newest_at": at(50), "clock_at": at(50), "gap": None, **COUNTS, **changes}


def test_a_host_clock_may_be_ahead_of_the_brokers_by_the_skew() -> None:
    refuse_clock_ahead(at(160), at(100), seconds(60))
    refuse_clock_ahead(at(160), at(100), seconds(0))  # a minute is nothing between two hosts
    refuse_clock_ahead(at(160), None, seconds(60))  # the cluster does not tell its clock
    with pytest.raises(ClockAhead, match=r"00:02:41Z, .* 00:01:40Z, which is 1m 1s behind it; allowed are 1m"):
        refuse_clock_ahead(at(161), at(100), seconds(60))


def test_a_drain_needs_every_record_that_the_broker_has() -> None:
    refuse_drain([topic(0, 9)], [row(9)])
    refuse_drain([topic(9, 9)], [row(9)])
    opened = Topic("t", "id", (Partition(0, 0, 9, log_end=11),))
    added = Topic("t", "id", (Partition(0, 0, 9), Partition(1, 0, 1)))
    for known in (topic(0, 10), topic(0, 1, "another id"), opened, added):
        with pytest.raises(NotCaughtUp, match="Land them, then drain again"):
            refuse_drain([known], [row(9)])


def test_records_of_an_open_transaction_are_lag_and_are_not_read() -> None:
    batch = next_batch(Topic("t", "id", (Partition(0, 0, 9, log_end=11),)), at(60), [row(7)], NOTHING)
    assert batch.ranges == {0: (7, 9, 11)}
    assert batch.progress(0, None).end_offset == 11


def landed(
    batch: Batch, previous: list[dict[str, Any]], counts: dict[int, Counts], account: Account | None = None
) -> dict[str, Any]:
    account = account or Account(batch.number)
    (after,) = clock_rows(batch, previous, counts, account, out_of_orderness=seconds(10), idle=IdlePolicy("wait"))
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


def test_another_record_at_a_landed_offset_is_refused() -> None:
    last = LastRecord(4, at(90))
    known = landed(Batch("t", "id", 0, 5, at(100), {0: (0, 6, 6)}), [], {0: Counts(landed=6, last=last)})
    assert to_compare(topic(0, 9), [known]) == {0: last}
    refuse_replaced("t", {0: last}, {0: at(90)})
    refuse_replaced("t", {0: last}, {})  # retention or compaction removed it
    for now in (at(91), A_MARKER):
        with pytest.raises(OffsetsReplaced, match=r"topic t partition 0: .* offset 4 .* topic anew") as refused:
            refuse_replaced("t", {0: last}, {0: now})
        assert exit_code(refused.value) == ExitCode.NEEDS_PERSON


def test_only_what_the_broker_can_still_have_is_compared() -> None:
    last = LastRecord(4, at(90))
    known = row(6, record_offset=4, record_at=at(90))
    assert to_compare(topic(4, 5), [known]) == {0: last}
    for now in (topic(5, 9), topic(0, 4), topic(0, 9, "another")):
        assert to_compare(now, [known]) == {}
    for earlier in (row(6), row(6, record_offset=4, record_at=None)):
        assert to_compare(topic(0, 9), [earlier]) == {}
    carried = landed(Batch("t", "id", 0, 5, at(100), {0: (6, 6, 6)}), [known], {})
    again = Batch("t", "id", 0, 5, at(100), {0: (6, 6, 6)}, reconsidered=Reconsidered("ann", "mended"))
    judged = landed(again, [known], {0: Counts(landed=1, last=LastRecord(2, at(30)))})
    assert to_compare(topic(0, 9), [carried]) == to_compare(topic(0, 9), [judged]) == {0: last}
    counted = [one["reconsidered"] for one in (carried, judged, landed(again, [judged], {0: Counts(landed=2)}))]
    assert counted == [0, 1, 3]


def test_a_range_can_be_given_up_again_but_not_if_it_was_never_lost() -> None:
    refuse_not_lost(GivenUp((LOST,)), [topic(7, 9)], [row(5)], ())
    refuse_not_lost(GivenUp((LOST,)), [topic(7, 9)], [row(9)], [ACCEPTED])
    with pytest.raises(NoSuchGap, match=r"t/0:5-7 is not lost, .* lost ranges: none"):
        refuse_not_lost(GivenUp((LOST,)), [topic(3, 9)], [row(5)], ())


@pytest.mark.parametrize("text", ["t/0:7-7", "t/0:7-5", "t:5-7", "t/0", ""])
def test_a_range_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(NoSuchGap, match="is not a lost range"):
        Lost.parse(text)


def test_a_gap_ends_with_the_record_behind_it_once_that_is_within_the_pin() -> None:
    gap = ACCEPTED.ended(batch=7, event_at=at(80), record_at=at(25))
    bounds = [gap.at_pin(pin, seconds(10), max_skew=timedelta(minutes=1)) for pin in (6, 7)]
    assert bounds == [Gap("t", at(40), at(160)), Gap("t", at(40), at(90))]
    nothing_before = replace(gap, newest_before=None)
    assert nothing_before.at_pin(7, seconds(10), timedelta(0)) == Gap("t", None, at(90))


def test_a_late_record_behind_a_gap_ends_it_where_it_was_logged() -> None:
    late = ACCEPTED.ended(batch=7, event_at=at(20), record_at=at(95))
    assert late.at_pin(7, seconds(10), seconds(1)) == Gap("t", at(40), at(96))
    assert late.at_pin(7, seconds(10), seconds(60)) == Gap("t", at(40), at(155))
    assert AcceptedGap.from_dict(late.to_dict()) == late
    earlier_version = {name: value for name, value in late.to_dict().items() if name != "next_record_at"}
    assert AcceptedGap.from_dict(earlier_version).at_pin(7, seconds(10), seconds(60)) == Gap("t", at(40), at(30))


def test_counts_add_up_over_batches_and_start_again_with_the_epoch() -> None:
    batch = Batch("t", "id", 0, 5, at(100), {0: (5, 10, 12)})
    before = row(5, landed=4, read=5, skipped=1)
    account = Account(5, skipped={0: 1}, unexplained={0: 1})
    after = landed(batch, [before], {0: Counts(landed=2, quarantined=1, newest_at=at(90))}, account)
    assert {name: after[name] for name in COUNTS} == {
        "read": 10, "landed": 6, "quarantined": 1, "skipped": 2, "unexplained": 1, "before_start": 0
    }  # fmt: skip
    assert (after["batch"], after["next_offset"], after["end_offset"], after["clock_at"]) == (5, 10, 12, at(80))
    again = landed(Batch("t", "new", 1, 6, at(100), {0: (0, 2, 2)}), [after], {0: Counts(landed=2)})
    assert (again["read"], again["landed"], again["newest_at"], again["clock_at"]) == (2, 2, None, at(80))


def test_what_is_reconsidered_counts_once_takes_no_offset_and_ends_no_gap() -> None:
    before = row(5, end_offset=5, read=5, landed=2, quarantined=3, gap=gaps_text([ACCEPTED]))
    batch = reconsidering_batch(topic(0, 9), at(100), [before], Reconsidered("ann", "mended"))
    assert batch is not None
    assert not batch.is_empty
    assert Batch.from_json(batch.to_json()) == batch
    after = landed(batch, [before], {0: Counts(landed=2, newest_at=at(90), first_at=at(80), first_record_at=at(80))})
    assert [after[name] for name in ("read", "landed", "quarantined", "skipped")] == [5, 4, 1, 0]
    assert (after["batch"], after["next_offset"], after["end_offset"], after["clock_at"]) == (5, 5, 9, at(80))
    assert gaps_of([after]) == (ACCEPTED,)  # the record may have been in front of it


def test_nothing_is_reconsidered_of_a_topic_that_was_created_again() -> None:
    decided = Reconsidered("ann", "mended")
    assert reconsidering_batch(topic(0, 9, "new"), at(100), [row(5)], decided) is None
    assert reconsidering_batch(topic(0, 9), at(100), [], decided) is None


def test_an_ordinary_batch_is_written_as_earlier_versions_read_it() -> None:
    assert "reconsidered" not in Batch("t", "id", 0, 5, at(100), {0: (5, 5, 5)}).to_json()


def test_an_empty_batch_keeps_its_number_for_the_next() -> None:
    assert landed(Batch("t", "id", 0, 5, at(100), {0: (5, 5, 5)}), [row(5)], {})["batch"] == 4


def test_the_clock_carries_a_gap_on_and_ends_it_with_the_first_record_behind_it() -> None:
    accepting = Batch("t", "id", 0, 5, at(100), {0: (7, 7, 7)}, (ACCEPTED,))
    assert not accepting.is_empty
    carried = landed(accepting, [row(5)], {})
    assert gaps_of([carried]) == (ACCEPTED,)
    behind = landed(
        Batch("t", "id", 0, 6, at(200), {0: (7, 8, 8)}),
        [carried],
        {0: Counts(1, first_at=at(80), first_record_at=at(81))},
    )
    assert gaps_of([behind]) == (ACCEPTED.ended(6, at(80), at(81)),)


def test_a_gap_of_an_account_ends_with_what_is_behind_it_in_its_batch_or_with_the_next() -> None:
    """The first good record of the batch may lie before the gap, and does not end it."""
    batch = Batch("t", "id", 0, 5, at(100), {0: (5, 9, 9)})
    explained = {0: Explained(skipped=1, unexplained=1, gaps=((7, 8),))}
    before = [row(5, newest_at=at(70))]
    around = Neighbours(newest_before=at(60), next_after=None)
    account = account_of(batch, before, explained, {(0, (7, 8)): around}, "lost")
    assert Account.from_fields(json.loads(account.to_json())) == account
    assert (account.skipped, account.unexplained) == ({0: 1}, {0: 1})
    carried = landed(batch, before, {0: Counts(landed=2, first_at=at(55), first_record_at=at(55))}, account)
    (gap,) = gaps_of([carried])
    assert (gap.lost, gap.newest_before, gap.next_after, gap.batch) == (Lost("t", 0, 7, 8), at(70), None, 5)
    behind = landed(
        Batch("t", "id", 0, 6, at(200), {0: (9, 10, 10)}),
        [carried],
        {0: Counts(1, first_at=at(80), first_record_at=at(81))},
    )
    assert gaps_of([behind]) == (gap.ended(6, at(80), at(81)),)
    inside = account_of(batch, before, explained, {(0, (7, 8)): Neighbours(at(90), at(95), at(96))}, "lost").gaps
    assert [(gap.newest_before, gap.next_after, gap.next_record_at, gap.next_batch) for gap in inside] == [
        (at(90), at(95), at(96), 5)
    ]


RECORDS, MARKER, ABORTED = (10, 13, 3, False), (13, 14, 1, True), (14, 16, 2, True)
"""Offsets 10 to 12 are records, 13 is a marker, 14 and 15 are aborted records."""


@pytest.mark.parametrize(
    ("holes", "log", "skipped", "unexplained"),
    [
        ([(13, 16)], [RECORDS, MARKER, ABORTED], 3, []),
        ([(13, 16)], [MARKER], 1, [(14, 16)]),
        ([(13, 16)], [], 0, [(13, 16)]),
        ([(12, 14)], [MARKER, ABORTED], 1, [(12, 13)]),
        ([(10, 12), (13, 14)], [(10, 13, 1, False), MARKER], 1, [(10, 12)]),  # compaction removed two of three records
        ([(13, 14), (15, 17)], [(13, 14, 0, True), (14, 16, 1, True)], 0, [(13, 14), (15, 17)]),  # also of these
    ],
)
def test_an_offset_is_skipped_only_where_the_log_shows_why(
    holes: list[Any], log: list[Any], skipped: int, unexplained: list[Any]
) -> None:
    found = explain("t", 0, holes, [LogBatch(*one) for one in log])
    assert found == Explained(skipped, size(unexplained), tuple(unexplained))


holes = st.lists(st.integers(1, 6), max_size=120).map(lambda steps: [(n - 1, n) for n in accumulate(steps) if n % 3])


@given(holes, st.sets(st.integers(0, 100)), st.integers(1, 50))
def test_offsets_that_are_looked_at_piece_by_piece_are_explained_as_at_once(
    missing: list[Offsets], markers: set[int], most: int
) -> None:
    log = [LogBatch(n, n + 1, 1, True) for n in sorted(markers)]
    found = Explained()
    for first in range(0, len(missing), most):
        found += explain("t", 0, missing[first : first + most], log)
    assert found == explain("t", 0, missing, log)


def test_a_record_that_the_broker_has_and_the_table_has_not_is_no_gap() -> None:
    with pytest.raises(BalanceBroken, match=r"records at offsets \[11, 12\), and the landing table lacks at least 1"):
        explain("t", 0, [(11, 12), (13, 14)], [LogBatch(*RECORDS), LogBatch(*MARKER)])


def test_a_batch_whose_offsets_are_not_all_accounted_for_is_never_clocked() -> None:
    batch = Batch("t", "id", 0, 5, at(100), {0: (5, 10, 10), 1: (0, 0, 0)})
    counts = {0: Counts(landed=2, quarantined=1)}
    assert undelivered(batch, counts) == {0: 2}
    check_accounted(batch, counts, Account(5, {0: 1}, {0: 1}))
    for account in (Account(5), Account(5, {0: 1}), Account(5, {0: 2}, {0: 1}), Account(5, {0: 2}, {1: 1})):
        with pytest.raises(BalanceBroken, match=r"batch 5 read \d offsets of partition \d, and that is not landed"):
            check_accounted(batch, counts, account)


def test_a_partition_with_many_gaps_records_the_widest_distances() -> None:
    holes = [(n, n + 1) for n in (0, 10, 12, 30, 31)]
    assert gap_ranges(holes, most=3) == [(0, 1), (10, 13), (30, 32)]
    assert gap_ranges(holes, most=1) == [(0, 32)]
    assert gap_ranges(holes) == holes
    assert gap_ranges([]) == []


def test_a_compacted_topic_is_refused_until_the_pipeline_file_accepts_it() -> None:
    compacted = replace(topic(0, 4), is_compacted=True)
    with pytest.raises(TopicCompacted, match=r"topic t is compacted .*cleanup.policy to delete.*`compacted: accept`"):
        refuse_compacted(compacted, is_accepted=False)
    refuse_compacted(compacted, is_accepted=True)
    refuse_compacted(topic(0, 4), is_accepted=False)


def test_a_batch_must_hold_one_row_per_delivered_record() -> None:
    batch, counts = Batch("t", "id", 0, 1, START, {0: (0, 3, 3)}), {0: Counts(landed=2, quarantined=1)}
    check_delivered(batch, counts, 3)
    check_delivered(batch, counts, None)
    for delivered in (2, 4):
        with pytest.raises(BalanceBroken, match=f"holds 3 rows, but {delivered} records were delivered"):
            check_delivered(batch, counts, delivered)


def test_what_was_deleted_of_a_partition_that_was_never_landed_is_lost() -> None:
    two = Topic("t", "id", (Partition(0, 0, 9), Partition(1, 3, 9)))
    with pytest.raises(OffsetsGone, match=r"t/1:0-3"):
        next_batch(two, at(200), [row(9)], NOTHING)
    batch = next_batch(two, at(200), [row(9)], GivenUp((Lost("t", 1, 0, 3),), "ann", "retention"))
    assert batch.ranges == {0: (9, 9, 9), 1: (3, 9, 9)}
    (gap,) = batch.gaps
    assert (gap.epoch, gap.newest_before) == (0, None)


def test_what_was_deleted_of_a_topic_that_was_made_anew_is_lost_too() -> None:
    with pytest.raises(OffsetsGone, match=r"t/0:0-4"):
        next_batch(topic(4, 9, "another"), at(200), [row(9)], NOTHING)
    batch = next_batch(topic(4, 9, "another"), at(200), [row(9)], GivenUp((Lost("t", 0, 0, 4),), "ann", "retention"))
    gap, _ = batch.gaps
    assert (batch.epoch, gap.epoch, gap.newest_before) == (1, 1, None)


def test_what_a_deleted_topic_got_after_its_last_landing_is_a_gap_without_anybodys_act() -> None:
    """Also of a partition that the new topic has no more, and from where its clock promises that all has landed."""
    idle, empty = row(9, clock_at=at(70)), row(0, partition=1, newest_at=None, clock_at=None)
    batch = next_batch(topic(0, 0, "another"), at(200), [idle, empty], NOTHING)
    assert not batch.is_empty
    assert Batch.from_json(batch.to_json()) == batch
    assert [(str(gap.lost), gap.epoch, gap.batch, gap.who) for gap in batch.gaps] == [
        ("t/0:9-?", 0, 5, "landing"),
        ("t/1:0-?", 0, 5, "landing"),
    ]
    bounds = [gap.at_pin(5, seconds(10), seconds(60)) for gap in batch.gaps]
    assert bounds == [Gap("t", at(60), at(260)), Gap("t", None, at(260))]
    carried = landed(batch, [idle, empty], {})
    behind = landed(
        Batch("t", "another", 1, 6, at(300), {0: (0, 1, 1)}),
        [carried],
        {0: Counts(1, first_at=at(80), first_record_at=at(80))},
    )
    assert gaps_of([behind]) == batch.gaps  # the new topic says nothing of what the old one got
    assert next_batch(topic(0, 4, "another"), at(300), [behind], NOTHING).gaps == ()


def test_offsets_that_are_known_to_be_lost_with_their_topic_are_one_gap_with_what_came_behind_them() -> None:
    lost = GivenUp((Lost("t", 0, 5, 7),), "ann", "deleted by mistake")
    (gap,) = next_batch(topic(0, 4, "another"), at(200), [row(5, end_offset=7)], lost).gaps
    assert (gap.who, gap.at_pin(5, seconds(10), seconds(60))) == ("ann", Gap("t", at(40), at(260)))


def test_what_was_deleted_before_the_first_landing_is_a_gap_without_anybodys_act() -> None:
    batch = next_batch(topic(4, 9), at(200), [], NOTHING)
    (gap,) = batch.gaps
    assert (gap.lost, gap.epoch, gap.batch, gap.who) == (Lost("t", 0, 0, 4), 0, 1, "landing")
    assert gap.at_pin(1, seconds(10), seconds(60)) == Gap("t", None, at(260))
    assert next_batch(topic(0, 9), at(200), [], NOTHING).gaps == ()


@pytest.mark.parametrize("cores", [1, 2, 4, 16, 200])
def test_a_batch_is_spread_over_the_cores_in_a_bounded_number_of_files(cores: int) -> None:
    for records in (0, 1, 49_999, 50_000, 50_001, 250_000, 250_001, 600_000, 1_000_000, 5_000_000, 600_000_000):
        tasks = spread.tasks(records, cores)
        assert 1 <= tasks <= max(1, -(-records // spread.LEAST_PER_TASK))
        assert records <= tasks * spread.RECORDS_PER_FILE
        assert tasks < cores or tasks % cores == 0  # no core waits for the last task
        assert tasks >= cores or records < cores * spread.LEAST_PER_TASK


@pytest.mark.parametrize("sizes", [[570, 30], [950, *[1] * 50], [*[1] * 50, 950], [1] * 100, [300, 200, 100]])
@pytest.mark.parametrize("tasks", [2, 3, 8])
def test_no_task_gets_much_more_than_its_share_however_uneven_the_partitions_are(sizes: list[int], tasks: int) -> None:
    wanted, total = spread.pieces(tasks, len(sizes)), sum(sizes)
    pieces = [size / n for size in sizes for n in [max(1, round(size / total * wanted))] for _ in range(n)]
    bounds = [len(pieces) * n // tasks for n in range(tasks + 1)]  # as Spark groups neighbours
    assert max(sum(pieces[i:j]) for i, j in pairwise(bounds)) <= 1.5 * total / tasks


def test_a_small_batch_is_one_task_that_reads_each_partition_as_it_is() -> None:
    assert (spread.tasks(10_000, cores=8), spread.pieces(1, 100)) == (1, 0)
