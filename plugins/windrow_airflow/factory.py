"""The DAGs of every pipeline file.

    <name>.land         every `land_every`: land all topics of the pipeline, advance its clock
    <name>.training     per interval: wait for its window → join → check → publish
    <name>.rebuild      a form: plan → (not in a dry run) join → check → publish
    <name>.override     a form: publish a blocked interval by a person's decision
    <name>.erase        a form: rows of keys leave every table; only where the pipeline file has `erase`
    <name>.reconcile    daily: late ledger → live result plus ledger = rebuild; the day's summary; the data card
    <name>.lag_impact   daily, and a form: what lag would have cost, and which window would be right
    <name>.maintenance  daily: compaction, vacuum, old reports
    <name>.canary       where the file says `canary.every`: send a pair of a left row and its labels

A file that cannot be used makes no DAGs and does not affect other pipelines; `refuse_wrong_files` in another DAG file
shows it as an import error. At import only the DAGs are computed, and no engine is imported.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG, Asset, CronTriggerTimetable, DeltaTriggerTimetable, get_parsing_context

from windrow.config import Pipeline
from windrow.places import PIPELINES, Places
from windrow.semantics.maintenance import RETENTION
from windrow.text import duration_text
from windrow_airflow import forms, manuals
from windrow_airflow.close_sensor import WindowCloseSensor
from windrow_airflow.job_operators import CheckOperator, PythonJobOperator, RebuildPlanOperator, SparkJobOperator
from windrow_airflow.pipeline_files import problems, usable
from windrow_airflow.run_identity import MACROS
from windrow_airflow.window_timetable import WindowTimetable

MINUTE, WARM = timedelta(minutes=1), timedelta(minutes=10)
"""Shortest schedule of `land`, and how long a run lands repeatedly where `land_every` is shorter."""
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
"""Start date of the DAGs without intervals of their own."""
DEFAULTS = {"owner": "windrow", "retries": 2, "retry_delay": timedelta(seconds=30)}
EVEN_IF_BLOCKED = "all_done_min_one_success"
"""When `publish` starts: after join, and after check even if that blocked intervals, for the others that passed."""
AT_MOST = timedelta(hours=12)
"""No job runs longer. Vacuum relies on it: it keeps every file that a running job may still read."""


def land_dag(pipeline: Pipeline) -> DAG:
    """Land all topics of the pipeline, whatever its `start`: labels before it may belong to later rows.

    With `land_every` below a minute, one run lands many times in one JVM, because starting a JVM takes longer than
    landing.
    """
    is_warm = pipeline.land_every < MINUTE
    warm = ["--for", duration_text(WARM), "--every", duration_text(pipeline.land_every)]
    with _dag(
        pipeline,
        "land",
        f"Land the topics of {pipeline.name} into Delta and advance its clock",
        manuals.land_manual(pipeline),
        schedule=DeltaTriggerTimetable(max(pipeline.land_every, MINUTE)),  # a long run delays the next one
        default_args={"priority_weight": 2},  # before daily work, of which much may be due at once
    ) as dag:
        _spark(pipeline, "land", arguments=warm if is_warm else [])
    return dag


def canary_dag(pipeline: Pipeline) -> DAG:
    """Send what is due of the canaries, in plain Python. Landing does not wait for it, and it not for landing.

    A run sends what is due and ends. Where pairs are sent more often than once in a minute, it goes on for most of it.
    """
    every = pipeline.canary.every if pipeline.canary and pipeline.canary.every else MINUTE
    more = ["--for", duration_text(MINUTE * 5 / 6)] if every < MINUTE else []
    with _dag(
        pipeline,
        "canary",
        f"Send pairs through the topics of {pipeline.name} that test the way to its training rows",
        manuals.canary_manual(pipeline),
        schedule=DeltaTriggerTimetable(max(every, MINUTE)),
    ) as dag:
        _python(pipeline, "canary", arguments=more)
    return dag


def training_dag(pipeline: Pipeline) -> DAG:
    """Wait, join, check and publish, one run per interval.

    Of the intervals that a run takes along, those that passed are published also where its own is blocked; `trained`
    makes the run fail where `check` failed.

    One scheduled run is active at a time: windows close in order, so that a waiting run does not delay a closed
    interval. Backfill runs are counted separately, therefore `join` and `publish` run at most once at a time in the
    whole DAG. `weight_rule` prefers later tasks: a joined interval is published before the next one is joined. "manual"
    is an allowed run type only because Airflow disables the button of the backfill form without it; the timetable
    refuses manual runs.
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
        default_args={"weight_rule": "upstream"},
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
        check = _check(pipeline, run_key="{{ planned_run(dag_run, ti) }}", arguments=own)
        publish = _spark(
            pipeline,
            "publish",
            run_key="{{ planned_run(dag_run, ti) }}",
            without_first=True,  # publishing moves the candidate's own files, rarely with Spark
            inlets=topic_assets(pipeline),
            outlets=[asset],
            max_active_tis_per_dag=1,
            trigger_rule=EVEN_IF_BLOCKED,
        )
        trained = EmptyOperator(task_id="trained")
        wait >> join >> check >> publish >> trained
        join >> publish
        check >> trained
    return dag


def rebuild_dag(pipeline: Pipeline) -> DAG:
    """Plan a range, and publish it again. One rebuild runs at a time.

    All tasks work under the run key of `plan`, whichever of them is cleared. Intervals do not block each other, as in
    the training DAG; `rebuilt` makes the run fail where `check` failed.
    """
    planned = "{{ planned_run(dag_run, ti, 'plan') }}"
    with _dag(
        pipeline,
        "rebuild",
        f"Publish a range of {pipeline.name} again, with everything that has landed since",
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
        is_no_dry_run = ShortCircuitOperator(
            task_id="is_no_dry_run", python_callable=_is_no_dry_run, op_args=["{{ params.dry_run }}"]
        )
        join = _spark(pipeline, "join", run_key=planned, arguments=["--planned"])
        check = _check(pipeline, run_key=planned)
        publish = _spark(
            pipeline,
            "publish",
            run_key=planned,
            without_first=True,
            inlets=topic_assets(pipeline),
            outlets=[asset_of(pipeline)],
            trigger_rule=EVEN_IF_BLOCKED,
        )
        rebuilt = EmptyOperator(task_id="rebuilt")
        plan >> is_no_dry_run >> join >> check >> publish >> rebuilt
        join >> publish
        check >> rebuilt
    return dag


def override_dag(pipeline: Pipeline) -> DAG:
    """Publish a blocked interval. The decision is recorded under the signed-in user who sent the form."""
    with _dag(
        pipeline,
        "override",
        f"Publish a blocked interval of {pipeline.name} by a person's decision, on record",
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
            inlets=topic_assets(pipeline),
            outlets=[asset_of(pipeline)],
        )
    return dag


def erase_dag(pipeline: Pipeline) -> DAG:
    """Erase keys, named in a file, under the signed-in user who sent the form."""
    with _dag(
        pipeline,
        "erase",
        f"Erase the rows of keys from every table of {pipeline.name}, for good",
        manuals.erase_manual(pipeline),
        params=forms.erase_form(),
    ) as dag:
        _spark(
            pipeline,
            "erase",
            run_key="{{ run_key(dag_run) }}",
            arguments=[
                "--keys-file={{ params.keys_file }}",
                "--why={{ params.why }}",
                "--who={{ dag_run.triggering_user_name or '' }}",
            ],
            without_first=True,  # a wrong file is refused before Spark starts
        )
    return dag


def reconcile_dag(pipeline: Pipeline) -> DAG:
    """Complete the late ledger, then compare. The summary is made from the ledger, whatever reconcile finds."""
    with _dag(
        pipeline,
        "reconcile",
        f"Live result plus late ledger = rebuild, for yesterday's intervals of {pipeline.name}",
        manuals.reconcile_manual(pipeline),
        **_daily(pipeline, 1),
    ) as dag:
        late = _spark(pipeline, "late")
        reconcile = _spark(pipeline, "reconcile")
        summarise = _python(pipeline, "summarise", trigger_rule="all_done")
        late >> [reconcile, summarise]
        _python(pipeline, "card")
    return dag


def lag_impact_dag(pipeline: Pipeline) -> DAG:
    """Analyse lag. All fields of the form are optional; a scheduled run has none."""
    names = ("sides", "partitions", "lags", "pauses", "drains", "policies", "windows", "graces", "sample")
    given = ["{{ '--%s=' ~ params.%s if params.%s else '' }}" % (name, name, name) for name in names]  # noqa: UP031
    with _dag(
        pipeline,
        "lag_impact",
        f"What lag would have cost {pipeline.name}, and which window would be right",
        manuals.lag_impact_manual(pipeline),
        **_daily(pipeline, 3),
        params=forms.lag_impact_form(),
    ) as dag:
        # plain Python first, which refuses a form that cannot be carried out
        _spark(pipeline, "lag_impact", arguments=[*_range(), *given], without_first=True)
    return dag


def maintenance_dag(pipeline: Pipeline) -> DAG:
    """Compact and vacuum. No row changes, and no file that a running job reads is deleted."""
    with _dag(
        pipeline,
        "maintenance",
        f"Compact and vacuum the tables of {pipeline.name}, and delete its old reports",
        manuals.maintenance_manual(pipeline, RETENTION),
        **_daily(pipeline, 4),
        params=forms.maintenance_form(RETENTION),
    ) as dag:
        _spark(pipeline, "maintenance", arguments=["--retention={{ params.retention }}"], without_first=True)
    return dag


def asset_of(pipeline: Pipeline) -> Asset:
    """The asset that a published interval updates, so that other DAGs can depend on it."""
    name = f"{pipeline.name}.training"
    return Asset(name=name, uri=f"windrow://tables/{pipeline.name}/training", group="windrow")


def topic_assets(pipeline: Pipeline) -> list[Asset]:
    """The topics of a pipeline as assets, which the tasks that publish have as inlets."""
    return [
        Asset(name=f"topics/{topic}", uri=f"windrow://topics/{topic}", group="windrow") for topic in pipeline.topics
    ]


def delay_of(pipeline: Pipeline) -> timedelta:
    """Time from an interval's end until its window is closed, if no data is late."""
    slowest = max(pipeline.out_of_orderness(topic) for topic in pipeline.topics)
    return pipeline.after + pipeline.grace + slowest


def poke_every(pipeline: Pipeline) -> timedelta:
    """How often to look at a window. Only landing moves the clock, so looking much more often shows nothing new."""
    return min(max(pipeline.land_every / 8, timedelta(seconds=5)), timedelta(seconds=30))


def _dag(pipeline: Pipeline, kind: str, description: str, manual: str, **more: Any) -> DAG:
    """A DAG with the common settings: one run at a time, by schedule (if any) or manually, no catch-up.

    Args:
        more: settings of this DAG, instead of or in addition to the common ones.
    """
    common: dict[str, Any] = {
        "schedule": None,
        "start_date": LONG_AGO,
        "catchup": False,
        "max_active_runs": 1,
        "allowed_run_types": ["scheduled", "manual"] if "schedule" in more else ["manual"],
    }
    defaults = {**DEFAULTS, "pool": pipeline.pool, **more.pop("default_args", {})}
    return DAG(
        f"{pipeline.name}.{kind}",
        default_args=defaults,
        description=description,
        doc_md=manual,
        user_defined_macros=MACROS,
        tags=["windrow", pipeline.name],
        **{**common, **more},
    )


def _daily(pipeline: Pipeline, hour: int) -> dict[str, Any]:
    """Settings of a DAG that runs once a day.

    The minute, from 20 to 59 of an hour UTC, is the pipeline's own, so that not all pipelines are due together. Where
    places are few, landing and training come first, those of other pipelines too.
    """
    minute = 20 + zlib.crc32(pipeline.name.encode()) % 40
    schedule = CronTriggerTimetable(f"{minute} {hour} * * *", timezone="UTC")
    return {"schedule": schedule, "default_args": {"weight_rule": "absolute"}}


def _spark(pipeline: Pipeline, job: str, **more: Any) -> SparkJobOperator:
    return SparkJobOperator(task_id=job, job=job, pipeline=pipeline.name, execution_timeout=AT_MOST, **more)


def _python(pipeline: Pipeline, job: str, **more: Any) -> PythonJobOperator:
    return PythonJobOperator(task_id=job, job=job, pipeline=pipeline.name, execution_timeout=AT_MOST, **more)


def _check(pipeline: Pipeline, **more: Any) -> CheckOperator:
    return CheckOperator(task_id="check", job="check", pipeline=pipeline.name, execution_timeout=AT_MOST, **more)


def _range() -> list[str]:
    """The form's `from` and `to`, where given. With `=`, a value that begins with a dash is not read as an option."""
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


def makers_of(pipeline: Pipeline) -> tuple[Callable[[Pipeline], DAG], ...]:
    """Makers of a pipeline's DAGs: those of every pipeline, of canaries where its file says how often, of erasure."""
    is_probed = pipeline.canary is not None and pipeline.canary.every is not None
    more = {canary_dag: is_probed, erase_dag: pipeline.erase is not None}
    return (*MAKERS, *(maker for maker, is_wanted in more.items() if is_wanted))


class PipelineFilesWrong(Exception):
    """Raised at import of a DAG file; its message is the last line of the import error, which people read."""


def make_dags(folder: Path | str | None = None) -> dict[str, DAG]:
    """All DAGs by a name for a module's globals; in a worker only those of the pipeline whose task it runs.

    A DAG file needs three lines:

        from pathlib import Path
        from windrow_airflow.factory import make_dags
        globals().update(make_dags(Path(__file__).parent / "pipelines"))

    Args:
        folder: a folder of pipeline files, in addition to those of WINDROW_PIPELINES. Sensors and jobs of this process
            find it too. Windrow's pages are in another process: they show pipelines of WINDROW_PIPELINES.
    """
    places = _with(folder)
    wanted = (get_parsing_context().dag_id or "").rpartition(".")[0]
    dags = [make(pipeline) for pipeline in usable(places, wanted) for make in makers_of(pipeline)]
    return {dag.dag_id.replace(".", "_"): dag for dag in dags}


def refuse_wrong_files(folder: Path | str | None = None) -> None:
    """Check every pipeline file; for a DAG file of its own.

    Airflow disables every DAG of a file with an import error. A file that only calls this has no DAG: the error is
    shown where people look for it, while the DAGs of usable files, which another DAG file makes, keep running.

    Raises:
        PipelineFilesWrong: with a line `file:line: field: what would be right` for each problem.
    """
    if wrong := problems(_with(folder)):
        raise PipelineFilesWrong("no DAGs are made from these pipeline files:\n" + "\n".join(wrong))


def _with(folder: Path | str | None) -> Places:
    """The places of this process, in which a folder of pipeline files is known from now on."""
    if folder is not None:
        known = [path for path in os.environ.get(PIPELINES, "").split(os.pathsep) if path]
        os.environ[PIPELINES] = os.pathsep.join(dict.fromkeys([*known, str(Path(folder).absolute())]))
    return Places.from_env(os.environ)
