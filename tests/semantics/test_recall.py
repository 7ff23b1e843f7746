"""Recall of windows, estimated from data in which the youngest rows do not have all their labels yet."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.semantics.lag.advice import Advice, CostModel, WindowSettings, advise, recall_of
from windrow.semantics.lag.recall import Curve, DelayCounts, Estimate, TooFewLabels, estimate

MINUTE = timedelta(minutes=1)
COST = CostModel(rows_per_second=10, interval=10 * MINUTE)


def delays(bins: int, counts: dict[tuple[int, int], int]) -> DelayCounts:
    return DelayCounts(MINUTE, bins, counts)


def curve(*shares: float, labels: int = 100_000, step: timedelta = MINUTE) -> Curve:
    """A curve through the shares, as sure as a plain proportion of so many labels."""
    points = [Estimate(share, labels) for share in shares[:-1]]
    return Curve(step, (*points, Estimate(1.0, float("inf"))), labels)


def test_where_every_row_is_old_enough_the_estimate_is_the_plain_share() -> None:
    found = estimate(delays(3, {(0, 4): 10, (1, 4): 50, (2, 4): 30, (3, 4): 10}))
    assert [p.share for p in found.points] == pytest.approx([0.1, 0.6, 0.9, 1.0])
    assert [p.weight for p in found.points[:3]] == pytest.approx([100, 100, 100])  # a proportion of 100 labels


def test_young_rows_that_show_short_delays_only_do_not_shorten_the_estimate() -> None:
    old = {(1, 3): 60, (2, 3): 40}
    young = {(1, 2): 600}  # nobody has looked at their second minute yet
    assert estimate(delays(2, old | young)).at(MINUTE).share == pytest.approx(0.6)


def test_two_cohorts_of_young_rows_by_hand() -> None:
    found = estimate(delays(3, {(1, 4): 20, (2, 4): 20, (3, 4): 60, (1, 3): 30, (2, 3): 10, (1, 2): 500}))
    # third minute: 60 of 100; second: 30 of the 20 + 20 + 30 + 10 that could have come then and came by then
    assert found.at(2 * MINUTE).share == pytest.approx(1 - 60 / 100)
    assert found.at(MINUTE).share == pytest.approx((1 - 60 / 100) * (1 - 30 / 80))
    spread = 60 / (100 * 40) + 30 / (80 * 50)  # Greenwood's sum
    share = found.at(MINUTE).share
    assert share * (1 - share) / found.at(MINUTE).weight == pytest.approx(share**2 * spread)


def test_a_bin_that_a_row_has_only_lived_through_in_part_is_left_out() -> None:
    half_seen = delays(2, {(1, 3): 60, (2, 3): 40, (2, 2): 7})
    assert half_seen.labels == 100
    assert estimate(half_seen).at(MINUTE).share == pytest.approx(0.6)


def test_the_known_distribution_comes_back_from_truncated_data_and_the_intervals_hold_it() -> None:
    draw = random.Random(6)
    truth = 1 - 0.5 ** (10 / 5)  # half of the labels come each five minutes
    total = 1 - 0.5 ** (40 / 5)
    naive, held, shares = [], 0, []
    for _ in range(200):
        counts: Counter[tuple[int, int]] = Counter()
        for _ in range(600):
            delay = draw.expovariate(0.1386294)  # ln 2 / 5
            horizon = draw.choice((3, 6, 12, 20, 45))
            bin_, seen = int(delay) + 1, min(horizon + 1, 41)
            if bin_ < seen:
                counts[bin_, seen] += 1
        found = estimate(delays(40, counts)).at(10 * MINUTE)
        held += found.low <= truth / total <= found.high
        shares.append(found.share)
        naive.append(sum(n for (b, _), n in counts.items() if b <= 10) / counts.total())
    assert sum(shares) / 200 == pytest.approx(truth / total, abs=0.005)
    assert sum(naive) / 200 > truth / total + 0.05  # the share that a plain histogram gives
    assert 180 <= held <= 199  # 95 % of 200, give or take


def test_where_nothing_was_missed_the_interval_still_knows_how_few_labels_there_were() -> None:
    found = estimate(delays(4, {(1, 5): 100}))
    assert found.at(MINUTE).share == 1
    assert found.at(MINUTE).low == pytest.approx(0.963, abs=0.001)
    assert found.at(MINUTE).high == 1


@pytest.mark.parametrize("counts", [{}, {(1, 3): 29}, {(0, 1): 1_000}, {(2, 2): 1_000}])
def test_too_few_labels_that_could_have_come_late_are_no_estimate(counts: dict[tuple[int, int], int]) -> None:
    with pytest.raises(TooFewLabels, match="take a longer or an older range"):
        estimate(delays(2, counts))


def test_what_no_row_is_old_enough_for_is_not_judged() -> None:
    found = estimate(delays(9, {(1, 4): 100, (3, 4): 20, (7, 10): 20}))
    assert found.widest == 3 * MINUTE


def test_a_window_is_judged_at_the_grid_point_before_it_never_after() -> None:
    found = curve(0, 0.5, 0.9, 1)
    assert found.at(timedelta(seconds=119)).share == 0.5
    assert found.at(2 * MINUTE).share == 0.9
    assert found.at(timedelta(seconds=-1)).share == 0
    assert found.at(timedelta(days=9)).share == 1


def test_a_label_needs_the_window_and_the_slack() -> None:
    late = curve(0.8, 0.9, 1)  # 10 % of the labels land one minute behind their partition, 10 % two
    always = curve(0, 1, 1)  # every label comes within its first minute
    assert recall_of(always, late, WindowSettings(MINUTE, timedelta())).share == pytest.approx(0.8)
    assert recall_of(always, late, WindowSettings(MINUTE, MINUTE)).share == pytest.approx(0.9)
    assert recall_of(always, late, WindowSettings(2 * MINUTE, timedelta())).share == pytest.approx(
        0.9
    )  # a spare minute
    assert recall_of(always, late, WindowSettings(timedelta(0), 2 * MINUTE)).share == 0


def test_the_least_settings_by_hand() -> None:
    long = curve(0, 0.90, 0.95, 0.99, 0.995, *[1.0] * 12)
    advice = advise(long, curve(*[1.0] * 17), COST, 0.99)
    assert advice.smallest is not None
    assert advice.smallest.settings == WindowSettings(3 * MINUTE, timedelta())
    assert advice.smallest.recall.share == pytest.approx(0.99)
    assert advice.smallest.open_rows == pytest.approx(10 * (3 + 5) * 60)
    assert advice.safe is not None
    assert advice.safe.settings.window == 4 * MINUTE


rising = st.lists(st.integers(0, 50), min_size=8, max_size=12).map(
    lambda steps: curve(*[sum(steps[: i + 1]) / (sum(steps) or 1) if sum(steps) else 1.0 for i in range(len(steps))])
)


@settings(max_examples=150, deadline=None)
@given(rising, rising, st.sampled_from([0.5, 0.8, 0.9]))
def test_the_clock_first_keeps_its_promise_and_then_no_smaller_window_reaches_the_wanted_recall_of(
    long: Curve, late: Curve, wanted: float
) -> None:
    advice = advise(long, late, COST, wanted)
    if advice.smallest is None:
        assert advice.reason
        return
    slack = min(s * MINUTE for s in range(len(late.points)) if late.points[s].share >= wanted)
    windows = (w * MINUTE for w in range(len(long.points)))
    enough = [w for w in windows if recall_of(long, late, WindowSettings(w, slack)).share >= wanted]
    assert advice.smallest.settings == WindowSettings(min(enough), slack)
    assert advice.smallest.recall.share >= wanted


@settings(max_examples=100, deadline=None)
@given(rising, rising, st.integers(0, 9), st.integers(0, 9))
def test_a_wider_window_and_a_larger_grace_never_lower_recall_of(long: Curve, late: Curve, w: int, s: int) -> None:
    here = recall_of(long, late, WindowSettings(w * MINUTE, s * MINUTE)).share
    assert recall_of(long, late, WindowSettings((w + 1) * MINUTE, s * MINUTE)).share >= here - 1e-12
    assert recall_of(long, late, WindowSettings(w * MINUTE, (s + 1) * MINUTE)).share >= here - 1e-12


def test_where_labels_still_come_at_the_widest_window_the_reason_stands_instead_of_advice() -> None:
    advice = advise(curve(0, 0.3, 0.5, 0.8, 1), curve(1.0, 1.0, 1.0), COST, 0.99)
    assert advice == Advice(0.99, None, None, advice.reason)
    assert "20.00% of the labels come in the last quarter" in advice.reason


def test_a_recall_that_so_few_labels_cannot_prove_comes_with_the_number_it_takes() -> None:
    few = curve(0, 1, 1, 1, 1, labels=200)
    advice = advise(few, few, COST, 0.999)
    assert advice.smallest is not None
    assert advice.safe is None
    assert "200 labels are too few to be sure of 0.999: at least 3,838 are needed" in advice.reason
