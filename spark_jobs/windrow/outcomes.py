"""How a run can end: one exit code per kind of outcome, for jobs, the `windrow` command and Airflow.

Every error that a person can act on is a `Condition` and names its exit code where it is defined; any other exception
ends with FAILED and a traceback. No number has two meanings.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar, Self


class ExitCode(IntEnum):
    """Exit code of a process; `meaning` explains it in words and says whether a retry can help."""

    DONE = 0, "The work is done."
    FAILED = (
        1,
        "Failed for a reason that no other code names; the output says which (`windrow health`: a pipeline needs a "
        "person; `windrow scenario`: other rows than expected). A retry may help.",
    )
    BAD_INPUT = 2, "Wrong arguments or pipeline file. An edit helps, a retry does not."
    NOTHING_TO_DO = 10, "The requested result is there already."
    STILL_OPEN = 20, "The window is not closed yet. Waiting helps."
    BLOCKED = 30, "Blocked by expectations. A person fixes the cause, or overrides."
    ANOTHER_WRITER = (
        40,
        "Another process holds the lock or was faster. A retry helps, unless the plan is outdated (`Superseded`).",
    )
    NEEDS_SPARK = 50, "The job was started without Spark and needs it. Started with Spark, it continues."
    NOT_READY = (
        60,
        "The broker, the object store or another part does not answer, a topic or a bucket is missing, a port is "
        "taken, a disk is full, the host's clock is wrong. A retry helps once that is fixed.",
    )
    NEEDS_PERSON = 70, "Offsets were lost, or figures do not agree. A person must look; a retry finds the same."
    REFUSED = (
        80,
        "The broker, the schema registry or the object store refuses this client: its login, its certificate, or a "
        "right that it lacks. A person mends that; a retry is refused too.",
    )

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    @property
    def next_move(self) -> str | None:
        """What helps, the sentences of `meaning` after the first; None where nothing is to be done.

        >>> ExitCode.STILL_OPEN.next_move
        'Waiting helps.'
        """
        return self.meaning.partition(". ")[2] or None


class Condition(Exception):
    """An error that a person can act on: the message names the condition, the values and the next step."""

    code: ClassVar[ExitCode] = ExitCode.FAILED


class BadInput(Condition):
    """Arguments or a file that cannot be carried out."""

    code = ExitCode.BAD_INPUT


class NothingToDo(Condition):
    """What was asked for is there already."""

    code = ExitCode.NOTHING_TO_DO


class StillOpen(Condition):
    """An interval or a partition is not as far as the request needs."""

    code = ExitCode.STILL_OPEN


class Blocked(Condition):
    """Expectations failed; `report` is the path of the page that says which, `result` what else a job reports."""

    code = ExitCode.BLOCKED

    def __init__(self, message: str, report: str | None = None, **result: Any) -> None:
        super().__init__(message)
        self.report = report
        self.result = result


class AnotherWriter(Condition):
    """Another process works on the same table, or was faster."""

    code = ExitCode.ANOTHER_WRITER


class NeedsSpark(Condition):
    """The job was started without Spark, and its next step needs a session."""

    code = ExitCode.NEEDS_SPARK


class NotReady(Condition):
    """Something outside of the data is missing or does not answer."""

    code = ExitCode.NOT_READY


class NeedsPerson(Condition):
    """Records contradict each other; nothing is changed until a person has looked."""

    code = ExitCode.NEEDS_PERSON


class Refused(Condition):
    """A service knows who this process is, or cannot tell, and does not let it in."""

    code = ExitCode.REFUSED


def exit_code(error: BaseException) -> ExitCode:
    """Exit code of an error: that of a `Condition`, NOT_READY for a failed connection, FAILED for anything else."""
    if isinstance(error, Condition):
        return error.code
    return ExitCode.NOT_READY if isinstance(error, ConnectionError) else ExitCode.FAILED
