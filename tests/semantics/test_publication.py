"""Numbers and the fence of publications, and neighbouring intervals as stretches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.scenario import at
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import Interval, stretches
from windrow.semantics.plan import Plan
from windrow.semantics.publication import (
    CandidateErased,
    Superseded,
    foreseen_numbers,
    refuse_erased,
    refuse_superseded,
)

LENGTH = timedelta(seconds=10)


def plan(number: int = 0, supersedes: int | None = None, watermark: float = 0, drained: bool = False) -> Plan:
    interval = Interval(at(10 * number), at(10 * number + 10))
    clock = PartitionClock("t", 0, 0, 1, 1, at(watermark), at(watermark))
    return Plan("feed", "run", interval, {"t": 1}, "hash", (clock,), drained, supersedes)


def test_plans_get_the_numbers_behind_the_newest_publication() -> None:
    first, second = plan(0), plan(1)
    assert foreseen_numbers([first, second], last=6) == {first: 7, second: 8}
    assert foreseen_numbers([], last=6) == {}


@pytest.mark.parametrize(("known", "standing"), [(None, 1), (1, None), (5, 6), (6, 5)])
def test_a_plan_is_refused_where_the_interval_has_another_publication_than_it_knew(
    known: int | None, standing: int | None
) -> None:
    refuse_superseded(plan(supersedes=known), known)
    with pytest.raises(Superseded, match=f"has publication {standing}, but plan .* had {known}: another run"):
        refuse_superseded(plan(supersedes=known), standing)


def test_a_plan_is_refused_where_its_candidate_held_an_erased_key() -> None:
    one, other = plan(0), plan(1)
    refuse_erased(one, {other.id})
    with pytest.raises(CandidateErased, match="held rows of a key that was erased since"):
        refuse_erased(other, {other.id})


@pytest.mark.parametrize(("watermark", "is_forced"), [(11.999999, True), (12, False)])
def test_a_plan_is_forced_until_its_own_clock_has_closed_the_interval(watermark: float, is_forced: bool) -> None:
    after, grace = timedelta(seconds=1.5), timedelta(seconds=0.5)
    assert plan(watermark=watermark).is_forced(after, grace) is is_forced
    assert not plan(watermark=watermark, drained=True).is_forced(after, grace)


@pytest.mark.parametrize(
    ("reach", "most", "merged"),
    [
        (0, None, [(0, 20), (40, 50), (80, 90)]),
        (19.999999, None, [(0, 20), (40, 50), (80, 90)]),
        (20, None, [(0, 50), (80, 90)]),
        (30, None, [(0, 90)]),
        (0, 2, [(0, 50), (80, 90)]),
        (0, 1, [(0, 90)]),
    ],
)
def test_intervals_within_reach_are_one_stretch(
    reach: float, most: int | None, merged: list[tuple[float, float]]
) -> None:
    intervals = [Interval(at(start), at(start) + LENGTH) for start in (80, 10, 0, 40)]
    found = stretches(intervals, timedelta(seconds=reach), most)
    assert found == [Interval(at(start), at(end)) for start, end in merged]
