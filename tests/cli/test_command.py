"""The `windrow` command as people use it: messages, exit codes, JSON. No broker; Spark for types of expressions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support import command
from support.command import Done
from windrow.config import load
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.registers import clocks, publications
from windrow.jobs import land
from windrow.outcomes import ExitCode
from windrow.places import PROJECT, Places
from windrow.schemas import PUBLICATIONS

WINDROW = Path(sys.executable).with_name("windrow")
FEED = (PROJECT / "dags" / "pipelines" / "feed.yaml").read_text()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    return tmp_path


def windrow(home: Path, *args: str, spark: bool = False) -> Done:
    environ = {"WINDROW_HOME": str(home), "WINDROW_KAFKA": "127.0.0.1:9"}
    return command.windrow(environ | {"WINDROW_WITHOUT_SPARK": "" if spark else "1"}, *args)


def process(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The script that is installed."""
    env = {**os.environ, "WINDROW_HOME": str(home), "WINDROW_KAFKA": "127.0.0.1:9"}
    return subprocess.run([WINDROW, *args], env=env, capture_output=True, text=True, timeout=120)


def test_help_names_every_command_and_its_exit_codes(home: Path) -> None:
    shown = process(home, "--help").stdout
    for word in ("up", "down", "status", "demo", "simulate", "land", "train", "clock", "publications", "pipeline"):
        assert f"  {word} " in shown
    one_line = " ".join(shown.split())
    for code in ExitCode:
        assert f"{code:d} {code.meaning}" in one_line
    assert "Others:" not in shown, "a command belongs to no task of cli/grouped.py"
    assert "..." not in shown.partition("First steps:")[2], "a sentence is cut"


def test_land_warns_of_a_start_long_before_the_first_row_and_train_stops_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(land, "land", lambda ctx, **options: iter([]))
    times = pa.array([datetime(2026, 11, 5, 10, 3, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    table = home / "tables" / "feed" / "landing" / "feed.served"
    told = "the interval of 2026-11-05T10:00:00Z: 636 intervals before it"
    pipeline, later = load(PROJECT / "dags" / "pipelines" / "feed.yaml"), datetime(2026, 11, 5, 11, tzinfo=UTC)
    rows = [row(topic, 0, later, 0) for topic in pipeline.topics]
    clocks.record(Home(pipeline, Places.from_env({"WINDROW_HOME": str(home)})), 0, rows)
    for words in (("land",), ("train",), ("train", "--interval", "2026-11-05T10:00:00Z")):
        before = windrow(home, *words, "feed")
        assert told not in before.stdout + before.stderr
        write_deltalake(table, pa.table({"_event_time": times}), mode="append")
        done = windrow(home, *words, "feed")
        if words == ("land",):
            assert done.returncode == 0
            assert "warning: feed starts at" in done.stdout
            assert told in done.stdout
        else:
            assert done.returncode == ExitCode.BAD_INPUT
            assert done.stderr.startswith("FarStart: ")
            assert told in done.stderr
            assert told not in windrow(home, *words, "feed", "--from-start").stderr
        shutil.rmtree(table)


def test_it_says_its_version(home: Path) -> None:
    assert process(home, "--version").stdout == f"windrow {version('windrow')}\n"


def test_an_unknown_pipeline_is_refused_with_the_near_miss(home: Path) -> None:
    done = windrow(home, "clock", "fed")
    assert done.returncode == 2
    assert "feed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_pipeline_file_is_refused_with_line_field_and_what_would_be_right(home: Path) -> None:
    file = home / "wrong.yaml"
    file.write_text(FEED.replace("name: feed", "name: wrong").replace("interval: 10m", "intervall: 10m"))
    done = windrow(home, "pipeline", "check", str(file))
    line = 1 + file.read_text().splitlines().index(next(x for x in file.read_text().splitlines() if "intervall" in x))
    assert done.returncode == 2
    assert f"wrong.yaml:{line}: intervall" in done.stderr
    assert "interval" in done.stderr.replace("intervall", "")


@pytest.mark.spark
def test_an_expression_that_does_not_fit_its_types_is_refused_with_its_line(home: Path, spark: object) -> None:
    file = home / "typed.yaml"
    file.write_text(FEED.replace("name: feed", "name: typed").replace("size(clicks) > 0", "clicks > 0"))
    line = 1 + next(n for n, text in enumerate(file.read_text().splitlines()) if "clicks > 0" in text)
    assert windrow(home, "pipeline", "check", "--quick", str(file)).returncode == 0
    done = windrow(home, "pipeline", "check", str(file), spark=True)
    assert done.returncode == 2
    assert f"typed.yaml:{line}: labels.clicked: does not fit the declared columns" in done.stderr
    assert len(done.stderr) < 2_000, "one line, no plan"


@pytest.mark.spark
def test_a_right_pipeline_file_is_summed_up(home: Path, spark: object) -> None:
    done = windrow(home, "pipeline", "check", str(PROJECT / "dags" / "pipelines" / "feed.yaml"), spark=True)
    assert done.returncode == 0
    assert "feed is fine: feed.engagements, feed.served" in done.stdout


def test_pipelines_of_the_home_folder_are_found(home: Path) -> None:
    (home / "pipelines" / "mine.yaml").write_text(FEED.replace("name: feed", "name: mine"))
    assert json.loads(windrow(home, "pipeline", "list", "--json").stdout).keys() == {"feed", "mine"}


def test_a_file_whose_name_another_one_has_is_not_fine_and_not_listed_as_usable(home: Path) -> None:
    text = FEED.replace("name: feed", "name: mine")
    mine, twin = home / "pipelines" / "mine.yaml", home / "pipelines" / "mine.yml"
    for file in (mine, twin):
        file.write_text(text)
    done = windrow(home, "pipeline", "check", "--quick", str(twin))
    assert done.returncode == 2
    assert f"name: 'mine' is also the name in {mine}" in done.stderr
    listed = windrow(home, "pipeline", "list")
    assert listed.returncode == 2
    assert f"mine  {mine}  cannot be used: another file has its name" in listed.stdout
    assert f"feed  {PROJECT / 'dags' / 'pipelines' / 'feed.yaml'}\n" in listed.stdout


def test_the_clock_before_anything_landed_says_the_next_move(home: Path) -> None:
    done = windrow(home, "clock", "feed")
    assert done.returncode == 0
    assert "`windrow land feed`" in done.stdout


@pytest.mark.parametrize(("seconds", "lag", "why"), [(100, 0, "read to its end"), (100, 7, "7 records behind")])
def test_the_clock_says_who_holds_it_and_why(home: Path, seconds: int, lag: int, why: str) -> None:
    pipeline = load(PROJECT / "dags" / "pipelines" / "feed.yaml")
    places = Places.from_env({"WINDROW_HOME": str(home)})
    rows = [
        row(topic, partition, pipeline.start + timedelta(seconds=at), behind)
        for topic, partition, at, behind in (
            ("feed.served", 0, 5_000, 0),
            ("feed.served", 1, seconds, lag),
            ("feed.engagements", 0, 5_000, 0),
        )
    ]
    clocks.record(Home(pipeline, places), 0, rows)
    shown = windrow(home, "clock", "feed")
    assert "held by feed.served/1" in shown.stdout
    assert why in shown.stdout
    found = json.loads(windrow(home, "clock", "feed", "--json").stdout)
    assert found["held_by"] == ["feed.served", 0, 1]
    assert found["watermark"] == "2026-11-01T00:01:40.000000Z"
    assert found["frontier"] == "2026-10-31T23:30:40.000000Z"  # 30 minutes of window, 1 of grace
    assert [p["lag"] for p in found["partitions"]] == [0, 0, lag]


def row(topic: str, partition: int, clock_at: datetime, lag: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "topic_id": "x",
        "epoch": 0,
        "partition": partition,
        "batch": 1,
        "next_offset": 10,
        "end_offset": 10 + lag,
        "newest_at": clock_at,
        "clock_at": clock_at,
        "idle": False,
        "landed_at": datetime(2026, 11, 1, 12, tzinfo=UTC),
        **dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0),
    }


def test_a_changed_interval_is_refused_where_intervals_are_published(home: Path) -> None:
    file = home / "pipelines" / "mine.yaml"
    file.write_text(FEED.replace("name: feed", "name: mine"))
    pipeline, places = load(file), Places.from_env({"WINDROW_HOME": str(home)})
    names = ("rows", "left_landed", "left_duplicate", "left_unpaired", "positive", "negative", "unknown")
    published = {"number": 1, "interval": pipeline.start, "interval_end": pipeline.start + pipeline.interval}
    row = {**published, **dict.fromkeys(names, 0)}
    training = places.table(pipeline.name, "training")
    tables.append_once(training, PUBLICATIONS, [row], app_id=publications.APP_ID, version=1)
    publications.register(Home(pipeline, places), row)
    file.write_text(file.read_text().replace("interval: 10m", "interval: 1h"))
    done = windrow(home, "train", "mine")
    assert done.returncode == 2
    assert "has published intervals of 10m, and its file now says 1h" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "feed", "--interval", "2026-11-01T00:03:00Z"), "no interval of feed starts at"),
        (("train", "feed", "--interval", "2026-11-01T00:00:00"), "has no time zone"),
        (("train", "feed", "--interval", "yesterday"), "is not an instant"),
        (
            ("rebuild", "feed", "--from", "2026-11-01T01:00:00Z", "--to", "2026-11-01T00:00:00Z", "--reason", "x"),
            "at or before it begins",
        ),
        (("override", "feed", "--interval", "2026-11-01T00:00:00Z", "--reason", " "), "an override needs a reason"),
        (("override", "feed", "--interval", "2026-11-01T00:00:00Z", "--reason", "x"), "no candidate of the interval"),
        (("train", "../../etc"), "etc"),
        (("train", "feed", "--republish"), "--republish is for one interval"),
        (("train", "feed", "--interval", "2026-11-01T00:00:00Z", "--drain"), "leave --interval out"),
        (("train", "feed", "--reason", "x"), "recorded with --force only"),
        (("land", "feed", "--reason", "x"), "recorded with --accept-gap or --replay-lost only"),
    ],
)
def test_what_cannot_be_done_is_refused_before_spark_starts(
    home: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = windrow(home, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_open_interval_is_refused_with_what_it_waits_for(home: Path) -> None:
    done = windrow(home, "train", "feed", "--interval", "2026-11-01T00:00:00Z")
    assert done.returncode == 20
    assert "closes when the watermark is at 2026-11-01 00:41:00Z" in done.stderr


def test_a_missing_argument_is_refused_with_the_usage(home: Path) -> None:
    done = windrow(home, "land")
    assert done.returncode == 2
    assert "Usage: windrow land" in done.stderr


def test_a_reader_that_has_seen_enough_is_no_failure(home: Path) -> None:
    env = {**os.environ, "WINDROW_HOME": str(home)}
    commands = (
        f"{WINDROW} pipeline list | true",
        f"{WINDROW} clock feed | head -c 1",
        f"{WINDROW} status --json | true",
    )
    script = "set -eo pipefail; " + "; ".join(commands)
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_scenario_that_does_not_come_out_is_a_failure(home: Path) -> None:
    file = PROJECT / "tests" / "scenarios" / "papers" / "suppress_two_minutes_of_grace.yaml"
    assert windrow(home, "scenario", str(file)).returncode == 0
    wrong = home / "wrong.yaml"
    text = file.read_text()
    assert "negative" in text
    wrong.write_text(text.replace("negative", "positive", 1))
    assert windrow(home, "scenario", str(wrong)).returncode == 1
