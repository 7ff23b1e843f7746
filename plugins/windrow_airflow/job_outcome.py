"""What a job's exit code (`windrow.outcomes.ExitCode`) means to Airflow, for jobs with Spark and without.

    0   done                         success, the result is the task's XCom
    10  nothing to do                skipped, with all later tasks
    20  window still open            failed, retried
    30  blocked by expectations      failed for good, naming what failed and the report
    40  locked                       tried again later, deferred, without using up a retry
    40  superseded                   failed for good: the plan is outdated, a clear makes a new one
    40  any other                    failed, retried
    50  needs Spark                  the task goes on with spark-submit
    2   wrong arguments or file      failed for good
    70  a person must look           failed for good: offsets were lost, or counts do not add up
    80  refused                      failed for good: a login, a certificate or a right is missing or wrong
    any other                        failed, retried

A job reports its result as a line `WINDROW_RESULT {json}`; the last such line counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from windrow.outcomes import ExitCode

MARK = "WINDROW_RESULT "


class ResultReader:
    """Passes on a job's output line by line, and keeps the last result in it."""

    def __init__(self) -> None:
        self.result: dict[str, Any] = {}

    def lines(self, output: Iterable[str]) -> Iterator[str]:
        """The output, unchanged."""
        for line in output:
            self._keep(line)
            yield line

    def _keep(self, line: str) -> None:
        # Driver and JVM write into one pipe: the mark may follow the start of another line.
        _, mark, text = line.partition(MARK)
        if not mark:
            return
        try:
            result, _ = json.JSONDecoder().raw_decode(text.lstrip())
        except ValueError:
            return
        if isinstance(result, dict):
            self.result = result


def is_locked(code: int, result: Mapping[str, Any]) -> bool:
    """Whether the job did nothing, because another process held its lock."""
    return code == ExitCode.ANOTHER_WRITER and result.get("outcome") == "Locked"


def raise_for(job: str, code: int, result: Mapping[str, Any]) -> NoReturn:
    """Raise the Airflow exception for an exit code other than 0."""
    detail = _detail(result)
    if code == ExitCode.NOTHING_TO_DO:
        raise AirflowSkipException(f"{job}: nothing to do{detail}")
    if code == ExitCode.BLOCKED:
        raise AirflowFailException(
            f"{job}: blocked by expectations{detail}. The interval stays invisible, a retry judges the same "
            "rows: fix the cause and clear join with downstream, or override with a reason."
        )
    if code == ExitCode.BAD_INPUT:
        raise AirflowFailException(f"{job}: wrong arguments or pipeline file{detail}. An edit helps, a retry does not.")
    if code == ExitCode.NEEDS_PERSON:
        raise AirflowFailException(f"{job}: a person must look{detail}. A retry does not help.")
    if code == ExitCode.REFUSED:
        raise AirflowFailException(f"{job}: refused{detail}. A retry is refused too; clear the task once it is mended.")
    if code == ExitCode.STILL_OPEN:
        raise AirflowException(f"{job}: the window is still open{detail}. A retry helps once the clock has moved.")
    if code == ExitCode.ANOTHER_WRITER and result.get("outcome") == "Superseded":
        raise AirflowFailException(f"{job}: another run was faster{detail}. A retry would repeat the outdated plan.")
    if code == ExitCode.ANOTHER_WRITER:
        raise AirflowException(f"{job}: another writer holds the table or was faster{detail}. A retry helps.")
    ended = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    raise AirflowException(f"{job}: {ended}{detail}. The cause is in the log above.")


def _detail(result: Mapping[str, Any]) -> str:
    if not result:
        return ""
    text = result.get("message") or json.dumps(result, ensure_ascii=False, default=str)
    report = f". Report: {result['report']}" if result.get("message") and result.get("report") else ""
    return f": {str(text)[:4000].rstrip('.')}{report}"
