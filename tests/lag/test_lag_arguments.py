"""The options of a lag analysis: what they mean, and how wrong ones are refused. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from windrow.config import Pipeline, load
from windrow.jobs.lag.arguments import POLICIES, LagOptions, request_of
from windrow.jobs.run import BadRequest, WindowStillOpen
from windrow.outcomes import NothingToDo
from windrow.places import PROJECT
from windrow.semantics.lag.scenario import Lag

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FRONTIER = datetime(2026, 11, 3, 12, 5, tzinfo=UTC)
KNOWN = {"feed.served": (0, 1, 2), "feed.engagements": (0, 1, 2)}
DAY_2 = ("2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z")


@pytest.fixture(scope="module")
def feed() -> Pipeline:
    return load(PROJECT / "dags" / "pipelines" / "feed.yaml")


def test_without_arguments_the_last_closed_day_is_compared_under_every_clock_and_some_lags(feed: Pipeline) -> None:
    want = request_of(LagOptions(), feed, FRONTIER, KNOWN)
    assert want.end == FRONTIER.replace(minute=0)
    assert want.end - want.start == timedelta(days=1)
    assert {scenario.policy.kind for scenario in want.scenarios} == set(POLICIES)
    lags = {scenario.lag.delay for scenario in want.scenarios if scenario.lag and scenario.lag.kind == "constant"}
    assert lags == {MINUTE, 10 * MINUTE, HOUR, 6 * HOUR}
    assert want.scenarios[0].lag is None
    assert (want.wanted, want.sample) == ((0.99, 0.999), 1.0)
    assert len(want.scenarios) == 5 * (1 + 2 * (4 + 1))  # no lag; on each side four lags and a pause


def test_a_short_range_gets_lags_that_fit_into_it(feed: Pipeline) -> None:
    want = request_of(LagOptions("2026-11-02T00:00:00Z", "2026-11-02T01:00:00Z"), feed, FRONTIER, KNOWN)
    assert {s.lag.delay for s in want.scenarios if s.lag and s.lag.kind == "constant"} == {MINUTE, 10 * MINUTE}


def test_lists_take_commas_or_are_repeated_and_the_same_thing_twice_is_once(feed: Pipeline) -> None:
    texts = LagOptions(
        *DAY_2, sides=("clicks",), partitions=("0, 2",), lags=("5m,1h", "5m", ""), pauses=("30m",), drains=("2h",),
        rate="4", policies=("slowest",), windows=("30m,1h",), graces=("1m",), sample="10%", recalls=("0.95",),
    )  # fmt: skip
    want = request_of(texts, feed, FRONTIER, KNOWN)
    noon = datetime(2026, 11, 2, 12, tzinfo=UTC)
    assert [scenario.lag for scenario in want.scenarios[:5]] == [
        None,
        Lag.constant("clicks", 5 * MINUTE, (0, 2)),
        Lag.constant("clicks", HOUR, (0, 2)),
        Lag.pause("clicks", noon, noon + 30 * MINUTE, 4, (0, 2)),
        Lag.drain("clicks", noon, 2 * HOUR, 4, (0, 2)),
    ]
    # 30m and 1m are what the pipeline has: its own settings, and the window of an hour
    assert {scenario.after for scenario in want.scenarios} == {None, HOUR}
    assert {scenario.grace for scenario in want.scenarios} == {None}
    assert (want.windows, want.sample, want.wanted) == ((30 * MINUTE, HOUR), 0.1, (0.95,))


def test_rows_close_by_interval_unless_row_by_row_is_given(feed: Pipeline) -> None:
    assert {s.interval for s in request_of(LagOptions(*DAY_2), feed, FRONTIER, KNOWN).scenarios} == {feed.interval}
    assert {s.interval for s in request_of(LagOptions(*DAY_2, row_by_row=True), feed, FRONTIER, KNOWN).scenarios} == {
        None
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (LagOptions(*reversed(DAY_2)), "is empty: its end must be after its start"),
        (LagOptions(DAY_2[0], DAY_2[0]), "is empty"),
        (LagOptions("2026-10-01T00:00:00Z", DAY_2[0]), "feed starts at 2026-11-01"),
        (LagOptions("yesterday"), "is not an instant"),
        (LagOptions(*DAY_2, lags=("-5m",)), "--lag '-5m' is negative; a duration is 0s or more"),
        (LagOptions(*DAY_2, lags=("5",)), "write 5s, 5m, 5h"),
        (LagOptions(*DAY_2, pauses=("0s",)), "a pause ends after it begins"),
        (
            LagOptions(*DAY_2, sides=("middle",)),
            "'middle' is not a side: give left, right, both, a stream (served, ",
        ),
        (LagOptions(*DAY_2, partitions=("one",)), "a partition is a whole number from 0"),
        (LagOptions(*DAY_2, partitions=("-1",)), "a partition is a whole number from 0"),
        (
            LagOptions(*DAY_2, partitions=("0,7",)),
            "nothing would lag on partition 7 of left: its partitions are 0, 1, 2",
        ),
        (LagOptions(*DAY_2, policies=("fastest",)), "'fastest' is not a clock: the clocks are slowest"),
        (LagOptions(*DAY_2, rate="0"), "the rate is a whole number from 1"),
        (LagOptions(*DAY_2, sample="0"), "a sample is above 0 and at most 1, such as 0.1, not '0'"),
        (LagOptions(*DAY_2, sample="half"), "a sample is above 0"),
        (LagOptions(*DAY_2, recalls=("1",)), "a wanted recall is above 0 and below 1, such as 0.99"),
        (LagOptions(*DAY_2, recalls=("nan",)), "a wanted recall is above 0"),
        (LagOptions(*DAY_2, tick="1ms"), "a tick is at least a second"),
        (LagOptions(*DAY_2, windows=tuple(f"{n}m" for n in range(100))), "one run takes at most 500: give fewer"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_move(feed: Pipeline, texts: LagOptions, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        request_of(texts, feed, FRONTIER, KNOWN)
    assert message in str(refused.value)


@pytest.mark.parametrize("closed", [None, -HOUR, MINUTE])
def test_on_a_pipelines_first_day_there_is_nothing_to_do(feed: Pipeline, closed: timedelta | None) -> None:
    """A red run of the daily DAG would send a person to a pipeline that is as it should be."""
    frontier = None if closed is None else feed.start + closed
    with pytest.raises(NothingToDo, match="no interval has closed yet"):
        request_of(LagOptions(), feed, frontier, KNOWN)
    with pytest.raises((BadRequest, WindowStillOpen)):
        request_of(LagOptions(*DAY_2), feed, frontier, KNOWN)


def test_an_open_range_is_refused_with_where_it_could_end(feed: Pipeline) -> None:
    with pytest.raises(WindowStillOpen, match="end it at 2026-11-03T12:00:00") as refused:
        request_of(LagOptions("2026-11-03T00:00:00Z", "2026-11-04T00:00:00Z"), feed, FRONTIER, KNOWN)
    assert "labels of its last rows can still come" in str(refused.value)


def test_before_anything_has_landed_the_next_move_is_to_land(feed: Pipeline) -> None:
    with pytest.raises(NothingToDo, match="`windrow land feed`"):
        request_of(LagOptions(), feed, None, {})
