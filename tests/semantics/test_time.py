"""Intervals, clocks and closing: boundaries that the worked vectors do not cover."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.scenario import START, at, clock, seconds
from windrow.semantics.clock import (
    END_OF_STREAM,
    IdlePolicy,
    NotCaughtUp,
    PartitionClock,
    drain,
    holder,
    topic_clock,
    watermark,
)
from windrow.semantics.close import frontier, is_closed
from windrow.semantics.intervals import LATEST, Interval, interval_of, intervals_between, on_grid
from windrow.semantics.match import matches

TEN = timedelta(minutes=10)
CAUGHT_UP = IdlePolicy("caught_up", seconds(100))


@pytest.mark.parametrize(("t", "begins"), [(-0.000001, -600), (0, 0), (599.999999, 0), (600, 600)])
def test_an_interval_holds_its_start_and_not_its_end(t: float, begins: float) -> None:
    interval = interval_of(at(t), START, TEN)
    assert interval == Interval(at(begins), at(begins + 600))
    assert interval.contains(at(t))
    assert not interval.contains(interval.end)


def test_intervals_between_are_whole_and_touch() -> None:
    assert list(intervals_between(START, at(1799), TEN)) == [
        Interval(at(0), at(600)),
        Interval(at(600), at(1200)),
    ]
    assert len(list(intervals_between(START, at(1800), TEN))) == 3
    assert list(intervals_between(START, at(-1), TEN)) == []


def test_the_grid_is_laid_from_midnight_utc() -> None:
    assert on_grid(START + timedelta(hours=7, minutes=30), timedelta(minutes=90))
    assert not on_grid(START + timedelta(hours=7), timedelta(minutes=90))
    with pytest.raises(ValueError, match="not on the UTC grid"):
        interval_of(at(0), at(1), TEN)


@pytest.mark.parametrize("length", [timedelta(minutes=7), timedelta(hours=48), timedelta(0), -TEN])
def test_a_length_that_does_not_divide_a_day_is_refused(length: timedelta) -> None:
    with pytest.raises(ValueError, match="does not divide 24 hours"):
        interval_of(at(0), START, length)


def test_a_naive_datetime_is_refused() -> None:
    naive = datetime(2026, 11, 1)  # noqa: DTZ001
    for refuses in (lambda: Interval(naive, naive + TEN), lambda: on_grid(naive, TEN)):
        with pytest.raises(ValueError, match="no time zone"):
            refuses()


def test_the_edge_of_the_calendar_does_not_overflow() -> None:
    earliest = datetime(1, 1, 1, tzinfo=UTC)
    assert matches(earliest, earliest, seconds(10), seconds(10)), "no overflow at the edge of the calendar"
    assert frontier(earliest, seconds(100), seconds(10)) == earliest


CLOCKS: list[tuple[str, dict[str, Any], dict[str, Any], float | None]] = [
    ("an older event does not move it back", {"newest": 50}, {"newest": 20}, 50),
    ("a batch without events leaves it", {"newest": 50}, {}, 50),
    ("an event of the far past moves nothing", {"newest": 50}, {"newest": -(10**9)}, 50),
    ("a newer event moves it", {"newest": 50}, {"newest": 51}, 51),
    ("idling beyond the events moves it", {"newest": 50}, {"landed": 200, "idle": CAUGHT_UP}, 100),
    ("idling short of the events moves nothing", {"newest": 50}, {"landed": 149, "idle": CAUGHT_UP}, 50),
    ("a host clock that steps back moves nothing", {"landed": 200, "idle": CAUGHT_UP}, {"landed": 0}, 100),
    (
        "a position beyond the end offset is no proof",
        {"newest": 50},
        {"landed": 500, "idle": CAUGHT_UP, "next_offset": 9, "end_offset": 8},
        50,
    ),
]


@pytest.mark.parametrize(("first", "then", "stands_at"), [c[1:] for c in CLOCKS], ids=[c[0] for c in CLOCKS])
def test_a_partition_clock(first: dict[str, Any], then: dict[str, Any], stands_at: float) -> None:
    assert clock(clock(**first), **then).clock_at == at(stands_at)


def test_out_of_orderness_holds_both_events_and_idling_back() -> None:
    assert clock(newest=50, disorder=7).clock_at == at(43)
    assert clock(landed=1000, idle=CAUGHT_UP, disorder=7).clock_at == at(893)


def test_idling_moves_the_clock_and_not_the_event_clock() -> None:
    idled = clock(clock(newest=50), landed=1000, idle=CAUGHT_UP)
    assert (idled.clock_at, idled.event_clock(seconds(7))) == (at(900), at(43))
    assert clock(landed=1000, idle=CAUGHT_UP).event_clock(seconds(7)) is None


def test_a_partition_that_appears_later_starts_at_its_topics_clock() -> None:
    assert clock(p=1, topic_clock=40).clock_at == at(40)
    assert clock(p=1, topic_clock=40, newest=30).clock_at == at(40), "and does not go back before it"
    assert clock(p=1).clock_at is None, "in a topic without a clock it has none either"


def test_a_clock_follows_only_its_own_partition() -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        clock(clock(p=0), p=1)


def test_one_partition_without_a_clock_holds_the_watermark() -> None:
    empty, full = clock(p=1), clock(p=0, newest=50)
    assert watermark([full, empty]) is None
    assert holder([full, empty]) == empty
    assert not is_closed(Interval(at(0), at(1)), frontier(None, seconds(0), seconds(0)))


def test_the_watermark_is_the_least_over_both_sides_and_has_a_holder() -> None:
    parts = [clock(p=0, newest=50), clock(p=1, newest=30), clock(topic="right", newest=40)]
    assert (watermark(parts), topic_clock(parts[2:]), holder(parts)) == (at(30), at(40), parts[1])
    assert (watermark([]), holder([])) == (None, None)


def test_of_equal_clocks_the_one_with_most_lag_holds() -> None:
    parts = [clock(p=0, newest=30), clock(p=1, newest=30, next_offset=1, end_offset=9)]
    assert holder(parts) == parts[1]


def test_a_deleted_topic_no_longer_holds_the_clock() -> None:
    old = PartitionClock("left", 0, 0, 5, 9, at(10), at(10))
    new = PartitionClock("left", 1, 0, 5, 5, at(70), at(70))
    assert watermark([old, new]) == at(70)
    assert watermark([old]) == at(10)


def test_a_drain_closes_everything_and_needs_every_partition_caught_up() -> None:
    done, behind = clock(p=0), clock(p=1, next_offset=3, end_offset=8)
    everything = frontier(drain([done]), timedelta(days=400), timedelta(days=1))
    assert drain([done]) == END_OF_STREAM == LATEST
    assert is_closed(interval_of(at(10**8), START, TEN), everything)
    with pytest.raises(NotCaughtUp, match="left/1 at 3 of 8"):
        drain([done, behind])
