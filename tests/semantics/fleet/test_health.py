"""Findings about a pipeline: what is said, in which order, and which status is the worst of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from windrow.semantics.clock import PartitionClock
from windrow.semantics.fleet.health import STOPPED, WAITING, Finding, Seen, Status, Terms, Topic, findings, status
from windrow.semantics.intervals import Interval
from windrow.semantics.waiting import Decision, Policy, Waiting

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TEN = 10 * MINUTE
TERMS = Terms(TEN, closing=31 * MINUTE, out_of_orderness=MINUTE, slack=20 * MINUTE, start=NOW - timedelta(days=1))
PROMISE = 62 * MINUTE
POLICIES: tuple[Policy, ...] = ("wait", "alert", "force")
HOLES = [Interval(NOW - n * TEN, NOW - (n - 1) * TEN) for n in (3, 2, 1)]


def clock(name: str, at: datetime | None, lag: int = 0) -> PartitionClock:
    return PartitionClock(name, 0, 0, 10, 10 + lag, at, at)


FINE = Seen(
    "feed",
    TERMS,
    landed_at=NOW - MINUTE,
    watermark=NOW - 2 * MINUTE,
    clocks=(clock("feed.served", NOW - 2 * MINUTE), clock("feed.clicks", NOW - 2 * MINUTE)),
    topics=(Topic("feed.served", NOW - 2 * MINUTE, 0, 30 * MINUTE), Topic("feed.clicks", None, 0, None)),
    published_until=NOW - 40 * MINUTE,
)


def only(seen: Seen, now: datetime = NOW) -> Finding:
    [found] = findings(seen, now)
    return found


def test_where_all_is_well_nothing_is_said() -> None:
    assert findings(FINE, NOW) == []
    assert status([]) is Status.HEALTHY
    assert not Status.HEALTHY.needs_person


def test_a_blocked_interval_needs_a_person_and_names_the_cause_and_the_next_move() -> None:
    seen = replace(
        FINE, unpublished=HOLES, blocked={HOLES[1].start: "warned", HOLES[0].start: "nulls of user 9 % > 1 %"}
    )
    first, second = findings(seen, NOW)
    assert first.status is Status.BLOCKED
    assert "2 intervals blocked, the oldest of 2026-11-01 11:30:00Z: nulls of user 9 % > 1 %" in first.text
    assert "windrow override feed --interval 2026-11-01T11:30:00Z" in first.text
    assert second.status is Status.HEALTHY
    assert "1 closed interval without a publication" in second.text  # the blocked ones are not counted twice
    assert str(HOLES[2]) in second.text


def test_a_landing_has_stopped_after_half_an_hour_and_two_intervals() -> None:
    for interval, allowed in ((TEN, STOPPED), (timedelta(hours=1), timedelta(hours=2))):
        terms = replace(TERMS, interval=interval, slack=timedelta(days=1))
        seen = Seen("feed", terms, landed_at=NOW - allowed, published_until=NOW)
        assert findings(seen, NOW) == []
        found = only(seen, NOW + timedelta(seconds=1))
        assert (found.status, "feed.land" in found.text) == (Status.FAILING, True)


def test_a_table_that_cannot_be_read_is_said_and_nothing_is_made_up_beside_it() -> None:
    assert findings(Seen("feed", TERMS, broken="x.json is empty"), NOW) == [Finding(Status.FAILING, "x.json is empty")]


def test_a_pipeline_that_has_not_landed_is_paused_and_needs_nobody() -> None:
    found = only(Seen("feed", TERMS))
    assert (found.status, found.status.needs_person) == (Status.PAUSED, False)


def test_an_interval_is_late_from_the_promise_on_and_not_before() -> None:
    seen = replace(FINE, published_until=NOW - PROMISE)
    assert TERMS.promise == PROMISE
    assert findings(seen, NOW) == []
    found = only(seen, NOW + timedelta(seconds=1))
    assert found.status is Status.LATE
    assert "interval of 2026-11-01 10:58:00Z has no publication after 1h 2m 1s; promised are 1h 2m" in found.text


def test_an_interval_that_later_ones_overtook_is_late() -> None:
    old = Interval(NOW - timedelta(hours=5), NOW - timedelta(hours=5) + TEN)
    late, waits = findings(replace(FINE, unpublished=[old]), NOW)
    assert (late.status, waits.status) == (Status.LATE, Status.HEALTHY)
    assert "07:00:00Z has no publication after 5h" in late.text
    assert status(findings(replace(FINE, unpublished=[old], blocked={old.start: "why"}), NOW)) is Status.BLOCKED


def test_the_first_interval_of_a_pipeline_is_late_too() -> None:
    seen = replace(FINE, published_until=None, terms=replace(TERMS, start=NOW - PROMISE))
    assert findings(seen, NOW) == []
    assert only(seen, NOW + MINUTE).status is Status.LATE


def test_a_far_start_needs_a_person_and_nobody_is_sent_to_train() -> None:
    seen = replace(FINE, published_until=None, terms=replace(TERMS, start=NOW - PROMISE), unpublished=HOLES)
    assert "windrow train" in " ".join(one.text for one in findings(seen, NOW + MINUTE))
    far = replace(seen, far_start=("feed starts long before its first row", "Set it"))
    found = only(replace(far, failed={"feed.training": NOW - PROMISE}), NOW + MINUTE)
    assert (found.status, found.text) == (Status.LATE, "feed starts long before its first row. Set it")
    failed = {"feed.training": NOW - 2 * PROMISE}
    assert only(replace(FINE, terms=seen.terms, unpublished=HOLES[:1], failed=failed)).status is not Status.FAILING


def test_a_served_topic_without_events_is_silent_and_one_with_a_backlog_is_not() -> None:
    served = FINE.topics[0]
    old = replace(served, newest_at=NOW - MINUTE - 31 * MINUTE)
    found = only(replace(FINE, topics=[old]))
    assert found.status is Status.SILENT
    assert "feed.served is silent: its newest event is of 2026-11-01 11:28:00Z, 31m before" in found.text
    assert "never had" in only(replace(FINE, topics=[replace(served, newest_at=None)])).text
    assert findings(replace(FINE, topics=[replace(old, lag=1)]), NOW) == []
    assert findings(replace(FINE, topics=[replace(old, patience=None)]), NOW) == []


def test_the_clock_is_held_by_the_partition_that_is_furthest_behind() -> None:
    behind = clock("feed.clicks", NOW - MINUTE - 21 * MINUTE, lag=7)
    seen = replace(FINE, clocks=(FINE.clocks[0], behind))
    assert findings(seen, NOW) == []
    seen = replace(seen, clocks=(FINE.clocks[0], clock("feed.clicks", NOW - 30 * MINUTE, lag=7)), held_since=NOW - TEN)
    found = only(seen)
    assert found.status is Status.HELD
    assert "is 29m behind, held by feed.clicks/0: 7 records behind its end" in found.text
    assert "since 2026-11-01 11:50:00Z" in found.text
    assert "has not started" in only(replace(FINE, clocks=(clock("feed.served", None),))).text


def test_a_paused_dag_explains_what_stands_still_and_hides_no_block() -> None:
    seen = replace(FINE, landed_at=NOW - timedelta(days=1), published_until=None, paused=["feed.land"])
    found = only(seen)
    assert (found.status, found.text) == (Status.PAUSED, "feed.land is paused: unpause to go on")
    blocked = replace(seen, unpublished=HOLES[:1], blocked={HOLES[0].start: "why"})
    assert [one.status for one in findings(blocked, NOW)] == [Status.BLOCKED, Status.PAUSED]


def test_a_failed_run_is_said_once_also_where_its_check_blocked_an_interval() -> None:
    assert only(replace(FINE, failed={"feed.land": None})).status is Status.FAILING
    failed = replace(FINE, failed={"feed.training": HOLES[0].start})
    assert status(findings(failed, NOW)) is Status.FAILING
    blocked = replace(failed, unpublished=HOLES[:1], blocked={HOLES[0].start: "why"})
    assert only(blocked).status is Status.BLOCKED
    another = replace(blocked, failed={"feed.training": HOLES[1].start})
    assert {one.status for one in findings(another, NOW)} == {Status.BLOCKED, Status.FAILING}


@given(
    age=st.timedeltas(timedelta(), timedelta(days=2)),
    holes=st.integers(0, 3),
    blocked=st.integers(0, 3),
    silent=st.booleans(),
    held=st.booleans(),
    paused=st.booleans(),
    broken=st.none() | st.just("broken"),
)
def test_the_status_is_the_worst_of_the_parts(
    age: timedelta, holes: int, blocked: int, silent: bool, held: bool, paused: bool, broken: str | None
) -> None:
    why = {one.start: "why" for one in HOLES[: min(holes, blocked)]}
    seen = replace(
        FINE,
        landed_at=NOW - age,
        topics=[Topic("feed.served", None, 0, TEN)] if silent else [],
        clocks=(clock("feed.served", None),) if held else (),
        unpublished=HOLES[:holes],
        blocked=why,
        broken=broken,
        paused=["feed.land"] if paused else [],
    )
    found = findings(seen, NOW)
    parts = {
        Status.FAILING: bool(broken) or (age > STOPPED and not paused),
        Status.BLOCKED: bool(why),
        Status.SILENT: silent and not paused,
        Status.HELD: held and not paused,
        Status.PAUSED: paused,
    }
    assert status(found) is max((one for one, holds in parts.items() if holds), default=Status.HEALTHY)
    assert [one.status for one in found] == sorted((one.status for one in found), reverse=True)


def beyond(policy: Policy, *, forced: int = 0, exceeded: tuple[str, ...] = ("5 rows > max_rows 3",)) -> Seen:
    waiting = Waiting(5, 2_000, HOLES[0], 2 * TEN)
    return replace(FINE, policy=policy, waiting=Decision(waiting, exceeded, tuple(HOLES[:forced])))


def test_within_its_bounds_nothing_is_said_of_what_waits() -> None:
    for policy in POLICIES:
        assert findings(beyond(policy, exceeded=()), NOW) == []


def test_beyond_a_bound_the_policy_says_whether_a_person_is_needed() -> None:
    cases: tuple[tuple[Policy, int], ...] = (("wait", 0), ("alert", 0), ("force", 0), ("force", 2))
    found = {(policy, n): only(beyond(policy, forced=n)) for policy, n in cases}
    assert {case for case, one in found.items() if one.status.needs_person} == {("alert", 0), ("force", 0)}
    assert {one.about for one in found.values()} == {WAITING}
    for one in found.values():
        assert "5 rows > max_rows 3; the oldest interval is [2026-11-01T11:30:00Z" in one.text
    assert "windrow train feed --interval 2026-11-01T11:30:00Z --force" in found["alert", 0].move
    assert "publishes 2 intervals before they close" in found["force", 2].move
    assert "Nothing is forced while records wait to be landed" in found["force", 0].move


def test_a_paused_pipeline_is_not_told_that_much_waits() -> None:
    assert [one.status for one in findings(replace(beyond("alert"), paused=("feed.land",)), NOW)] == [Status.PAUSED]
