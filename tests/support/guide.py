"""The blocks of docs/TRAINING.md as its tests run them: Python, `windrow` commands, and those with Spark or PyTorch."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from windrow.cli import app
from windrow.places import PROJECT

PAGE = PROJECT / "docs/TRAINING.md"
_BLOCK = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_EXAMPLE = re.compile(r"(/data|s3://bucket)/")
"""Where the guide writes to."""


class Block(NamedTuple):
    """A block of the guide."""

    kind: str
    line: int
    text: str

    def run(self, names: dict[str, object], folder: Path) -> None:
        """Run the block as Python, or each of its commands.

        Args:
            names: globals of the Python blocks.
            folder: stands for the guide's `/data` and `s3://bucket`.
        """
        if self.kind.startswith("python"):
            exec(compile("\n" * self.line + self.text, str(PAGE), "exec"), names)
            return
        for line in self.text.splitlines():
            _run(line, folder)


def blocks() -> list[Block]:
    """Return all blocks of the guide, in order."""
    page = PAGE.read_text()
    found = [Block(one[1], page.count("\n", 0, one.start(2)), one[2]) for one in _BLOCK.finditer(page)]
    assert len(found) == page.count("```") / 2, "a fence is not closed"
    return found


def _run(line: str, folder: Path) -> None:
    program, *arguments = shlex.split(line)
    if program == "pip":
        (extra,) = re.findall(r"^windrow\[(\w+)\]$", arguments[-1])
        assert extra in tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        return
    assert program == "windrow", line
    done = CliRunner().invoke(app, [_EXAMPLE.sub(f"{folder}/", one) for one in arguments])
    assert done.exit_code == 0, f"{line}\n{done.output}{done.exception!r}"
