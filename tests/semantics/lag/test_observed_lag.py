"""Who held the watermark for how long, and how far behind it was, from what landing runs saw."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from windrow.semantics.clock import PartitionClock
from windrow.semantics.lag.observed import (
    ClockReading,
    by_partition,
    complete_until,
    readings_of,
    shares_held,
    thinned,
    until_closed,
)

START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def clock(topic: str, partition: int, newest: float | None, at: float | None, waiting: int = 0) -> PartitionClock:
    def instant(minutes: float | None) -> datetime | None:
        return None if minutes is None else START + minutes * MINUTE

    return PartitionClock(topic, 0, partition, 10, 10 + waiting, instant(newest), instant(at))


def reading(minutes: float, *clocks: PartitionClock) -> ClockReading:
    return ClockReading(START + minutes * MINUTE, clocks)


def test_the_watermark_is_as_far_behind_as_the_slowest_partition() -> None:
    seen = reading(60, clock("a", 0, 58, 57), clock("a", 1, 50, 49), clock("b", 0, 59, 58))
    assert seen.behind == 11 * MINUTE
    assert seen.held_by == "a/1"


def test_without_a_clock_on_every_partition_there_is_no_watermark_and_the_one_without_holds() -> None:
    seen = reading(60, clock("a", 0, 58, 57), clock("b", 0, None, None, waiting=3))
    assert seen.behind is None
    assert seen.held_by == "b/0"
    assert seen.waiting == 3


def test_a_holder_counts_until_the_next_reading() -> None:
    fast, slow = clock("a", 0, 50, 50), clock("a", 1, 10, 10)
    seen = [reading(0, fast, slow), reading(30, fast), reading(40, fast, slow)]
    assert shares_held(seen) == {"a/1": 0.75, "a/0": 0.25}
    assert shares_held(seen[:1]) == {"a/1": 1.0}
    assert shares_held([]) == {}


def test_a_partition_is_summed_up_over_the_time_and_the_one_that_held_longest_comes_first() -> None:
    seen = [
        reading(10, clock("a", 0, 9, 8), clock("b", 0, 4, 3, waiting=7)),
        reading(20, clock("a", 0, 18, 17), clock("b", 0, 19, 18, waiting=2)),
        reading(21, clock("a", 0, 19, 18), clock("b", 0, 20, 19)),
    ]
    first, second = by_partition(seen)
    assert (first.name, first.most_records, first.usual_behind, first.most_behind) == ("b/0", 7, MINUTE, 6 * MINUTE)
    assert (second.name, second.most_records, second.usual_behind) == ("a/0", 0, 2 * MINUTE)
    assert first.held == 10 / 11


def test_thinning_keeps_the_first_and_the_last_and_never_more_than_the_limit() -> None:
    seen = [reading(n) for n in range(1_000)]
    few = thinned(seen, 7)
    assert len(few) == 7
    assert (few[0], few[-1]) == (seen[0], seen[-1])
    assert thinned(seen[:7], 7) == seen[:7]


def test_readings_end_with_the_one_that_closes_the_range() -> None:
    readings = [reading(n, clock("a", 0, n, n)) for n in (10, 20, 21, 30)]
    end = START + 10 * MINUTE
    assert until_closed(readings, end, after=9 * MINUTE, grace=2 * MINUTE) == readings[:3]
    assert until_closed(readings, end, after=30 * MINUTE, grace=MINUTE) == readings


def test_records_are_complete_up_to_the_least_clock_of_their_topics() -> None:
    clocks = (clock("a", 0, 9, 8), clock("a", 1, 7, 6), clock("b", 0, 5, 4), clock("c", 0, None, None))
    assert complete_until(clocks, ["a"]) == START + 6 * MINUTE
    assert complete_until(clocks, ["a", "b"]) == START + 4 * MINUTE
    assert complete_until(clocks, ["a", "c"]) is None
    assert complete_until([], []) is None


def test_rows_of_the_clock_table_become_readings_in_the_order_of_their_observations() -> None:
    def row(observation: int, partition: int) -> dict[str, object]:
        at = START + observation * MINUTE
        numbers = {"epoch": 0, "partition": partition, "next_offset": 5, "end_offset": 6}
        return {"observation": observation, "topic": "a", "newest_at": at, "clock_at": at, "landed_at": at, **numbers}

    found = readings_of([row(2, 1), row(1, 0), row(2, 0), row(1, 1)])
    assert [one.at for one in found] == [START + MINUTE, START + 2 * MINUTE]
    assert [[c.partition for c in one.clocks] for one in found] == [[0, 1], [0, 1]]
    assert found[0].waiting == 2
