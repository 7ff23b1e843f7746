"""The DAG `windrow.alerts`: every five minutes it looks at all pipelines and tells people what began and what ended.

A DAG file of its own needs two lines:

    from windrow_airflow.alerts.dag import make_alerts_dag  # a dag
    globals().update(make_alerts_dag())
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable, Param, get_parsing_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from windrow.places import Places
from windrow_airflow.alerts import notifiers, telling
from windrow_airflow.alerts.runs import runs
from windrow_airflow.pages import metrics
from windrow_airflow.pipeline_files import names

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "windrow.alerts"
MANUAL = """
### Alerts of all pipelines

Every five minutes each pipeline is looked at. A condition that needs a person is told once when it begins and once when
it ends, by the notifiers in `<home>/notifiers.yaml` (or `WINDROW_NOTIFIERS`). `windrow alerts` lists what is open.

* **Who is told, and what each condition means:** the runbook, `dags/README.md`, section *Alerts*.
* **Try the notifiers:** trigger it with *test*: each sends one message, and nothing is recorded.
* **The run failed:** its log names the notifier or the pipeline. The next look tries again; nothing is lost.
* **Paused:** nobody is told, and nothing is recorded. What holds when it is unpaused is told then.
"""


class TellOperator(BaseOperator):
    """Look at every pipeline, and tell people. Fails if somebody could not be told, or a pipeline not be looked at."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Return which conditions hold, by pipeline, and how many messages were sent."""
        places = Places.from_env(os.environ)
        try:
            known = notifiers.load(places.notifiers_file)
        except notifiers.NotifiersInvalid as invalid:
            raise AirflowFailException(str(invalid)) from None
        if not known:
            self.log.warning("nobody is told: there is no notifier in %s (dags/README.md)", places.notifiers_file)
        if context["params"].get("test"):
            done = telling.try_out(known, datetime.now(UTC))
        else:
            ti = context["ti"]
            done = telling.look_and_tell(
                sorted(filter(str.isidentifier, names(places))),  # any other name is an import error
                places,
                known,
                lambda: datetime.now(UTC),
                lambda name: runs(name, ti, datetime.now(UTC)),
            )
        metrics.export(sorted(done.open), places, datetime.now(UTC))
        if done.problems:
            raise AirflowException("\n".join([*done.problems, "The next look tries again."]))
        return {"open": {name: found for name, found in done.open.items() if found}, "told": done.told}


def make_alerts_dag() -> dict[str, DAG]:
    """Return the DAG by a name for a module's globals; nothing in a worker that runs a task of another DAG."""
    if get_parsing_context().dag_id not in (None, DAG_ID):
        return {}
    with DAG(
        DAG_ID,
        description="Look at every pipeline, and tell people what began and what ended",
        doc_md=MANUAL,
        schedule=CronTriggerTimetable("*/5 * * * *", timezone="UTC"),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,  # alerts that somebody has to switch on first are none
        dagrun_timeout=timedelta(hours=1),
        default_args={"owner": "windrow", "retries": 0},  # the next look is the retry
        params={
            "test": Param(
                False, type="boolean", title="Test", description="Send one message by each notifier; record nothing."
            )
        },
        tags=["windrow"],
    ) as dag:
        TellOperator(task_id="tell")
    return {"windrow_alerts": dag}
