"""How every job starts and ends: its arguments, its context, its result line and its exit code.

The last line on standard output is `WINDROW_RESULT {json}`; a failure's message goes to standard error. What each exit
code means is `windrow.outcomes.ExitCode`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from windrow.config import Pipeline, find
from windrow.home import Home
from windrow.outcomes import BadInput, ExitCode, StillOpen, exit_code
from windrow.places import Places
from windrow.text import instant_text, parse_instant


class WindowStillOpen(StillOpen):
    """The interval is not closed yet. Waiting helps."""


class BadRequest(BadInput):
    """Arguments that cannot be carried out. Trying again does not help."""


@dataclass(frozen=True)
class Context:
    """One run: what rows mean, where things are, and the clock of this host."""

    pipeline: Pipeline
    places: Places
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def home(self) -> Home:
        """The pipeline with its places, as readers and writers of tables take it."""
        return Home(self.pipeline, self.places)


def context(name: str) -> Context:
    """The pipeline by name, in the folders that the environment names."""
    places = Places.from_env(os.environ)
    return Context(find(name, places.pipelines, places.expectations), places)


def job(
    description: str,
    declare: Callable[[argparse.ArgumentParser], None],
    execute: Callable[[Context, argparse.Namespace], Mapping[str, Any]],
    argv: Sequence[str] | None,
) -> int:
    """Run a job's `execute` with its arguments; returns the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pipeline", help="name of the pipeline")
    declare(parser)
    args = parser.parse_args(argv)
    try:
        result = execute(context(args.pipeline), args)
    except Exception as error:
        code = exit_code(error)
        if code is ExitCode.FAILED:
            traceback.print_exc()
        say = sys.stdout if code is ExitCode.NOTHING_TO_DO else sys.stderr
        print(f"{type(error).__name__}: {error}", file=say, flush=True)
        report = getattr(error, "report", None)
        _tell({"outcome": type(error).__name__, "message": str(error)[:2000], **({"report": report} if report else {})})
        return code
    _tell({"outcome": "done", **result})
    return ExitCode.DONE


def leave(code: int) -> NoReturn:
    """End the process with this exit code, after all work is done.

    Native threads of the table readers can abort the interpreter's own way out, and the exit code would be lost.
    """
    sql = sys.modules.get("pyspark.sql")
    session = sql.SparkSession.getActiveSession() if sql else None
    if session is not None:
        session.stop()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def instant(text: str) -> datetime:
    """An instant of the command line: ISO 8601 with a zone.

    Raises:
        BadRequest: it is none, or has no zone.
    """
    try:
        return parse_instant(text)
    except ValueError as wrong:
        raise BadRequest(str(wrong)) from None


def _tell(result: Mapping[str, Any]) -> None:
    def plain(value: Any) -> str:
        return instant_text(value) if isinstance(value, datetime) else str(value)

    print("WINDROW_RESULT " + json.dumps(result, default=plain, sort_keys=True), flush=True)
