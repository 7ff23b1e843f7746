"""How every job starts and ends: its options, its context, its result line and its exit code.

The last line on standard output is `WINDROW_RESULT {json}`; a failure's message goes to standard error. What each exit
code means is in `windrow.outcomes.ExitCode`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import wraps
from typing import Any, NoReturn

import typer

from windrow.config import Pipeline, find
from windrow.home import Home
from windrow.io.delta import store
from windrow.jobs.causes import known_cause
from windrow.outcomes import BadInput, ExitCode, StillOpen, exit_code
from windrow.places import Places, umask_of
from windrow.text import escaped, instant_text, parse_duration, parse_instant


class WindowStillOpen(StillOpen):
    """The interval is not closed yet. Waiting helps."""


class BadRequest(BadInput):
    """Arguments that cannot be carried out. Trying again does not help."""


@dataclass(frozen=True)
class Context:
    """One run: its pipeline, the places of its files and services, and the clock of this host."""

    pipeline: Pipeline
    places: Places
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def home(self) -> Home:
        """The pipeline with its places, as readers and writers of tables take it."""
        return Home(self.pipeline, self.places)

    @property
    def yesterday(self) -> date:
        """The UTC day before today."""
        return (self.now() - timedelta(days=1)).astimezone(UTC).date()

    def run_key(self, command: str) -> str:
        """Return a key for a run that a person starts now; no other run has it."""
        return f"{command}__{instant_text(self.now())}__{os.getpid()}"


def context(name: str, *, is_reader: bool = False) -> Context:
    """Return the context of a pipeline, found by name in the folders that the environment names.

    Args:
        is_reader: whether tables are only read, which a process may do that has no right to write.

    Raises:
        StoreUnsafe: the tables are in a store that lets two writers win the same key.
        PipelineUnknown, PipelineInvalid: there is no such pipeline, or its file is wrong.
    """
    places = Places.for_tables(os.environ)
    if places.tables and not is_reader:
        store.require_conditional(places.tables)
    return Context(find(name, places.pipelines, places.expectations), places)


def job(execute: Callable[..., Mapping[str, Any]]) -> Callable[[Sequence[str] | None], int]:
    """Return the `main` of a job: it reads the options that `execute` declares, runs it, and returns the exit code.

    Args:
        execute: its parameters are the pipeline's name and options (`windrow.jobs.options`); it returns the result.
            Its module's docstring is the help.
    """

    def main(argv: Sequence[str] | None = None) -> int:
        """Run the job; a bad option prints the usage and raises SystemExit with code 2."""
        try:
            result = execute(**_options(execute, argv))
        except Exception as error:
            return _print_failure(error)
        _print_result({"outcome": "done", **result})
        return ExitCode.DONE

    return main


def _options(execute: Callable[..., Any], argv: Sequence[str] | None) -> dict[str, Any]:
    """Read the command line as the signature declares it.

    The job runs after this function, not inside of typer, which handles some errors itself and would hide them.
    """
    options: dict[str, Any] = {}

    @wraps(execute)
    def keep(**given: Any) -> None:
        options.update(given)

    paragraphs = (sys.modules[execute.__module__].__doc__ or "").strip().split("\n\n")
    as_written = "\n\n".join(f"\b\n{paragraph}" for paragraph in paragraphs)  # \b: docstrings hold tables and drawings
    reader = typer.Typer(add_completion=False, rich_markup_mode=None)
    reader.command(help=as_written, context_settings={"help_option_names": ["-h", "--help"]})(keep)
    try:
        typer.main.get_command(reader)(argv, prog_name="run_job.py JOB")
    except SystemExit:
        if not options:  # help was asked for, or an option is wrong
            raise
    return options


def _print_failure(error: Exception) -> ExitCode:
    code = exit_code(error)
    cause = known_cause(error) if code is ExitCode.FAILED else None
    if cause:
        print(escaped(f"{type(cause).__name__}: {cause}", keep="\n"), file=sys.stderr, flush=True)
    if code is ExitCode.FAILED:
        traceback.print_exc()
    if cause:
        error, code = cause, exit_code(cause)
    else:
        stream = sys.stdout if code is ExitCode.NOTHING_TO_DO else sys.stderr
        print(escaped(f"{type(error).__name__}: {error}", keep="\n"), file=stream, flush=True)
    report = getattr(error, "report", None)
    _print_result(
        {
            "outcome": type(error).__name__,
            "message": str(error)[:2000],
            **({"report": report} if report else {}),
            **getattr(error, "result", {}),
        }
    )
    return code


def keep_to_owner() -> None:
    """Let what this process and its children write be for its owner only, or as WINDROW_UMASK says.

    Raises:
        SettingWrong: WINDROW_UMASK is not a file mode mask.
    """
    os.umask(umask_of(os.environ))


def leave(code: int) -> NoReturn:
    """Stop Spark and end the process with this exit code.

    The interpreter is not shut down: native threads of the table readers can abort that, which loses the exit code.
    """
    try:
        session = sys.modules.get("windrow.io.delta.session")
        if session is not None:
            session.stop()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # whatever happens to Spark or to who reads the output, the exit code is that of the job
        os._exit(code)


def instant(text: str) -> datetime:
    """Return an instant of the command line: ISO 8601 with a zone.

    Raises:
        BadRequest: the text is not an instant, or has no zone.
    """
    try:
        return parse_instant(text)
    except ValueError as wrong:
        raise BadRequest(str(wrong)) from None


def duration(value: str | timedelta) -> timedelta:
    """Return a duration of the command line, such as 1h30m.

    Args:
        value: text, or a default, which typer hands to the reader of an option as well.
    Raises:
        BadRequest: the text is not a duration.
    """
    try:
        return value if isinstance(value, timedelta) else parse_duration(value)
    except ValueError as wrong:
        raise BadRequest(str(wrong)) from None


def _print_result(result: Mapping[str, Any]) -> None:
    def plain(value: Any) -> str:
        return instant_text(value) if isinstance(value, datetime) else str(value)

    print("WINDROW_RESULT " + json.dumps(result, default=plain, sort_keys=True), flush=True)
