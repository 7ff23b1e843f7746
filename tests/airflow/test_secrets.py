"""A secret planted in the environment and in the connection is in nothing that was written: log, template, XCom."""

from __future__ import annotations

import psutil
import pytest

from support.running_airflow import SECRET, Running

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]
HOLDS_SECRETS = ("airflow.cfg", "secrets.json", "passwords.json")


def test_a_planted_secret_is_nowhere(running: Running) -> None:
    scheduler = running.airflow.processes["scheduler"].process()
    assert scheduler is not None
    environ = psutil.Process(scheduler.pid).environ()
    assert environ["WAREHOUSE_PASSWORD"] == SECRET  # the tasks had it
    assert SECRET in environ["AIRFLOW_CONN_WINDROW_SPARK"]

    if not running.airflow.api.dag_runs("good.land"):
        running.airflow.api.unpause("good.land")
        running.land("good")
    home = running.world.places.home
    files = [path for path in home.rglob("*") if path.is_file() and path.name not in HOLDS_SECRETS]
    logs = [path for path in files if path.suffix == ".log" and "task_id=land" in str(path)]
    assert any(b"spark-submit" in path.read_bytes() for path in logs)  # the command is there, so it would be too
    assert home / "platform" / "airflow" / "airflow.db" in files  # rendered templates and XCom
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
