"""What lag costs under each clock: the findings of the Twitter study, the boundaries, and how bad input is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from support.lag_traffic import ENGAGED, EXTRA, FASTEST, NEWEST, SERVED, SLOWEST, at, idle, key, seconds, wall
from windrow.semantics.lag.outcome import LagOutcome, Spread, rounded_up, spread_of
from windrow.semantics.lag.scenario import Lag, LagScenario, NotAnalysable, Policy
from windrow.semantics.lag.setting import Event, LabelStream, LagSetting
from windrow.semantics.lag.simulation import simulate
from windrow.semantics.records import RowId

ZERO = timedelta(0)
CLOCKS = (SLOWEST, FASTEST, NEWEST, idle(30), wall())


def served(offset: int, event_at: float, who: str | None = "a", *, partition: int = 0, logged: float = -1) -> Event:
    when = at(event_at if logged == -1 else logged)
    return Event(RowId(SERVED, 0, partition, offset), at(event_at), when, {"served": key(who) if who else None})


def click(offset: int, event_at: float, who: str = "a", *, partition: int = 0, logged: float = -1) -> Event:
    when = at(event_at if logged == -1 else logged)
    return Event(RowId(ENGAGED, 0, partition, offset), at(event_at), when, {"clicks": key(who)})


def rules(partitions: int = 1, **changes: object) -> LagSetting:
    """Window [0, 20 s], grace 5 s, no disorder."""
    values: dict[str, object] = {
        "left": "served",
        "labels": (LabelStream("clicks", ZERO, seconds(20)),),
        "partition_ids": tuple((topic, 0, p) for topic in (ENGAGED, SERVED) for p in range(partitions)),
        "sides": {"left": (SERVED,), "right": (ENGAGED,)},
        "out_of_orderness": {SERVED: ZERO, ENGAGED: ZERO, EXTRA: ZERO},
        "after": seconds(20),
        "grace": seconds(5),
    }
    return LagSetting(**{**values, **changes})  # type: ignore[arg-type]


def steady(until: int = 400) -> list[Event]:
    """Every 5 s a row of a key of its own, served as it happens; its label comes 12 s later."""
    rows = [served(n, 5 * n, f"key {n}") for n in range(until // 5)]
    return rows + [click(n, 5 * n + 12, f"key {n}") for n in range(until // 5)]


# ---- the two findings


@pytest.mark.parametrize("policy", CLOCKS)
def test_left_lag_is_harmless_while_the_event_is_consumed_inside_its_window(policy: Policy) -> None:
    lagged = simulate(steady(), LagScenario(policy, Lag.constant("left", seconds(19))), rules())
    assert (lagged.rows_missing, lagged.labels_lost, lagged.recall) == (0, 0, 1.0)
    assert lagged.states_flipped == {}


@pytest.mark.parametrize("policy", [FASTEST, idle(30), wall()])
def test_left_lag_beyond_window_and_grace_loses_rows_where_the_clock_does_not_wait(policy: Policy) -> None:
    lagged = simulate(steady(), LagScenario(policy, Lag.constant("left", seconds(60))), rules())
    waits = policy.kind == "idle_timeout"  # the side still comes in, late but steadily: it is not idle
    assert (lagged.rows_missing > 50) is not waits
    assert (lagged.states_flipped.get(("positive", "missing"), 0) == lagged.rows_missing) or waits


@pytest.mark.parametrize("policy", [FASTEST, wall()])
def test_right_lag_loses_labels_under_a_clock_that_does_not_wait_for_it(policy: Policy) -> None:
    calm = simulate(steady(), LagScenario(policy), rules())
    lagged = simulate(steady(), LagScenario(policy, Lag.constant("right", seconds(60))), rules())
    assert calm.labels_lost == 0
    assert lagged.labels_lost > 0.8 * lagged.labels_total
    assert lagged.states_flipped == {("positive", "negative"): lagged.labels_lost}
    assert lagged.rows_closed_too_early == lagged.labels_lost
    assert lagged.wait is not None
    assert calm.wait is not None
    assert lagged.wait.p50 - calm.wait.p50 < seconds(5)  # nobody waited for it


def test_a_pause_longer_than_the_idle_timeout_loses_labels_and_a_shorter_one_none() -> None:
    long = Lag.pause("right", at(100), at(200))
    assert simulate(steady(), LagScenario(idle(30), long), rules()).labels_lost > 5
    assert simulate(steady(), LagScenario(idle(120), long), rules()).labels_lost == 0


@pytest.mark.parametrize("lag", [Lag.constant("right", seconds(60)), Lag.pause("right", at(100), at(200))])
def test_right_lag_only_delays_under_the_clock_of_the_slowest_partition(lag: Lag) -> None:
    lagged = simulate(steady(), LagScenario(SLOWEST, lag), rules())
    assert (lagged.labels_lost, lagged.rows_missing, lagged.states_flipped, lagged.recall) == (0, 0, {}, 1.0)
    assert lagged.delay is not None
    assert lagged.delay.max > seconds(50)
    assert lagged.rows_delayed == lagged.delay.count > 15


def test_one_lagging_partition_of_many_loses_labels_under_a_clock_of_the_newest_partition() -> None:
    events = [*steady(), *(click(n, 5 * n, f"key {n}", partition=1) for n in range(80))]
    events += [served(n, 5 * n, None, partition=1) for n in range(80)]
    lag = Lag.constant("right", seconds(60), (0,))
    newest, slowest = (simulate(events, LagScenario(policy, lag), rules(2)) for policy in (NEWEST, SLOWEST))
    assert newest.labels_lost > 50
    assert slowest.labels_lost == 0


# ---- boundaries, in pairs


@pytest.mark.parametrize(("logged", "lost"), [(30, 0), (31, 1)])
def test_a_label_is_lost_only_if_its_row_had_left_before_it_arrived(logged: int, lost: int) -> None:
    """W passes 25 at 30; at 30 the label lies before the event that moves the clock, in row order."""
    events = [served(0, 0), click(0, 10, logged=logged), served(1, 26, "b", logged=30), click(1, 26, "b", logged=30)]
    assert simulate(events, LagScenario(SLOWEST), rules()).labels_lost == lost


@pytest.mark.parametrize(("newest", "is_open"), [(25, 1), (25.000001, 0)])
def test_a_row_leaves_strictly_behind_its_window_and_grace(newest: float, is_open: int) -> None:
    events = [served(0, 0), served(1, newest, "b"), click(0, newest, "b")]
    outcome = simulate(events, LagScenario(SLOWEST), rules())
    assert outcome.rows_open == 1 + is_open  # the second one's window has not closed either way


def test_the_event_that_closes_a_row_is_itself_in_time() -> None:
    events = [served(0, 0), served(1, 30, "b"), click(0, 20, logged=30.5), click(1, 30, "b", logged=31)]
    assert simulate(events, LagScenario(SLOWEST), rules()).labels_lost == 0
    alone = [served(0, 0), click(0, 12, logged=60)]
    outcome = simulate(alone, LagScenario(wall(3600)), rules())
    assert (outcome.rows_open, outcome.labels_lost) == (0, 0)


@pytest.mark.parametrize(("logged", "lost"), [(29, 0), (30, 1)])
def test_a_tick_comes_before_what_arrives_at_its_instant(logged: int, lost: int) -> None:
    outcome = simulate([served(0, 0), click(0, 12, logged=logged)], LagScenario(wall(30)), rules())
    assert outcome.labels_lost == lost


def test_rows_close_with_their_interval_when_one_is_given() -> None:
    events = steady()
    by_row = simulate(events, LagScenario(SLOWEST), rules())
    by_minute = simulate(events, LagScenario(SLOWEST, interval=seconds(60)), rules())
    assert by_row.wait is not None
    assert by_minute.wait is not None
    assert by_minute.wait.p50 > by_row.wait.p50 + seconds(20)
    assert by_minute.labels_lost == 0


def test_out_of_orderness_and_grace_buy_recall_with_waiting() -> None:
    late = [replace(e, record_at=at(40 + (e.event_at - at(0)).total_seconds())) if "clicks" in e.keys else e
            for e in steady()]  # fmt: skip
    scenarios = [LagScenario(FASTEST, grace=seconds(grace)) for grace in (0, 20, 40)]
    outcomes = [simulate(late, scenario, rules()) for scenario in scenarios]
    recalls = [outcome.recall for outcome in outcomes]
    waits = [outcome.wait.p50 for outcome in outcomes if outcome.wait]
    assert recalls == [pytest.approx(0, abs=0.1), pytest.approx(0.3, abs=0.3), 1]
    assert waits == sorted(waits)


# ---- lag


def test_a_constant_lag_moves_every_record_of_its_side_alone() -> None:
    lag = Lag.constant("right", seconds(7))
    assert lag.arrival(at(1)) == at(8)
    assert rules().lagging(lag) == {(ENGAGED, 0, 0)}
    assert rules(2).lagging(replace(lag, partitions=(1,))) == {(ENGAGED, 0, 1)}


def test_after_a_pause_records_come_at_once_or_at_a_pace_until_the_consumer_has_caught_up() -> None:
    at_once, paced = Lag.pause("left", at(10), at(30)), Lag.pause("left", at(10), at(30), 2)
    assert [at_once.arrival(at(n)) for n in (9, 10, 29, 30, 31)] == [at(n) for n in (9, 30, 30, 30, 31)]
    assert [paced.arrival(at(n)) for n in (9, 10, 20, 50, 60)] == [at(n) for n in (9, 30, 35, 50, 60)]


def test_a_drain_gains_a_second_with_every_few_seconds_of_records() -> None:
    drain = Lag.drain("left", at(10), seconds(30), 2)
    assert [drain.arrival(at(n)) for n in (9, 10, 30, 70, 80)] == [at(n) for n in (9, 40, 50, 70, 80)]


# ---- bad input, and what cannot be known


def test_without_labels_recall_is_unknown_and_not_zero() -> None:
    outcome = simulate([served(n, 5 * n) for n in range(20)], LagScenario(FASTEST), rules())
    assert (outcome.labels_total, outcome.labels_lost, outcome.recall) == (0, 0, None)
    assert outcome.rows_total == 20


def test_without_rows_nothing_is_known() -> None:
    nothing = LagOutcome(0, 0, 0, 0, 0, 0, {}, None, None, 0)
    assert simulate([], LagScenario(SLOWEST), rules()) == nothing
    assert simulate([click(0, 1)], LagScenario(SLOWEST), rules()) == nothing
    assert nothing.rows_delayed is None


def test_of_rows_that_never_close_only_their_number_is_reported() -> None:
    outcome = simulate([served(0, 0), click(0, 10)], LagScenario(SLOWEST), rules())
    assert (outcome.rows_open, outcome.wait, outcome.delay, outcome.rows_delayed) == (1, None, None, None)
    assert (outcome.labels_total, outcome.labels_lost, outcome.open_rows_peak) == (1, 0, 1)


def test_one_partition_alone_is_slowest_newest_and_fastest_at_once() -> None:
    events = [served(n, 5 * n) for n in range(40)]
    rows = rules(partition_ids=((SERVED, 0, 0),))
    outcomes = [simulate(events, LagScenario(policy), rows) for policy in (SLOWEST, NEWEST, FASTEST)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lag.constant("right", seconds(-1)), "not negative"),
        (lambda: Lag.pause("right", at(5), at(5)), "ends after it begins"),
        (lambda: Lag.pause("right", at(5), at(9), 0), "at least 1"),
        (lambda: Lag.constant("left", seconds(1), (-1,)), "numbered from 0"),
        (lambda: Policy("wall"), "needs a tick"),
        (lambda: Policy("slowest", seconds(5)), "has no tick"),
        (lambda: wall(0.5), "at least a second"),
        (lambda: Policy("idle_timeout", seconds(5)), "belongs to idle_timeout"),
        (lambda: idle(0), "longer than 0s"),
        (lambda: LagScenario(SLOWEST, grace=seconds(-1)), "grace is not negative"),
        (lambda: LagScenario(SLOWEST, interval=seconds(7)), "does not divide 24 hours"),
        (lambda: rules().lagging(Lag.constant("sideways", seconds(1))), "nothing would lag"),
        (lambda: rules().lagging(Lag.constant("left", seconds(1), (9,))), "nothing would lag"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(make: object, message: str) -> None:
    with pytest.raises(NotAnalysable, match=message):
        make()  # type: ignore[operator]


# ---- durations


def test_quantiles_are_rounded_up_by_a_thirtysecond_at_most() -> None:
    for micros in [*range(5000), 10**6, 3 * 10**9 + 1, 86_400_000_000]:
        assert micros <= rounded_up(micros) <= micros * (1 + 1 / 32)
        assert rounded_up(rounded_up(micros)) == rounded_up(micros)


def test_a_spread_names_the_value_that_so_many_do_not_exceed() -> None:
    found = spread_of({1: 50, 2: 40, 4: 9, 8: 1}, 8, 174)
    micros = [timedelta(microseconds=n) for n in (1, 2, 4, 8, 174)]
    assert found == Spread(100, *micros)
