"""The whole lag analysis over landed tables: its findings, its table, and its refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from support.documents import parsed
from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.cli.lag import COMMANDS
from windrow.io.lag import table as lag_table
from windrow.jobs.lag import impact
from windrow.jobs.run import Context
from windrow.schemas import LAG_IMPACT

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ROWS, EVERY = 600, 3
DELAYS = (20, 40, 60, 80, 300)
"""Every other row has one label: of five, four come inside the window of two minutes."""

RANGE = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-01T00:30:00Z")


def events() -> list[Any]:
    """A row every three seconds for half an hour, its label if it has one, and what closes them at last."""
    seen = [("served", n % 2, n * EVERY, n) for n in range(ROWS)]
    seen += [("likes", n % 4 // 2, n * EVERY + DELAYS[n // 2 % 5], n) for n in range(0, ROWS, 2)]
    seen += [(topic, p, 4_000, 9_000) for topic in ("served", "likes") for p in (0, 1)]
    return [event(topic, p, t, key, "secret-id") for topic, p, t, key in sorted(seen, key=lambda e: (e[2], e[0]))]


@pytest.fixture
def landed(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Everything has landed, in two runs; jobs find this home in their environment."""
    ctx = made(world, PIPELINE, {"served": 2, "likes": 2})
    every = events()
    for part, now in ((every[:400], 1_300), (every[400:], 5_000)):
        world.produce(part)
        world.land(replace(ctx, now=lambda now=now: at(now)))
    for name, value in {
        "WINDROW_HOME": str(world.places.home),
        "WINDROW_KAFKA": world.places.kafka,
        "WINDROW_PIPELINES": str(world.places.pipelines[0]),
        "WINDROW_SPARK_MASTER": "local[2]",
    }.items():
        monkeypatch.setenv(name, value)
    return ctx


def test_an_analysis_finds_what_was_put_in_and_records_and_draws_it(
    world: World, landed: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = run(capsys, *RANGE, "--lags", "1m,10m", "--pauses", "5m", "--windows", "5m")
    assert code == 0
    reports_what_was_put_in(result)
    page = Path(result["report"]).read_text()
    assert "observed-title" in page  # two landing runs: their lag is drawn
    assert "secret-id" not in page
    lines = world.table(landed, "lag_impact")
    assert len(lines) == result["scenarios"] == 2 * 5 * (1 + 2 * 3)
    assert set(lines[0]) == set(LAG_IMPACT.names)
    assert {line["report"] for line in lines} == {result["report"]}
    shows_the_two_findings([line for line in lines if line["after_s"] == 120])
    judges_the_wider_window([line for line in lines if line["after_s"] == 300])
    refuses_with_the_right_code(capsys)
    the_command_reports_the_same(landed, result)


def reports_what_was_put_in(result: dict[str, Any]) -> None:
    findings = result["findings"]
    assert (result["rows"], result["labels"]) == (ROWS, 240)  # pairs inside the window, as the join has them
    assert result["recall"] == {"likes": pytest.approx(0.8)}
    assert any(one.startswith("With the window of 2 min, 80.0 % of likes are caught") for one in findings)
    assert any("To catch 99 % of likes it takes a window of 5 min and 0 s of grace" in one for one in findings)
    assert any("labels are too few to be sure of 0.99: at least 381 are needed" in one for one in findings)
    assert any("small" not in one and "over 2 landing runs" in one for one in findings)
    assert any("999 arrive at most 0 s behind" in one for one in findings)


def shows_the_two_findings(lines: list[dict[str, Any]]) -> None:
    """Left lag is harmless while a row arrives inside its window. Right lag loses labels where the clock does not
    wait; under Windrow's clock it only delays."""
    short_left = [x for x in lines if x["side"] == "left" and x["lag"] == "constant" and x["lag_s"] == 60]
    assert len(short_left) == 5
    assert {x["labels_lost"] + x["rows_missing"] for x in short_left} == {0}
    ours = [x for x in lines if x["policy"] == "slowest"]
    assert {x["labels_lost"] for x in ours} == {0}
    late = next(x for x in ours if x["side"] == "right" and x["lag"] == "constant" and x["lag_s"] == 600)
    assert late["delay_max_s"] > 0
    fast = next(x for x in lines if x["policy"] == "fastest_side" and x["side"] == "right" and x["lag_s"] == 600)
    assert fast["labels_lost"] > 200
    assert fast["recall"] == 1 - fast["labels_lost"] / 240


def judges_the_wider_window(lines: list[dict[str, Any]]) -> None:
    assert {line["labels"] for line in lines} == {300}


def refuses_with_the_right_code(capsys: pytest.CaptureFixture[str]) -> None:
    nothing, result = run(capsys, "--from", "2026-11-01T00:45:00Z", "--to", "2026-11-01T00:50:00Z")
    assert nothing == 10
    assert "no row of served was served in" in result["message"]
    still_open, result = run(capsys, "--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z")
    assert still_open == 20
    wrong, result = run(capsys, *RANGE, "--partitions", "7", "--lags", "1m", "--policies", "slowest")
    assert wrong == 2
    assert "nothing would lag on partition 7 of left: its partitions are 0, 1" in result["message"]


def the_command_reports_the_same(ctx: Context, result: dict[str, Any]) -> None:
    app = typer.Typer()
    app.command("lag-impact")(COMMANDS["lag-impact"])
    few = ("--policy", "slowest", "--side", "right", "--lag", "1m")
    shown = CliRunner().invoke(app, ["small", *RANGE, *few, "--json"])
    assert shown.exit_code == 0, shown.output
    again = parsed("lag-impact", shown.stdout)
    assert again["recall"] == result["recall"]
    assert len(again["lines"]) == 3  # no lag, the lag, and a pause as long
    assert again["report"] != result["report"]  # another request is another page
    recorded = lag_table.read(ctx.home, ["analysis"])
    assert {line["analysis"] for line in recorded} == {again["analysis"], result["analysis"]}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The job as spark-submit starts it; its exit code and its result line."""
    code = impact.main(["small", *arguments])
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith("WINDROW_RESULT ")
    return code, json.loads(last.removeprefix("WINDROW_RESULT "))
