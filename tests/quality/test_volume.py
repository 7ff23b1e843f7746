"""Volumes against earlier ones: losses and floods are far, slopes of the day and what is no history change nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.quality.volume import recent_before, same_hour_before, volume
from windrow.semantics.intervals import Interval

STEADY = [1000] * 24
MORNING = [1000] * 7
BOUNDS = (-4.0, 6.0)
"""Those of the suite."""


def z(recent: list[int], same_hour: list[int], rows: int) -> float:
    found = volume(recent, same_hour, rows).z
    assert found is not None
    return found


def is_out(value: float) -> tuple[bool, bool]:
    return value < BOUNDS[0], value > BOUNDS[1]


def test_two_earlier_intervals_are_no_history_and_three_are() -> None:
    assert volume([1000] * 2, [1000] * 2, 0) == (None, None)
    assert volume([1000] * 3, [], 1000).usual == volume([], [1000] * 3, 1000).usual == 1000
    assert abs(z([1000] * 3, [], 1000)) < 0.1


def test_a_total_loss_and_a_flood_are_far_and_a_few_rows_more_or_less_are_near() -> None:
    assert z(STEADY, MORNING, 0) < -8
    assert z(STEADY, MORNING, 10_000) > 8
    assert abs(z(STEADY, MORNING, 1050)) < 1
    assert z([15] * 24, [], 0) < -4 < z([10] * 24, [], 0)


def test_a_slope_of_the_day_is_near_the_same_hour_or_the_recent_intervals() -> None:
    assert is_out(z([1000] * 24, [30] * 7, 30)) == (False, False), "every night"
    assert is_out(z([30] * 24, [1000] * 7, 30)) == (False, False), "a holiday"
    assert is_out(z([30] * 24, [], 1000)) == (False, True), "a first morning"


def test_rows_between_both_references_are_usual() -> None:
    assert volume([100] * 24, [1000] * 7, 400).z == 0.0


def test_the_nearer_of_both_is_what_is_usual() -> None:
    assert volume([1000] * 24, [100] * 7, 30).usual == 100


@pytest.mark.parametrize(("empty", "is_loss"), [(12, True), (13, False)])
def test_empty_intervals_are_no_history_until_they_are_more_than_a_third(empty: int, is_loss: bool) -> None:
    assert is_out(z([1000] * 24 + [0] * empty, [], 0))[0] is is_loss


def test_where_nothing_ever_came_rows_are_no_flood_and_none_are_no_loss() -> None:
    assert volume([0] * 24, [0] * 7, 0) == volume([0] * 24, [0] * 7, 5000) == (None, None)


def test_one_flood_does_not_hide_a_loss() -> None:
    assert z([1000] * 23 + [10**6], [], 0) < -5


def test_a_sparse_topic_is_never_lost_by_one_empty_interval() -> None:
    assert z([1, 0, 2, 0, 1, 3, 0, 0] * 3, [0, 1, 0], 0) > -2


def test_uploads_once_an_hour_are_usual_and_so_are_the_intervals_between() -> None:
    hourly = [5000, 0, 0, 0, 0, 0] * 4
    assert is_out(z(hourly, [], 0)) == is_out(z(hourly, [], 5000)) == (False, False)


def test_a_lasting_change_is_the_new_level_after_some_intervals() -> None:
    assert [is_out(z(([1000] * 24 + [250] * n)[-24:], [], 250))[0] for n in (0, 12, 24)] == [True, False, False]


@given(st.lists(st.integers(0, 2000), min_size=3, max_size=24), st.integers(0, 3000), st.randoms())
def test_the_order_of_earlier_intervals_makes_no_difference(counts: list[int], rows: int, chance: object) -> None:
    mixed = list(counts)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert volume(mixed, [], rows) == pytest.approx(volume(counts, [], rows))


@given(st.lists(st.integers(1, 2000), min_size=3, max_size=24), st.integers(0, 3000))
def test_more_rows_are_never_nearer_to_a_loss(counts: list[int], rows: int) -> None:
    assert z(counts, [], rows) <= z(counts, [], rows + 1)


@pytest.mark.parametrize(
    ("length", "first", "many"),
    [
        (timedelta(minutes=10), "2026-11-09 06:00", 42),
        (timedelta(minutes=40), "2026-11-09 06:00", 14),
        (timedelta(minutes=8), "2026-11-09 06:00", 56),
        (timedelta(hours=2), "2026-11-09 06:40", 7),
    ],
)
def test_the_same_hour_of_seven_earlier_days(length: timedelta, first: str, many: int) -> None:
    start = datetime(2026, 11, 10, 6, 40, tzinfo=UTC)
    found = same_hour_before(Interval(start, start + length))
    assert f"{found[0]:%Y-%m-%d %H:%M}" == first
    assert len(found) == len(set(found)) == many
    assert {at.hour for at in found} == {6}
    assert {start - at for at in found} >= {timedelta(days=day) for day in range(1, 8)}
    assert max(recent_before(Interval(start, start + length))) == start - length
