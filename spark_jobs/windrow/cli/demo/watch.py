"""Watch the scheduler land and publish the demo's input. It ends when every interval is published, or with a reason."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow import platform
from windrow.cli.demo.preparation import Demo
from windrow.cli.show import console
from windrow.io.registers import clocks, publications
from windrow.text import counted, shown_duration, shown_instant

PATIENCE = timedelta(minutes=15)
"""How long nothing may happen before the demo gives up."""


def watch(demo: Demo) -> None:
    """Let the scheduler work until every interval is published; print each step.

    Raises:
        RuntimeError: a run failed, or nothing has happened for `PATIENCE`.
    """
    airflow = platform.Airflow(demo.places)
    training = f"{demo.pipeline.name}.training"
    _unpause(demo, airflow.api, training)
    wanted = set(demo.truth.counts.intervals)
    last, changed_at = "", time.monotonic()
    while True:
        published = publications.standing(publications.registered(demo.home)).keys() & wanted
        line = _progress(demo, len(published), len(wanted), _tasks(airflow.api, training))
        if line != last:
            console.print(f"  {datetime.now(UTC):%H:%M:%S}  {line}")
            last, changed_at = line, time.monotonic()
        if published == wanted:
            return
        if failed := airflow.api.dag_runs(training, state="failed"):
            run = failed[0]["dag_run_id"]
            raise RuntimeError(f"run {run} of {training} failed; its log is in Airflow: {airflow.url}/dags/{training}")
        if time.monotonic() - changed_at > PATIENCE.total_seconds():
            raise RuntimeError(f"nothing has happened for {shown_duration(PATIENCE)}; look at {airflow.url}")
        time.sleep(2)


def _unpause(demo: Demo, api: Any, training: str) -> None:
    """Unpause both DAGs, and trigger the first landing instead of waiting for its schedule."""
    land = f"{demo.pipeline.name}.land"
    _until(lambda: {land, training} <= {dag["dag_id"] for dag in api.dags()}, "Airflow reads the DAGs")
    for dag_id in (land, training):
        api.unpause(dag_id)
    if not clocks.observe(demo.home).rows:
        api.trigger(land)
    console.print(f"{land} and {training} are unpaused; the scheduler works (about 5 minutes on two cores) …")


def _progress(demo: Demo, published: int, wanted: int, tasks: str) -> str:
    seen = clocks.observe(demo.home)
    landed = sum(row["landed"] for row in seen.rows)
    return (
        f"landed {landed:,}, watermark {shown_instant(seen.watermark)}, "
        f"published {published} of {counted(wanted, 'interval')}, {tasks or 'no run yet'}"
    )


def _tasks(api: Any, dag_id: str) -> str:
    """Return the states of the tasks of an unfinished run; empty where there is none."""
    runs = [run for run in api.dag_runs(dag_id) if run["state"] in ("running", "queued")]
    if not runs:
        return ""
    states = api.task_states(dag_id, runs[0]["dag_run_id"])
    order = ("wait", "join", "check", "publish")
    return " ".join(f"{task}={states[task]}" for task in order if states.get(task))


def _until(holds: Callable[[], bool], what: str, patience: float = 600.0) -> None:
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {patience:.0f} s in vain until {what}; see `windrow status` for its log")
        time.sleep(1)
