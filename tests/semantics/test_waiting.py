"""What waits, and what its bounds decide (rule 24): each boundary just in and just out, and properties."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.semantics.intervals import Interval
from windrow.semantics.waiting import Bounds, Decision, Grid, Landed, Part, decide, landed_by, measure

START = datetime(2026, 11, 1, tzinfo=UTC)
TEN = timedelta(seconds=10)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def interval(start: int) -> Interval:
    return Interval(at(start), at(start + 10))


def landed(*times: int, newest: int | None = None, is_behind: bool = False) -> Landed:
    """One row at each time; the newest left event is the newest of them."""
    parts = tuple(Part(1, 100, at(one), at(one)) for one in times)
    return Landed(parts, at(max(times) if newest is None else newest), is_behind)


GRID = Grid(START, TEN, frontier=at(20))
"""[20, 30) is the first open interval."""


def forced(found: Decision) -> list[int]:
    return [(one.start - START) // timedelta(seconds=1) for one in found.forced]


def test_what_is_closed_does_not_wait_and_what_begins_at_the_frontier_does() -> None:
    assert measure(landed(0, 19, 20, 35), GRID).rows == 2
    assert measure(landed(0, 19, 20, 35), replace(GRID, frontier=at(19))).rows == 3  # [10, 20) is open
    assert measure(landed(0, 19), replace(GRID, frontier=None)).rows == 2


def test_what_is_published_or_blocked_before_it_closes_does_not_wait() -> None:
    waiting = measure(landed(20, 29, 30, 40), replace(GRID, passed=frozenset({at(20)})))
    assert (waiting.rows, waiting.bytes, waiting.oldest) == (2, 200, interval(30))
    assert waiting.age == timedelta(0)  # from 40, the end of the oldest, to 40


def test_age_is_from_the_end_of_the_oldest_to_the_newest_left_event_and_never_negative() -> None:
    assert measure(landed(20, 71), GRID).age == timedelta(seconds=41)
    assert measure(landed(20, 71, newest=29), GRID).age == timedelta(0)
    assert measure(Landed((), None), GRID).age == timedelta(0)


@pytest.mark.parametrize(
    ("bounds", "exceeded"),
    [
        (Bounds(max_rows=3), []),
        (Bounds(max_rows=2), ["3 rows > max_rows 2"]),
        (Bounds(max_bytes=300), []),
        (Bounds(max_bytes=299), ["300 B > max_bytes 299 B"]),
        (Bounds(max_age=timedelta(seconds=15)), []),
        (Bounds(max_age=timedelta(seconds=14)), ["15s > max_age 14s"]),
        (Bounds(1, 1, TEN, "alert"), ["3 rows > max_rows 1", "300 B > max_bytes 1 B", "15s > max_age 10s"]),
        (Bounds(policy="force"), []),
    ],
)
def test_equal_to_a_bound_is_within_it(bounds: Bounds, exceeded: list[str]) -> None:
    found = decide(landed(20, 32, 45), GRID, bounds, most=9)
    assert list(found.exceeded) == exceeded
    assert found.forced == (), "only `force` forces"


def test_force_takes_the_oldest_and_as_few_as_bring_the_rest_within_every_bound() -> None:
    seen = landed(20, 21, 32, 45, 46)
    assert forced(decide(seen, GRID, Bounds(max_rows=5, policy="force"), 9)) == []
    assert forced(decide(seen, GRID, Bounds(max_rows=3, policy="force"), 9)) == [20]
    assert forced(decide(seen, GRID, Bounds(max_rows=2, policy="force"), 9)) == [20, 30]
    assert forced(decide(seen, GRID, Bounds(max_bytes=200, policy="force"), 9)) == [20, 30]
    assert forced(decide(seen, GRID, Bounds(max_age=timedelta(seconds=15), policy="force"), 9)) == [20]
    assert forced(decide(seen, GRID, Bounds(max_rows=2, policy="force"), 1)) == [20], "at most so many"


def test_nothing_is_forced_before_its_own_rows_are_there() -> None:
    rows = Bounds(max_rows=1, policy="force")
    assert forced(decide(landed(20, 21, 22, newest=29), GRID, rows, 9)) == []
    assert forced(decide(landed(20, 21, 22, newest=30), GRID, rows, 9)) == [20]
    assert forced(decide(landed(25, 26, 55, newest=None), GRID, Bounds(max_rows=0, policy="force"), 9)) == [20, 30, 40]


def test_nothing_is_forced_while_records_wait_to_be_landed() -> None:
    rows = Bounds(max_rows=1, policy="force")
    found = decide(landed(20, 21, 45, is_behind=True), GRID, rows, 9)
    assert (found.exceeded, found.forced) == (("3 rows > max_rows 1",), ())
    assert forced(decide(landed(20, 21, 45), GRID, rows, 9)) == [20]


def test_the_reason_names_every_bound_that_is_exceeded() -> None:
    found = decide(landed(20, 21, 45), GRID, Bounds(max_rows=1, max_age=TEN, policy="force"), 9)
    assert found.reason == "waiting: 3 rows > max_rows 1, 15s > max_age 10s"


# ---- counts from the clock


def row(observation: int, newest: int | None, landed: int, **more: Any) -> dict[str, Any]:
    place = {"topic": "t", "epoch": 0, "partition": 0, "next_offset": 9, "end_offset": 9, "clock_at": None}
    counts = {"before_start": 0, "bytes": 10 * landed}
    newest_at = None if newest is None else at(newest)
    return {**place, **counts, "observation": observation, "newest_at": newest_at, "landed": landed, **more}


def seen(newest: list[dict[str, Any]], earlier: list[dict[str, Any]] = [], topics: str = "t") -> Landed:  # noqa: B006
    return landed_by(newest, earlier, start=START, left=["t"], topics=topics.split())


def test_rows_count_between_the_newest_events_of_two_landings() -> None:
    found = seen([row(4, 40, 6)], [row(3, 30, 2), row(2, 30, 1)])
    assert [(one.rows, one.after, one.until) for one in found.parts] == [
        (1, START, at(30)),  # nothing earlier is known of it: from the start on
        (1, at(30), at(30)),  # it moved no clock
        (4, at(30), at(40)),
    ]
    assert [one.bytes for one in found.parts] == [10, 10, 40]
    assert found.newest_left_at == at(40)


def test_rows_before_the_start_and_of_another_epoch_do_not_count() -> None:
    assert [one.rows for one in seen([row(1, 40, 6, before_start=4)]).parts] == [2]
    assert [one.rows for one in seen([row(2, 40, 6, epoch=1), row(2, 9, 3)], [row(1, 9, 3)]).parts] == [6]
    assert [one.bytes for one in seen([row(1, 40, 6, bytes=None)]).parts] == [0]  # of an earlier release


def test_a_partition_with_lag_and_a_topic_that_never_landed_are_behind() -> None:
    assert not seen([row(1, 40, 6)]).is_behind
    assert seen([row(1, 40, 6, end_offset=10)]).is_behind
    assert seen([row(1, 40, 6)], topics="t u").is_behind


# ---- properties

TIMES = st.lists(st.integers(0, 200), min_size=1, max_size=30)
POLICIES = st.builds(
    Bounds,
    max_rows=st.none() | st.integers(0, 30),
    max_bytes=st.none() | st.integers(0, 3000),
    max_age=st.none() | st.integers(0, 200).map(lambda n: timedelta(seconds=n)),
    policy=st.just("force"),
)
FRONTIERS = st.none() | st.integers(0, 200).map(at)
PASSED = st.frozensets(st.integers(0, 20).map(lambda n: at(10 * n)), max_size=5)


@given(TIMES, FRONTIERS, PASSED, POLICIES, st.integers(1, 40))
def test_what_is_forced_is_open_behind_no_waiting_one_and_no_more_than_needed(
    times: list[int], frontier: datetime | None, passed: frozenset[datetime], bounds: Bounds, most: int
) -> None:
    grid = Grid(START, TEN, frontier, passed)
    here = landed(*times)
    found = decide(here, grid, bounds, most)
    starts = [one.start for one in found.forced]
    assert len(starts) <= most
    assert not passed & set(starts)
    assert here.newest_left_at is not None
    assert all((frontier is None or one.end > frontier) and one.end <= here.newest_left_at for one in found.forced)
    ahead = grid.waiting()
    assert starts == [next(ahead).start for _ in starts], "the oldest waiting ones, without a gap"
    rest = decide(here, replace(grid, passed=passed | set(starts)), bounds, most)
    if starts:
        without_last = decide(here, replace(grid, passed=passed | set(starts[:-1])), bounds, most)
        assert without_last.exceeded, "one less would not have been enough"
    if rest.exceeded and len(starts) < most:
        assert next(ahead).end > here.newest_left_at, "only what has rows to come is left"


@given(TIMES, FRONTIERS, PASSED)
def test_what_waits_is_what_a_look_at_each_row_finds(
    times: list[int], frontier: datetime | None, passed: frozenset[datetime]
) -> None:
    def waits(time: int) -> bool:
        own = interval(time // 10 * 10)
        return (frontier is None or own.end > frontier) and own.start not in passed

    assert measure(landed(*times), Grid(START, TEN, frontier, passed)).rows == sum(map(waits, times))


@given(st.integers(1, 50), st.integers(0, 100), st.integers(0, 100), st.lists(st.integers(-10, 300), min_size=2))
def test_a_part_lies_whole_between_its_bounds_and_its_last_row_at_the_end(
    rows: int, after: int, length: int, borders: list[int]
) -> None:
    part = Part(rows, 7 * rows, at(after), at(after + length))
    assert part.rows_from(at(after)) == rows
    assert part.rows_from(at(after + length)) >= 1
    assert part.rows_from(at(after + length) + timedelta(microseconds=1)) == 0
    counts = [part.rows_from(at(border)) for border in sorted(borders)]
    assert counts == sorted(counts, reverse=True)
