"""The DAGs of every pipeline file in dags/pipelines and in the folders of WINDROW_PIPELINES.

    <name>.land         every `land_every`: land all topics of the pipeline, advance its clock
    <name>.training     per interval: wait for its window → join → check → publish
    <name>.rebuild      a form: plan → (not in a dry run) join → check → publish
    <name>.override     a form: publish a blocked interval on a person's word
    <name>.reconcile    daily: late ledger → live result plus ledger = rebuild; the day's summary
    <name>.lag_impact   daily, and a form: what lag would have cost, and which window is right
    <name>.maintenance  daily: compaction, vacuum, old reports

A file that cannot be used makes no DAGs here and takes no other pipeline down; pipeline_errors.py shows it as
an import error. Nothing is computed here but the DAGs, and no engine is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG, Asset, CronTriggerTimetable, DeltaTriggerTimetable, get_parsing_context

from windrow.config import Pipeline
from windrow.places import Places
from windrow.text import duration_text
from windrow_airflow import forms, manuals
from windrow_airflow.close_sensor import WindowCloseSensor
from windrow_airflow.job_operators import PythonJobOperator, RebuildPlanOperator, SparkJobOperator
from windrow_airflow.pipeline_files import usable
from windrow_airflow.run_identity import MACROS
from windrow_airflow.window_timetable import WindowTimetable

MINUTE, WARM = timedelta(minutes=1), timedelta(minutes=10)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
RETENTION = timedelta(days=30)
DEFAULTS = {"owner": "windrow", "retries": 2, "retry_delay": timedelta(seconds=30)}
AT_MOST = timedelta(hours=12)
"""No job runs longer. Vacuum counts on it: it spares what any job that can still run may read."""


def land_dag(pipeline: Pipeline) -> DAG:
    """Lands whatever the pipeline's `start` is: what comes before it is counted, and labels may.

    Below a minute one run keeps its JVM warm and lands many times: starting it costs more than landing.
    """
    is_warm = pipeline.land_every < MINUTE
    warm = ["--for", duration_text(WARM), "--every", duration_text(pipeline.land_every)]
    with _dag(
        pipeline,
        "land",
        f"Land the topics of {pipeline.name} into Delta and advance its clock",
        manuals.land_manual(pipeline),
        schedule=DeltaTriggerTimetable(max(pipeline.land_every, MINUTE)),  # one at a time: a long run delays the next
    ) as dag:
        _spark(pipeline, "land", arguments=warm if is_warm else [])
    return dag


def training_dag(pipeline: Pipeline) -> DAG:
    """One active scheduled run: windows close in order, so a run that waits holds no closed one up.

    Backfill runs count apart, therefore join and publish are single in the whole DAG. `weight_rule` puts the
    later task first: what has begun is published before the next interval is joined. "manual" is among the run types
    only because Airflow shows the backfill form behind a button that it disables without; the timetable refuses them.
    """
    delay = delay_of(pipeline)
    asset = asset_of(pipeline)
    with _dag(
        pipeline,
        "training",
        f"Close, join, check and publish the intervals of {pipeline.name}",
        manuals.training_manual(pipeline, delay, asset.uri),
        schedule=WindowTimetable(pipeline.start, pipeline.interval, delay),
        start_date=pipeline.start,
        catchup=True,
        allowed_run_types=["scheduled", "backfill", "manual"],
        default_args={**DEFAULTS, "weight_rule": "upstream"},
    ) as dag:
        own = ["--interval", "{{ instant(data_interval_start) }}"]
        wait = WindowCloseSensor(task_id="wait", pipeline=pipeline.name, every=poke_every(pipeline))
        join = _spark(
            pipeline,
            "join",
            run_key="{{ run_key(dag_run) }}",
            arguments=[*own, "--mode", "{{ mode(dag_run) }}"],
            max_active_tis_per_dag=1,
        )
        check = _python(pipeline, "check", run_key="{{ planned_run(dag_run, ti) }}", arguments=own)
        publish = _spark(
            pipeline,
            "publish",
            run_key="{{ planned_run(dag_run, ti) }}",
            without_first=True,  # the candidate's own files are published
            outlets=[asset],
            max_active_tis_per_dag=1,
        )
        wait >> join >> check >> publish
    return dag


def rebuild_dag(pipeline: Pipeline) -> DAG:
    """One rebuild at a time. All tasks work under the key of `plan`, whichever of them is cleared.

    Intervals do not block each other: what passed is published although another interval of the range was
    blocked. `rebuilt` then says so: a red `check` leaves the run red.
    """
    planned = "{{ planned_run(dag_run, ti, 'plan') }}"
    with _dag(
        pipeline,
        "rebuild",
        f"Publish a range of {pipeline.name} anew, with everything that has landed since",
        manuals.rebuild_manual(pipeline),
        params=forms.rebuild_form(pipeline),
    ) as dag:
        plan = RebuildPlanOperator(
            task_id="plan",
            job="plan",
            pipeline=pipeline.name,
            run_key="{{ run_key(dag_run) }}",
            arguments=[
                *_range(),
                "--reason={{ params.reason }}",
                "--who={{ dag_run.triggering_user_name or '' }}",
                "{{ '--dry-run' if params.dry_run else '' }}",
                "{{ '--all' if params.all else '' }}",
            ],
            execution_timeout=AT_MOST,
        )
        go = ShortCircuitOperator(
            task_id="is_no_dry_run", python_callable=_is_no_dry_run, op_args=["{{ params.dry_run }}"]
        )
        join = _spark(pipeline, "join", run_key=planned, arguments=["--planned"])
        check = _python(pipeline, "check", run_key=planned)
        publish = _spark(
            pipeline,
            "publish",
            run_key=planned,
            without_first=True,
            outlets=[asset_of(pipeline)],
            trigger_rule="all_done_min_one_success",  # join is done; check has judged, whatever it says
        )
        rebuilt = EmptyOperator(task_id="rebuilt")
        plan >> go >> join >> check >> publish >> rebuilt
        join >> publish
        check >> rebuilt
    return dag


def override_dag(pipeline: Pipeline) -> DAG:
    """Who decides is the signed-in user who sent the form, and cannot be typed."""
    with _dag(
        pipeline,
        "override",
        f"Publish a blocked interval of {pipeline.name} on a person's word, on record",
        manuals.override_manual(pipeline),
        params=forms.override_form(pipeline),
    ) as dag:
        _spark(
            pipeline,
            "override",
            arguments=[
                "--interval={{ params.interval }}",
                "--reason={{ params.reason }}",
                "--who={{ dag_run.triggering_user_name or '' }}",
            ],
            without_first=True,
            outlets=[asset_of(pipeline)],
        )
    return dag


def reconcile_dag(pipeline: Pipeline) -> DAG:
    """The summary is made of the ledger, whatever reconcile finds."""
    with _dag(
        pipeline,
        "reconcile",
        f"Live result plus late ledger = rebuild, for yesterday's intervals of {pipeline.name}",
        manuals.reconcile_manual(pipeline),
        schedule=CronTriggerTimetable("20 1 * * *", timezone="UTC"),
    ) as dag:
        late = _spark(pipeline, "late")
        reconcile = _spark(pipeline, "reconcile")
        summarise = _python(pipeline, "summarise", trigger_rule="all_done")
        late >> [reconcile, summarise]
    return dag


def lag_impact_dag(pipeline: Pipeline) -> DAG:
    """The form may stay empty, as it is in a scheduled run."""
    names = ("sides", "partitions", "lags", "pauses", "drains", "policies", "windows", "graces", "sample")
    given = ["{{ '--%s=' ~ params.%s if params.%s else '' }}" % (name, name, name) for name in names]  # noqa: UP031
    with _dag(
        pipeline,
        "lag_impact",
        f"What lag would have cost {pipeline.name}, and which window is right",
        manuals.lag_impact_manual(pipeline),
        schedule=CronTriggerTimetable("20 3 * * *", timezone="UTC"),
        params=forms.lag_impact_form(),
    ) as dag:
        _spark(pipeline, "lag_impact", arguments=[*_range(), *given])
    return dag


def maintenance_dag(pipeline: Pipeline) -> DAG:
    """Changes no row, and nothing that a running job reads."""
    with _dag(
        pipeline,
        "maintenance",
        f"Compact and vacuum the tables of {pipeline.name}, and take its old reports away",
        manuals.maintenance_manual(pipeline, RETENTION),
        schedule=CronTriggerTimetable("20 4 * * *", timezone="UTC"),
        params=forms.maintenance_form(RETENTION),
    ) as dag:
        _spark(pipeline, "maintenance", arguments=["--retention={{ params.retention }}"])
    return dag


def asset_of(pipeline: Pipeline) -> Asset:
    """What a published interval updates, so that other DAGs can follow."""
    name = f"{pipeline.name}.training"
    return Asset(name=name, uri=f"windrow://tables/{pipeline.name}/training", group="windrow")


def delay_of(pipeline: Pipeline) -> timedelta:
    """From an interval's end to the moment at which, with nothing late, its window is closed."""
    slowest = max(pipeline.out_of_orderness(topic) for topic in pipeline.topics)
    return pipeline.after + pipeline.grace + slowest


def poke_every(pipeline: Pipeline) -> timedelta:
    """Landing moves the clock; looking much more often than it lands shows nothing new."""
    return min(max(pipeline.land_every / 8, timedelta(seconds=5)), timedelta(seconds=30))


def _dag(pipeline: Pipeline, what: str, description: str, manual: str, **more: Any) -> DAG:
    """What the DAGs have in common: one run at a time, by schedule (if any) or by hand, no catching up."""
    common: dict[str, Any] = {
        "schedule": None,
        "start_date": LONG_AGO,
        "catchup": False,
        "max_active_runs": 1,
        "default_args": DEFAULTS,
        "allowed_run_types": ["scheduled", "manual"] if "schedule" in more else ["manual"],
    }
    return DAG(
        f"{pipeline.name}.{what}",
        description=description,
        doc_md=manual,
        user_defined_macros=MACROS,
        tags=["windrow", pipeline.name],
        **{**common, **more},
    )


def _spark(pipeline: Pipeline, job: str, **more: Any) -> SparkJobOperator:
    return SparkJobOperator(task_id=job, job=job, pipeline=pipeline.name, execution_timeout=AT_MOST, **more)


def _python(pipeline: Pipeline, job: str, **more: Any) -> PythonJobOperator:
    return PythonJobOperator(task_id=job, job=job, pipeline=pipeline.name, execution_timeout=AT_MOST, **more)


def _range() -> list[str]:
    """The form's from and to, where they are given. `=` keeps a value that begins with a dash a value."""
    return ["{{ '--%s=' ~ params['%s'] if params['%s'] else '' }}" % (end, end, end) for end in ("from", "to")]  # noqa: UP031


def _is_no_dry_run(dry_run: str) -> bool:
    return dry_run == "False"


MAKERS: tuple[Callable[[Pipeline], DAG], ...] = (
    land_dag,
    training_dag,
    rebuild_dag,
    override_dag,
    reconcile_dag,
    lag_impact_dag,
    maintenance_dag,
)


def make_dags() -> dict[str, DAG]:
    """All DAGs, or in a worker only those of the pipeline that it works for."""
    wanted = (get_parsing_context().dag_id or "").rpartition(".")[0]
    dags: dict[str, DAG] = {}
    for pipeline in usable(Places.from_env(os.environ), wanted):
        for make in MAKERS:
            dag = make(pipeline)
            dags[dag.dag_id] = dag
    return dags


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in make_dags().items()})
