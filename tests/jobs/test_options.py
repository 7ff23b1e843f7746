"""Options of a job on its command line: what it needs, what it refuses, and with which exit code. No Spark."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from windrow.cli import COMMANDS
from windrow.jobs import MODULES, main_of
from windrow.outcomes import ExitCode
from windrow.places import PROJECT

SHARED = {
    "canary": "canary", "lag_impact": "lag-impact", "land": "land", "maintenance": "maintain",
    "override": "override", "plan": "rebuild",
    "reconcile": "reconcile", "rollback": "rollback", "snapshot": "snapshot", "summarise": "summarise",
    "verify": "verify",
}  # fmt: skip
"""Job → the command that does the same."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINDROW_HOME", str(tmp_path))
    monkeypatch.setenv("WINDROW_PIPELINES", str(PROJECT / "dags" / "pipelines"))
    return tmp_path


def result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The job's last line on standard output."""
    last = capsys.readouterr().out.strip().splitlines()[-1]
    found: dict[str, Any] = json.loads(last.removeprefix("WINDROW_RESULT "))
    return found


@pytest.mark.parametrize("job", MODULES)
def test_every_job_has_help(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main_of(job)(["--help"])
    assert ended.value.code == 0
    assert "PIPELINE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("job", "arguments", "message"),
    [
        ("check", ("feed",), "Missing option '--run'"),
        ("check", ("feed", "--run"), "requires an argument"),
        ("check", ("feed", "--run", "r", "--what"), "--what"),
        ("join", ("feed", "--run", "r", "--mode", "other"), "--mode"),
        ("verify", ("feed", "--last", "many"), "--last"),
        ("override", ("feed", "--interval", "2026-11-01T00:00:00Z", "--reason", "x"), "--who"),
        ("publish", (), "PIPELINE"),
    ],
)
def test_a_wrong_option_leaves_with_bad_input(
    job: str, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main_of(job)(list(arguments))
    assert ended.value.code == ExitCode.BAD_INPUT
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "arguments", "message"),
    [
        ("check", ("feed", "--run", "r", "--interval", "2026-11-01T00:00:00"), "has no time zone"),
        ("land", ("feed", "--every", "15"), "has no unit"),
        ("maintenance", ("feed", "--retention=1d"), "7d"),
        ("summarise", ("feed", "--day", "yesterday"), "is not a day"),
        ("join", ("feed", "--run", "r"), "either --interval or --planned"),
        ("join", ("feed", "--run", "r", "--planned", "--interval", "2026-11-01T00:00:00Z"), "either --interval"),
        ("verify", ("feed", "--last", "1", "--publication", "1"), "one of --publication"),
        ("override", ("feed", "--interval", "2026-11-01T00:00:00Z", "--reason", "x", "--who="), "name of who decides"),
        ("override", ("feed", "--interval", "2026-11-01T00:00:00Z", "--reason", " ", "--who", "a"), "needs a reason"),
        ("override", ("feed", "--interval", "2026-11-01T00:03:00Z", "--reason", "x", "--who", "a"), "no interval of"),
        ("check", ("fed", "--run", "r"), "feed"),
    ],
)
def test_a_request_that_cannot_be_carried_out_ends_with_a_result_line(
    job: str, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main_of(job)(list(arguments)) == ExitCode.BAD_INPUT
    assert message in result(capsys)["message"]


@pytest.mark.parametrize(("job", "command"), SHARED.items())
def test_a_job_and_its_command_declare_their_common_options_once(job: str, command: str) -> None:
    ours = annotations(import_module(f"windrow.jobs.{MODULES[job]}").execute)
    theirs = annotations(COMMANDS[command])
    names = {option for option in ours if option != "--run"}
    assert names <= theirs.keys()
    for name in names:
        assert ours[name] is theirs[name]


def annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """First spelling of an option → its declaration."""
    found = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        for declared in getattr(parameter.annotation, "__metadata__", ()):
            spelled = declared.default if isinstance(declared.default, str) else f"--{parameter.name.replace('_', '-')}"
            found[spelled] = declared
    return found
