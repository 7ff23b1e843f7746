"""Waiting for a window, on a real clock table: [00:00, 00:10), after 30m, grace 1m closes at W = 00:41."""

import asyncio
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskDeferred
from airflow.sdk.module_loading import import_string
from deltalake import write_deltalake

from windrow.config import find
from windrow.home import Home
from windrow.io.registers import clocks, publications
from windrow.places import Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import Interval
from windrow_airflow.close_sensor import WindowCloseSensor
from windrow_airflow.close_trigger import WindowCloseTrigger
from windrow_airflow.window import Looks, look

from .test_factory import Run

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
INTERVAL = Interval(MIDNIGHT, MIDNIGHT + timedelta(minutes=10))
SECOND = timedelta(seconds=1)


def at(hour, minute=0, second=0):
    return MIDNIGHT.replace(hour=hour, minute=minute, second=second)


@pytest.fixture
def places(pipelines, tmp_path):
    pipelines("ads")
    return Places(home=tmp_path / "home", cache=tmp_path, pipelines=(pipelines.folder,))


@pytest.fixture
def land(places):
    """Write an observation: clock, next and end offset of each (topic, partition)."""

    def write(number, served, clicks, *, lag=0, landed_at=None):
        row = {
            "topic_id": "t",
            "epoch": 0,
            "partition": 0,
            "batch": number,
            "next_offset": 100,
            "idle": False,
        }
        row |= {
            "landed_at": landed_at or at(0, 45),
            "read": 100,
            "landed": 100,
            "quarantined": 0,
            "skipped": 0,
            "unexplained": 0,
        }
        rows = [
            {**row, "topic": "ads.served", "end_offset": 100, "newest_at": served, "clock_at": served},
            {**row, "topic": "ads.clicks", "end_offset": 100 + lag, "newest_at": clicks, "clock_at": clicks},
        ]
        clocks.record(Home(find("ads", places.pipelines), places), number, rows)

    return write


@pytest.fixture
def publish(places):
    def write(number):
        row = dict.fromkeys(PUBLICATIONS.names)
        row |= {
            "number": number,
            "interval": INTERVAL.start,
            "interval_end": INTERVAL.end,
            "published_at": at(1),
        }
        publications.register(Home(find("ads", places.pipelines), places), row)

    return write


@pytest.fixture
def sensor():
    from airflow.sdk import DAG, BaseOperator

    with DAG("ads.training", schedule=None, start_date=MIDNIGHT):
        wait = WindowCloseSensor(task_id="wait", pipeline="ads", every=timedelta(seconds=5))
        wait >> BaseOperator(task_id="join") >> BaseOperator(task_id="check")
    return wait


def context(run=None):
    return {"dag_run": run or Run(), "data_interval_start": INTERVAL.start, "data_interval_end": INTERVAL.end}


def test_a_closed_window_ends_the_wait_in_the_worker(sensor, land):
    land(0, served=at(0, 50), clicks=at(0, 41))
    assert "closed" in sensor.execute(context())


def test_a_second_short_of_the_close_it_defers(sensor, land):
    land(0, served=at(0, 50), clicks=at(0, 41) - SECOND)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context())
    assert deferred.value.method_name == "resume"
    assert deferred.value.timeout is None


def test_before_the_first_landing_it_defers(sensor, places):
    with pytest.raises(TaskDeferred):
        sensor.execute(context())


def test_the_trigger_survives_the_database(sensor, land):
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context())
    path, arguments = deferred.value.trigger.serialize()
    restored = import_string(path)(**arguments)
    assert isinstance(restored, WindowCloseTrigger)
    assert restored.serialize() == (path, arguments)


def test_an_interval_published_by_another_run_skips_what_follows(sensor, land, publish):
    land(0, served=at(0, 50), clicks=at(0, 50))
    publish(1)
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        sensor.execute(context())
    assert skipped.value.tasks == ["join"]


@pytest.mark.parametrize("run", [Run(clear_number=1), Run("backfill")])
def test_a_cleared_or_backfilled_run_publishes_anew_and_skips_nothing(sensor, land, publish, run):
    land(0, served=at(0, 50), clicks=at(0, 50))
    publish(1)
    sentence = sensor.execute(context(run))
    assert "is closed" in sentence
    assert "published as number 1" in sentence


def test_a_backfill_of_an_open_interval_waits_even_where_it_is_published(sensor, land, publish):
    land(0, served=at(0, 50), clicks=at(0, 40))
    publish(1)
    with pytest.raises(TaskDeferred):
        sensor.execute(context(Run("backfill")))


def test_back_from_the_triggerer_it_believes_the_tables_and_not_the_event(sensor, land):
    land(0, served=at(0, 50), clicks=at(0, 40))
    with pytest.raises(TaskDeferred):
        sensor.resume(context(), {"closed": True, "message": "closed"})
    land(1, served=at(0, 50), clicks=at(0, 41))
    assert "closed" in sensor.resume(context(), {"closed": True, "message": "closed"})


def test_a_wrong_pipeline_file_fails_at_once_and_names_it(sensor, pipelines):
    path = pipelines("ads")
    path.write_text("name: ads\n")
    with pytest.raises(AirflowFailException, match=r"ads\.yaml"):
        sensor.execute(context())


def test_an_interval_that_was_published_with_another_length_is_not_taken_for_published(
    sensor, land, publish, pipelines
):
    land(0, served=at(0, 50), clicks=at(0, 50))
    publish(1)
    pipelines("ads", interval="20m")
    longer = context() | {"data_interval_end": INTERVAL.start + timedelta(minutes=20)}
    with pytest.raises(AirflowFailException, match="has published intervals of 10m, and its file now says 20m"):
        sensor.execute(longer)


@pytest.fixture
def first_row(places):
    """A served row thirty-four hours after `start`: 204 intervals."""
    times = pa.array([MIDNIGHT + timedelta(hours=34)], pa.timestamp("us", tz="UTC"))
    write_deltalake(places.landing("ads", "ads.served"), pa.table({"_event_time": times}))


def test_a_run_waits_while_nothing_is_published_from_a_far_start_and_ends_where_it_is_corrected(
    sensor, land, first_row, pipelines
):
    """A failing run would be followed by one for every interval before the first row."""
    land(0, served=at(0, 50) + timedelta(days=2), clicks=at(0, 50) + timedelta(days=2))
    with pytest.raises(TaskDeferred):
        sensor.execute(context())
    window = look("ads", INTERVAL)
    assert (window.is_closed, window.is_ready) == (True, False)
    assert "waits: ads starts at 2026-11-01T00:00:00Z" in window.describe(at(1))
    assert "204 intervals before it" in window.describe(at(1))
    assert Looks().look("ads", INTERVAL) == window
    event, at_once = fire(trigger(), lambda: pipelines("ads", start="2026-11-02T10:00:00Z"))
    assert not at_once
    assert "is before the `start` of ads, 2026-11-02 10:00:00Z" in event["message"]
    with pytest.raises(DownstreamTasksSkipped):
        sensor.resume(context(), event)
    first = Interval(at(10) + timedelta(days=1), at(10, 10) + timedelta(days=1))
    assert look("ads", first).is_ready


def test_a_backfill_from_before_start_is_not_skipped(sensor, land, pipelines):
    land(0, served=at(0, 50), clicks=at(0, 41))
    pipelines("ads", start="2026-11-01T00:10:00Z")
    assert "is before the `start`" in sensor.execute(context(Run("backfill"))), "its join says what is wrong"


def fire(trigger, then=lambda: None):
    """Run a trigger until it fires; `then` happens after its first look."""

    async def first_event():
        waiting = asyncio.ensure_future(anext(aiter(trigger.run())))
        await asyncio.sleep(0.3)
        fired_at_once = waiting.done()
        await asyncio.to_thread(then)
        return (await asyncio.wait_for(waiting, 30)).payload, fired_at_once

    return asyncio.run(first_event())


def trigger(*, until_published=True):
    return WindowCloseTrigger("ads", INTERVAL.start.isoformat(), INTERVAL.end.isoformat(), 0.05, until_published)


def test_the_trigger_fires_when_a_landing_moves_the_clock_far_enough(land):
    land(0, served=at(0, 50), clicks=at(0, 40))
    event, at_once = fire(trigger(), lambda: land(1, served=at(0, 50), clicks=at(0, 41)))
    assert (event["closed"], at_once) == (True, False)


def test_the_trigger_fires_when_another_run_publishes(land, publish):
    land(0, served=at(0, 50), clicks=at(0, 40))
    event, at_once = fire(trigger(), lambda: publish(1))
    assert (event["closed"], at_once) == (False, False)


def test_the_trigger_goes_on_when_a_look_fails(pipelines, land):
    path = pipelines("ads")
    right = path.read_text()
    land(0, served=at(0, 50), clicks=at(0, 50))
    path.write_text("name: [")
    event, at_once = fire(trigger(), lambda: path.write_text(right))
    assert (event["closed"], at_once) == (True, False)


def test_who_looks_again_and_again_sees_what_a_first_look_sees(places, pipelines, land, publish):
    looks = Looks()
    for change in (
        lambda: None,
        lambda: land(0, served=at(0, 50), clicks=at(0, 40)),
        lambda: None,
        lambda: land(1, served=at(0, 50), clicks=at(0, 41)),
        lambda: publish(1),
        lambda: pipelines("ads").touch(),
        lambda: publish(2),
    ):
        change()
        assert looks.look("ads", INTERVAL) == look("ads", INTERVAL)
    assert looks.look("ads", INTERVAL).published["number"] == 2


def test_the_log_names_the_partition_that_holds_the_clock_and_how_far_it_is_behind(land):
    land(0, served=at(0, 50), clicks=at(0, 20), lag=7)
    sentence = look("ads", INTERVAL).describe(now=at(0, 46))
    assert "closes at watermark 2026-11-01 00:41:00Z" in sentence
    assert "21m short" in sentence
    assert "ads.clicks/0: 7 records behind (next offset 100 of 107)" in sentence
    assert "last landing" not in sentence


def test_the_log_says_that_a_caught_up_partition_waits_for_events_or_idling(land):
    land(0, served=at(0, 20), clicks=at(0, 50))
    sentence = look("ads", INTERVAL).describe(now=at(0, 46))
    assert "ads.served/0: caught up" in sentence
    assert "idling" in sentence


def test_the_log_names_a_partition_that_never_had_an_event(land):
    land(0, served=at(0, 50), clicks=None)
    assert "ads.clicks/0: caught up, no event yet" in look("ads", INTERVAL).describe(now=at(0, 46))


def test_the_log_says_when_nobody_lands_any_more(land):
    land(0, served=at(0, 20), clicks=at(0, 50), landed_at=at(0, 45))
    sentence = look("ads", INTERVAL).describe(now=at(1, 45))
    assert "last landing was 1h ago" in sentence
    assert "ads.land paused" in sentence


def test_the_log_says_that_nothing_has_been_landed_yet(places):
    assert "nothing has been landed yet" in look("ads", INTERVAL).describe(now=at(1))


@pytest.fixture
def bounded(places, pipelines):
    """[00:00, 00:10) is forced once a served event is more than 33 minutes behind its end."""
    path = pipelines("ads")
    path.write_text(path.read_text() + "waiting: {max_age: 33m, policy: force}\n")


def test_a_scheduled_run_ends_the_wait_where_a_bound_forces_its_interval(sensor, bounded, land):
    land(0, served=at(0, 43), clicks=at(0, 40))
    with pytest.raises(TaskDeferred):
        sensor.execute(context())
    land(1, served=at(0, 43, 1), clicks=at(0, 40))
    assert "is published before it closes: waiting: 33m1s > max_age 33m" in sensor.execute(context())


def test_a_bound_forces_nothing_while_records_wait_to_be_landed(sensor, bounded, land):
    land(0, served=at(0, 50), clicks=at(0, 40), lag=1)
    with pytest.raises(TaskDeferred):
        sensor.execute(context())


@pytest.mark.parametrize("run", [Run(clear_number=1), Run("backfill")])
def test_a_bound_forces_nothing_in_a_cleared_or_backfilled_run(sensor, bounded, land, run):
    land(0, served=at(0, 50), clicks=at(0, 40))
    with pytest.raises(TaskDeferred):
        sensor.execute(context(run))


def test_the_trigger_fires_when_a_bound_forces_the_interval_and_not_for_a_backfill(bounded, land):
    land(0, served=at(0, 43), clicks=at(0, 40))
    event, at_once = fire(trigger(), lambda: land(1, served=at(0, 50), clicks=at(0, 40)))
    assert (event["closed"], at_once) == (False, False)
    _, at_once = fire(trigger(until_published=False), lambda: land(2, served=at(0, 50), clicks=at(0, 41)))
    assert not at_once
