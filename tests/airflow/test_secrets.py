"""A secret planted in the environment and in the connection is in nothing that was written: log, template, XCom."""

from __future__ import annotations

from urllib.request import ProxyHandler, build_opener

import psutil
import pytest

from support.running_airflow import SECRET, Running

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]
HOLDS_SECRETS = ("airflow.cfg", "secrets.json", "passwords.json")


def test_pages_about_the_api_are_closed(running: Running) -> None:
    def page(name: str) -> str:
        with build_opener(ProxyHandler({})).open(f"{running.airflow.url}/{name}", timeout=60) as answer:
            return str(answer.read().decode())

    for name in ("docs", "redoc"):  # Airflow answers unknown addresses with its own page
        assert "openapi.json" not in page(name), name
    described = page("openapi.json")  # open on purpose: it says nothing about this installation
    assert '"/api/v2/dags"' in described
    assert "windrow" not in described


def test_what_airflow_writes_is_for_its_owner_only(running: Running) -> None:
    folder = running.airflow.folder
    if not running.airflow.api.dag_runs("good.land"):
        running.airflow.api.unpause("good.land")
        running.land("good")
    logs = [path for path in folder.rglob("*") if "task_id=land" in str(path)]
    assert logs
    assert {str(path): oct(path.stat().st_mode) for path in logs if path.stat().st_mode & 0o077} == {}


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
