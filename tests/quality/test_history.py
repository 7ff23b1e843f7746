"""The label rate against its history: no z where none can be known, a large one where labels are gone."""

from __future__ import annotations

import pytest

from windrow.quality.history import label_rate_history

STEADY = [(100, 900)] * 24


def z(earlier: list[tuple[int, int]], positive: int, negative: int) -> float:
    found = label_rate_history(earlier, positive, negative).z
    assert found is not None
    return found


def test_two_earlier_intervals_are_no_history_and_three_are() -> None:
    assert label_rate_history([(10, 90)] * 2, 10, 90) == (None, None)
    assert label_rate_history([(10, 90)] * 3, 10, 90) == (0.1, 0.0)


def test_earlier_intervals_without_a_decided_row_do_not_count() -> None:
    assert label_rate_history([(10, 90), (10, 90), (0, 0), (0, 0)], 10, 90) == (None, None)


def test_the_mean_is_pooled_over_rows() -> None:
    assert label_rate_history([(1, 9), (0, 100), (9, 81)], 0, 0).mean == 10 / 200


def test_an_interval_without_a_decided_row_has_a_mean_and_no_z() -> None:
    assert label_rate_history(STEADY, 0, 0) == (0.1, None)


@pytest.mark.parametrize(("positive", "negative"), [(0, 20), (1, 3), (3, 1), (4, 0)])
def test_a_handful_of_rows_has_no_z(positive: int, negative: int) -> None:
    assert label_rate_history(STEADY, positive, negative).z is None


def test_an_interval_like_the_others_is_near_zero() -> None:
    assert abs(z(STEADY, 104, 896)) < 1


def test_a_rate_that_moves_anyway_may_move_again() -> None:
    restless = [(50, 950), (150, 850)] * 12

    assert abs(z(restless, 180, 820)) < 2 < abs(z(STEADY, 180, 820))


def test_labels_that_vanish_are_absurd_after_a_long_steady_history() -> None:
    assert z([(1000, 9000)] * 24, 0, 10_000) < -8


def test_labels_that_vanish_after_a_short_history_are_a_warning_and_do_not_block() -> None:
    assert -8 < z([(1000, 9000)] * 3, 0, 10_000) < -4


def test_everything_positive_is_absurd() -> None:
    assert z(STEADY, 1000, 0) > 20


def test_a_doubled_rate_is_never_absurd() -> None:
    assert 4 < z([(1000, 9000)] * 24, 2000, 8000) < 20


def test_no_label_ever_and_none_now_has_no_z_and_many_now_a_large_one() -> None:
    never = [(0, 1000)] * 10

    assert label_rate_history(never, 0, 1000).z is None
    assert z(never, 500, 500) > 20


def test_always_positive_has_a_finite_z() -> None:
    assert z([(1000, 0)] * 10, 990, 10) < 0


def test_the_order_of_earlier_intervals_makes_no_difference() -> None:
    mixed = [(10, 990), (30, 970), (20, 980), (0, 0)]

    assert label_rate_history(mixed, 40, 960) == label_rate_history(mixed[::-1], 40, 960)
