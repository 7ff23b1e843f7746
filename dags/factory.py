"""The DAGs of every pipeline file in dags/pipelines and in the folders of WINDROW_PIPELINES.

    <name>.land        every `land_every`: land all topics of the pipeline, advance its clock
    <name>.training    per interval: wait for its window → join → check → publish

A file that cannot be used makes no DAGs here and takes no other pipeline down; pipeline_errors.py shows it as
an import error. Nothing is computed here but the DAGs, and no engine is imported.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset, DeltaTriggerTimetable, get_parsing_context

from windrow.config import Pipeline, duration_text
from windrow.places import Places
from windrow_airflow.close_sensor import WindowCloseSensor
from windrow_airflow.job_operators import PythonJobOperator, SparkJobOperator
from windrow_airflow.manuals import land_manual, training_manual
from windrow_airflow.pipeline_files import usable
from windrow_airflow.run_identity import MACROS
from windrow_airflow.window_timetable import WindowTimetable

MINUTE, WARM = timedelta(minutes=1), timedelta(minutes=10)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
DEFAULTS = {"owner": "windrow", "retries": 2, "retry_delay": timedelta(seconds=30)}


def land_dag(pipeline: Pipeline) -> DAG:
    """Lands whatever the pipeline's `start` is: what comes before it is counted, and labels may.

    Below a minute one run keeps its JVM warm and lands many times: starting it costs more than landing.
    """
    is_warm = pipeline.land_every < MINUTE
    warm = ["--for", duration_text(WARM), "--every", duration_text(pipeline.land_every)]
    with DAG(
        f"{pipeline.name}.land",
        description=f"Land the topics of {pipeline.name} into Delta and advance its clock",
        doc_md=land_manual(pipeline),
        schedule=DeltaTriggerTimetable(max(pipeline.land_every, MINUTE)),  # one at a time: a long run delays the next
        start_date=LONG_AGO,
        catchup=False,
        max_active_runs=1,
        allowed_run_types=["scheduled", "manual"],
        default_args=DEFAULTS,
        tags=["windrow", pipeline.name],
    ) as dag:
        SparkJobOperator(task_id="land", job="land", pipeline=pipeline.name, arguments=warm if is_warm else [])
    return dag


def training_dag(pipeline: Pipeline) -> DAG:
    """One active scheduled run: windows close in order, so a run that waits holds no closed one up.

    Backfill runs count apart, therefore join and publish are single in the whole DAG. `weight_rule` puts the
    later task first: what has begun is published before the next interval is joined.
    """
    name = pipeline.name
    asset = Asset(name=f"{name}.training", uri=f"windrow://tables/{name}/training", group="windrow")
    delay = delay_of(pipeline)
    with DAG(
        f"{name}.training",
        description=f"Close, join, check and publish the intervals of {name}",
        doc_md=training_manual(pipeline, delay, asset.uri),
        schedule=WindowTimetable(pipeline.start, pipeline.interval, delay),
        start_date=pipeline.start,
        catchup=True,
        max_active_runs=1,
        allowed_run_types=["scheduled", "backfill"],
        default_args={**DEFAULTS, "weight_rule": "upstream"},
        user_defined_macros=MACROS,
        tags=["windrow", name],
    ) as dag:
        wait = WindowCloseSensor(task_id="wait", pipeline=name, every=poke_every(pipeline))
        join = SparkJobOperator(
            task_id="join",
            job="join",
            pipeline=name,
            run_key="{{ run_key(dag_run) }}",
            arguments=["--interval", "{{ instant(data_interval_start) }}", "--mode", "{{ mode(dag_run) }}"],
            max_active_tis_per_dag=1,
        )
        check = PythonJobOperator(
            task_id="check",
            job="check",
            pipeline=name,
            run_key="{{ planned_run(dag_run, ti) }}",
            arguments=["--interval", "{{ instant(data_interval_start) }}"],
        )
        publish = SparkJobOperator(
            task_id="publish",
            job="publish",
            pipeline=name,
            run_key="{{ planned_run(dag_run, ti) }}",
            outlets=[asset],
            max_active_tis_per_dag=1,
        )
        wait >> join >> check >> publish
    return dag


def delay_of(pipeline: Pipeline) -> timedelta:
    """From an interval's end to the moment at which, with nothing late, its window is closed."""
    slowest = max(pipeline.out_of_orderness(topic) for topic in pipeline.topics)
    return pipeline.after + pipeline.grace + slowest


def poke_every(pipeline: Pipeline) -> timedelta:
    """Landing moves the clock; looking much more often than it lands shows nothing new."""
    return min(max(pipeline.land_every / 8, timedelta(seconds=5)), timedelta(seconds=30))


def make_dags() -> dict[str, DAG]:
    """All DAGs, or in a worker only those of the pipeline that it works for."""
    wanted = (get_parsing_context().dag_id or "").rpartition(".")[0]
    dags: dict[str, DAG] = {}
    for pipeline in usable(Places.from_env(os.environ), wanted):
        for dag in (land_dag(pipeline), training_dag(pipeline)):
            dags[dag.dag_id] = dag
    return dags


globals().update({dag_id.replace(".", "_"): dag for dag_id, dag in make_dags().items()})
