"""The `windrow` command in this process: what a process of it would print, and the exit code it would end with.

A process takes two seconds of processor to start; most tests are about what the command says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple, NoReturn

import pytest

from windrow import cli
from windrow.cli import show


class Done(NamedTuple):
    """How a command has ended, by the names that a finished process has."""

    returncode: int
    stdout: str
    stderr: str


def windrow(environ: Mapping[str, str], *arguments: str) -> Done:
    """Run the command with these variables in addition to those of this process.

    A command that starts Spark gets the session of this process.
    """
    out, err = StringIO(), StringIO()
    mask = os.umask(0o077)  # the command sets it for its process
    try:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in environ.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["windrow", *arguments])
            patch.setattr(sys.modules["__main__"], "__package__", None)  # else messages say `python -m pytest`
            patch.setattr(show.console, "stderr", False)  # it stays as `--json` has it where a command was refused
            patch.setattr(cli, "leave", _leave)
            cli.main()
    except _Left as left:
        return Done(left.code, out.getvalue(), err.getvalue())
    finally:
        os.umask(mask)
    raise AssertionError("the command has returned, and a process of it would end with no exit code")


class _Left(BaseException):
    """The process would end here."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = int(code)


def _leave(code: int) -> NoReturn:
    raise _Left(code)
