"""What commands print: a text from a record never steers the terminal."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import CliRunner

from support.environ import environ_of
from support.training.feed import feed_home, landed_until
from support.training.table import empty_places
from windrow import cli
from windrow.cli import show
from windrow.home import Home
from windrow.places import PROJECT

HOSTILE = "a\x1b[2J\rb\u202ec"
ESCAPED = r"a\x1b[2J\rb\u202ec"
BARE = {"__init__.py": 3, "show.py": 3, "metrics.py": 1}
"""Modules that call `print`, and how often: messages escaped before, JSON, warnings, and text that escapes itself."""


@contextmanager
def screen(width: int) -> Iterator[list[str]]:
    """Within the body, commands print to a terminal of so many columns; its lines are known at the end."""
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(show.console, "_file", file := StringIO())
        patch.setattr(show.console, "_width", width)
        patch.setattr(show.console, "_force_terminal", True)
        yield lines
    lines += file.getvalue().splitlines()


def test_tables_and_lines_show_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    show.print_table([{"reason": HOSTILE, "number": 1}], ["reason", "number"])
    show.console.print(f"left alone: {HOSTILE}")
    shown = capsys.readouterr().out
    assert shown.count(ESCAPED) == 2
    assert not {"\x1b", "\r", "\u202e"} & set(shown)


def test_json_shows_them_as_json_does(capsys: pytest.CaptureFixture[str]) -> None:
    show.print_json({"reason": HOSTILE})
    assert not {"\x1b", "\r", "\u202e"} & set(capsys.readouterr().out)


def test_every_other_command_prints_through_them() -> None:
    found = {}
    for module in Path(cli.__file__).parent.rglob("*.py"):
        calls = [one for one in ast.walk(ast.parse(module.read_text())) if isinstance(one, ast.Call)]
        bare = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "print"]
        if bare or "sys.stdout.write" in module.read_text() or "typer.echo" in module.read_text():
            found[module.name] = len(bare)
    assert found == BARE


CELLS = st.text("ab漢 ", min_size=1, max_size=30).map(str.strip)


@given(st.lists(st.lists(CELLS, min_size=5, max_size=5), min_size=1, max_size=4), st.integers(20, 200))
def test_no_cell_is_cut_and_only_a_long_one_is_beyond_the_edge(rows: list[list[str]], width: int) -> None:
    columns = [f"column_{n}" for n in range(5)]
    with screen(width) as lines:
        show.print_table([dict(zip(columns, row, strict=True)) for row in rows], columns)
    words = " ".join(cell.replace("_", " ") for row in [columns, *rows] for cell in row).split()
    assert " ".join(lines).split() == words
    longest = max(cell_len(cell) for row in [columns, *rows] for cell in row)
    assert all(cell_len(line) <= max(width, 4 + longest) for line in lines)


LISTINGS = (
    "clock feed", "publications feed", "snapshots feed", "status", "health feed", "alerts", "pipeline list",
    f"pipeline check --quick {PROJECT / 'dags/pipelines/feed.yaml'}",
    "rebuild feed --from 2026-11-01T00:00:00Z --to 2026-11-01T00:30:00Z --dry-run --all",
)  # fmt: skip


class Still(datetime):
    """A clock that stands still: ages are the same in both widths."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Still:
        return cls(2026, 11, 25, 12, tzinfo=tz)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = feed_home(empty_places(tmp_path_factory.mktemp("show") / "feed"))
    landed_until(home, home.pipeline.start + timedelta(hours=3))
    return home


@pytest.mark.parametrize("line", LISTINGS)
def test_a_listing_is_readable_in_80_columns(line: str, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {**environ_of(home.places), "WINDROW_KAFKA": "127.0.0.1:9"}.items():
        monkeypatch.setenv(variable, value)
    for module in ("windrow.cli.fleet.health", "windrow.jobs.run"):
        monkeypatch.setattr(f"{module}.datetime", Still)
    with screen(200) as wide:
        CliRunner().invoke(cli.app, line.split())
    with screen(80) as lines:
        done = CliRunner().invoke(cli.app, line.split())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert [one for one in lines if len(one) > 80 and "/" not in one] == []
    assert sorted(" ".join(lines).split()) == sorted(" ".join(wide).split())
