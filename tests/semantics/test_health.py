"""Findings about a pipeline: what is said, in which order, and whether a person is needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from windrow.semantics.health import STOPPED, Finding, Seen, State, findings, state
from windrow.semantics.intervals import Interval

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
TEN = timedelta(minutes=10)
FINE = Seen("feed", TEN, landed_at=NOW - TEN, watermark=NOW - TEN)
HOLES = [Interval(NOW - n * TEN, NOW - (n - 1) * TEN) for n in (3, 2, 1)]


def test_where_all_is_well_nothing_is_said() -> None:
    assert findings(FINE, NOW) == []
    assert state([]) is State.FINE


def test_a_blocked_interval_needs_a_person_and_names_the_cause_and_the_next_move() -> None:
    seen = replace(
        FINE, unpublished=HOLES, blocked={HOLES[1].start: "warned", HOLES[0].start: "nulls of user 9 % > 1 %"}
    )
    first, second = findings(seen, NOW)
    assert first.state is State.PERSON
    assert "2 intervals blocked, the oldest of 2026-11-01 11:30:00Z: nulls of user 9 % > 1 %" in first.text
    assert "windrow override feed --interval 2026-11-01T11:30:00Z" in first.text
    assert second.state is State.WAITING
    assert "1 closed interval without a publication" in second.text  # the blocked ones are not counted twice
    assert str(HOLES[2]) in second.text


def test_a_landing_has_stopped_after_half_an_hour_and_two_intervals() -> None:
    for interval, allowed in ((TEN, STOPPED), (timedelta(hours=1), timedelta(hours=2))):
        seen = Seen("feed", interval, landed_at=NOW - allowed)
        assert findings(seen, NOW) == []
        [found] = findings(seen, NOW + timedelta(seconds=1))
        assert (found.state, "feed.land" in found.text) == (State.LOOK, True)


def test_a_table_that_cannot_be_read_is_said_and_nothing_is_made_up_beside_it() -> None:
    assert findings(Seen("feed", TEN, broken="x.json is empty"), NOW) == [Finding(State.PERSON, "x.json is empty")]


def test_a_pipeline_that_has_not_landed_waits() -> None:
    assert [one.state for one in findings(Seen("feed", TEN), NOW)] == [State.WAITING]


@given(
    age=st.timedeltas(timedelta(), timedelta(days=2)),
    holes=st.integers(0, 3),
    blocked=st.integers(0, 3),
    broken=st.none() | st.just("broken"),
)
def test_a_person_is_needed_exactly_where_something_is_blocked_or_broken(
    age: timedelta, holes: int, blocked: int, broken: str | None
) -> None:
    why = {one.start: "why" for one in HOLES[: min(holes, blocked)]}
    seen = replace(FINE, landed_at=NOW - age, unpublished=HOLES[:holes], blocked=why, broken=broken)
    found = findings(seen, NOW)
    assert (state(found) is State.PERSON) == bool(why or broken)
    assert [one.state for one in found] == sorted((one.state for one in found), reverse=True)
