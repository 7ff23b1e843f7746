"""Driver and JVM end with their task, whether it is killed hard, killed by a person or timed out. Real spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from windrow.platform import jars

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

TASK = """
import signal, sys
from datetime import timedelta
from airflow.sdk.execution_time.task_runner import _run_execute_callable
from windrow_airflow.job_operators import SparkJobOperator

task = SparkJobOperator(task_id="hold", job="hold", pipeline=sys.argv[1], execution_timeout=timedelta(hours=1))
signal.signal(signal.SIGTERM, lambda *_: task.on_kill())  # as Airflow's task runner does
_run_execute_callable({}, task.execute, task)
"""
JOB = """
import os, sys, time
from windrow.jobs.spark import spark_for
from windrow.places import Places

spark_for("hold", Places.from_env(os.environ))
flag = os.path.join(os.environ["WINDROW_HOME"], sys.argv[2])
with open(flag + ".new", "w") as file:
    file.write(f"{os.getpid()} {os.getppid()}")
os.rename(flag + ".new", flag)
time.sleep(3600)
"""
ENDS = {
    "killed_hard": signal.SIGKILL,
    "killed_by_a_person": signal.SIGTERM,
    "timed_out": signal.SIGALRM,  # what an execution timeout is, in the process of the task
}


def test_no_driver_and_no_jvm_outlives_its_task(session_places: Any, tmp_path: Path) -> None:
    jars.ensure(session_places)
    project = tmp_path / "project"
    (project / "spark_jobs").mkdir(parents=True)
    (project / "spark_jobs" / "run_job.py").write_text(JOB)
    places = replace(session_places, home=tmp_path, project=project)
    tasks = {name: _task(name, places) for name in ENDS}
    try:
        for name, task in tasks.items():
            _until(lambda n=name, t=task: (tmp_path / n).exists() or t.poll() is not None, f"{name} works")  # type: ignore[misc]
            assert task.poll() is None, (tmp_path / f"{name}.log").read_text()[-3000:]
        started = {name: [int(pid) for pid in (tmp_path / name).read_text().split()] for name in ENDS}
        assert all(psutil.pid_exists(pid) for pids in started.values() for pid in pids)
        for name, task in tasks.items():
            task.send_signal(ENDS[name])
        ended = {name: task.wait(120) for name, task in tasks.items()}  # as Airflow's supervisor does
        for name, pids in started.items():
            _until(lambda p=pids: not any(map(_is_alive, p)), f"driver and JVM are gone: {name}")  # type: ignore[misc]
    finally:
        for task in tasks.values():
            task.kill()
    assert ended["killed_hard"] == -signal.SIGKILL
    assert ended["killed_by_a_person"] not in (0, None)
    assert ended["timed_out"] not in (0, None)
    assert "AirflowTaskTimeout" in (tmp_path / "timed_out.log").read_text()


def _task(name: str, places: Any) -> subprocess.Popen[bytes]:
    """A process that runs a task as Airflow's task runner does."""
    program = TASK.replace(
        "task = Spark",
        "from windrow_airflow import job_operators\nfrom windrow.places import Places\nfrom pathlib import Path\n"
        f"places = Places(home=Path({str(places.home)!r}), cache=Path({str(places.cache)!r}), "
        f"project=Path({str(places.project)!r}))\n"
        "job_operators.Places.from_env = lambda environ: places\ntask = Spark",
    )
    environ = {
        **os.environ,
        **jars.environment(places),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "AIRFLOW_HOME": str(places.home / f"airflow-{name}"),
        "AIRFLOW_CONN_WINDROW_SPARK": '{"conn_type": "spark", "host": "local[1]"}',
    }
    with (places.home / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", program, name], env=environ, stdout=log, stderr=subprocess.STDOUT
        )


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(holds: Callable[[], bool], what: str, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.2)
