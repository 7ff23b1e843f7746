"""How every job starts and ends: where things are, what failed, and an exit code that says what to do about it.

    0 done    10 nothing to do    20 window still open    30 blocked by expectations
    40 another writer was faster or holds the lock        2 bad arguments or pipeline file
    50 a job that was to do without Spark needs it
    60 the broker does not answer, or a topic is missing  1 anything else
    70 a person must look: offsets were lost, or counts do not add up

The last line on standard output is `WINDROW_RESULT {json}`; a failure's message goes to standard error.
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

from windrow.config import Pipeline, PipelineInvalid, PipelineUnknown, find
from windrow.io.delta.locks import Locked
from windrow.io.delta.tables import WriteSkipped
from windrow.io.landing.broker import BrokerUnreachable, TopicMissing
from windrow.io.landing.gaps import ClockBehind, NoSuchGap
from windrow.io.landing.offsets import OffsetsGone
from windrow.io.registers.publications import TrainingBehind
from windrow.io.training.candidates import LabelNotPublishable
from windrow.io.training.publication import Superseded
from windrow.io.training.versions import VersionGone
from windrow.jobs.spark import NeedsSpark
from windrow.places import Places
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import NotCaughtUp
from windrow.semantics.lag.scenario import Unusable
from windrow.semantics.plan import instant_text
from windrow.transforms.content import ContentDiffers

DONE, OTHER, BAD_INPUT, NOTHING_TO_DO, STILL_OPEN, BLOCKED, ANOTHER_WRITER, NOT_READY = 0, 1, 2, 10, 20, 30, 40, 60
NEEDS_SPARK, A_PERSON = 50, 70


class NothingToDo(Exception):
    """What was asked for is there already."""


class WindowStillOpen(Exception):
    """The interval is not closed yet. Waiting helps."""


class BadRequest(Exception):
    """Arguments that cannot be carried out. Trying again does not help."""


class Blocked(Exception):
    """Expectations failed. Trying again does not help; a person retries after a fix, or overrides."""

    def __init__(self, message: str, report: str | None = None) -> None:
        super().__init__(message)
        self.report = report


CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((NothingToDo,), NOTHING_TO_DO),
    ((WindowStillOpen, NotCaughtUp), STILL_OPEN),
    ((Blocked,), BLOCKED),
    ((Locked, Superseded, WriteSkipped), ANOTHER_WRITER),
    ((NeedsSpark,), NEEDS_SPARK),
    ((BadRequest, PipelineInvalid, PipelineUnknown, LabelNotPublishable, NoSuchGap, Unusable, VersionGone), BAD_INPUT),
    ((BrokerUnreachable, TopicMissing, ClockBehind), NOT_READY),
    ((OffsetsGone, BalanceBroken, TrainingBehind, ContentDiffers), A_PERSON),
)


def code_of(error: Exception) -> int:
    """The exit code of a failure."""
    return next((code for kinds, code in CODES if isinstance(error, kinds)), OTHER)


@dataclass(frozen=True)
class Context:
    """One run: what rows mean, where things are, and the clock of this host."""

    pipeline: Pipeline
    places: Places
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


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
        code = code_of(error)
        if code == OTHER:
            traceback.print_exc()
        say = sys.stdout if code == NOTHING_TO_DO else sys.stderr
        print(f"{type(error).__name__}: {error}", file=say, flush=True)
        report = getattr(error, "report", None)
        _tell({"outcome": type(error).__name__, "message": str(error)[:2000], **({"report": report} if report else {})})
        return code
    _tell({"outcome": "done", **result})
    return DONE


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
    """An instant of the command line: ISO 8601 with a zone."""
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise BadRequest(f"{text!r} is not an instant such as 2026-11-01T00:00:00Z") from None
    if at.tzinfo is None:
        raise BadRequest(f"{text!r} has no time zone; write {text}Z if it is UTC")
    return at.astimezone(UTC)


def _tell(result: Mapping[str, Any]) -> None:
    def plain(value: Any) -> str:
        return instant_text(value) if isinstance(value, datetime) else str(value)

    print("WINDROW_RESULT " + json.dumps(result, default=plain, sort_keys=True), flush=True)
