"""What must hold for lag on any traffic, under any clock."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.lag_traffic import SLOWEST, START, lags, partitions_of, policies, scenarios, seconds, setting, traffic
from windrow.semantics.lag.scenario import Lag, LagScenario, NotAnalysable
from windrow.semantics.lag.setting import Event, LagSetting
from windrow.semantics.lag.simulation import arrivals, simulate

FEW = settings(max_examples=40, deadline=None, derandomize=True)
SEEDS = st.integers(0, 10**6)


def world(seed: int) -> tuple[list[Event], LagSetting, LagScenario]:
    events = traffic(seed)
    rules, scenario = setting(partitions_of(events)), scenarios(seed, 1)[0]
    try:
        rules.lagging(scenario.lag)
    except NotAnalysable:
        assume(False)
    return events, rules, scenario


@FEW
@given(SEEDS)
def test_rows_and_labels_add_up(seed: int) -> None:
    events, rules, scenario = world(seed)
    outcome = simulate(events, scenario, rules)
    assert outcome.rows_total == sum("served" in event.keys for event in events)
    left = outcome.wait.count if outcome.wait else 0
    assert outcome.rows_total == outcome.rows_missing + outcome.rows_open + left
    assert outcome.rows_missing <= outcome.rows_closed_too_early <= outcome.rows_total - outcome.rows_open
    assert 0 <= outcome.labels_lost <= outcome.labels_total
    assert sum(n for (_, left_as), n in outcome.states_flipped.items() if left_as == "missing") == outcome.rows_missing


@FEW
@given(SEEDS)
def test_the_order_in_which_events_are_given_makes_no_difference(seed: int) -> None:
    events, rules, scenario = world(seed)
    mixed = random.Random(seed).sample(events, len(events))
    assert simulate(mixed, scenario, rules) == simulate(events, scenario, rules)


@FEW
@given(SEEDS, st.integers(0, 60), st.integers(1, 60))
def test_a_larger_grace_never_loses_more(seed: int, grace: int, more: int) -> None:
    events, rules, scenario = world(seed)
    one, other = (simulate(events, replace(scenario, grace=seconds(g)), rules) for g in (grace, grace + more))
    assert one.labels_total == other.labels_total
    assert other.labels_lost <= one.labels_lost
    assert other.rows_missing <= one.rows_missing


@FEW
@given(SEEDS)
def test_no_lag_costs_a_label_under_the_slowest_clock_where_partitions_keep_their_promise(seed: int) -> None:
    """Events are at most as late as `out_of_orderness` allows: then the clock of the slowest loses nothing, ever."""
    events, rules, scenario = world(seed)
    allowed = replace(scenario, policy=SLOWEST, out_of_orderness=seconds(3600))
    ordered = [replace(event, event_at=event.record_at) for event in events]  # and here without any disorder
    for traffic_, rule in ((events, allowed), (ordered, replace(allowed, out_of_orderness=seconds(0)))):
        outcome = simulate(traffic_, rule, rules)
        assert (outcome.labels_lost, outcome.rows_missing, outcome.states_flipped) == (0, 0, {})


@FEW
@given(SEEDS)
def test_a_lag_never_overtakes_and_never_comes_early(seed: int) -> None:
    lag = lags(random.Random(seed))
    assume(lag is not None)
    assert isinstance(lag, Lag)
    times = sorted(START + seconds(random.Random(seed + n).uniform(-10, 400)) for n in range(40))
    arrived = [lag.arrival(t) for t in times]
    assert arrived == sorted(arrived)
    assert all(a >= t for a, t in zip(arrived, times, strict=True))


@FEW
@given(SEEDS)
def test_arrivals_are_in_the_order_of_time_and_then_of_rows(seed: int) -> None:
    events, rules, scenario = world(seed)
    seen = arrivals(events, scenario, rules)
    order = [(now, event.event_at, event.row_id) for now, event in seen]
    assert order == sorted(order)
    assert len({now for now, _ in seen}) < len(seen)  # ties are among them


@FEW
@given(SEEDS)
def test_open_rows_at_the_peak_are_no_more_than_all_and_no_fewer_than_those_left_over(seed: int) -> None:
    events, rules, scenario = world(seed)
    outcome = simulate(events, replace(scenario, policy=policies(random.Random(seed))), rules)
    assert outcome.rows_open <= outcome.open_rows_peak <= outcome.rows_total - outcome.rows_missing
