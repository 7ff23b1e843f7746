"""The DAGs that people start, and the daily ones: forms, edges, and the arguments of their jobs."""

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from windrow_airflow.job_operators import PythonJobOperator

from .conftest import PROJECT
from .test_factory import Run, Task


@pytest.fixture
def dags(pipelines):
    pipelines("ads")
    return DagBag(str(PROJECT / "dags")).dags


def edges(dag):
    return {name: task.downstream_task_ids for name, task in dag.task_dict.items()}


def rendered(dag, task_id, params, run=None, ti=None):
    """A task's run key and arguments, rendered with a form, without those that render to nothing."""
    task = dag.task_dict[task_id]
    filled = {**{name: param.value for name, param in dag.params.items()}, **params}
    task.render_template_fields(
        {"dag_run": run or Run("manual", run_id="manual__x"), "ti": ti or Task(), "params": filled},
        dag.get_template_env(),
    )
    return task.run_key, [argument for argument in task.arguments if argument]


REBUILD = {"from": "2026-11-01T06:00:00+00:00", "to": "2026-11-01T12:00:00Z", "reason": "late labels; rm -rf /"}


def validated(dag, conf):
    """What Airflow does with a form before a run is made."""
    params = dag.params
    for name, value in conf.items():
        params[name] = value
    return params.validate()


def test_a_rebuild_plans_first_and_ends_there_in_a_dry_run(dags):
    assert edges(dags["ads.rebuild"]) == {
        "plan": {"is_no_dry_run"},
        "is_no_dry_run": {"join"},
        "join": {"check", "publish"},
        "check": {"publish", "rebuilt"},
        "publish": {"rebuilt"},
        "rebuilt": set(),
    }
    rebuild = dags["ads.rebuild"]
    go = rebuild.task_dict["is_no_dry_run"].python_callable
    assert go("False") is True
    assert go("True") is False
    assert rebuild.params["dry_run"] is True  # a form that is sent by mistake changes nothing


def test_a_blocked_interval_of_a_rebuild_keeps_no_other_back_and_leaves_the_run_red(dags):
    tasks = dags["ads.rebuild"].task_dict
    assert tasks["publish"].trigger_rule.value == "all_done_min_one_success"
    assert tasks["rebuilt"].trigger_rule.value == "all_success"


def test_one_rebuild_at_a_time_and_only_by_hand(dags):
    rebuild = dags["ads.rebuild"]
    assert rebuild.max_active_runs == 1
    assert {str(kind.value) for kind in rebuild.allowed_run_types} == {"manual"}


def test_the_plan_of_a_rebuild_gets_range_reason_and_dry_run(dags):
    rebuild = dags["ads.rebuild"]
    common = ["--from=2026-11-01T06:00:00+00:00", "--to=2026-11-01T12:00:00Z", "--reason=late labels; rm -rf /"]
    run = Run("manual", run_id="manual__x")
    run.triggering_user_name = "ada"
    assert rendered(rebuild, "plan", REBUILD, run) == (
        "manual__x#0@2026-11-27T07:00:00Z",
        [*common, "--who=ada", "--dry-run"],
    )


def test_the_plan_of_a_real_rebuild_gets_no_dry_run(dags):
    _, arguments = rendered(dags["ads.rebuild"], "plan", {**REBUILD, "dry_run": False})
    assert "--dry-run" not in arguments


def test_every_task_of_a_rebuild_works_under_the_key_of_its_plan_also_when_it_alone_is_cleared(dags):
    class Planned(Task):
        def xcom_pull(self, task_ids):
            assert task_ids == "plan"
            return {"run": "manual__x"}

    cleared = Run("manual", clear_number=2, run_id="manual__x")
    for task, arguments in (("join", ["--planned"]), ("check", []), ("publish", [])):
        assert rendered(dags["ads.rebuild"], task, REBUILD, cleared, Planned()) == ("manual__x", arguments)


def test_a_template_in_a_reason_stays_text(dags):
    _, arguments = rendered(dags["ads.rebuild"], "plan", {**REBUILD, "reason": "{{ 7 * 7 }} --dry-run"})
    assert "--reason={{ 7 * 7 }} --dry-run" in arguments


def test_a_good_form_is_accepted(dags):
    assert validated(dags["ads.rebuild"], REBUILD)["reason"] == REBUILD["reason"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"from": "yesterday"},
        {"from": "2026-11-01T06:00:00"},  # whose zone?
        {"to": "2026-11-01T06:00:00Z; DROP TABLE"},
        {"to": None},
        {"reason": "  "},
        {"reason": "x" * 1001},
        {"dry_run": "no"},
    ],
)
def test_a_wrong_form_makes_no_run(dags, wrong):
    with pytest.raises(ParamValidationError):
        validated(dags["ads.rebuild"], {**REBUILD, **wrong})


@pytest.mark.parametrize("missing", ["from", "to", "reason"])
def test_an_incomplete_form_makes_no_run(dags, missing):
    with pytest.raises(ParamValidationError):
        validated(dags["ads.rebuild"], {name: value for name, value in REBUILD.items() if name != missing})


def test_an_override_records_the_signed_in_user_and_nothing_typed(dags):
    override = dags["ads.override"]
    run = Run("manual", run_id="manual__x")
    run.triggering_user_name = "ada"
    form = {"interval": "2026-11-01T06:00:00Z", "reason": "--who=eve"}
    assert rendered(override, "override", form, run) == (
        None,
        ["--interval=2026-11-01T06:00:00Z", "--reason=--who=eve", "--who=ada"],
    )
    assert set(override.params) == {"interval", "reason"}


def test_an_erasure_is_given_a_file_and_never_a_key(dags):
    erase = dags["ads.erase"]
    run = Run("manual", run_id="manual__x")
    run.triggering_user_name = "ada"
    key, arguments = rendered(erase, "erase", {"keys_file": "/srv/keys.csv", "why": "request 7"}, run)
    assert arguments == ["--keys-file=/srv/keys.csv", "--why=request 7", "--who=ada"]
    assert "manual__x" in key
    assert set(erase.params) == {"keys_file", "why"}
    for wrong in ("user_id=7", "keys.csv", "/srv/../keys.csv; rm", ""):
        with pytest.raises(ParamValidationError):
            validated(erase, {"keys_file": wrong})


def test_the_late_ledger_is_completed_before_it_is_reconciled_and_the_summary_is_written_in_any_case(dags):
    reconcile = dags["ads.reconcile"]
    assert edges(reconcile) == {
        "late": {"reconcile", "summarise"}, "reconcile": set(), "summarise": set(), "card": set(),
    }  # fmt: skip
    assert reconcile.task_dict["summarise"].trigger_rule.value == "all_done"


def test_a_scheduled_lag_analysis_has_no_arguments(dags):
    dag = dags["ads.lag_impact"]
    assert rendered(dag, "lag_impact", {}) == (None, [])


def test_the_form_of_the_lag_analysis_becomes_arguments(dags):
    form = {"from": "2026-11-01T00:00:00Z", "lags": "1m, 10m", "sides": "clicks", "sample": 0.1}
    _, arguments = rendered(dags["ads.lag_impact"], "lag_impact", form)
    assert arguments == ["--from=2026-11-01T00:00:00Z", "--sides=clicks", "--lags=1m, 10m", "--sample=0.1"]


@pytest.mark.parametrize("wrong", [{"sample": 0}, {"sample": 1.5}, {"lags": "-5m"}, {"sides": "a;b"}, {"from": "x"}])
def test_a_wrong_form_of_the_lag_analysis_makes_no_run(dags, wrong):
    with pytest.raises(ParamValidationError):
        validated(dags["ads.lag_impact"], wrong)


def test_the_first_task_of_every_form_runs_without_spark_first(dags):
    """What a form cannot say, the first task refuses, and no JVM starts for that."""
    with_form = {dag_id: dag for dag_id, dag in dags.items() if dag_id.startswith("ads.") and dag.params}
    assert set(with_form) == {"ads.rebuild", "ads.override", "ads.erase", "ads.lag_impact", "ads.maintenance"}
    for dag in with_form.values():
        (first,) = dag.roots
        assert isinstance(first, PythonJobOperator) or first._without_first, dag.dag_id


def test_maintenance_states_its_retention(dags):
    dag = dags["ads.maintenance"]
    assert rendered(dag, "maintenance", {}) == (None, ["--retention=30d"])
    assert "30d" in dag.doc_md


def test_every_task_uses_an_existing_pool(dags):
    for dag in dags.values():
        assert {task.pool for task in dag.tasks} == {"default_pool"}


def test_every_job_ends_some_day_and_a_wait_for_the_window_does_not(dags):
    for dag in dags.values():
        for task in dag.tasks:
            limited = task.execution_timeout is not None
            assert limited == hasattr(task, "job"), task


def test_the_daily_dags_make_one_run_a_day_and_catch_nothing_up(dags):
    for kind in ("reconcile", "lag_impact", "maintenance"):
        dag = dags[f"ads.{kind}"]
        assert (dag.catchup, dag.max_active_runs) == (False, 1)
        assert dag.timetable.expression.endswith(" * * *")
