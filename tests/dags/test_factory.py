"""The DAGs of pipeline files: light to parse, documented, and each pipeline on its own."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.context import Context
from airflow.serialization.serialized_objects import DagSerialization

from windrow_airflow.window_timetable import WindowTimetable

from .conftest import PROJECT


@pytest.fixture
def bag(pipelines):
    """Parse dags/ as Airflow does, with the pipelines that the test has added."""
    return lambda: DagBag(str(PROJECT / "dags"))


KINDS = ("land", "training", "rebuild", "override", "erase", "reconcile", "lag_impact", "maintenance")


def test_each_pipeline_gets_all_its_dags(bag, pipelines):
    pipelines("ads")
    pipelines("videos", interval="1h")
    found = bag()
    assert {f"{name}.{kind}" for name in ("ads", "videos") for kind in KINDS} <= set(found.dags)
    assert found.import_errors == {}


def test_the_pipelines_that_ship_with_the_project_parse(bag):
    found = bag()
    assert found.import_errors == {}
    for path in (PROJECT / "dags" / "pipelines").glob("*.yaml"):
        assert {f"{path.stem}.{kind}" for kind in KINDS} <= set(found.dags)


def test_every_dag_has_an_operators_manual_with_the_pipelines_own_figures(bag, pipelines):
    pipelines("ads")
    dags = bag().dags
    assert all(dag.doc_md and dag.description for dag in dags.values())
    assert all("{" not in dag.doc_md for dag in dags.values()), "a placeholder was left"
    assert all(f"`{dag.dag_id.split('.')[0]}" in dag.doc_md for dag in dags.values())
    assert "`ads.served`" in dags["ads.land"].doc_md
    assert "starts 32m after" in dags["ads.training"].doc_md


def test_training_is_four_visible_tasks_and_a_blocked_interval_keeps_no_other_back(bag, pipelines):
    pipelines("ads")
    tasks = bag().dags["ads.training"].task_dict
    assert {name: task.downstream_task_ids for name, task in tasks.items()} == {
        "wait": {"join"},
        "join": {"check", "publish"},
        "check": {"publish", "trained"},
        "publish": {"trained"},
        "trained": set(),
    }
    assert tasks["publish"].trigger_rule.value == "all_done_min_one_success"
    assert tasks["trained"].trigger_rule.value == "all_success"


def test_training_runs_by_schedule_and_backfill_only_and_landing_also_by_hand(bag, pipelines):
    pipelines("ads")
    dags = bag().dags
    assert {str(kind.value) for kind in dags["ads.training"].allowed_run_types} == {"scheduled", "backfill", "manual"}
    by_hand = {"land", "reconcile", "lag_impact", "maintenance"}
    for kind in by_hand:
        assert {str(one.value) for one in dags[f"ads.{kind}"].allowed_run_types} == {"scheduled", "manual"}
    for kind in ("rebuild", "override", "erase"):
        assert {str(one.value) for one in dags[f"ads.{kind}"].allowed_run_types} == {"manual"}


def test_canaries_have_a_dag_where_the_file_says_how_often(bag, pipelines):
    for name, canary in (
        ("kept", "{keys: {user_id: [1, 2]}}"),
        ("slow", "{keys: {user_id: [1, 2]}, every: 5m}"),
        ("fast", ""),
    ):
        file = pipelines(name)
        file.write_text(file.read_text() + f"canary: {canary or '{keys: {user_id: [1, 2]}, every: 10s}'}\n")
    dags = bag().dags
    assert "kept.canary" not in dags
    task = dags["slow.canary"].task_dict["canary"]
    assert (task.job, task.pipeline, task.arguments) == ("canary", "slow", [])
    assert dags["fast.canary"].task_dict["canary"].arguments == ["--for", "50s"]
    assert "`user_id`" in dags["slow.canary"].doc_md
    assert "land" in dags["slow.land"].task_dict, "landing does not wait for canaries"


def test_landing_more_often_than_a_jvm_starts_keeps_one_warm(bag, pipelines):
    pipelines("slow")
    fast = pipelines("fast")
    fast.write_text(fast.read_text() + "land_every: 15s\n")
    dags = bag().dags
    assert dags["slow.land"].task_dict["land"].arguments == []
    assert dags["fast.land"].task_dict["land"].arguments == ["--for", "10m", "--every", "15s"]


def test_every_task_of_a_pipeline_takes_its_slots_from_the_pool_of_its_file(bag, pipelines):
    pipelines("usual")
    own = pipelines("own")
    own.write_text(own.read_text() + "pool: ranking\n")
    pools = {
        name: {task.pool for dag in bag().dags.values() if dag.dag_id.startswith(f"{name}.") for task in dag.tasks}
        for name in ("usual", "own")
    }
    assert pools == {"usual": {"default_pool"}, "own": {"ranking"}}


def test_join_and_publish_are_single_in_the_whole_dag(bag, pipelines):
    pipelines("ads")
    training = bag().dags["ads.training"]
    assert training.max_active_runs == 1
    assert training.task_dict["join"].max_active_tis_per_dag == 1
    assert training.task_dict["publish"].max_active_tis_per_dag == 1


def test_daily_work_of_many_pipelines_is_spread_over_the_hour_and_comes_after_their_landing(bag, pipelines):
    names = ("ads", "videos", "shorts")
    for name in names:
        pipelines(name)
    dags = bag().dags
    daily = [dags[f"{name}.{kind}"] for name in names for kind in ("reconcile", "lag_impact", "maintenance")]
    minutes = {dag.dag_id.partition(".")[0]: dag.timetable.expression.split()[0] for dag in daily}
    assert len(set(minutes.values())) == len(names)
    assert all(20 <= int(minute) < 60 for minute in minutes.values())
    assert {(task.weight_rule, task.priority_weight) for dag in daily for task in dag.tasks} == {("absolute", 1)}
    assert dags["ads.land"].task_dict["land"].priority_weight == 2


def test_publish_updates_an_asset_whose_name_has_no_folder_of_a_machine(bag, pipelines, tmp_path):
    pipelines("ads")
    (asset,) = bag().dags["ads.training"].task_dict["publish"].outlets
    assert asset.uri == "windrow://tables/ads/training"


def test_dags_survive_the_database(bag, pipelines, tmp_path):
    pipelines("ads")
    for dag in bag().dags.values():
        stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
        restored = DagSerialization.from_dict(stored)
        assert restored.task_ids == dag.task_ids
        assert str(tmp_path) not in json.dumps(stored), "a DAG names a folder of this machine"
    assert isinstance(bag().dags["ads.training"].timetable, WindowTimetable)


def test_the_schedule_of_training_is_the_pipelines_grid_and_window(bag, pipelines):
    pipelines("ads", start="2026-11-01T06:00:00Z", interval="1h")
    assert bag().dags["ads.training"].timetable.serialize() == {
        "start": "2026-11-01T06:00:00+00:00",
        "interval": 3600.0,
        "delay": (30 + 1 + 1) * 60.0,  # after, grace, the larger out-of-orderness
    }


def test_a_broken_file_is_one_import_error_with_its_line_and_takes_no_other_pipeline_down(bag, pipelines):
    pipelines("ads")
    broken = pipelines("broken")
    broken.write_text(broken.read_text().replace("grace: 1m", "grase: 1m"))
    line = next(n for n, text in enumerate(broken.read_text().splitlines(), 1) if text.startswith("grase"))
    found = bag()
    assert {"ads.land", "ads.training"} <= set(found.dags)
    assert not {"broken.land", "broken.training"} & set(found.dags)
    ((where, message),) = found.import_errors.items()
    assert where.endswith("pipeline_errors.py")
    assert f"{broken}:{line}" in message
    assert "grase" in message


def test_a_name_used_twice_leaves_the_file_that_is_called_so_and_all_others_and_says_so(bag, pipelines, monkeypatch):
    right = pipelines("ads")
    copy = pipelines.folder / "a_copy.yaml"  # comes before it, and lands in another way
    copy.write_text(right.read_text() + "land_every: 15s\n")
    pipelines("videos")
    found = bag()
    (message,) = found.import_errors.values()
    assert f"{copy}:2: name: 'ads' is also the name in {right}:2; rename one of them" in message
    assert {"ads.training", "videos.training"} <= set(found.dags)
    assert found.dags["ads.land"].task_dict["land"].arguments == []
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "ads.land")  # a worker makes the same
    assert bag().dags["ads.land"].task_dict["land"].arguments == []


def test_a_worker_makes_the_dags_of_its_own_pipeline_only(bag, pipelines, monkeypatch):
    pipelines("ads")
    pipelines("videos")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "ads.training")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "join")
    assert set(bag().dags) == {f"ads.{kind}" for kind in KINDS}


def test_parsing_and_the_plugin_load_no_engine(pipelines):
    pipelines("ads")
    program = f"""
import sys
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
assert "windrow_airflow.window_timetable.WindowTimetable" in plugins_manager.get_timetables_plugins()
bag = DagBag({str(PROJECT / "dags")!r})
assert "ads.training" in bag.dags, bag.import_errors
engines = {{"pyspark", "great_expectations", "deltalake", "pandas", "polars", "confluent_kafka"}}
print("HEAVY", sorted(engines & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "HEAVY []" in ran.stdout


class Run:
    """What the context's `dag_run` has, as the jobs' arguments need it."""

    def __init__(self, run_type="scheduled", clear_number=0, run_id="scheduled__2026-11-01T00:00:00+00:00", began=7):
        self.run_type, self.clear_number, self.run_id = run_type, clear_number, run_id
        self.start_date = datetime(2026, 11, 27, began, tzinfo=UTC)
        self.triggering_user_name = None


class Task:
    """What the context's `ti` has: the result of join, if any."""

    def __init__(self, joined=None):
        self.joined = joined

    def xcom_pull(self, task_ids):
        assert task_ids == "join"
        return self.joined


def arguments(dag, task_id, run, ti=None):
    """A task's run key and arguments, rendered."""
    import pendulum

    task = dag.task_dict[task_id]
    context = Context(
        dag_run=run, ti=ti or Task(), data_interval_start=pendulum.datetime(2026, 11, 1), dag=dag, task=task
    )
    task.render_template_fields(context)
    return task.run_key, task.arguments


@pytest.mark.parametrize(
    ("run", "key", "mode"),
    [
        (Run(), "scheduled__2026-11-01T00:00:00+00:00", "publish"),
        (Run(clear_number=2), "scheduled__2026-11-01T00:00:00+00:00#2@2026-11-27T07:00:00Z", "republish"),
        # a backfill gets the id of an earlier one whose runs were deleted
        (Run("backfill", run_id="backfill__x"), "backfill__x#0@2026-11-27T07:00:00Z", "republish"),
        (Run("backfill", run_id="backfill__x", began=8), "backfill__x#0@2026-11-27T08:00:00Z", "republish"),
        # a backfill that reprocesses a scheduled run keeps its id, and counts as a clear
        (Run("backfill", clear_number=1), "scheduled__2026-11-01T00:00:00+00:00#1@2026-11-27T07:00:00Z", "republish"),
    ],
)
def test_a_retry_is_the_same_run_a_clear_and_a_backfill_publish_anew(bag, pipelines, run, key, mode):
    pipelines("ads")
    dag = bag().dags["ads.training"]
    assert arguments(dag, "join", run) == (key, ["--interval", "2026-11-01T00:00:00Z", "--mode", mode])


def test_check_and_publish_work_on_what_join_planned_also_when_they_alone_are_cleared(bag, pipelines):
    pipelines("ads")
    dag = bag().dags["ads.training"]
    cleared, joined = Run(clear_number=1), Task({"run": "scheduled__2026-11-01T00:00:00+00:00"})
    assert arguments(dag, "check", cleared, joined) == (
        "scheduled__2026-11-01T00:00:00+00:00",
        ["--interval", "2026-11-01T00:00:00Z"],
    )
    assert arguments(dag, "publish", cleared, joined) == ("scheduled__2026-11-01T00:00:00+00:00", [])
