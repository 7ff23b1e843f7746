"""What commands print: a text from a record never steers the terminal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from windrow import cli
from windrow.cli import show

HOSTILE = "a\x1b[2J\rb\u202ec"
ESCAPED = r"a\x1b[2J\rb\u202ec"
BARE = {"__init__.py": 3, "show.py": 2, "metrics.py": 1}
"""Modules that call `print`, and how often: messages escaped before, JSON, and text that escapes itself."""


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
