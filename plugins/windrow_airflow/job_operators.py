"""Run one of the project's jobs: in the warm engine, or with spark-submit if it needs Spark, else as plain Python.

Where an engine runs (`windrow.platform.engine`) it takes any job. Otherwise a job that rarely needs Spark is run as
plain Python first, and again with spark-submit if it asks for that.

Both operators read the job's result line, translate its exit code by one table (`job_outcome`) and end the whole
process tree when the task is killed or times out. A job whose table is locked is retried later, deferred: another
writer may take hours, and waiting uses neither a worker slot nor a retry. Paths, master and brokers come from the
environment when the task runs, never from the DAG file, so that rendered templates contain nothing about a machine and
no secret.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psutil
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from windrow.outcomes import ExitCode
from windrow.places import Places
from windrow.platform import PlatformNotReady, engine, jobs_side
from windrow.platform.jars import FOR_LARGE
from windrow.platform.jobs_side import JobsSide
from windrow.semantics.judgement import with_reason
from windrow_airflow.job_outcome import ResultReader, is_locked, raise_for
from windrow_airflow.pages import rebuild_page
from windrow_airflow.pages.report_link import OverrideLink, ReportLink, TableLink, report_address

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

SPARK_CONNECTION = "windrow_spark"
_WATCHED = Path(__file__).with_name("watched_job.py")
GRACE_SECONDS = 3.0
"""Airflow sends SIGKILL 5 s after SIGTERM: the process tree must have ended by then."""
TRY_LOCK_AGAIN = timedelta(seconds=30)


class _Job:
    """Base of both operators: the command line of a job, and its outcome."""

    template_fields: Sequence[str] = ("run_key", "arguments")
    """Arguments that render to an empty text are left out."""

    job: str
    pipeline: str
    run_key: str | None
    arguments: list[str]
    result: dict[str, Any]
    _in_engine: engine.Job | None
    _is_ended: bool
    """whether Airflow has ended the task"""

    def _describe(self, job: str, pipeline: str, run_key: str | None, arguments: Sequence[str]) -> None:
        self._in_engine = None
        self._is_ended = False
        self.job = job
        self.pipeline = pipeline
        self.run_key = run_key
        self.arguments = list(arguments)
        self.result = {}

    def _words(self) -> list[str]:
        """Arguments of run_job.py."""
        run = ["--run", self.run_key] if self.run_key else []
        return [self.job, self.pipeline, *run, *filter(None, self.arguments)]

    def _run_in_engine(self, places: Places, side: JobsSide, reader: ResultReader, master: str | None) -> int | None:
        """Run the job in the warm engine, and return its exit code; None where it has to start its own Spark.

        That is where no engine takes it, and where the engine ended under it: other jobs may have taken the memory.

        Args:
            master: the Spark that the job is meant to use; None where it needs none.
        """
        environ = {**os.environ, **_environment(places, side), **side.spark_environment}
        try:
            self._in_engine = engine.start(places, self._words(), environ, master)
        except engine.NotTaken as why:
            self.log.info("Not in the engine: %s", why)  # type: ignore[attr-defined]
            return None
        except PlatformNotReady as missing:
            raise AirflowException(str(missing)) from None
        self.log.info("In the engine, process %s: %s", self._in_engine.pid, " ".join(self._words()))  # type: ignore[attr-defined]
        for line in reader.lines(self._in_engine.output):
            self.log.info(line.rstrip())  # type: ignore[attr-defined]
        code = self._in_engine.wait()
        if code >= 0 or self._is_ended or engine.wanted(environ) is engine.Wanted.ONLY:
            return code
        self.log.warning("It was killed in the engine; it starts again, with its own Spark.")  # type: ignore[attr-defined]
        reader.result = {}
        return None

    def _end(self, *processes: subprocess.Popen[str] | None) -> None:
        """End what runs of the job."""
        self._is_ended = True
        if self._in_engine is not None:
            self._in_engine.end()
        for process in processes:
            if process is not None:
                end_tree(process)

    def _start(self, places: Places, side: JobsSide, **more: str) -> subprocess.Popen[str]:
        """Start the job as plain Python, in its own session."""
        command = [side.python, str(_WATCHED), side.script, *self._words()]
        self.log.info("Command: %s", " ".join(command))  # type: ignore[attr-defined]
        return subprocess.Popen(
            command,
            env={**os.environ, **_environment(places, side), **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def _wait(self, process: subprocess.Popen[str], reader: ResultReader) -> int:
        """Log the output of a started job, and return its exit code."""
        assert process.stdout is not None
        for line in reader.lines(process.stdout):
            self.log.info(line.rstrip())  # type: ignore[attr-defined]
        return process.wait()

    def _settle(self, code: int, result: dict[str, Any], outlets: Sequence[Any], context: Context) -> dict[str, Any]:
        """Return the XCom value of a job that has ended, or raise or defer as its exit code says."""
        self.result = result
        if is_locked(code, result):
            self._wait_for_lock(str(result["message"]))
        if code:
            raise_for(f"{self.pipeline} {self.job}", code, result)
        published = result.get("publications", [])
        newest = {"newest": max(published, key=lambda one: one["interval"])} if published else {}
        for asset in outlets:
            context["outlet_events"][asset].extra = {"publications": published, **newest}
        return {**result, "run": self.run_key}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage:
        """Return what the job read and wrote; called by OpenLineage's provider, where that is installed."""
        from windrow_airflow import lineage

        return lineage.of_job(self.job, self.pipeline, self.result)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage:
        """Return what a job that failed has read."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def _wait_for_lock(self, message: str) -> NoReturn:
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        self.log.info("%s Next try in %s, without using up a retry.", message, TRY_LOCK_AGAIN)  # type: ignore[attr-defined]
        self.defer(trigger=TimeDeltaTrigger(TRY_LOCK_AGAIN), method_name="try_again")  # type: ignore[attr-defined]
        raise AssertionError("defer does not return")

    def try_again(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Continue after the trigger."""
        return self.execute(context)  # type: ignore[attr-defined, no-any-return]


class SparkJobOperator(_Job, SparkSubmitOperator):
    """`spark-submit spark_jobs/run_job.py <job> <pipeline> [--run KEY] <arguments>`.

    The connection `windrow_spark` names the master and must exist; all other Spark settings are in the
    spark-defaults.conf that the set-up wrote. Returns the job's result and its run key.

    Args:
        job: name of the job, as run_job.py knows it.
        run_key: key under which the run records or finds its plans; None for a job without plans.
        arguments: further arguments of the job; those that render to an empty text are left out.
        without_first: run the job as plain Python first, and with Spark only if it asks for it (exit code 50).
    """

    template_fields: Sequence[str] = _Job.template_fields
    operator_extra_links = (ReportLink(), TableLink())

    def __init__(
        self,
        *,
        job: str,
        pipeline: str,
        run_key: str | None = None,
        arguments: Sequence[str] = (),
        without_first: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            conn_id=SPARK_CONNECTION,
            name=f"{pipeline}.{job}",
            durable=False,  # a cleared task must submit again, also in cluster modes
            **kwargs,
        )
        self._describe(job, pipeline, run_key, arguments)
        self._without_first = without_first
        self._plain: subprocess.Popen[str] | None = None
        self._reader = ResultReader()

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        master = _require_connection()
        places = Places.from_env(os.environ)
        side = _jobs_side(places)
        warm = self._run_in_engine(places, side, self._reader, master)
        if warm is not None:
            return self._settle(warm, self._reader.result, self.outlets, context)
        if self._without_first:
            self._plain = self._start(places, side, WINDROW_WITHOUT_SPARK="1")
            code = self._wait(self._plain, self._reader)
            if code != ExitCode.NEEDS_SPARK:
                return self._settle(code, self._reader.result, self.outlets, context)
            self.log.info("Going on with Spark: %s", self._reader.result.get("message"))
        self._spark_binary = str(Path(side.spark_home) / "bin" / "spark-submit")
        self.env_vars = {**_environment(places, side), **side.spark_environment}
        self.properties_file = side.properties
        if places.large(self.pipeline).exists():
            self.conf = {**(self.conf or {}), "spark.driver.extraJavaOptions": FOR_LARGE}
        self.application, self.application_args = side.script, self._words()
        code = 0
        try:
            super().execute(context)
        except AirflowException:
            code = self._submitted.returncode if self._submitted else 0
            if not code:  # it never started, or it failed where no exit code comes through (cluster modes)
                raise
        return self._settle(code, self._reader.result, self.outlets, context)

    def on_kill(self) -> None:
        self._end(self._plain, self._submitted)
        super().on_kill()

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        log_lines, submit = hook._process_spark_submit_log, hook.submit
        hook._process_spark_submit_log = lambda itr: log_lines(self._reader.lines(itr))  # type: ignore[method-assign]
        # Its own session: signals to a terminal or a supervisor reach the job only through on_kill. Output that is not
        # UTF-8 is logged all the same.
        hook.submit = functools.partial(submit, start_new_session=True, errors="replace")  # type: ignore[method-assign]
        hook._env = self.env_vars  # for a master on Kubernetes the hook would leave the variables to the cluster
        return hook

    @property
    def _submitted(self) -> subprocess.Popen[str] | None:
        return self._hook._submit_sp if self._hook is not None else None


class PythonJobOperator(_Job, BaseOperator):
    """`python spark_jobs/run_job.py <job> …` in its own process or in the engine, for a job that needs no Spark.

    Arguments and result are those of `SparkJobOperator`.
    """

    template_fields: Sequence[str] = _Job.template_fields
    operator_extra_links = (ReportLink(), TableLink())

    def __init__(
        self,
        *,
        job: str,
        pipeline: str,
        run_key: str | None = None,
        arguments: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._describe(job, pipeline, run_key, arguments)
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        reader = ResultReader()
        places = Places.from_env(os.environ)
        side = _jobs_side(places)
        code = self._run_in_engine(places, side, reader, None)
        if code is None:
            self._process = self._start(places, side)
            code = self._wait(self._process, reader)
        return self._settle(code, reader.result, self.outlets, context)

    def on_kill(self) -> None:
        self._end(self._process)


class CheckOperator(PythonJobOperator):
    """The job `check`. Every interval that it judged is logged with its verdict and a link, whether blocked or not."""

    operator_extra_links = (ReportLink(), OverrideLink(), TableLink())

    def _settle(self, code: int, result: dict[str, Any], outlets: Sequence[Any], context: Context) -> dict[str, Any]:
        judged = [{**one, "link": report_address(one["report"])} for one in result.get("judged", ())]
        for one in judged:
            self.log.info("%s: %s  %s", one["interval"], with_reason(one["verdict"], one["why"]), one["link"])
        return super()._settle(code, {**result, "judged": judged} if judged else result, outlets, context)


class RebuildPlanOperator(PythonJobOperator):
    """The job `plan`. Its list of what would be replaced is logged and written as a page, for people to read first."""

    def execute(self, context: Context) -> dict[str, Any]:
        result = super().execute(context)
        for line in rebuild_page.lines(result):
            self.log.info(line)
        folder = Places.from_env(os.environ).reports(self.pipeline) / "rebuilds"
        report = str(rebuild_page.write(result, self.pipeline, folder))
        self.result = {**result, "report": report}
        return self.result


def end_tree(process: subprocess.Popen[str]) -> None:
    """End a process and all its descendants: terminate first, so that the JVM can clean up, then kill.

    It never waits for the process itself: that would take the exit status from the operator that runs it, and a killed
    job would count as successful.
    """
    try:
        root = psutil.Process(process.pid)
        tree = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return
    for member in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.terminate()
    until = time.monotonic() + GRACE_SECONDS
    while any(_is_alive(member) for member in tree) and time.monotonic() < until:
        time.sleep(0.05)
    for member in filter(_is_alive, tree):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _jobs_side(places: Places) -> JobsSide:
    try:
        return jobs_side.of(places)
    except PlatformNotReady as missing:
        raise AirflowFailException(str(missing)) from None


def _environment(places: Places, side: JobsSide) -> dict[str, str]:
    """Environment variables of every job, in addition to those of Airflow's processes."""
    return {**side.environment(places, os.environ), "WINDROW_TASK_PID": str(os.getpid())}


def _require_connection() -> str:
    """Return the Spark master, and refuse to run without the connection: the provider would silently submit to YARN.

    Refuse deploy mode `cluster` too: a driver elsewhere would end at once, because it watches the task that started it,
    and its result and its exit code would not come back.
    """
    try:
        found = BaseHook.get_connection(SPARK_CONNECTION)
    except AirflowNotFoundException:
        raise AirflowFailException(
            f"no Airflow connection {SPARK_CONNECTION!r}: set AIRFLOW_CONN_{SPARK_CONNECTION.upper()}="
            '\'{"conn_type": "spark", "host": "local[*]"}\' or add it in the UI; `windrow up` does'
        ) from None
    if found.extra_dejson.get("deploy-mode") == "cluster":
        raise AirflowFailException(
            f'the connection {SPARK_CONNECTION!r} says "deploy-mode": "cluster", but drivers run where the task runs: '
            'set "client" (docs/DEPLOYMENT.md); executors are on the cluster all the same'
        )
    return f"{found.host or ''}{f':{found.port}' if found.port else ''}"
