"""The wheel, in an environment and a folder without the repository: DAGs from three lines, and published rows.

The environment has this one's packages, but Windrow only from the wheel.
"""

from __future__ import annotations

import json
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.small_pipeline import PIPELINE, event
from support.wheel import DAG_FILE, DAGS, build, environ
from support.world import World
from windrow.places import PROJECT
from windrow.platform import jars, jobs_side

RUN = """
import json, runpy, sys
runpy.run_path(sys.argv[1])  # as a worker does before it runs a task: from here on the folder of pipelines is known
from windrow_airflow.job_operators import PythonJobOperator, SparkJobOperator
of = {"pipeline": "small", "run_key": "r"}
own = ["--interval", "2026-11-01T00:00:00Z"]
SparkJobOperator(task_id="land", job="land", pipeline="small").execute({})
SparkJobOperator(task_id="join", job="join", arguments=own, **of).execute({})
PythonJobOperator(task_id="check", job="check", arguments=own, **of).execute({})
print("TOLD", json.dumps(SparkJobOperator(task_id="publish", job="publish", without_first=True, **of).execute({})))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment into which the wheel is unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(build(folder)) as wheel:
        wheel.extractall(packages)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "venv" / "bin" / "python"


def test_three_lines_in_a_dag_folder_give_the_dags(python: Path, tmp_path: Path) -> None:
    pipelines = tmp_path / "dags" / "pipelines"
    pipelines.mkdir(parents=True)
    (pipelines / "small.yaml").write_text(PIPELINE.replace("{t}", "x"))
    (tmp_path / "dags" / "ours.py").write_text(DAG_FILE)
    words = [str(python), "-c", DAGS, str(tmp_path / "dags")]
    done = subprocess.run(words, cwd=tmp_path, env=environ(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    line = done.stdout.splitlines()[-1]
    assert "'small.land'" in line
    assert "'small.training'" in line
    assert str(python.parent.parent) in line, "Windrow is not that of the wheel"
    assert line.endswith(" []"), "Airflow's side has loaded an engine"


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_its_jobs_land_join_check_and_publish(python: Path, world: World, tmp_path: Path) -> None:
    jars.ensure(world.places)
    world.topics({"served": 1, "likes": 1})
    world.produce(event("served", 0, n, key=n, name=f"s{n}") for n in range(10))
    world.produce([event("likes", 0, 5, key=0, name="l")])
    world.produce([event("served", 0, 600, name="far"), event("likes", 0, 600, name="far")])
    pipelines, suites = tmp_path / "dags" / "pipelines", tmp_path / "expectations"
    pipelines.mkdir(parents=True)
    suites.mkdir()
    (suites / "mine.yaml").write_text((PROJECT / "expectations" / "training_rows.yaml").read_text())
    (pipelines / "small.yaml").write_text(PIPELINE.replace("{t}", world.name) + "expectations: mine\n")
    (tmp_path / "dags" / "ours.py").write_text(DAG_FILE)
    known = environ(
        tmp_path,
        WINDROW_HOME=str(world.places.home),
        WINDROW_CACHE=str(world.places.cache),
        WINDROW_KAFKA=world.places.kafka,
        WINDROW_EXPECTATIONS=str(suites),
        AIRFLOW_CONN_WINDROW_SPARK=json.dumps({"conn_type": "spark", "host": "local[2]"}),
    )
    words = [str(python), "-c", RUN, str(tmp_path / "dags" / "ours.py")]
    done = subprocess.run(words, cwd=tmp_path, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("TOLD"))
    assert json.loads(line.removeprefix("TOLD"))["publications"][0]["rows"] == 10
    assert f"{PROJECT}/spark_jobs" not in done.stdout


def test_jobs_run_in_the_environment_that_is_named(python: Path, world: World, tmp_path: Path) -> None:
    jars.ensure(world.places)
    known = environ(tmp_path, WINDROW_CACHE=str(world.places.cache), WINDROW_PYTHON=str(python))
    side = jobs_side.of(world.places, known)
    assert side.python == str(python)
    assert Path(side.script).is_relative_to(python.parent.parent)
    assert Path(side.script).is_file()

    for wrong, word in ((str(tmp_path / "none"), "No such file"), (sys.executable, "windrow setup")):
        empty = {**known, "WINDROW_PYTHON": wrong, "WINDROW_CACHE": str(tmp_path)}
        with pytest.raises(jobs_side.PlatformNotReady, match=word):
            jobs_side.of(world.places, empty)
