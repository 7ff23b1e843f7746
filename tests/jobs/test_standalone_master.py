"""The same operators against a real Spark standalone master with two workers: land, join, check, publish.

Master, workers and drivers share a secret, as in docker/compose.yaml.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from support.small_pipeline import PIPELINE, START, event, made
from support.world import World
from windrow.platform import jars
from windrow.platform.processes import free_port

SECRET = "planted-51e8d24b607f3a9c"
pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Cluster:
    """A master that two workers have joined."""

    url: str
    page: str
    secrets: Path

    def seen(self) -> dict[str, Any]:
        with build_opener(ProxyHandler({})).open(self.page, timeout=30) as answer:
            return dict(json.load(answer))


@pytest.fixture
def cluster(session_places: Any, tmp_path: Path) -> Iterator[Cluster]:
    jars.ensure(session_places)
    port = free_port()
    secrets = tmp_path / "spark-secrets.conf"
    secrets.write_text(f"# shared\nspark.authenticate true\nspark.authenticate.secret   {SECRET}\n")
    secrets.chmod(0o600)
    master = Cluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}/json/", secrets)
    environ = {**os.environ, **jars.environment(replace(session_places, spark_master=master.url))}
    environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(tmp_path / "work")}
    host = ["--host", "127.0.0.1", "--properties-file", str(secrets)]
    roles = [["master.Master", *host, "--port", str(port), "--webui-port", str(port + 1)]]
    roles += 2 * [["worker.Worker", *host, "--webui-port", "0", "--cores", "1", "--memory", "1g", master.url]]
    running = []
    try:
        for n, (role, *options) in enumerate(roles):
            with (tmp_path / f"spark-{n}.log").open("wb") as log:
                command = [str(jars.spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *options]
                running.append(subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT))
            if n == 0:
                _until(lambda: master.seen()["status"] == "ALIVE", "the master answers")
        _until(lambda: master.seen()["aliveworkers"] == 2, "both workers have joined")
        yield master
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


def test_it_lands_joins_and_publishes_on_two_workers(
    cluster: Cluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windrow_airflow.job_operators import PythonJobOperator, SparkJobOperator

    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce(event("served", 0, n, key=n, name=f"s{n}") for n in range(60))
    world.produce(event("likes", 0, n + 5, key=n, name=f"l{n}") for n in range(0, 60, 6))
    world.produce([event("served", 0, 600, name="far"), event("likes", 0, 600, name="far")])
    environ = {
        "WINDROW_HOME": str(world.places.home),
        "WINDROW_KAFKA": world.places.kafka,
        "WINDROW_PIPELINES": str(world.places.pipelines[0]),
        "WINDROW_SPARK_MASTER": cluster.url,
        "AIRFLOW_CONN_WINDROW_SPARK": json.dumps({"conn_type": "spark", "host": cluster.url}),
        "WINDROW_SPARK_SECRETS": str(cluster.secrets),
        "WINDROW_PAYLOAD": "files",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    of = {"pipeline": "small", "run_key": "on the cluster"}
    first = f"{START:%Y-%m-%dT%H:%M:%SZ}"

    landed = SparkJobOperator(task_id="land", job="land", pipeline="small").execute({})
    assert landed["landed"] == 72
    SparkJobOperator(task_id="join", job="join", arguments=["--interval", first], **of).execute({})
    PythonJobOperator(task_id="check", job="check", arguments=["--interval", first], **of).execute({})
    result = SparkJobOperator(task_id="publish", job="publish", **of).execute({})

    assert result["run"] == "on the cluster"
    assert result["publications"][0]["rows"] == 60
    assert {row["id"] for row in world.training(ctx) if row["liked"]} == {f"s{n}" for n in range(0, 60, 6)}
    # landing and join; publication adds the candidate's own files, and asks the cluster for nothing
    _until(lambda: len(cluster.seen()["completedapps"]) == 2, "the applications have ended")
    assert {app["cores"] for app in cluster.seen()["completedapps"]} == {2}  # one of each worker
    written = [*world.places.home.rglob("tables/small/**/*.parquet"), *world.places.home.rglob("tables/small/**/")]
    assert {oct(path.stat().st_mode & 0o077) for path in written} == {"0o0"}, "for their owner only"
    logs = [path for path in world.places.home.parent.rglob("*") if path.is_file() and path != cluster.secrets]
    assert [path for path in logs if SECRET.encode() in path.read_bytes()] == []

    cluster.secrets.chmod(0o644)
    result = world.script("land", "small", **environ)
    assert result.returncode == 2
    assert f"chmod 600 {cluster.secrets}" in result.stderr


def _until(holds: Any, what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except OSError:  # nobody listens yet
            pass
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.5)
