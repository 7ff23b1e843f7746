"""The label rate against its history: no z where none can be known, a large one where labels are gone.

What says nothing about the rate (silent, empty and forced intervals, and single overridden ones) may stand anywhere in
the history and changes nothing.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.quality.history import Earlier, label_rate_history

STEADY = [Earlier(100, 900)] * 24
FEW = [Earlier(15, 1485)] * 24
SILENT = Earlier(0, 0)


def z(earlier: list[Earlier], positive: int, negative: int) -> float:
    found = label_rate_history(earlier, positive, negative).z
    assert found is not None
    return found


def test_two_earlier_intervals_are_no_history_and_three_are() -> None:
    assert label_rate_history([Earlier(10, 90)] * 2, 10, 90) == (None, None)
    assert label_rate_history([Earlier(10, 90)] * 3, 10, 90) == (0.1, 0.0)


def test_earlier_intervals_without_a_decided_row_do_not_count() -> None:
    assert label_rate_history([Earlier(10, 90), Earlier(10, 90), SILENT, SILENT], 10, 90) == (None, None)


def test_the_mean_is_pooled_over_rows() -> None:
    assert label_rate_history([Earlier(1, 9), Earlier(0, 100), Earlier(9, 81)], 0, 0).mean == 10 / 200


def test_an_interval_without_a_decided_row_has_a_mean_and_no_z() -> None:
    assert label_rate_history(STEADY, 0, 0) == (0.1, None)


@pytest.mark.parametrize(("positive", "negative"), [(0, 20), (1, 3), (3, 1), (4, 0)])
def test_a_handful_of_rows_is_no_warning(positive: int, negative: int) -> None:
    assert abs(z(STEADY, positive, negative)) < 4


def test_an_interval_like_the_others_is_near_zero() -> None:
    assert abs(z(STEADY, 104, 896)) < 1


def test_a_rate_that_moves_anyway_may_move_again() -> None:
    restless = [Earlier(50, 950), Earlier(150, 850)] * 12

    assert abs(z(restless, 180, 820)) < 2 < abs(z(STEADY, 180, 820))


def test_labels_that_vanish_are_absurd_after_a_long_steady_history() -> None:
    assert z([Earlier(1000, 9000)] * 24, 0, 10_000) < -8


def test_labels_that_vanish_after_a_short_history_are_a_warning_and_do_not_block() -> None:
    assert -8 < z([Earlier(1000, 9000)] * 3, 0, 10_000) < -4


def test_a_total_loss_of_few_labels_is_caught() -> None:
    assert z(FEW, 0, 1500) < -4


def test_a_twenty_fold_rate_is_absurd() -> None:
    assert z(FEW, 300, 1200) > 20


def test_everything_positive_is_absurd() -> None:
    assert z(STEADY, 1000, 0) > 20


def test_a_doubled_rate_is_never_absurd() -> None:
    assert 4 < z([Earlier(1000, 9000)] * 24, 2000, 8000) < 20


def test_no_label_ever_and_none_now_is_nothing_and_many_now_are_absurd() -> None:
    never = [Earlier(0, 1000)] * 10

    assert abs(z(never, 0, 1000)) < 1
    assert z(never, 500, 500) > 20


def test_labels_that_outnumber_the_rest_are_judged_by_the_rest() -> None:
    mostly = [Earlier(900, 100)] * 24

    assert z(mostly, 896, 104) == -z(STEADY, 104, 896)
    assert z([Earlier(1000, 0)] * 10, 990, 10) < 0


@given(
    st.lists(st.sampled_from([SILENT, Earlier(0, 10**6, True), Earlier(500, 0, True)]), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.integers(0, 40),
)
def test_what_is_no_history_changes_nothing_wherever_it_stands(noise: list[Earlier], chance: object, now: int) -> None:
    history = list(FEW)
    for one in noise:
        history.insert(chance.randrange(len(history) - 3), one)  # type: ignore[attr-defined]

    assert label_rate_history(history, now, 1500 - now) == label_rate_history(FEW, now, 1500 - now)


def test_intervals_of_hardly_any_rows_weigh_hardly_anything() -> None:
    tiny = [Earlier(1, 0), Earlier(0, 1)]

    assert z(FEW + tiny * 3, 0, 1500) == pytest.approx(z(FEW, 0, 1500), abs=0.5)


def test_overridden_intervals_in_a_row_are_a_new_level() -> None:
    level = [Earlier(1000, 500, overridden=True)]

    assert z(FEW + level * 2, 1000, 500) > 20
    assert abs(z(FEW + level * 3, 1000, 500)) < 1


def test_a_silent_interval_counts_by_its_complete_rows() -> None:
    row = {"positive": 11, "negative": 0, "unknown": 1500, "verdict": "passed"}

    assert Earlier.of(row, 0.0) == SILENT
    assert Earlier.of(row, None) == SILENT, "an old publication that did not count them"
    assert Earlier.of({**row, "negative": 89, "unknown": 0}, None) == Earlier(11, 89)
    assert Earlier.of({**row, "verdict": "overridden"}, 3.0) == Earlier(3, 0, overridden=True)


def test_the_order_of_earlier_intervals_makes_no_difference() -> None:
    mixed = [Earlier(10, 990), Earlier(30, 970), Earlier(20, 980), SILENT]

    assert label_rate_history(mixed, 40, 960) == label_rate_history(mixed[::-1], 40, 960)
