"""The operators in Airflow's task: a job goes into the engine where one takes it, and tells why where none does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from support.broken.faults import FIRST, asleep, prepared
from support.world import World
from windrow.places import Places
from windrow.platform import jars
from windrow_airflow import job_operators
from windrow_airflow.job_operators import PythonJobOperator, SparkJobOperator

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def task(engine_places: Places, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a task of either operator that is meant for the Spark `master`, and returns it with its log."""
    for name, value in {**jars.environment(engine_places), "WINDROW_HOME": str(engine_places.home)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WINDROW_SPARK_MASTER", "local[2]")
    monkeypatch.setattr(job_operators.Places, "from_env", lambda environ: engine_places)

    def make(kind: type[Any], master: str = "local[2]") -> tuple[Any, list[str]]:
        monkeypatch.setenv("AIRFLOW_CONN_WINDROW_SPARK", f'{{"conn_type": "spark", "host": "{master}"}}')
        made, lines = kind(task_id="work", job="join", pipeline="no_such_pipeline", run_key="one"), []
        made.log.info = lambda text, *values: lines.append(str(text) % values if values else str(text))
        return made, lines

    return make


@pytest.mark.parametrize("kind", [SparkJobOperator, PythonJobOperator])
def test_a_job_runs_in_the_engine_and_its_exit_code_counts(task: Any, kind: type[Any]) -> None:
    made, lines = task(kind)
    with pytest.raises(AirflowFailException, match=r"wrong arguments.*no_such_pipeline"):
        made.execute({})
    assert any(line.startswith("In the engine, process ") for line in lines), lines
    assert made.result["outcome"] == "PipelineUnknown"


def test_a_job_for_another_spark_starts_its_own(task: Any) -> None:
    made, lines = task(SparkJobOperator, "local[1]")
    with pytest.raises(AirflowFailException, match="no_such_pipeline"):
        made.execute({})
    assert "Not in the engine: the engine's Spark is local[2], not local[1]" in lines


@pytest.mark.kafka
def test_a_job_that_is_killed_in_the_engine_goes_on_in_a_process_of_its_own(
    warm_engine: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = warm_engine
    ctx, _ = prepared(world, seed=32)
    world.land(ctx)
    joined = world.warm("join", ctx.pipeline.name, "--run", "one", "--interval", FIRST, "--along", "1")
    assert joined.returncode == 0, joined.stdout[-2000:]
    assert world.engine
    (world.places.home / "platform").symlink_to(world.engine.home / "platform")
    monkeypatch.setattr(job_operators.Places, "from_env", lambda environ: world.places)
    for name, value in world.environment({"PAUSE_AT": "check.before_verdict"}).items():
        if name != "PYTHONPATH":  # the operator adds to it
            monkeypatch.setenv(name, value)
    made = PythonJobOperator(task_id="check", job="check", pipeline=ctx.pipeline.name, run_key="one")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(made.execute, {})
        with asleep() as stopped:
            monkeypatch.delenv("PAUSE_AT")
            stopped.kill()
            result = running.result(120)
    assert made._process is not None, "it has started a process"
    assert (result["outcome"], result["run"]) == ("done", "one")


def test_a_task_that_may_run_in_an_engine_only_says_what_to_start(
    task: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, _ = task(PythonJobOperator)
    monkeypatch.setenv("WINDROW_ENGINE", "only")
    monkeypatch.setattr(job_operators.Places, "from_env", lambda environ: Places(home=tmp_path, cache=tmp_path))
    monkeypatch.setattr(
        job_operators, "_jobs_side", lambda places: job_operators.jobs_side.JobsSide("", "", "", "", "")
    )
    with pytest.raises(AirflowException, match=r"no engine runs\.\s.*windrow up"):
        made.execute({})
