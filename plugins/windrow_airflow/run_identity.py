"""Which run this is, as the jobs understand it: a retry carries out its plan again, a clear makes a new one.

    scheduled, never cleared   publish     skips what is published, takes older closed intervals along
    backfilled or cleared      republish   its own interval, a new publication even where there is one

The run key has the clear number in it and no try number: a retry is the same run, a clear is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow_airflow.instants import argument

if TYPE_CHECKING:
    from airflow.sdk.types import DagRunProtocol

PUBLISH, REPUBLISH = "publish", "republish"


def mode(dag_run: DagRunProtocol) -> str:
    """What a run does about an interval that is already published."""
    scheduled = str(getattr(dag_run.run_type, "value", dag_run.run_type)) == "scheduled"
    return PUBLISH if scheduled and not dag_run.clear_number else REPUBLISH


def run_key(dag_run: DagRunProtocol) -> str:
    """The key under which a run records its plan."""
    return f"{dag_run.run_id}#{dag_run.clear_number}" if dag_run.clear_number else dag_run.run_id


def planned_run(dag_run: DagRunProtocol, ti: Any, planner: str = "join") -> str:
    """The run key that this run's planning task, `join` or in a rebuild `plan`, planned under.

    Clearing check or publish alone counts as a clear of the run, but the candidate is still the join's: the
    edge that must hold is that check judges, and publish publishes, what was joined.
    """
    planned = ti.xcom_pull(task_ids=planner)
    return planned["run"] if planned else run_key(dag_run)


MACROS = {"mode": mode, "run_key": run_key, "planned_run": planned_run, "instant": argument}
"""For a DAG's `user_defined_macros`."""
