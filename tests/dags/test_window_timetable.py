"""One run per interval, no holes, started when the window should have closed.

from        to                    run_after
 [----------)|<------ delay ------>|
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.utils.types import DagRunType

from windrow_airflow.window_timetable import WindowTimetable

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
TEN, DELAY = timedelta(minutes=10), timedelta(minutes=32)


def at(hour, minute=0, second=0, day=1):
    return pendulum.datetime(2026, 11, day, hour, minute, second)


def intervals(timetable, last=None, earliest=None, latest=None, catchup=True, count=3):
    """The next `count` runs, as (from, to, run_after)."""
    found = []
    for _ in range(count):
        run = timetable.next_dagrun_info(
            last_automated_data_interval=last, restriction=TimeRestriction(earliest, latest, catchup)
        )
        if run is None:
            break
        last = run.data_interval
        found.append((last.start, last.end, run.run_after))
    return found


@pytest.fixture
def ten_minutes():
    return WindowTimetable(MIDNIGHT, TEN, DELAY)


def test_the_first_run_is_the_interval_at_start(ten_minutes):
    assert intervals(ten_minutes, earliest=at(0), count=1) == [(at(0), at(0, 10), at(0, 42))]


def test_the_first_run_does_not_need_a_start_date(ten_minutes):
    assert intervals(ten_minutes, count=1) == [(at(0), at(0, 10), at(0, 42))]


def test_a_run_begins_where_the_last_one_ended_and_starts_a_delay_after_its_end(ten_minutes):
    assert intervals(ten_minutes, last=DataInterval(at(3, 40), at(3, 50))) == [
        (at(3, 50), at(4, 0), at(4, 32)),
        (at(4, 0), at(4, 10), at(4, 42)),
        (at(4, 10), at(4, 20), at(4, 52)),
    ]


@pytest.mark.parametrize("catchup", [True, False])
def test_hours_without_a_scheduler_leave_no_hole_whatever_catchup_says(catchup):
    long_ago = WindowTimetable(datetime(2020, 1, 1, tzinfo=UTC), TEN, DELAY)
    last = DataInterval(pendulum.datetime(2020, 1, 1), pendulum.datetime(2020, 1, 1, 0, 10))
    runs = intervals(long_ago, last=last, catchup=catchup, count=200)
    assert len(runs) == 200
    assert runs[0][0] == last.end
    assert all(earlier[1] == later[0] for earlier, later in pairwise(runs))


def test_a_window_longer_than_the_interval_delays_every_run_by_the_same(ten_minutes):
    day_long = WindowTimetable(MIDNIGHT, timedelta(minutes=1), timedelta(hours=24))
    assert intervals(day_long, count=2) == [
        (at(0), at(0, 1), at(0, 1, day=2)),
        (at(0, 1), at(0, 2), at(0, 2, day=2)),
    ]


@pytest.mark.parametrize("minutes", [1, 16, 90, 480, 1440])
def test_lengths_that_a_cron_cannot_say_are_fine(minutes):
    length = timedelta(minutes=minutes)
    runs = intervals(WindowTimetable(MIDNIGHT, length, DELAY), count=5)
    assert [start for start, _, _ in runs] == [at(0) + n * length for n in range(5)]


@pytest.mark.parametrize("minutes", [7, 25, 1441])
def test_a_length_that_does_not_divide_a_day_is_refused(minutes):
    with pytest.raises(ValueError, match="24 hours"):
        WindowTimetable(MIDNIGHT, timedelta(minutes=minutes), DELAY)


def test_a_start_off_the_grid_is_refused():
    with pytest.raises(ValueError, match="grid"):
        WindowTimetable(MIDNIGHT + timedelta(minutes=5), TEN, DELAY)


def test_no_run_starts_before_its_interval_ends():
    with pytest.raises(ValueError, match="before its interval ends"):
        WindowTimetable(MIDNIGHT, TEN, -timedelta(seconds=1))


def test_nothing_runs_before_start(ten_minutes):
    before = at(0) - timedelta(days=3)
    assert intervals(ten_minutes, earliest=before, count=1)[0][0] == at(0)


def test_an_interval_that_began_before_the_bound_is_not_in_the_range(ten_minutes):
    assert intervals(ten_minutes, earliest=at(1, 0, 1), count=1)[0][0] == at(1, 10)


def test_after_a_change_of_length_no_interval_overlaps_one_that_has_run():
    hourly = WindowTimetable(MIDNIGHT, timedelta(hours=1), DELAY)
    assert intervals(hourly, last=DataInterval(at(0, 10), at(0, 20)), count=1)[0][0] == at(1)


def test_after_a_change_to_shorter_intervals_nothing_is_left_out():
    runs = intervals(WindowTimetable(MIDNIGHT, TEN, DELAY), last=DataInterval(at(2), at(3)), count=2)
    assert [start for start, _, _ in runs] == [at(3), at(3, 10)]


def test_a_scheduler_that_comes_and_goes_makes_each_interval_once_and_none_twice(ten_minutes):
    """Down for minutes, hours and a day; what it knows comes back from the database each time."""
    found, last, now = [], None, at(0)
    for away in (42, 10, 1, 180, 9, 1440, 30):
        now += timedelta(minutes=away)
        timetable = decode_timetable(encode_timetable(ten_minutes))
        while True:
            run = timetable.next_dagrun_info(
                last_automated_data_interval=last, restriction=TimeRestriction(at(0), None, True)
            )
            if run.run_after > now:
                break
            last = run.data_interval
            found.append(last.start)
    assert found == [at(0) + n * TEN for n in range(len(found))]
    assert last.end + DELAY <= now < last.end + TEN + DELAY


def test_a_backfill_that_reaches_past_now_lists_intervals_whose_runs_wait_for_their_time(ten_minutes):
    with DAG("feed.training", schedule=ten_minutes, start_date=MIDNIGHT, catchup=True) as dag:
        pass
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    listed = list(stored.iter_dagrun_infos_between(at(1), at(1, 20)))
    assert [run.run_after for run in listed] == [at(1, 42), at(1, 52), at(2, 2)]


def test_summer_time_changes_nothing():
    berlin = ZoneInfo("Europe/Berlin")
    change = WindowTimetable(datetime(2026, 10, 24, 22, tzinfo=UTC), timedelta(hours=1), DELAY)
    last = DataInterval(
        pendulum.instance(datetime(2026, 10, 25, 1, tzinfo=berlin)),
        pendulum.instance(datetime(2026, 10, 25, 2, tzinfo=berlin)),
    )
    runs = intervals(change, last=last, earliest=pendulum.instance(datetime(2026, 10, 25, tzinfo=berlin)), count=3)
    hours = [pendulum.datetime(2026, 10, 25, hour) for hour in range(4)]
    assert [(start, end) for start, end, _ in runs] == list(pairwise(hours))


def test_a_manual_run_is_refused_with_what_to_do_instead(ten_minutes):
    with pytest.raises(ValueError, match="choose Backfill"):
        ten_minutes.infer_manual_data_interval(run_after=at(0, 52))


def test_a_scheduled_run_is_named_after_its_interval(ten_minutes):
    named = ten_minutes.generate_run_id(
        run_type=DagRunType.SCHEDULED, run_after=at(0, 42), data_interval=DataInterval(at(0), at(0, 10))
    )
    assert named == "scheduled__2026-11-01T00:00:00+00:00"


def test_it_survives_the_database(ten_minutes):
    restored = decode_timetable(encode_timetable(ten_minutes))
    assert restored == ten_minutes
    assert restored.periodic
    assert restored.summary == ten_minutes.summary == "every 10m, 32m later"


def test_a_backfill_lists_both_bounds(ten_minutes):
    with DAG("feed.training", schedule=ten_minutes, start_date=MIDNIGHT, catchup=True) as dag:
        pass
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    listed = [run.logical_date for run in stored.iter_dagrun_infos_between(at(1), at(1, 30))]
    assert listed == [at(1), at(1, 10), at(1, 20), at(1, 30)]
