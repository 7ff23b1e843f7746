"""A planted secret and planted personal data are in nothing that was written but configuration and data files.

Searched are all files below the home folder (logs of tasks, Spark and Airflow, rendered commands, reports, pages, Delta
commits) and every value in Airflow's database (XCom, rendered templates, serialised DAGs, events).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import psutil
import pytest

from support.running_airflow import INTERVAL, PERSON, SECRET, Running, until

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]
HOLDS_SECRETS = ("airflow.cfg", "secrets.json", "passwords.json")
TRACES = ("xcom", "rendered_task_instance_fields", "log", "serialized_dag", "dag_run", "task_instance")
"""Tables of Airflow that a run leaves rows in."""


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
    running.landed("good")
    logs = [path for path in folder.rglob("*") if "task_id=land" in str(path)]
    assert logs
    assert {str(path): oct(path.stat().st_mode) for path in logs if path.stat().st_mode & 0o077} == {}


def test_a_planted_secret_and_a_planted_person_are_nowhere(running: Running) -> None:
    scheduler = running.airflow.processes["scheduler"].process()
    assert scheduler is not None
    environ = psutil.Process(scheduler.pid).environ()
    assert environ["WAREHOUSE_PASSWORD"] == environ["AWS_SECRET_ACCESS_KEY"] == SECRET  # the tasks had them
    assert SECRET in Path(environ["WINDROW_REGISTRY_CLIENT"]).read_text()
    assert SECRET in environ["AIRFLOW_CONN_WINDROW_SPARK"]
    _published(running)
    assert {row["who"] for row in running.rows("good")} == {f"{PERSON} {n}" for n in range(300)}
    landing = running.world.table(running.contexts["good"], f"landing/{running.world.name}.good.shown")
    assert any(row["_quarantined"] and PERSON.encode() in bytes(row["_raw"]) for row in landing)

    files = _files(running)
    logs = [path for path in files if path.suffix == ".log" and "task_id=land" in str(path)]
    assert any(b"spark-submit" in path.read_bytes() for path in logs)  # the command is there, so it would be too
    assert any(path.suffix == ".html" and "good" in path.parts for path in files)
    (database,) = (path for path in files if path.name == "airflow.db")
    assert _holding(SECRET, [path for path in files if path.name not in HOLDS_SECRETS]) == []
    # data files hold the rows; commits are the next test's
    assert _holding(PERSON, [path for path in files if path.suffix != ".parquet" and not _is_log(path)]) == []

    found = list(_values(database))
    assert set(TRACES) <= {table for table, _ in found}
    assert [(table, value[:200]) for table, value in found if SECRET in value or PERSON in value] == []


def test_a_planted_person_is_in_no_commit(running: Running) -> None:
    _published(running)
    logs = [path for path in _files(running) if _is_log(path)]
    assert logs
    assert _holding(PERSON, logs) == []


def _published(running: Running) -> None:
    """Wait until the pipeline `good` has been landed, joined, judged and published by Airflow."""
    running.landed("good")
    running.airflow.api.unpause("good.training")
    wanted = {running.start, running.start + INTERVAL}
    until(lambda: running.standing("good").keys() >= wanted, "the intervals with rows are published")


def _files(running: Running) -> list[Path]:
    return [path for path in running.world.places.home.rglob("*") if path.is_file()]


def _is_log(path: Path) -> bool:
    return path.parent.name == "_delta_log"


def _holding(text: str, files: list[Path]) -> list[Path]:
    """Return the files that hold the text; a temporary file may be gone by now."""
    return [path for path in files if path.exists() and text.encode() in path.read_bytes()]


def _values(database: Path) -> Iterator[tuple[str, str]]:
    """Yield every value of every table as (table, text); a search of the file could miss what spans two pages."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            for row in connection.execute(f'select * from "{table}"'):
                for value in row:
                    if value is not None:
                        yield table, value.decode(errors="replace") if isinstance(value, bytes) else str(value)
