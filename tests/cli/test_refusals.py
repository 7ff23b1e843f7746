"""What `windrow` refuses in front, by exit code and message. In this process; whatever asks for Spark ends with 50."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.config import load
from windrow.home import Home
from windrow.io.registers import clocks, measures, plans, publications
from windrow.outcomes import ExitCode, exit_code
from windrow.places import PROJECT, Places
from windrow.schemas import CLOCK, PUBLICATIONS
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

FEED = PROJECT / "dags" / "pipelines" / "feed.yaml"
FIRST = "2026-11-01T00:00:00Z"


@dataclass(frozen=True)
class Command:
    """The command in a home of its own, and what tests write there."""

    home: Home

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code, and everything that a person reads."""
        done = CliRunner().invoke(app, arguments)
        error = done.exception
        if error is None or isinstance(error, SystemExit):
            return done.exit_code, done.output
        return exit_code(error), f"{done.output}{type(error).__name__}: {error}"

    def observe(self, newest: datetime) -> None:
        """Every topic has landed one event, at `newest`."""
        blank: dict[str, Any] = dict.fromkeys(CLOCK.names)
        rows = [
            {**blank, "topic": topic, "epoch": 0, "partition": 0, "batch": 1, "next_offset": 1, "end_offset": 1,
             "newest_at": newest, "clock_at": newest}
            for topic in self.home.pipeline.topics
        ]  # fmt: skip
        clocks.record(self.home, clocks.observe(self.home).number + 1, rows)

    def publish(self, verdict: str, **columns: Any) -> None:
        """The first interval has a plan and a candidate, which is published."""
        start = self.home.pipeline.start
        interval = Interval(start, start + self.home.pipeline.interval)
        plan = Plan(self.home.pipeline.name, "run", interval, {}, self.home.pipeline.config_hash)
        plans.record(self.home, [plan], start)
        measures.record(self.home, [{"plan": plan.id, "interval": start, "metric": "rows", "value": 0.0}])
        blank: dict[str, Any] = dict.fromkeys(PUBLICATIONS.names)
        counts = dict.fromkeys(("rows", "positive", "negative", "unknown"), 0)
        row = {**blank, **counts, "number": 1, "interval": start, "interval_end": interval.end, "plan": plan.to_json(),
               "plan_id": plan.id, "config_hash": plan.config_hash, "verdict": verdict,
               "published_at": start}  # fmt: skip
        publications.register(self.home, row | columns)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    for name, value in (
        ("WINDROW_HOME", str(tmp_path)),
        ("WINDROW_KAFKA", "127.0.0.1:9"),
        ("WINDROW_WITHOUT_SPARK", "1"),
    ):
        monkeypatch.setenv(name, value)
    return Command(Home(load(FEED), Places.from_env({"WINDROW_HOME": str(tmp_path)})))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("verify", "feed", "--last", "0"), "'--last': Input should be greater than or equal to 1"),
        (("verify", "feed", "--last", "-3"), "'--last': Input should be greater than or equal to 1"),
        (("verify", "feed", "--publication", "0"), "'--publication': Input should be greater than or equal to 1"),
        (
            ("rollback", "feed", "--interval", FIRST, "--to", "0", "--reason", "x"),
            "'--to': Input should be greater than",
        ),
        (("land", "feed", "--for", "5m", "--every", "0s"), "'0s' has no length"),
        (("train", "feed", "--republish"), "--republish is for one interval"),
        (("late", "feed", "--interval", "2099-01-01T00:00:00Z"), "has no publication"),
        (("late", "feed", "--interval", "2026-11-01T00:03:00Z"), "no interval of feed starts at 2026-11-01 00:03:00Z"),
        (("rebuild", "feed", "--from", FIRST, "--to", "2026-11-01T01:00:00Z"), "a rebuild needs a reason"),
        (("simulate", "--rows", "-5"), "'--rows': Input should be greater than or equal to 1"),
        (("simulate", "--poison", "7"), "'--poison': Input should be less than or equal to 1"),
        (("simulate", "--span", "-1h"), "'-1h' is negative"),
        (("simulate", "--span", "0s"), "'0s' has no length"),
        (("simulate", "--served-topic", "feed served"), "'feed served' cannot be a Kafka topic"),
        (("simulate", "--engagements-topic", ".."), "'..' cannot be a Kafka topic"),
        (("simulate", "--served-topic", "one", "--engagements-topic", "one"), "one cannot be both topics"),
        (("simulate", "--pipeline-file", "/dev/null/sim.yaml"), "--pipeline-file /dev/null/sim.yaml: "),
        (("simulate", "--pipeline-file", "/proc/sim.yaml"), "nothing was produced"),
        (("simulate", "--pipeline-file", "my sim.yaml"), "'my sim' cannot be a name"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_its_reason(
    command: Command, arguments: tuple[str, ...], message: str
) -> None:
    code, shown = command.run(*arguments)
    assert code == ExitCode.BAD_INPUT, shown
    assert message in " ".join(shown.split())


def test_an_interval_is_forced_once_a_left_row_behind_it_has_landed(command: Command) -> None:
    force = ("train", "feed", "--interval", FIRST, "--force", "--reason", "it cannot wait")
    assert command.run(*force)[0] == ExitCode.STILL_OPEN, "nothing has landed"
    end = command.home.pipeline.start + command.home.pipeline.interval
    command.observe(end - timedelta(microseconds=1))
    code, shown = command.run(*force)
    assert code == ExitCode.STILL_OPEN
    assert "the newest landed event of served is at 2026-11-01 00:09:59.999999Z" in shown
    assert "`windrow land feed`" in shown
    command.observe(end)
    assert command.run(*force)[0] == ExitCode.NEEDS_SPARK, "it is planned, and the join is next"


def test_an_override_of_what_is_published_is_refused(command: Command) -> None:
    command.publish("passed")
    code, shown = command.run("override", "feed", "--interval", FIRST, "--reason", "x")
    assert code == ExitCode.BAD_INPUT
    assert "has no blocked candidate: the last one is publication 1 (passed). Nothing was recorded" in shown


def test_a_retry_of_an_override_finds_it_done(command: Command) -> None:
    command.publish("overridden", overridden_by="ann", override_reason="x")
    override = ("override", "feed", "--interval", FIRST, "--who", "ann", "--reason")
    code, shown = command.run(*override, "x")
    assert (code, "publication 1" in shown) == (0, True)
    assert command.run(*override, "y")[0] == ExitCode.BAD_INPUT
