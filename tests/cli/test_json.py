"""`--json` on every command: one JSON document on standard output, as docs/schemas.json has it. No Spark, no broker."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from support.command import windrow
from support.documents import SCHEMAS, parsed
from support.environ import environ_of
from support.training.feed import feed_home, landed_until
from support.training.table import empty_places
from windrow import platform, schemas
from windrow.cli import app, local, show
from windrow.home import Home
from windrow.io.registers import clocks, publications
from windrow.jobs import canary, land, ledger, train
from windrow.jobs.audit import reconcile, verify
from windrow.jobs.check import Refusal
from windrow.jobs.erasure import erase
from windrow.jobs.landing import replay
from windrow.jobs.upkeep import maintain, override, rollback
from windrow.outcomes import ExitCode
from windrow.places import PROJECT
from windrow.semantics.landing.gaps import Lost
from windrow.simulate import producer

FEED = PROJECT / "dags" / "pipelines" / "feed.yaml"
SCENARIO = PROJECT / "tests" / "scenarios" / "papers" / "suppress_two_minutes_of_grace.yaml"
START = datetime(2026, 11, 1, tzinfo=UTC)
RANGE = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-01T00:30:00Z")
CHOICE = ("--last", "1")
DECIDED = ("--interval", "2026-11-01T00:00:00Z", "--reason", "x")
WITHOUT: set[str] = set()
"""Commands that have no `--json`. Shell completion is an option of `windrow`, not a command."""


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command of the tree, by its whole name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


TREE = dict(commands(typer.main.get_command(app)))


def test_every_command_has_json_by_the_one_declaration() -> None:
    declared = next(one for one in show.AsJson.__metadata__ if hasattr(one, "callback"))  # type: ignore[attr-defined]
    found = {name: [one for one in command.params if "--json" in one.opts] for name, command in TREE.items()}
    assert {name for name, options in found.items() if not options} == WITHOUT
    assert {options[0].help for options in found.values() if options} == {declared.help}
    assert all(options[0].is_eager for options in found.values() if options), "it must know before others are read"


def test_every_command_has_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMAS)
    assert SCHEMAS["properties"].keys() == (TREE.keys() - WITHOUT) | {"error"}


@pytest.mark.parametrize(
    ("columns", "schema"),
    [
        (SCHEMAS["properties"]["publications"]["items"], schemas.PUBLICATIONS),
        (SCHEMAS["properties"]["reconcile"]["properties"]["intervals"]["items"], schemas.RECONCILED),
        (SCHEMAS["properties"]["lag-impact"]["properties"]["lines"]["items"], schemas.LAG_IMPACT),
        (SCHEMAS["$defs"]["late_line"], schemas.LATE),
    ],
)
def test_rows_of_a_table_have_its_columns(columns: dict[str, Any], schema: Any) -> None:
    assert list(columns["properties"]) == columns["required"] == schema.names


def test_values_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    value = {START: (timedelta(minutes=1), math.nan, -math.inf, date(2026, 11, 1), Path("a"), {1: None})}
    show.print_json(value)
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"2026-11-01T00:00:00.000000Z": [60.0, None, None, "2026-11-01", "a", {"1": None}]}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The pipeline `feed` with publications, and a clock with a gap."""
    home = feed_home(empty_places(tmp_path_factory.mktemp("json") / "feed"))
    landed_until(home, START + timedelta(hours=3))
    return home


@pytest.fixture
def home(written: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    for variable, value in {**environ_of(written.places), "WINDROW_KAFKA": "127.0.0.1:9"}.items():
        monkeypatch.setenv(variable, value)
    return written


def document(name: str, *arguments: object, code: int = 0) -> Any:
    """What the command prints on standard output, which must be one document as its schema says."""
    done = CliRunner().invoke(app, [*name.split(), *map(str, arguments), "--json"])
    assert done.exit_code == code, done.output or done.exception
    return parsed(name, done.stdout)


@pytest.mark.parametrize(
    "line",
    [
        "clock feed", "publications feed", "metrics feed", "alerts", "status", "pipeline list", "snapshots feed",
        f"scenario {SCENARIO}", f"pipeline check --quick {FEED}", "summarise feed --day 2026-11-01",
        "down", f"rebuild feed {' '.join(RANGE)} --dry-run --all",
    ],
)  # fmt: skip
def test_a_command_without_spark_and_broker_prints_what_its_schema_says(home: Home, line: str) -> None:
    name = next(name for name in TREE if f"{line} ".startswith(f"{name} "))
    document(name, *line.removeprefix(name).split())


def test_health_ends_with_1_and_has_its_document_all_the_same(home: Home) -> None:
    [one] = document("health", "feed", code=1)
    assert one["held_by"] == ["feed.engagements", 0, 0]


def test_the_instants_of_a_gap_are_as_all_instants(home: Home) -> None:
    [gap] = document("clock", "feed")["gaps"]
    assert gap["accepted_at"] == "2026-11-01T00:00:00.000000Z"
    assert gap["lost"] == {"topic": "feed.served", "partition": 0, "start": 3, "until": 5}


def test_a_snapshot_a_card_and_an_export_say_the_same_of_their_rows(home: Home, tmp_path: Path) -> None:
    kept = document("snapshot", "feed", "r7", "--why", "ranker 7", *RANGE)
    assert [one["name"] for one in document("snapshots", "feed")] == ["r7"]
    card = document("card", "feed", "--at", "snapshot:r7", *RANGE, "--out", tmp_path / "card")
    file = ("--to", tmp_path / "rows", "--at", "snapshot:r7", "--labels", "all")
    export = document("export", "feed", *file, "--from", RANGE[1], "--until", RANGE[3])
    assert kept["rows"] == card["rows"] == export["rows"]
    assert (card["from"], card["to"]) == (kept["from"], kept["to"])
    assert document("export", "--verify", tmp_path / "rows") == export
    assert document("snapshot", "feed", "r7", "--delete")["deleted_at"] is not None


def test_up_prints_the_state_and_its_progress_elsewhere(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "up", lambda places, report, only=(): report("starting"))
    monkeypatch.setattr(local, "_show_login", lambda places: None)
    done = CliRunner().invoke(app, ["up", "--json"])
    assert "airflow api-server" in {one["name"] for one in parsed("up", done.stdout)}
    assert "starting" in done.stderr
    assert "starting" in CliRunner().invoke(app, ["up"]).stdout, "the next command prints where commands print"


def test_setup_says_where_it_has_written(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "setup", lambda places, sets, report: report("fetching"))
    assert document("setup")["spark_properties"] == str(home.places.spark_properties)


def test_simulated_traffic_has_its_truth(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(producer, "create_topics", lambda *anything: None)
    made: dict[tuple[str, int], int] = {}
    monkeypatch.setattr(producer, "produce", lambda *anything, **more: producer.Produced(made, {}, 0))
    found = document("simulate", "--rows", 100, "--pipeline-file", tmp_path / "sim.yaml")
    truth = found["truth"]
    assert truth["rows"] == truth["positive"] + truth["negative"] + truth["unknown"]
    assert sum(one["read"] for one in truth["topics"].values()) == found["produced"]


def test_a_landing_has_the_counts_of_every_look(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = clocks.observe(home)
    nothing = clocks.observe(Home(home.pipeline, empty_places(home.places.home / "empty")))
    monkeypatch.setattr(land, "land", lambda ctx, **options: iter([land.Landed(nothing, seen)] * 2))
    again = replay.Replayed("feed.served", 3, 9, 10, (Lost("feed.served", 0, 3, 5),))
    monkeypatch.setattr(replay, "replay", lambda ctx, asked: [again])
    found = document("land", "feed", "--replay-lost", "--reason", "x")
    assert [one["landed"] for one in found["landings"]] == [8, 8]
    assert found["landings"][0]["topics"]["feed.served"]["landed"] == 4
    assert found["replayed"][0]["gaps"] == [{"topic": "feed.served", "partition": 0, "start": 3, "until": 5}]


def test_what_was_published_and_what_is_blocked_are_in_one_document(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    [row, *_] = publications.registered(home)

    def train_all(ctx: Any, run: str, *, drain: bool, each: train.Each) -> Iterator[train.Round]:
        each(row)
        yield train.Round([row], {"plan": Refusal("nulls 9 % > 1 %", "report.html")})

    monkeypatch.setattr(train, "train_all", train_all)
    monkeypatch.setattr(ledger, "extend_after_publication", lambda ctx: None)
    done = CliRunner().invoke(app, ["train", "feed", "--json"])
    found = parsed("train", done.stdout)
    assert ([one["number"] for one in found["published"]], found["blocked"]) == ([1], ["nulls 9 % > 1 %"])
    assert "publication 1:" in done.stderr
    assert type(done.exception).__name__ == "Blocked"


def test_decisions_print_the_publication(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    [row, *_] = publications.registered(home)
    monkeypatch.setattr(ledger, "extend_after_publication", lambda ctx: None)
    monkeypatch.setattr(override, "override", lambda ctx, at, who, why: row)
    monkeypatch.setattr(rollback, "rollback", lambda ctx, at, number, why: row)
    assert document("override", "feed", *DECIDED)["number"] == 1
    assert document("rollback", "feed", *DECIDED, "--to", 7)["rolled_back_to"] == 7


def test_comparisons_print_every_interval(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    same = verify.Verification(1, START, 1, 9, "ab", {}, ())
    monkeypatch.setattr(verify, "chosen", lambda *anything, **more: [])
    monkeypatch.setattr(verify, "verify", lambda *anything: [same])
    monkeypatch.setattr(verify, "refuse_differences", lambda *anything: None)
    assert document("verify", "feed")[0]["is_same"] is True
    said = [verify.NEWEST_ONLY in CliRunner().invoke(app, ["verify", "feed", *more]).stdout for more in ((), CHOICE)]
    assert said == [True, False]
    row = dict.fromkeys(schemas.RECONCILED.names) | {"interval": START, "outcome": "equal", "reconciled_at": START}
    shown = reconcile.Difference(START, "feed.served/0/0/1", ("clicks",))
    monkeypatch.setattr(reconcile, "reconcile_range", lambda *anything: reconcile.Reconciled((row,), (shown,)))
    monkeypatch.setattr(reconcile, "check", lambda *anything: None)
    assert document("reconcile", "feed")["shown"][0]["columns"] == ["clicks"]


def test_canaries_are_listed_as_the_table_has_them(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    row = dict.fromkeys(schemas.CANARIES.names) | {"served_at": START, "number": 1, "stream": "served"}
    monkeypatch.setattr(canary, "feed", lambda *anything: iter([[row], [{**row, "delay_s": 3.0}]]))
    assert [one["delay_s"] for one in document("canary", "feed")["sent"]] == [None, 3.0]
    pair = {"served_at": START, "delay_s": 3.0, "row": "a: landed", "label": "b: not landed"}
    monkeypatch.setattr(canary, "lost", lambda *anything: [pair])
    assert document("canary", "feed", "--lost")["lost"][0]["label"] == "b: not landed"


def test_an_erasure_names_the_publications_of_an_export_as_values(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    export = dict.fromkeys(schemas.EXPORTS.names) | {"location": "/data", "state": "[[1, 24]]"}
    done = {
        "erasure": "erase__1", "pipeline": "feed", "at": START, "asked_by": "ann", "columns": ["user_id"],
        "mode": "delete", "keys": 1, "new_keys": 1, "landing": {"feed.served": {"rows": 1, "unsearchable": 0}},
        "candidates": 0, "training": {"rows": 1, "intervals": 1}, "other_rows": {"2026-11-01T00:00:00.000000Z": 1},
        "snapshots": {"r7": 2}, "exports": [export], "not_covered": [], "unknown_tables": [], "gone_after": START,
        "retention_days": 7, "report": "/page.html",
    }  # fmt: skip
    monkeypatch.setattr(erase, "erase", lambda *anything, **more: done)
    assert document("erase", "feed", "--key", "user_id=7")["exports"][0]["state"] == [[1, 24]]


def test_maintenance_counts_by_table(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    done = dict.fromkeys(("outdated_candidates", "snapshots", "snapshot_bytes", "old_report_days"), 1)
    tables = {"fewer_files": {"training": -1}, "deleted_files": {"training": 2}}
    monkeypatch.setattr(maintain, "maintain", lambda *anything: {**done, **tables})
    assert document("maintain", "feed")["deleted_files"] == {"training": 2}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("clock", "fed", "--json"), ExitCode.BAD_INPUT, "did you mean 'feed'?"),
        (("land", "--json"), ExitCode.BAD_INPUT, "Missing argument 'PIPELINE'"),
        (("clock", "feed", "--jso", "--json"), ExitCode.BAD_INPUT, "No such option: --jso"),
        (("clok", "--json"), ExitCode.BAD_INPUT, "No such command 'clok'"),
        (("rebuild", "feed", *RANGE[:3], "2026-12-01T00:00:00Z", "--dry-run", "--json"), 20, "what is closed"),
        (("late", "feed", "--json"), ExitCode.BAD_INPUT, "`windrow late feed --extend`"),
    ],
)
def test_an_error_is_one_object_with_code_message_and_next_move(
    home: Home, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = windrow({}, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    error = parsed("error", done.stderr.splitlines()[-1])
    assert error["code"] == code
    assert words in error["message"]
    assert error["next_move"] == ExitCode(code).next_move


def test_an_error_of_a_pipeline_file_has_every_problem_with_its_line(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(FEED.read_text().replace("interval: 10m", "intervall: 10m").replace("grace: 1m", "grace: 1"))
    error = parsed("error", windrow({}, "pipeline", "check", str(file), "--json").stderr)
    found = {one["field"]: file.read_text().splitlines()[one["line"] - 1].split(":")[0] for one in error["problems"]}
    assert {name: line for name, line in found.items() if name != "interval"} == {
        "intervall": "intervall",
        "grace": "grace",
    }


def test_every_code_of_an_error_says_what_helps() -> None:
    assert {code for code in ExitCode if code.next_move is None} == {ExitCode.DONE, ExitCode.NOTHING_TO_DO}
