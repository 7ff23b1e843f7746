"""Run key and mode of an Airflow run, for the jobs: a retry repeats its plan, a clear makes a new one.

    scheduled, never cleared   publish     skips published intervals, includes older closed unpublished ones
    backfilled or cleared      republish   only its own interval, published again if it was published before

The run key contains the clear number but not the try number: a retry is the same run, a clear is another one. An id
comes again where a backfill follows one whose runs were deleted, and a clear number where Airflow's database is put
back, so the key of what publishes anew ends with the moment at which the run began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow_airflow.instants import argument

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol

PUBLISH, REPUBLISH = "publish", "republish"


def mode(dag_run: DagRunProtocol) -> str:
    """How a run treats an interval that is already published: PUBLISH skips it, REPUBLISH replaces it."""
    scheduled = str(getattr(dag_run.run_type, "value", dag_run.run_type)) == "scheduled"
    return PUBLISH if scheduled and not dag_run.clear_number else REPUBLISH


def run_key(dag_run: DagRunProtocol) -> str:
    """Key under which a run records its plan."""
    if mode(dag_run) == PUBLISH:
        return dag_run.run_id
    began = f"@{argument(dag_run.start_date)}" if dag_run.start_date else ""
    return f"{dag_run.run_id}#{dag_run.clear_number or 0}{began}"


def planned_run(dag_run: DagRunProtocol, ti: Any, planner: str = "join") -> str:
    """The run key under which the planning task of this run (`join`, in a rebuild `plan`) recorded its plan.

    Clearing check or publish alone changes the clear number of the run, but the candidate is still that of the join:
    check must judge, and publish must publish, what was joined.
    """
    planned = ti.xcom_pull(task_ids=planner)
    return planned["run"] if planned else run_key(dag_run)


MACROS = {"mode": mode, "run_key": run_key, "planned_run": planned_run, "instant": argument}
"""For a DAG's `user_defined_macros`."""
