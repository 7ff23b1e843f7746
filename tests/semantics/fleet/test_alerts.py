"""Alerts: which conditions hold, what one condition is, what begins and ends, and who is still to be told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windrow.semantics.alerts.conditions import (
    BURST_LEAST,
    Condition,
    Holding,
    of_blocked,
    of_findings,
    of_quarantine,
    of_reconciled,
)
from windrow.semantics.alerts.register import BEGUN, ENDED, TOLD, Alert, alerts, changes, row_of
from windrow.semantics.alerts.retention import of_retention, time_left
from windrow.semantics.fleet.health import WAITING, Finding, Seen, Status, Terms

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TEN = 10 * MINUTE


def clock(landed_at: datetime, oldest: int | None, following: int, end: int, **more: Any) -> dict[str, Any]:
    offsets = {"oldest_offset": oldest, "next_offset": following, "end_offset": end}
    return {"topic": "t", "epoch": 0, "partition": 0, "landed_at": landed_at, "retention_s": None, **offsets, **more}


# -- which conditions hold


def test_each_finding_that_needs_a_person_is_a_condition_and_two_about_landing_are_one() -> None:
    found = [
        Finding(Status.FAILING, "the newest run of feed.land failed", "read it", about="feed.land"),
        Finding(Status.FAILING, "landed last 40m ago", "is it on?", about="feed.land"),
        Finding(Status.FAILING, "the newest run of feed.training failed", "read it", about="feed.training"),
        Finding(Status.SILENT, "a is silent", "ask", about="a"),
        Finding(Status.SILENT, "b is silent", "ask", about="b"),
        Finding(Status.HELD, "held", "look"),
        Finding(Status.LATE, "late", "look"),
        Finding(Status.LATE, "too much waits", "look", about=WAITING),
        Finding(Status.PAUSED, "paused"),
        Finding(Status.HEALTHY, "much waits, and the next run forces it", about=WAITING),
        Finding(Status.HEALTHY, "closed intervals wait"),
    ]
    holding = of_findings("feed", found)
    assert [one.key for one in holding] == [
        (Condition.LANDING, ""),
        (Condition.TRAINING, ""),
        (Condition.SILENT, "a"),
        (Condition.SILENT, "b"),
        (Condition.HELD, ""),
        (Condition.LATE, ""),
        (Condition.WAITING, ""),
    ]
    assert (holding[0].cause, holding[0].move) == ("the newest run of feed.land failed", "read it")
    [broken] = of_findings("feed", [Finding(Status.FAILING, "clock: a file is empty")])
    assert (broken.condition, "windrow health feed" in broken.move) == (Condition.UNUSABLE, True)


def blocked(*minutes: int, known: tuple[str, ...] = ()) -> list[str]:
    seen = Seen("feed", Terms(TEN), blocked={NOW + n * MINUTE: f"why {n}" for n in minutes})
    return [one.subject for one in of_blocked(seen, known)]


def test_neighbouring_blocked_intervals_are_one_condition_and_others_another() -> None:
    assert blocked(0, 10, 20, 50) == ["2026-11-01T12:00:00Z", "2026-11-01T12:50:00Z"]
    seen = Seen("feed", Terms(TEN), blocked={NOW: "nulls of user 9 % > 1 %", NOW + TEN: "other"})
    [one] = of_blocked(seen, ())
    assert one.cause == "2 intervals from 2026-11-01 12:00:00Z: nulls of user 9 % > 1 %"
    assert "windrow override feed --interval 2026-11-01T12:00:00Z" in one.move


def test_a_stretch_of_blocked_intervals_keeps_its_name_while_it_grows_and_while_its_first_are_resolved() -> None:
    first, later = "2026-11-01T12:00:00Z", "2026-11-01T12:50:00Z"
    assert blocked(0, 10, 20, known=(first,)) == [first]
    assert blocked(10, 20, known=(first,)) == [first]
    assert blocked(0, 50, known=(first,)) == [first, later]  # an old one that was left does not hide a new one
    assert blocked(20, 50, known=(first, later)) == [first, later]
    assert blocked(50, 60, known=(first, later)) == [later]


def counted(read: int, quarantined: int, **more: Any) -> dict[str, Any]:
    return clock(NOW, 0, 0, 0, read=read, quarantined=quarantined, **more)


def test_quarantine_is_a_burst_by_the_share_of_what_came_since_and_not_of_all_history() -> None:
    before = [counted(1_000_000, 50_000), counted(0, 0, partition=1)]
    assert of_quarantine("feed", [counted(1_001_000, 50_010), counted(0, 0, partition=1)], before) == []
    [one] = of_quarantine("feed", [counted(1_000_900, 50_009), counted(100, 2, partition=1)], before)
    assert (one.subject, one.condition) == ("t", Condition.QUARANTINE)
    assert "11 of the newest 1,000 records of t cannot be read (1.1% > 1%)" in one.cause
    assert "--reconsider" in one.move


def test_a_few_bad_records_are_no_burst_whatever_their_share() -> None:
    assert of_quarantine("feed", [counted(9, BURST_LEAST - 1)], ()) == []
    assert of_quarantine("feed", [counted(10, BURST_LEAST)], ())
    # a topic that was made anew counts from zero
    assert of_quarantine("feed", [counted(10, 10, epoch=1)], [counted(5_000, 1_000)])


def test_differences_of_a_day_are_one_condition_with_their_sums() -> None:
    rows = [{"interval": NOW + n * HOUR, "unexplained": n + 1} for n in (0, 1, 13)]
    first, second = of_reconciled("feed", rows)
    assert (first.subject, second.subject) == ("2026-11-01", "2026-11-02")
    assert "3 rows in 2 intervals of 2026-11-01" in first.cause


# -- time left until retention deletes what has not landed


def left(newest: dict[str, Any], *earlier: dict[str, Any], now: datetime = NOW) -> timedelta | None:
    found = time_left([newest], earlier, now)
    return found[0].left if found else None


def test_a_partition_that_was_read_to_its_end_has_its_retention_from_that_landing_on() -> None:
    newest = clock(NOW - HOUR, 0, 500, 500, retention_s=DAY.total_seconds())
    assert left(newest) == 23 * HOUR
    assert of_retention("feed", time_left([newest], (), NOW + 17 * HOUR)) == []
    [one] = of_retention("feed", time_left([newest], (), NOW + 17 * HOUR + MINUTE))
    assert "that have not landed in 5h 59m, at the earliest: it keeps them for 1d" in one.cause
    assert "oldest offset was 0, the next to land 500, and 0 waited" in one.cause
    [over] = of_retention("feed", time_left([newest], (), NOW + 24 * HOUR))
    assert "now, or has begun to" in over.cause


def test_what_waits_was_written_after_the_landing_that_saw_the_partition_end_before_it() -> None:
    newest = clock(NOW, 0, 500, 900, retention_s=DAY.total_seconds())
    saw = clock(NOW - 20 * HOUR, 0, 400, 500)
    too_late = clock(NOW - 10 * HOUR, 0, 450, 501)
    assert left(newest, too_late, saw) == 4 * HOUR
    assert left(newest, too_late) is None  # nothing is known of when the record at 500 was written


def test_a_backlog_is_overtaken_by_the_pace_at_which_the_oldest_offset_comes_nearer() -> None:
    newest = clock(NOW - MINUTE, 1_000, 1_300, 3_000)
    earlier = clock(NOW - 61 * MINUTE, 900, 1_200, 2_000)
    assert left(newest, earlier) == 3 * HOUR - MINUTE
    [one] = of_retention("feed", time_left([newest], [earlier], NOW))
    assert (one.subject, one.condition) == ("t", Condition.RETENTION)
    assert "and 1,700 waited" in one.cause
    assert left(newest, replace_(earlier, oldest_offset=1_000)) is None  # it stands still
    assert left(newest, replace_(earlier, oldest_offset=None)) is None  # of an older release


def replace_(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**row, **more}


def test_a_topic_that_is_silent_until_all_of_it_is_deleted_is_in_no_danger() -> None:
    week = (7 * DAY).total_seconds()
    newest = clock(NOW, 500, 500, 500, retention_s=week)
    found = time_left([newest], [clock(NOW - HOUR, 100, 500, 500, retention_s=week)], NOW)
    assert [one.is_endangered for one in found] == [False]


def test_the_worst_partition_speaks_for_its_topic() -> None:
    day = DAY.total_seconds()
    rows = [clock(NOW - n * HOUR, 0, 5, 5, partition=n, retention_s=day) for n in (19, 23, 1)]
    [one] = of_retention("feed", time_left(rows, (), NOW))
    assert "t/23 that have not landed in 1h" in one.cause


# -- what begins, what ends, who is told


def holding(condition: Condition = Condition.LATE, subject: str = "") -> Holding:
    return Holding(condition, subject, "cause", "move")


def alert(condition: Condition = Condition.LATE, subject: str = "", **more: Any) -> Alert:
    return Alert(f"{condition}{subject}", condition, subject, NOW, "cause", "move", **more)


def test_a_condition_begins_once_and_ends_once() -> None:
    assert changes([], [holding()]) == ([holding()], [])
    assert changes([alert()], [holding()]) == ([], [])
    assert changes([alert()], []) == ([], [alert()])
    assert changes([alert(ended_at=NOW)], []) == ([], [])
    assert changes([alert(ended_at=NOW)], [holding()]) == ([holding()], [])


def test_another_subject_is_another_condition() -> None:
    begun, ended = changes([alert(Condition.SILENT, "a")], [holding(Condition.SILENT, "b")])
    assert ([one.subject for one in begun], [one.subject for one in ended]) == (["b"], ["a"])


def test_nothing_ends_while_nothing_can_be_seen() -> None:
    broken = holding(Condition.UNUSABLE)
    assert changes([alert()], [broken]) == ([broken], [])
    assert changes([alert(), alert(Condition.UNUSABLE)], [holding()]) == ([], [alert(Condition.UNUSABLE)])


def test_whom_nobody_could_reach_stays_due_in_order() -> None:
    one = alert()
    rows = [
        row_of(one, ENDED, NOW + HOUR, ["mail"], "healthy"),
        row_of(one, f"{TOLD}{BEGUN}", NOW, ["pager"]),
        row_of(one, BEGUN, NOW, ["mail", "pager"], "cause", "move"),
    ]
    [found] = alerts(rows)
    assert (found.begun_at, found.ended_at, found.outcome) == (NOW, NOW + HOUR, "healthy")
    assert found.due == ((BEGUN, "mail"), (ENDED, "mail"))
    assert alerts([*rows, row_of(one, f"{TOLD}{ENDED}", NOW + HOUR, ["mail"])])[0].due == ((BEGUN, "mail"),)
    assert alerts(rows[:2]) == []  # its begin is older than what is read


@given(st.lists(st.booleans(), max_size=30))
def test_of_any_series_of_looks_begins_and_ends_alternate_and_the_last_says_what_holds(held: list[bool]) -> None:
    rows: list[Any] = []
    events: list[str] = []
    for n, is_held in enumerate(held):
        begun, ended = changes(alerts(rows), [holding()] if is_held else [])
        at = NOW + n * MINUTE
        rows += [row_of(replace(alert(), id=f"a{n}", begun_at=at), BEGUN, at, [], "cause") for _ in begun]
        rows += [row_of(one, ENDED, at, [], "over") for one in ended]
        events += [BEGUN for _ in begun] + [ENDED for _ in ended]
    assert all(first != second for first, second in pairwise(events))
    assert [one.ended_at is None for one in alerts(rows)][-1:] == ([bool(held[-1])] if events else [])
