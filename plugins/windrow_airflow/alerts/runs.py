"""What Airflow says of a pipeline's DAGs, asked by a task: a task must not read Airflow's database itself."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from windrow_airflow.pages.fleet import RECENT

if TYPE_CHECKING:
    from windrow.jobs.upkeep.health import Runs


def runs(name: str, ti: Any, now: datetime) -> Runs:
    """Return which of the DAGs that publish are paused, and whose newest ended run failed.

    Args:
        ti: the running task.
        now: only runs that were due up to now, and not long before, count.

    Raises:
        AirflowRuntimeError: Airflow does not answer.
    """
    from windrow.jobs.upkeep.health import Runs

    dags = (f"{name}.land", f"{name}.training")
    there = {dag: known for dag in dags if (known := _dag(dag, ti)) is not None}
    paused = [dag for dag, known in there.items() if known.is_paused]
    failed = {dag: run.data_interval_start for dag in there if (run := _failed(dag, now)) is not None}
    return Runs(paused, failed)


def _dag(dag_id: str, ti: Any) -> Any:
    from airflow.sdk.exceptions import AirflowRuntimeError

    try:
        return ti.get_dag(dag_id)
    except AirflowRuntimeError as error:
        if (error.error.detail or {}).get("status_code") == 404:  # its file cannot be used, or was not read yet
            return None
        raise


def _failed(dag_id: str, now: datetime) -> Any:
    """Return the newest ended run where it failed, and not long ago; otherwise None."""
    failed = _newest(dag_id, now, "failed")
    if failed is None or failed.run_after < now - RECENT:
        return None
    worked = _newest(dag_id, now, "success")
    return failed if worked is None or worked.run_after < failed.run_after else None


def _newest(dag_id: str, now: datetime, state: str) -> Any:
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetPreviousDagRun

    answer = task_runner.SUPERVISOR_COMMS.send(GetPreviousDagRun(dag_id=dag_id, logical_date=now, state=state))
    return getattr(answer, "dag_run", None)
