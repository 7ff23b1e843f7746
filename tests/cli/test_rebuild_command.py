"""rebuild, verify and rollback: what they refuse and list before any work starts. No Spark, no broker."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from windrow.cli import app
from windrow.config import load
from windrow.home import Home
from windrow.io.registers import clocks
from windrow.outcomes import exit_code
from windrow.places import PROJECT, Places

RANGE = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-01T00:30:00Z")


def windrow(home: Path, *args: str) -> Result:
    return CliRunner().invoke(app, args, env={"WINDROW_HOME": str(home), "WINDROW_KAFKA": "127.0.0.1:9"})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A pipeline whose first half hour is closed, and not published."""
    pipeline = load(PROJECT / "dags" / "pipelines" / "feed.yaml")
    at = pipeline.start + timedelta(minutes=61)
    rows = [
        {
            "topic": topic, "topic_id": topic, "epoch": 0, "partition": 0, "batch": 4, "next_offset": 9,
            "end_offset": 9, "newest_at": at, "clock_at": at, "idle": False, "landed_at": at,
        }
        for topic in pipeline.topics
    ]  # fmt: skip
    clocks.record(Home(pipeline, Places.from_env({"WINDROW_HOME": str(tmp_path)})), 0, rows)
    return tmp_path


def test_a_dry_run_lists_what_would_happen_and_records_nothing(home: Path) -> None:
    done = windrow(home, "rebuild", "feed", *RANGE, "--dry-run")
    assert done.exit_code == 0, done.exception
    assert done.stdout.count("it has no publication") == 3
    assert "3 intervals: 3 to publish; with everything up to batch: feed.engagements 4, feed.served 4" in done.stdout
    listed = json.loads(windrow(home, "rebuild", "feed", *RANGE, "--dry-run", "--json").stdout)
    assert [line["deed"] for line in listed["intervals"]] == ["publish"] * 3
    assert not (home / "tables" / "feed" / "plans").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("rebuild", "feed", *RANGE), 2, "a rebuild needs a reason"),
        (("rebuild", "feed", *RANGE[:3], "2026-11-01T00:40:00Z", "--reason", "x"), 20, "reaches past what is closed"),
        (("rebuild", "feed", "--reason", "x"), 2, "needs --from and --to, or --resume"),
        (("rebuild", "feed", "--resume", "{{ run_id }}"), 2, "has recorded no plan"),
        (("verify", "feed"), 2, "no such publication"),
        (("rollback", "feed", "--interval", RANGE[1], "--to", "1", "--reason", "x"), 2, "has no publication 1"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_move(
    home: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = windrow(home, *arguments)
    assert isinstance(done.exception, Exception)
    assert exit_code(done.exception) == code
    assert message in str(done.exception)
