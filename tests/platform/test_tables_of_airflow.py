"""Airflow's tables: no `windrow up` moves them in silence, and it starts the store of the home that they are in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Done, windrow
from windrow import platform
from windrow.outcomes import ExitCode
from windrow.places import Places
from windrow.platform import Airflow, Store
from windrow.platform.processes import free_port

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A shell with a home of its own; its store is stopped in the end."""
    environ = {
        "WINDROW_HOME": str(tmp_path / "home"),
        "WINDROW_TABLES": "",
        "WINDROW_STORE": f"127.0.0.1:{free_port()}",
        "WINDROW_KAFKA": f"127.0.0.1:{free_port()}",
        "AWS_ENDPOINT_URL": "",
    }
    store = Store(Places.from_env(environ))
    for name in store.environment():
        monkeypatch.setenv(name, "")  # put back in the end: the command sets them for its process
    yield environ
    store.stop()


def airflow_of(shell: Mapping[str, str], tables: str | None = None, endpoint: str = "") -> Airflow:
    """The home's Airflow as a shell with these tables has it."""
    return Airflow(replace(Places.from_env(shell), tables=tables), {"AWS_ENDPOINT_URL": endpoint})


@pytest.fixture
def started(shell: dict[str, str]) -> Iterator[Airflow]:
    """The home's Airflow with its tables in the home, of which one process runs."""
    airflow = airflow_of(shell)
    airflow.folder.mkdir(parents=True)
    airflow._keep_location()
    airflow.processes["scheduler"].start(SLEEP, os.environ, airflow.folder)
    yield airflow
    airflow.processes["scheduler"].stop()


def refused(done: Done) -> str:
    """The message of a command that another place of the tables has ended."""
    assert done.returncode == ExitCode.NOT_READY, done.stderr
    assert done.stderr.startswith("OtherPlatform: "), done.stderr
    return done.stderr


def test_an_airflow_that_runs_is_not_moved_into_a_store(shell: dict[str, str], started: Airflow) -> None:
    said = refused(windrow(shell, "up", "--store"))
    store = Store(Places.from_env(shell))
    assert f"keeps its tables in {started.location}, and not in s3://windrow at {store.endpoint}" in said
    assert "windrow down" in said
    assert store.is_up(), "asked for, and harmless"
    assert started.processes["scheduler"].process(), "its tasks go on"
    assert started.kept == started.location


def test_a_shell_on_the_store_starts_it_where_it_is_down(shell: dict[str, str], started: Airflow) -> None:
    """With the variables of `env` set, the store is what `windrow up` starts first, and not what it fails on."""
    store = Store(Places.from_env(shell))
    store._write_files()
    sourced = {**shell, **store.environment(), "WINDROW_TABLES": f"{store.url}/mine"}
    assert "s3://windrow/mine at" in refused(windrow(sourced, "up"))
    assert store.is_up()


def test_an_airflow_whose_tables_are_in_the_homes_store_gets_the_store_again(shell: dict[str, str]) -> None:
    """Without a word of the tables in the environment: it is started with those that it had."""
    store = Store(Places.from_env(shell))
    store._write_files()
    airflow = airflow_of(shell, store.url, store.endpoint)
    airflow.folder.mkdir(parents=True)
    airflow._keep_location()
    airflow.processes["scheduler"].start(SLEEP, os.environ, airflow.folder)
    try:
        done = windrow({**shell, "WINDROW_KAFKA": "127.0.0.1:x"}, "up")  # ends where the broker's turn comes
    finally:
        airflow.processes["scheduler"].stop()
    assert "127.0.0.1:x" in done.stderr, "not that its tables are elsewhere"
    assert store.is_up()


def test_tables_in_a_store_elsewhere_are_not_left_in_silence(shell: dict[str, str]) -> None:
    airflow = airflow_of(shell, "s3://lake/windrow", "https://store.example")
    airflow.folder.mkdir(parents=True)
    airflow._keep_location()
    said = refused(windrow(shell, "up"))
    assert "kept its tables in s3://lake/windrow at https://store.example, and WINDROW_TABLES is not set" in said
    assert not Store(Places.from_env(shell)).process.log.exists()


def test_an_airflow_gives_its_tasks_the_tables_that_it_was_given(shell: dict[str, str]) -> None:
    inherited = {"WINDROW_TABLES": "s3://other"}
    assert Airflow(Places.from_env(shell), inherited).environment()["WINDROW_TABLES"] == ""
    assert airflow_of(shell, "/elsewhere").environment()["WINDROW_TABLES"] == "/elsewhere"
    assert platform.Airflow(Places.from_env(shell)).kept is None
