"""Into an Airflow and a Spark that are there: fresh environments, an installed wheel, and published rows.

    Airflow's environment    apache-airflow and its providers, installed without us; then the wheel, by pip
    the jobs' environment    the wheel with its extra `jobs`; named by WINDROW_PYTHON
    a folder                 AIRFLOW_HOME with one DAG file and one pipeline file; nothing of the repository

All is real: pip, `airflow standalone`, a Spark master with a worker, a Kafka broker. Only on request, `make installed`,
because it installs 2.5 GB. WINDROW_CONSTRAINTS names the constraints file of Airflow (a path or a URL); without
one, the versions that pip chose for Airflow alone are the constraints of the wheel. With WINDROW_INSTALLED=fetch the
set-up downloads its jars too; otherwise it finds copies of those that the tests use.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from deltalake import DeltaTable

from support.installed import Airflow, Environment, Spark, Watch, installing
from support.wheel import DAG_FILE, DAGS, build, environ
from support.world import ORDER, World
from windrow.places import PROJECT, Places
from windrow.platform import jars
from windrow.platform.servers.airflow_api import AirflowDoesNotAnswer

ASKED = os.environ.get("WINDROW_INSTALLED", "")
pytestmark = [
    pytest.mark.skipif(not ASKED, reason="installs Airflow and Spark anew, minutes and 2.5 GB: make installed"),
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.timeout(5400),
]
AIRFLOW = ("apache-airflow==3.3.2", "apache-airflow-providers-apache-spark", "apache-airflow-providers-standard")
DAG_IDS = {
    f"small.{kind}" for kind in ["land", "training", "rebuild", "override", "reconcile", "lag_impact", "maintenance"]
}
UNPAUSED = {"small.land", "small.training"}
MINUTE = timedelta(minutes=1)
PIPELINE = """\
name: small
start: {start}
interval: 5m
left:
  name: served
  topic: installed.served
  columns: {id: string, k: bigint, t: timestamp}
  key: [k]
  event_time: t
  out_of_orderness: 10s
right:
  - name: likes
    role: label
    topic: installed.likes
    columns: {id: string, k: bigint, t: timestamp}
    key: [k]
    event_time: t
    out_of_orderness: 5s
    window: {before: 0s, after: 2m}
grace: 30s
idle: {mode: wait}
land_every: 10m
labels: {liked: "size(likes) > 0"}
"""
ROWS = 60
EVERY = timedelta(seconds=15)
LIKED_AFTER = {0: 30, 1: 120, 2: 121, 3: -1}
"""Seconds from a row to its like, by the row's number modulo 5; 4 has none. The window ends at 120, included."""
WITHOUT_KEY = 7


@dataclass(frozen=True)
class Installed:
    """Both environments, and how the first was made."""

    airflow: Environment
    jobs: Environment
    before: set[str]
    after: set[str]
    constraints: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without the repository."""
    made = tmp_path_factory.mktemp("installed")
    assert not made.is_relative_to(PROJECT), f"{made} is in the repository; name another folder by --basetemp"
    return made


@pytest.fixture(scope="module")
def installed(folder: Path) -> Iterator[Installed]:
    """Airflow's environment with the wheel, and that of the jobs; removed at the end."""
    wheel = build(folder)
    airflow, given = Environment.fresh(folder / "venv-airflow"), os.environ.get("WINDROW_CONSTRAINTS")
    try:
        began = time.monotonic()
        airflow.pip("install", *AIRFLOW, *(["--constraint", given] if given else []))
        before = airflow.freeze()
        say(f"Airflow alone: {airflow.describe()}, {time.monotonic() - began:.0f} s; {_versions(before, 'airflow')}")
        frozen = folder / "airflow-alone.txt"
        frozen.write_text("\n".join(sorted(before)) + "\n")
        constraints = given or str(frozen)
        say(f"constraints: {given or 'none were given; the versions that pip chose for Airflow alone'}")
        airflow.pip("install", str(wheel), "--constraint", constraints)
        after = airflow.freeze()
        say(f"Airflow with the wheel: {airflow.describe()}; new: {', '.join(sorted(after - before))}")
        began = time.monotonic()
        jobs = Environment.fresh(folder / "venv-jobs")
        jobs.pip("install", f"{wheel}[jobs]")
        spent = time.monotonic() - began
        say(f"the jobs' environment: {jobs.describe()}, {spent:.0f} s; {_versions(jobs.freeze(), 'spark', 'great')}")
        yield Installed(airflow, jobs, before, after, constraints)
    finally:
        for environment in folder.glob("venv-*"):
            shutil.rmtree(environment, ignore_errors=True)


@pytest.fixture(scope="module")
def cache(installed: Installed, folder: Path, session_places: Places, broker: object) -> Iterator[Path]:
    """The jobs' own WINDROW_CACHE, made by the `windrow setup` of their environment; removed at the end."""
    made = folder / "cache"
    if ASKED != "fetch":
        for name in ("spark", "kafka"):
            ready = jars.folder(session_places) / name
            shutil.copytree(ready, made / ready.parent.name / name)
    command = [str(installed.jobs.folder / "bin" / "windrow"), "setup"]
    began = time.monotonic()
    done = run(command, env={**installing(), "WINDROW_CACHE": str(made)}, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"`windrow setup` → {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    say(f"windrow setup, {'jars downloaded' if ASKED == 'fetch' else 'jars copied'}: {time.monotonic() - began:.0f} s")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_no_version_of_an_airflow_that_is_there_changes(installed: Installed) -> None:
    changed = installed.before - installed.after
    assert not changed, f"the wheel, under {installed.constraints}, changed {changed} to {installed.after}"
    new = {_name(line) for line in installed.after - installed.before}
    assert "windrow" in new
    assert not new & {"pyspark", "great-expectations", "delta-spark"}, f"Airflow's side needs {new}"
    assert "pyspark" not in {_name(line) for line in installed.after}
    installed.airflow.pip("check")


def test_three_lines_give_the_dags(installed: Installed, tmp_path: Path) -> None:
    dags = _dag_folder(tmp_path / "dags", datetime(2026, 11, 1, tzinfo=UTC))
    command = [str(installed.airflow.python), "-c", DAGS, str(dags)]
    done = run(command, cwd=tmp_path, env=environ(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    line = done.stdout.splitlines()[-1]
    assert str(sorted(DAG_IDS)) in line, line
    assert str(installed.airflow.packages) in line, f"Windrow is not that of the wheel: {line}"
    assert line.endswith(" []"), f"Airflow's side has imported an engine: {line}"


def test_the_command_in_airflows_environment_says_what_is_missing(installed: Installed, tmp_path: Path) -> None:
    known = environ(tmp_path, WINDROW_CACHE=str(tmp_path))
    for command in (["bin/windrow", "health"], ["bin/python", "-m", "windrow.platform", "where"]):
        words = [str(installed.airflow.folder / command[0]), *command[1:]]
        done = run(words, cwd=tmp_path, env=known, capture_output=True, text=True)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr, done.stderr
        assert "WINDROW_PYTHON" in done.stderr, done.stderr


def test_scheduled_runs_publish_every_row(
    installed: Installed, cache: Path, session_places: Places, folder: Path
) -> None:
    world = World(replace(session_places, home=folder / "home"), "installed")
    now = datetime.now(UTC)
    start = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0) - 30 * MINUTE
    world.topics({"served": 2, "likes": 1})
    world.produce(_served(start))
    world.produce(_likes(start))

    pipelines = _dag_folder(folder / "airflow" / "dags", start) / "pipelines"
    noted = folder / "imports.txt"
    installed.airflow.note_imports()
    _require_notes(installed.airflow, folder)
    spark = Spark(installed.jobs, folder, environ(folder))
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": spark.address.port}
    known = environ(
        folder,
        WINDROW_HOME=str(world.places.home),
        WINDROW_CACHE=str(cache),
        WINDROW_KAFKA=world.places.kafka,
        WINDROW_PIPELINES=str(pipelines),
        WINDROW_PYTHON=str(installed.jobs.python),
        WINDROW_PAYLOAD="files",  # Python workers of the executors take part
        SPARK_LOCAL_IP="127.0.0.1",
        AIRFLOW_CONN_WINDROW_SPARK=json.dumps(connection),
        NOTED_IMPORTS=str(noted),
    )
    airflow = Airflow(installed.airflow, folder, known)
    watch = Watch(airflow.process, spark.master, spark.worker)
    with ExitStack() as started:
        started.callback(spark.stop)
        started.callback(airflow.stop)
        with watch.watching():
            spark.start()
            airflow.start()
            say("Airflow and Spark are up")
            _until(lambda: _dags(airflow) >= DAG_IDS, "the DAGs of the three lines are read", airflow)
            for dag in sorted(UNPAUSED):
                airflow.api.unpause(dag)
            say("unpaused small.land and small.training")
            training = world.places.table("small", "training")
            _until(lambda: len(_rows(training)) >= ROWS, f"{training} has {ROWS} rows", airflow, minutes=40)
            say("the rows are published")
            succeeded = _until(lambda: _succeeded(airflow), "a run of small.training has succeeded", airflow)
            _until(lambda: _is_waiting(airflow), "an interval that is not closed waits in the triggerer", airflow)
            states = airflow.api.task_states("small.training", succeeded)
            page = airflow.api.page("/windrow/")

    assert [_content(row) for row in _rows(training)] == _expected(start)
    assert set(states.values()) == {"success"}, states
    assert "small" in page, page[-2000:]
    _require_sides(watch, installed, folder)
    assert not noted.exists(), f"Airflow's side imports an engine:\n{noted.read_text()[:6000]}"
    for log in _logs(folder):
        text = log.read_text(errors="replace")
        for path in {str(PROJECT), sys.prefix}:
            assert path not in text, f"{log} names {path}: …{text[max(0, text.index(path) - 500) :][:1000]}…"


def _require_notes(airflow: Environment, folder: Path) -> None:
    """Check that an import of Spark is noted, which Airflow's Spark provider has brought along as a client."""
    control = folder / "control.txt"
    known = environ(folder, NOTED_IMPORTS=str(control))
    run([str(airflow.python), "-c", "import pyspark"], cwd=folder, env=known, check=True)
    assert control.read_text().startswith("pyspark in"), control.read_text()


def _require_sides(watch: Watch, installed: Installed, folder: Path) -> None:
    """Every process of a job is one of the jobs' environment, and every other one of Airflow's."""
    jobs, script = installed.jobs, str(installed.jobs.packages / "windrow" / "project" / "spark_jobs" / "run_job.py")
    of_jobs = watch.having("run_job.py")
    in_python = {line for line in of_jobs if "python" in Path(line[0]).name}
    for job in ("land", "join", "check", "publish"):
        assert [line for line in in_python if job in line], f"no process of {job} was seen: {of_jobs}"
    for line in in_python:
        assert line[0] == str(jobs.python), f"a job runs with another Python: {line}"
        assert script in line, f"a job runs another script: {line}"
    submitted = [line for line in of_jobs if Path(line[0]).name == "java"]
    executors = [line for line in watch.having("CoarseGrainedExecutorBackend") if Path(line[0]).name == "java"]
    assert submitted, f"no spark-submit was seen: {of_jobs}"
    assert executors, f"no executor was seen: {sorted(watch.seen)}"
    for line in (*submitted, *executors):
        assert f"{jobs.packages}/pyspark/jars/" in " ".join(line), f"Spark is not that of the jobs' environment: {line}"
    workers = watch.having("pyspark.daemon")
    assert workers, f"no Python worker of an executor was seen: {sorted(watch.seen)}"
    assert {line[0] for line in workers} == {str(jobs.python)}, workers
    servers = {line for line in watch.having(f"{installed.airflow.folder}/bin/") if "run_job.py" not in " ".join(line)}
    for part in ("scheduler", "dag-processor", "api-server", "triggerer"):
        assert [line for line in servers if part in line], f"no {part} was seen: {servers}"
    wrong = [line for line in watch.seen if str(PROJECT) in " ".join(line)]
    assert not wrong, f"processes of the repository: {wrong}"
    commands = "\n".join(log.read_text(errors="replace") for log in (folder / "airflow" / "logs").rglob("*.log"))
    assert re.search(rf"Command: {re.escape(str(jobs.python))} \S*watched_job.py {re.escape(script)} check", commands)
    assert f"{jobs.packages}/pyspark/bin/spark-submit" in commands


def _dag_folder(dags: Path, start: datetime) -> Path:
    """Write what a user writes: the three lines, and a pipeline file."""
    (dags / "pipelines").mkdir(parents=True)
    (dags / "ours.py").write_text(DAG_FILE)
    (dags / "pipelines" / "small.yaml").write_text(PIPELINE.replace("{start}", _stamp(start)))
    return dags


def _served_at(start: datetime, n: int) -> datetime:
    return start + n * EVERY + timedelta(seconds=1)


def _event(topic: str, partition: int, name: str, key: int | None, at: datetime) -> Any:
    return (topic, partition, json.dumps({"id": name, "k": key, "t": _stamp(at)}).encode(), at)


def _served(start: datetime) -> list[Any]:
    """Rows in three intervals, and one per partition that closes these."""
    far = [_event("served", partition, "far", -1, start + 20 * MINUTE) for partition in (0, 1)]
    return [_event("served", n % 2, f"s{n}", _key(n), _served_at(start, n)) for n in range(ROWS)] + far


def _likes(start: datetime) -> list[Any]:
    """Likes in the order of their time."""
    liked = [
        (_served_at(start, n) + timedelta(seconds=LIKED_AFTER[n % 5]), n) for n in range(ROWS) if n % 5 in LIKED_AFTER
    ]
    return [
        *(_event("likes", 0, f"l{n}", n, at) for at, n in sorted(liked)),
        _event("likes", 0, "far", -1, start + 20 * MINUTE),
    ]


def _key(n: int) -> int | None:
    return None if n == WITHOUT_KEY else n


def _expected(start: datetime) -> list[tuple[Any, ...]]:
    """Every row in served order: id, key, time, label, state, reason, likes."""
    expected: list[tuple[Any, ...]] = []
    for n in range(ROWS):
        at = _served_at(start, n)
        is_liked = n % 5 in (0, 1)
        label = (is_liked, "positive" if is_liked else "negative", None)
        likes = [(f"l{n}", at + timedelta(seconds=LIKED_AFTER[n % 5]))] if is_liked else []
        if n == WITHOUT_KEY:
            label, likes = (None, "unknown", "null_key"), []
        expected.append((f"s{n}", _key(n), at, *label, likes))
    return expected


def _content(row: dict[str, Any]) -> tuple[Any, ...]:
    likes = [(like["id"], like["t"]) for like in row["likes"]]
    return (row["id"], row["k"], row["t"], row["liked"], row["label_state"], row["label_reason"], likes)


def _rows(table: str) -> list[dict[str, Any]]:
    """Rows of the training table in served order; none while there is no table."""
    if not DeltaTable.is_deltatable(table):
        return []
    rows: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: tuple(row[column] for column in ORDER))


def _dags(airflow: Airflow) -> set[str]:
    return {one["dag_id"] for one in airflow.api.dags()}


def _succeeded(airflow: Airflow) -> str | None:
    """A run of the training DAG of which every task ran: the one that published."""
    for one in airflow.api.dag_runs("small.training", state="success"):
        if set(airflow.api.task_states("small.training", one["dag_run_id"]).values()) == {"success"}:
            return str(one["dag_run_id"])
    return None


def _is_waiting(airflow: Airflow) -> bool:
    runs = airflow.api.dag_runs("small.training", state="running")
    return any(airflow.api.task_states("small.training", one["dag_run_id"])["wait"] == "deferred" for one in runs)


def _until(holds: Callable[[], Any], what: str, airflow: Airflow, minutes: float = 10) -> Any:
    """Wait until `holds` returns something true, and return that. A run that fails ends the wait, and so does time."""
    end = time.monotonic() + 60 * minutes
    while True:
        assert airflow.process.process() is not None, f"Airflow ended:\n{airflow.process.last_words(40)}"
        busy = None
        try:
            if held := holds():
                return held
            wrong = airflow.api.import_errors()
            failed = [run for dag in UNPAUSED & _dags(airflow) for run in airflow.api.dag_runs(dag, state="failed")]
        except AirflowDoesNotAnswer as error:
            wrong, failed, busy = [], [], str(error)
        assert not wrong, wrong
        assert not failed, f"a run failed before {what}:\n{_seen(airflow)}"
        assert time.monotonic() < end, f"{what}: not within {minutes} minutes; {busy or _seen(airflow)}"
        time.sleep(5)


def _seen(airflow: Airflow) -> str:
    """What Airflow has run, with the logs of what did not go well."""
    lines = [f"unhealthy: {airflow.sick()}", f"DAGs: {sorted(_dags(airflow))}", airflow.process.last_words(20)]
    for dag in sorted(UNPAUSED):
        for one in airflow.api.dag_runs(dag):
            states = airflow.api.task_states(dag, one["dag_run_id"])
            lines.append(f"{dag} {one['dag_run_id']} {one['state']}: {states}")
            for task, state in states.items():
                if state in ("failed", "up_for_retry"):
                    lines.append(airflow.api.task_log(dag, one["dag_run_id"], task)[-4000:])
    return "\n".join(lines)


def _logs(folder: Path) -> list[Path]:
    """Every log: Airflow's and its tasks', Spark's and its executors'."""
    found = [*folder.glob("*.log"), *(folder / "airflow" / "logs").rglob("*"), *(folder / "work").rglob("std*")]
    files = [one for one in found if one.is_file()]
    assert files, f"no log in {folder}"
    return files


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _name(line: str) -> str:
    """Name of the package of a line of `pip freeze`."""
    return re.split(r" @ |==", line)[0].lower().replace("_", "-")


def _versions(lines: set[str], *words: str) -> str:
    return ", ".join(sorted(line for line in lines if any(word in line for word in words)))


def say(text: str) -> None:
    """Print a line with the time, for who reads along."""
    print(f"{datetime.now(UTC):%H:%M:%S}  {text}", flush=True)
