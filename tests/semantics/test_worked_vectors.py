"""The worked vectors of the contract, by their numbers. What needs a broker or two writers is elsewhere.

Unless a test says otherwise: before = 0, after = 100, grace = 10, out-of-orderness = 0, intervals of one second.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from support.generated import ENGAGEMENTS, KafkaRecord, oracle_records
from support.scenario import (
    PINS,
    START,
    L,
    R,
    as_of_pins,
    at,
    clock,
    join_at,
    labels_of,
    landed,
    right,
    seconds,
    spec,
    states_of,
)
from windrow.semantics.clock import IdlePolicy, watermark
from windrow.semantics.close import closes_at, frontier, is_closed
from windrow.semantics.intervals import Interval, interval_of
from windrow.semantics.records import Gap, Left, Record, RowId
from windrow.semantics.reference import event_clocks, reference_join

MATCHES = [
    # vector, left time, right times, before, joined
    ("1: the window's end is in, beyond it is out", 0, [100, 101], 0, [100]),
    ("1: a microsecond beyond the end is out", 0, [100, 100.000001], 0, [100]),
    ("2: the same time is in, before it is out", 50, [50, 49], 0, [50]),
    ("2: with before = 1 the window's start is in", 50, [50, 49], 1, [49, 50]),
    ("2: a microsecond before the start is out", 50, [49, 48.999999], 1, [49]),
]


@pytest.mark.parametrize(
    ("left_at", "rights", "before", "joined"), [v[1:] for v in MATCHES], ids=[v[0] for v in MATCHES]
)
def test_both_ends_of_the_window_are_in(left_at: int, rights: list[float], before: int, joined: list[float]) -> None:
    records = landed(L("k", left_at), *(R("k", t) for t in rights))
    assert labels_of(join_at(left_at, records, spec(right(before=seconds(before))))) == [joined]


@pytest.mark.parametrize(("w", "closed"), [(110, False), (110.999999, False), (111, True)])
def test_3_a_row_closes_when_its_whole_interval_is_before_the_frontier(w: float, closed: bool) -> None:
    assert is_closed(interval_of(at(0), START, seconds(1)), frontier(at(w), seconds(100), seconds(10))) is closed


def test_3_the_least_watermark_that_closes_is_end_plus_after_plus_grace() -> None:
    assert closes_at(Interval(at(0), at(1)), seconds(100), seconds(10)) == at(111)


def test_4_a_label_that_landed_before_its_row_is_joined() -> None:
    records = landed(R("k", 60, batch=1), L("k", 10, batch=2))
    assert labels_of(join_at(10, records, spec())) == [[60]]


def test_5_a_label_behind_the_clock_is_joined_while_the_window_is_open() -> None:
    interval = Interval(at(0), at(1))
    first = clock(newest=50)
    assert not is_closed(interval, frontier(watermark([first]), seconds(100), seconds(10)))
    records = landed(L("k", 0, batch=1), R("j", 50, batch=1), R("k", 30, batch=2))
    assert labels_of(join_at(0, records, spec())) == [[30]]


def test_6_a_left_row_behind_the_clock_is_accepted_and_closes_later_with_its_labels() -> None:
    records = landed(R("j", 50, batch=1), L("k", 0, batch=2), R("k", 70, batch=3))
    before, after = frontier(at(50), seconds(100), seconds(10)), frontier(at(111), seconds(100), seconds(10))
    assert [is_closed(Interval(at(0), at(1)), f) for f in (before, after)] == [False, True]
    assert labels_of(join_at(0, records, spec())) == [[70]]


def test_7_a_left_row_above_the_pin_is_not_in_the_publication_and_is_in_a_rebuild() -> None:
    records = landed(L("k", 0, batch=1), L("k", 0, batch=2))
    assert len(join_at(0, records, spec(), {"left": 1, "right": 1}).rows) == 1
    assert len(join_at(0, records, spec(), {"left": 2, "right": 1}).rows) == 2


def test_8_a_label_above_the_pin_still_joins_every_interval_that_is_not_published_yet() -> None:
    records = landed(L("k", 0), L("k", 80), R("k", 90, batch=2))
    assert labels_of(join_at(0, records, spec(), {"left": 1, "right": 1})) == [[]]
    assert labels_of(join_at(80, records, spec(), {"left": 1, "right": 2})) == [[90]]
    assert labels_of(join_at(0, records, spec(), {"left": 1, "right": 2})) == [[90]], "a rebuild of the first"


def test_9_the_same_key_and_time_at_two_offsets_are_two_rows() -> None:
    rows = join_at(5, landed(L("k", 5, offset=7), L("k", 5, offset=8)), spec()).rows
    assert [row.row_id.offset for row in rows] == [7, 8]


def test_10_the_same_offset_twice_is_one_row() -> None:
    records = landed(L("k", 5, offset=7, batch=1), L("k", 5, offset=7, batch=2))
    assert len(join_at(5, records, spec()).rows) == 1


@pytest.mark.parametrize(
    ("left_key", "right_key", "is_met"),
    [
        (("1", "12"), ("1", "12"), True),
        (("1", "12"), ("11", "2"), False),
        ((1, 12), ("1", "12"), False),
        ((1, 12), (1, 12.0), False),
        ((1, 1), (1, True), False),
        ((1, None), (1, None), False),
        ((1, float("nan")), (1, float("nan")), True),
    ],
)
def test_11_keys_are_equal_by_column_and_by_type(left_key: tuple, right_key: tuple, is_met: bool) -> None:
    two = spec(right(key=("a", "b")), left=Left("served", ("left",), ("a", "b")))
    left = L(None, 0, values=dict(zip("ab", left_key, strict=True)))
    label = R(None, 1, values=dict(zip("ab", right_key, strict=True)))
    assert labels_of(join_at(0, landed(left, label), two)) == [[1] if is_met else []]


def test_12_the_slowest_partition_decides() -> None:
    assert watermark([clock(p=0, newest=1_000_000), clock(p=1, newest=50)]) == at(50)


@pytest.mark.parametrize(("mode", "stands_at"), [("caught_up", at(9_900)), ("wait", None)])
def test_13_an_empty_partition_that_is_caught_up_follows_the_landing_clock(mode: str, stands_at: datetime) -> None:
    assert clock(landed=10_000, idle=IdlePolicy(mode, seconds(100))).clock_at == stands_at


def test_14_a_partition_with_lag_never_advances_by_waiting() -> None:
    idle = IdlePolicy("caught_up", seconds(100))
    seen = clock(newest=50, next_offset=3, end_offset=8, landed=60, idle=idle)
    an_hour_later = clock(seen, next_offset=3, end_offset=8, landed=3_660, idle=idle)
    assert (an_hour_later.lag, an_hour_later.clock_at) == (5, at(50))
    assert clock(seen, next_offset=8, landed=3_660, idle=idle).clock_at == at(3_560), "caught up, it does"


def test_15_one_batch_can_hold_a_row_its_label_and_what_closes_it() -> None:
    records = landed(L("k", 0), R("k", 100), L("j", 500), R("j", 500))
    clocks = as_of_pins(records)
    assert clocks["right"] == (at(500),)
    joined = join_at(0, records, spec(event_clocks=clocks))
    assert (labels_of(joined), states_of(joined)) == ([[100]], [("positive", None)])


def test_16_an_event_of_2099_is_quarantined_and_moves_no_clock() -> None:
    def sent(offset: int, engaged_at: str, stamped: datetime) -> KafkaRecord:
        value = {"event_id": None, "user_id": 1, "item_id": 2, "action": "click", "engaged_at": engaged_at}
        return KafkaRecord(ENGAGEMENTS, 0, offset, json.dumps(value).encode(), stamped)

    of_2099 = sent(0, "2099-01-01T00:00:00Z", datetime(2099, 1, 1, tzinfo=UTC))
    good = sent(1, "2026-11-01T00:00:05Z", at(5))
    ahead, other = oracle_records([of_2099, good])
    assert (ahead.quarantined, ahead.event_at) == ("event_time_ahead", None)
    assert (other.quarantined, other.event_at) == (None, at(5))
    assert event_clocks([ahead, other], {ENGAGEMENTS: 1}, {ENGAGEMENTS: seconds(0)}) == {ENGAGEMENTS: (at(5),)}


def test_17_an_unreachable_label_side_holds_the_clock_and_the_rows_wait() -> None:
    last_seen = clock(topic="right", newest=50, landed=60)  # nothing was asked since: no observation, no advance
    w = watermark([clock(topic="left", newest=7_200), last_seen])
    assert not is_closed(Interval(at(0), at(1)), frontier(w, seconds(100), seconds(10)))


@pytest.mark.parametrize(
    ("newest_label_at", "silence", "state"),
    [
        (100, "unknown", ("unknown", "side_silent")),
        (100.000001, "unknown", ("negative", None)),
        (100, "negative", ("negative", None)),
        (None, "unknown", ("unknown", "side_silent")),
    ],
)
def test_17_a_silent_label_side_is_unknown_and_never_negative(
    newest_label_at: float | None, silence: str, state: tuple[str, str | None]
) -> None:
    records = landed(L("k", 0), *([] if newest_label_at is None else [R("j", newest_label_at)]))
    by = spec(right(silence=silence), event_clocks=as_of_pins(records))
    assert states_of(join_at(0, records, by)) == [state]


def test_18_a_window_across_midnight_is_joined_from_either_day() -> None:
    served = datetime(2026, 11, 1, 23, 59, 30, tzinfo=UTC)
    label = datetime(2026, 11, 2, 0, 0, 20, tzinfo=UTC)
    records = [
        Record(RowId("left", 0, 0, 0), 1, served, {"key": "k"}),
        Record(RowId("right", 0, 0, 0), 1, label, {"key": "k"}),
    ]
    for length in (timedelta(minutes=10), timedelta(days=1)):
        by = spec(right(after=timedelta(minutes=1)), interval=length)
        joined = reference_join(records, by, interval_of(served, START, length), PINS)
        assert [m.event_at for m in joined.rows[0].matches["labels"]] == [label]
    next_day = reference_join(records, by, interval_of(label, START, timedelta(days=1)), PINS)
    assert next_day.rows == (), "the row is in its own day only"


@contextmanager
def process_time_zone(name: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
        time.tzset()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("day", [(2026, 3, 28), (2026, 10, 24)], ids=["to summer time", "from summer time"])
def test_19_a_day_is_24_hours_in_every_process_time_zone(zone: str, day: tuple[int, int, int]) -> None:
    served = datetime(*day, 12, tzinfo=UTC)
    in_window, beyond = served + timedelta(hours=24), served + timedelta(hours=24, microseconds=1)

    def local(t: datetime) -> datetime:
        return t.astimezone(ZoneInfo("Europe/Berlin"))  # a zone whose wall clock jumps that night

    with process_time_zone(zone):
        records = [
            Record(RowId("left", 0, 0, 0), 1, local(served), {"key": "k"}),
            Record(RowId("right", 0, 0, 0), 1, local(in_window), {"key": "k"}),
            Record(RowId("right", 0, 0, 1), 1, local(beyond), {"key": "k"}),
        ]
        start = datetime(*day, tzinfo=UTC)
        by = spec(right(after=timedelta(hours=24)), start=start, interval=timedelta(hours=1))
        interval = interval_of(local(served), local(start), by.interval)
        joined = reference_join(records, by, interval, PINS)
    assert interval == Interval(served, served + timedelta(hours=1))
    assert [m.event_at for m in joined.rows[0].matches["labels"]] == [in_window]


@pytest.mark.parametrize(
    ("gap", "state"),
    [
        (Gap("right", at(100), at(120)), ("unknown", "offset_gap")),
        (Gap("right", at(100.000001), at(120)), ("negative", None)),
        (Gap("right", at(-20), at(0)), ("unknown", "offset_gap")),
        (Gap("right", at(-20), at(-0.000001)), ("negative", None)),
        (Gap("right", None, at(5)), ("unknown", "offset_gap")),
        (Gap("left", at(0), at(1)), ("negative", None)),
    ],
)
def test_20_an_accepted_gap_makes_the_windows_that_it_overlaps_unknown(gap: Gap, state: tuple) -> None:
    assert states_of(join_at(0, landed(L("k", 0)), spec(gaps=(gap,)))) == [state]


def test_22_the_same_event_id_and_time_in_two_partitions_is_one_row() -> None:
    by = spec(left=Left("served", ("left",), ("key",), event_id="id"))
    twice = landed(L("k", 0, p=1, offset=4, values={"id": "e"}), L("k", 0, p=0, offset=9, values={"id": "e"}))
    joined = join_at(0, twice, by)
    assert [(r.row_id.partition, r.row_id.offset) for r in joined.rows] == [(0, 9)]
    assert joined.balance.left.duplicate == 1


def test_23_a_feature_match_is_no_label() -> None:
    by = spec(right("features", role="feature", topics=("other",)), right())
    other = Record(RowId("other", 0, 0, 0), 1, at(5), {"key": "k"})
    joined = join_at(0, [*landed(L("k", 0)), other], by)
    assert (labels_of(joined, "features"), states_of(joined)) == ([[5]], [("negative", None)])


def test_24_each_stream_reads_a_record_by_its_own_columns() -> None:
    views = right("views", role="feature", columns=frozenset({"key", "length"}))
    by = spec(right("clicks", columns=frozenset({"key", "price"})), views)
    spoilt = [replace(R("k", t), unreadable={name: "wrong_type"}) for t, name in ((5, "price"), (6, "length"))]
    joined = join_at(0, landed(L("k", 0), *spoilt), by)
    assert (labels_of(joined, "clicks"), labels_of(joined, "views")) == ([[6]], [[5]])
    assert states_of(joined) == [("positive", "label_quarantined")]
    assert [joined.balance.right[name].read for name in ("clicks", "views")] == [1, 1]
    only_spoilt = join_at(0, landed(L("k", 0), spoilt[0]), by)
    assert states_of(only_spoilt) == [("unknown", "label_quarantined")]


def test_rule_9_a_label_goes_to_every_row_that_it_matches_in_served_order() -> None:
    by = spec(right(before=seconds(10), after=seconds(10)), interval=seconds(10))
    records = landed(L("k", 3), L("k", 5), L("k", 7), R("k", 6), R("k", 4))
    joined = join_at(0, records, by)
    assert [(r.event_at, r.row_id.offset) for r in joined.rows] == [(at(3), 0), (at(5), 1), (at(7), 2)]
    assert labels_of(joined) == [[4, 6]] * 3


def test_suppress_closes_a_two_minute_window_with_two_minutes_of_grace_at_minute_four() -> None:
    """Windows `[start, end)`, closed when `end + grace <= stream time`: a window of no `after` at all."""
    minute = timedelta(minutes=1)
    windows = [Interval(START + n * minute, START + (n + 2) * minute) for n in (0, 2, 4)]

    def closed_at(stream_time: timedelta) -> list[bool]:
        return [is_closed(w, frontier(START + stream_time, timedelta(0), 2 * minute)) for w in windows]

    assert closed_at(3 * minute) == [False, False, False]
    assert closed_at(4 * minute - timedelta(microseconds=1)) == [False, False, False]
    assert closed_at(4 * minute) == [True, False, False]
    assert closed_at(6 * minute) == [True, True, False]
