"""A gate that takes too long: the task's time is over, nothing is published; the next try publishes once.

check    reads measures ─ judges ─ hangs ····· execution_timeout ─ the job and its children are ended
publish  refused: not judged
check    again, and publish                                       one publication
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.broken.faults import until
from support.small_pipeline import PIPELINE, at, event, made
from support.world import World
from windrow.io.registers import judgements
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import BadRequest
from windrow.places import PROJECT

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TASK = """
import sys
from datetime import timedelta
from airflow.sdk.execution_time.task_runner import _run_execute_callable
from windrow_airflow.job_operators import PythonJobOperator
task = PythonJobOperator(
    task_id="check", job="check", pipeline="small", run_key="slow", execution_timeout=timedelta(hours=1)
)
_run_execute_callable({}, task.execute, task)
"""
"""The task of a DAG, under the function with which Airflow limits its time."""


def test_a_gate_that_runs_out_of_time_publishes_nothing_and_then_once(world: World, tmp_path: Path) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 10, name="a"), event("served", 0, 600), event("likes", 0, 600, key=9)])
    world.land(ctx)
    planned = plan_interval(ctx, "slow", at(0), "publish", 1)
    make_candidates(ctx, planned)

    with (tmp_path / "task.log").open("w") as log:
        task = subprocess.Popen([sys.executable, "-c", TASK], env=_environment(world, tmp_path), stdout=log, stderr=log)
        try:
            gate = until(lambda: _stopped_below(task.pid), "the gate to hang")
            task.send_signal(signal.SIGALRM)  # what the timer of the task's timeout sends
            assert task.wait(60) != 0
        finally:
            task.kill()
    assert "AirflowTaskTimeout" in (tmp_path / "task.log").read_text()
    assert not gate.is_running() or gate.status() == psutil.STATUS_ZOMBIE

    assert judgements.of_plans(ctx.home, planned) == {}
    with pytest.raises(BadRequest, match="has not been judged"):
        publish(ctx, planned)
    assert world.register(ctx) == []

    assert check(ctx, planned) == {}
    assert [row["number"] for row in publish(ctx, planned)] == [1]
    assert publish(ctx, planned) == world.register(ctx)
    assert [row["id"] for row in world.training(ctx)] == ["a"]


def _stopped_below(pid: int) -> psutil.Process | None:
    below = psutil.Process(pid).children(recursive=True)
    return next((p for p in below if p.status() == psutil.STATUS_STOPPED), None)


def _environment(world: World, airflow_home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "AIRFLOW_HOME": str(airflow_home / "airflow"),
        "PYTHONPATH": os.pathsep.join(str(PROJECT / folder) for folder in ("spark_jobs", "plugins")),
        "WINDROW_HOME": str(world.places.home),
        "WINDROW_KAFKA": world.places.kafka,
        "WINDROW_PIPELINES": str(world.places.pipelines[0]),
        "PAUSE_AT": "check.before_verdict",
    }
