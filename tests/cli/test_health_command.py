"""`windrow health`: the state of every pipeline, from its tables, with the exit code that a cron job needs."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from support.command import windrow
from support.documents import parsed
from windrow.cli import app
from windrow.config import load
from windrow.home import Home, Table
from windrow.io.delta import store, tables
from windrow.io.registers import clocks, judgements, publications
from windrow.outcomes import ExitCode
from windrow.places import PROJECT, Places
from windrow.schemas import PUBLICATIONS, QUALITY
from windrow.semantics.fleet.strip import LENGTH
from windrow.semantics.intervals import Interval, grid_around
from windrow.text import short_instant_text, shown_instant

TEN = timedelta(minutes=10)
FEED = (PROJECT / "dags" / "pipelines" / "feed.yaml").read_text()


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The pipeline `mine`, landed just now, with one published interval and a frontier after the second.

    It began an hour ago, or as long ago as an indirect parameter says.
    """
    monkeypatch.setenv("WINDROW_HOME", str(tmp_path))
    monkeypatch.setenv("WINDROW_TABLES", "")
    file = tmp_path / "pipelines" / "mine.yaml"
    file.parent.mkdir()
    ago = getattr(request, "param", timedelta(minutes=61))
    began = short_instant_text(grid_around(datetime.now(UTC) - ago, TEN)[0])
    file.write_text(FEED.replace("name: feed", "name: mine").replace("2026-11-01T00:00:00Z", began))
    made = Home(load(file), Places.from_env({"WINDROW_HOME": str(tmp_path)}))
    pipeline = made.pipeline
    at = pipeline.start + 2 * pipeline.interval + pipeline.after + pipeline.grace
    clocks.record(made, 0, [_clock(topic, at) for topic in pipeline.topics])
    names = ("rows", "left_landed", "left_duplicate", "left_unpaired", "positive", "negative", "unknown")
    row = {"number": 1, "interval": pipeline.start, "interval_end": pipeline.start + pipeline.interval}
    publications.register(made, {**row, **dict.fromkeys(names, 0), "verdict": "passed"})
    return made


def _clock(topic: str, at: datetime) -> dict[str, Any]:
    counts = dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0)
    offsets = {"partition": 0, "epoch": 0, "batch": 1, "next_offset": 1, "end_offset": 1}
    times = {"newest_at": at, "clock_at": at, "landed_at": datetime.now(UTC)}
    return {"topic": topic, "topic_id": "x", "idle": False, **offsets, **times, **counts}


def block(home: Home, metric: str) -> None:
    known = {"metric": metric, "verdict": "failed", "severity": "critical", "why": "nulls of user_id 9 % > 1 %"}
    start = home.pipeline.start + home.pipeline.interval
    row = dict.fromkeys(QUALITY.names) | {"plan": "p", "interval": start, "judged_at": start, **known}
    judgements.record(home, [row])


def health(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["health", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if "--json" in arguments:
        return done.exit_code, done.output
    assert max(map(len, done.output.splitlines())) <= 80 or "/" in done.output  # a path is never cut
    return done.exit_code, " ".join(done.output.split())


def test_a_pipeline_that_waits_for_its_next_run_needs_nobody(home: Home) -> None:
    code, shown = health("mine")
    assert code == 0
    assert "mine healthy" in shown
    assert " .c---- " in shown  # published, closed, open
    assert "1 closed interval without a publication" in shown


@pytest.mark.parametrize("home", [2 * LENGTH * TEN], indirect=True)
def test_a_publication_that_is_older_than_the_strip_is_still_the_newest(home: Home) -> None:
    """A long stall is not "never published": its end, its age and the interval that comes next are what they are."""
    pipeline = home.pipeline
    end = pipeline.start + pipeline.interval
    now = pipeline.start + 2 * LENGTH * pipeline.interval
    clocks.record(home, 1, [_clock(topic, now) for topic in pipeline.topics])
    [first] = publications.registered(home)
    publications.register(home, {**first, "number": 2, "rows": 9, "positive": 7})
    [one] = parsed("health", health("mine", "--json")[1])
    assert {cell["state"] for cell in one["strip"]} == {"closed", "open"}
    assert one["published_until"] == end.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert one["findings"][0]["text"].startswith(f"the interval of {shown_instant(end)} has no publication")
    done = CliRunner().invoke(app, ["metrics", "mine"])
    assert done.exit_code == 0, done.output
    metrics = done.output
    assert 'windrow_publication_age_seconds{pipeline="mine"}' in metrics
    assert 'windrow_rows{pipeline="mine",state="positive"} 7' in metrics


def test_a_blocked_interval_is_seen_with_its_cause_and_ends_with_1(home: Home) -> None:
    block(home, "nulls")
    code, shown = health("mine")
    assert code == 1
    assert "mine blocked" in shown
    assert " .B---- " in shown
    assert "nulls of user_id 9 % > 1 %" in shown
    assert "windrow override mine --interval" in shown


def test_a_far_start_is_told_before_anything_is_published(home: Home) -> None:
    for table in ("publications", "clock"):
        shutil.rmtree(home.table(Table(table)))
    start = home.pipeline.start
    clocks.record(home, 0, [_clock(topic, start + 200 * TEN) for topic in home.pipeline.topics])
    first = pa.table({"_event_time": pa.array([start + 150 * TEN], pa.timestamp("us", tz="UTC"))})
    write_deltalake(home.landing(home.pipeline.left.topics[0]), first)
    code, shown = health("mine")
    assert (code, "mine late" in shown) == (1, True)
    assert "150 intervals before it would be published without a row" in shown
    assert f"Set `start: {short_instant_text(start + 150 * TEN)}`" in shown
    assert "closed intervals without a publication" not in shown


def test_a_start_that_was_moved_is_told_as_training_tells_it(home: Home) -> None:
    file = home.places.home / "pipelines" / "mine.yaml"
    later = short_instant_text(home.pipeline.start + TEN)
    file.write_text(file.read_text().replace(short_instant_text(home.pipeline.start), later))
    code, shown = health("mine")
    assert (code, "mine failing" in shown) == (1, True)
    for told in (shown, windrow({}, "pipeline", "check", "--quick", str(file)).stderr):
        assert (
            f"mine has published from {shown_instant(home.pipeline.start)} on, and its file now starts at"
            in " ".join(told.split())
        )


def test_a_damaged_table_is_named_and_the_other_pipelines_are_shown(home: Home) -> None:
    folder = f"{home.table(Table.CLOCK)}/_delta_log"
    store.remove(folder, [f"{0:020d}.json"])
    store.create(f"{folder}/{0:020d}.json", b"")
    code, shown = health()
    assert code == 1
    assert f"{0:020d}.json" in shown
    assert "feed" in shown


def test_programs_get_the_same(home: Home) -> None:
    block(home, "nulls")
    code, shown = health("mine", "--json")
    [one] = parsed("health", shown)
    assert code == 1
    assert (one["status"], one["needs_person"]) == ("blocked", True)
    assert [cell["state"] for cell in one["strip"]] == ["published", "blocked", *["open"] * 4]
    assert [blocked["why"] for blocked in one["blocked"]] == ["nulls of user_id 9 % > 1 %"]
    assert one["published_until"] == (home.pipeline.start + home.pipeline.interval).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    runbook = (PROJECT / "dags" / "README.md").read_text()
    assert [name for name in (*one, *one["strip"][0]) if f"`{name}`" not in runbook] == []
    assert timedelta(seconds=one["interval"]) == home.pipeline.interval


def test_a_copy_of_a_file_takes_no_figures_away_and_is_named(home: Home) -> None:
    file = home.places.home / "pipelines" / "mine.yaml"
    copy = file.with_name("a_copy.yaml")
    copy.write_text(file.read_text())
    for command in ("health", "metrics", "alerts"):
        done = windrow({"WINDROW_HOME": str(home.places.home)}, command)
        assert done.returncode == 0, done.stderr
        assert f"{copy}:" in done.stderr
        assert "'mine' is also the name in" in done.stderr
        assert ("mine" in done.stdout) == (command != "alerts")  # there is none
    listed = windrow({"WINDROW_HOME": str(home.places.home)}, "pipeline", "list")
    assert listed.returncode == ExitCode.BAD_INPUT
    assert f"mine  {file}\n" in listed.stdout


def test_an_unknown_name_is_said(home: Home) -> None:
    code, shown = health("nobody")
    assert code == 1
    assert "nobody" in shown


def test_the_list_of_publications_ends_with_what_is_not_published(home: Home) -> None:
    start, interval = home.pipeline.start, home.pipeline.interval
    rows = publications.registered(home)
    tables.append_once(home.table(Table.TRAINING), PUBLICATIONS, rows, app_id=publications.APP_ID, version=1)

    def last_lines() -> list[str]:
        done = CliRunner().invoke(app, ["publications", "mine"])
        assert done.exit_code == 0, done.output
        return done.output.splitlines()[-2:]

    second, third = (Interval(start + n * interval, start + (n + 1) * interval) for n in (1, 2))
    before = last_lines()
    assert before[0] == f"{second}: closed and not published"
    assert before[1].startswith(f"{third}: open; it closes at watermark ")
    block(home, "null_rate.user_id")
    assert last_lines() == [f"{second}: blocked: nulls of user_id 9 % > 1 %", before[1]]


def test_the_list_of_publications_for_programs_holds_no_json_as_text(home: Home) -> None:
    [first] = publications.registered(home)
    second = {**first, "number": 2, "plan": '{"pins":{"t":1}}', "balance": '{"left":{}}'}
    publications.register(home, second)
    rows = publications.registered(home)
    tables.append_once(home.table(Table.TRAINING), PUBLICATIONS, rows, app_id=publications.APP_ID, version=2)
    done = CliRunner().invoke(app, ["publications", "mine", "--json"])
    assert done.exit_code == 0, done.output
    shown = [(row["plan"], row["balance"]) for row in parsed("publications", done.output)]
    assert shown == [(None, None), ({"pins": {"t": 1}}, {"left": {}})]
