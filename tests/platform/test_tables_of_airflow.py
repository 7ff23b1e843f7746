"""Airflow's tables: no `windrow up` moves them in silence, and it starts the store of the home that they are in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.command import Done, windrow
from windrow import platform, training
from windrow.cli import local
from windrow.outcomes import ExitCode
from windrow.places import Places, TablesElsewhere
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
    airflow = Airflow(replace(Places.from_env(shell), tables=tables), {"AWS_ENDPOINT_URL": endpoint})
    airflow.folder.mkdir(parents=True, exist_ok=True)
    return airflow


@pytest.fixture
def store(shell: dict[str, str]) -> Store:
    """The home's own store, set up and not running."""
    made = Store(Places.from_env(shell))
    made._write_files()
    return made


@pytest.fixture
def started(shell: dict[str, str]) -> Iterator[Airflow]:
    """The home's Airflow with its tables in the home, of which one process runs."""
    airflow = airflow_of(shell)
    airflow._keep_location()
    with running(airflow):
        yield airflow


@contextmanager
def running(airflow: Airflow, **environ: str) -> Iterator[None]:
    """One process of an Airflow runs."""
    airflow.processes["scheduler"].start(SLEEP, {**os.environ, **environ}, airflow.folder)
    try:
        yield
    finally:
        airflow.processes["scheduler"].stop()


def refused(done: Done) -> str:
    """The message of a command that another place of the tables has ended."""
    assert done.returncode == ExitCode.NOT_READY, done.stderr
    assert done.stderr.startswith("OtherPlatform: "), done.stderr
    return done.stderr


def test_an_airflow_that_runs_is_not_moved_into_a_store(shell: dict[str, str], started: Airflow) -> None:
    said = refused(windrow(shell, "up", "--store"))
    store = Store(Places.from_env(shell))
    assert f"keeps its tables in {started.location}, and not in s3://windrow in {store.folder}" in said
    assert "windrow down" in said
    assert not store.is_up(), "nothing runs that did not run before"
    assert started.processes["scheduler"].process(), "its tasks go on"
    assert started.kept == started.location


def test_a_shell_on_the_store_starts_it_where_it_is_down(shell: dict[str, str], store: Store, started: Airflow) -> None:
    """With the variables of `env` set, the store is what `windrow up` starts first, and not what it fails on."""
    sourced = {**shell, **store.environment(), "WINDROW_TABLES": f"{store.url}/mine"}
    done = windrow(sourced, "up")
    assert f"s3://windrow/mine in {store.folder}" in refused(done)
    assert "The object store answers" in done.stdout
    assert not store.is_up(), "stopped again, since it did not run before"
    store.start()
    refused(windrow(sourced, "up"))
    assert store.is_up(), "it ran before"


def test_a_store_that_is_asked_for_is_not_taken_over_the_tables_that_are_named(shell: dict[str, str]) -> None:
    named = f"{shell['WINDROW_HOME']}/mine"
    done = windrow({**shell, "WINDROW_TABLES": named}, "up", "--store")
    assert done.returncode == ExitCode.BAD_INPUT
    assert f"WINDROW_TABLES={named} has them elsewhere" in done.stderr
    assert not Store(Places.from_env(shell)).env.exists()


WHERE = {
    "own": (
        "s3://windrow/mine in {home}/platform/store",
        ("`source {home}/platform/store/env`", "export WINDROW_TABLES=s3://windrow/mine"),
    ),
    "elsewhere": (
        "s3://lake/w at https://s.example",
        ("export WINDROW_TABLES=s3://lake/w, AWS_ENDPOINT_URL=https://s.example",),
    ),
    "folder": ("/srv/tables", ("export WINDROW_TABLES=/srv/tables",)),
}


@pytest.mark.parametrize("kind", WHERE)
def test_no_command_begins_a_second_set_of_tables_in_silence(shell: dict[str, str], store: Store, kind: str) -> None:
    """A shell without the store's variables would land all records again, and call the pipeline unpublished."""
    home, (kept, moves) = shell["WINDROW_HOME"], WHERE[kind]
    file = airflow_of(shell).places.airflow_tables
    file.write_text(kept.format(home=home))
    for words in (["publications", "feed"], ["land", "feed"], ["train", "feed"], ["health"], ["metrics"], ["alerts"]):
        done = windrow(shell, *words)
        assert done.returncode == ExitCode.NOT_READY, words
        assert done.stderr.startswith(
            f"TablesElsewhere: This home's Airflow keeps its tables in {kept.format(home=home)}"
        )
        for move in (*moves, f"or, for those, export WINDROW_TABLES={os.path.realpath(home)}/tables"):
            assert move.format(home=home) in done.stderr
    assert not Path(home, "tables").exists()
    assert "TablesElsewhere" not in (said := windrow(shell, "status").stdout)
    assert "Commands of this shell are refused. This home's Airflow keeps" in said
    here = {**shell, "WINDROW_TABLES": f"{home}/tables"}
    assert windrow(here, "publications", "feed").returncode == 0
    assert f"Commands of this shell have theirs in {os.path.realpath(home)}/tables" in windrow(here, "status").stdout
    file.write_text(os.path.realpath(f"{home}/tables"))
    assert windrow(shell, "publications", "feed").returncode == 0


@pytest.mark.parametrize("kind", ["moved", "linked"])
@pytest.mark.parametrize("tables", [None, "s3://windrow"])
def test_a_home_that_was_moved_or_is_linked_has_the_tables_that_it_had(
    shell: dict[str, str], store: Store, tmp_path: Path, kind: str, tables: str | None
) -> None:
    airflow_of(shell, tables, store.endpoint if tables else "")._keep_location()
    home, other = Path(shell["WINDROW_HOME"]), tmp_path / "other"
    home.rename(other) if kind == "moved" else other.symlink_to(home)
    there = {**shell, "WINDROW_HOME": str(other)}
    done = windrow(there, "publications", "feed")
    if tables is None:
        assert done.returncode == 0, done.stderr
    else:
        assert f"`source {other}/platform/store/env` for Airflow's; or" in done.stderr
    sourced = {**there, "WINDROW_TABLES": tables or "", "AWS_ENDPOINT_URL": store.endpoint if tables else ""}
    airflow = Airflow(Places.from_env(sourced), sourced)
    assert airflow.location == airflow.kept


def test_a_note_that_may_not_be_read_refuses_nobody(shell: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = airflow_of(shell).places.airflow_tables
    file.mkdir()  # as a folder of its owner only is for others: reading it is an error
    assert Places.for_tables(shell).kept_tables is None


def test_a_shell_that_was_sourced_before_the_store_had_another_port_goes_on(
    shell: dict[str, str], store: Store
) -> None:
    airflow_of(shell, "s3://windrow/mine", store.endpoint)._keep_location()
    at = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9/", "WINDROW_TABLES": "s3://windrow/mine"}
    done = windrow({**shell, **at, "WINDROW_KAFKA": "127.0.0.1:x"}, "up", "--store")
    assert "127.0.0.1:x" in done.stderr, "ends where the broker's turn comes"
    airflow_of(shell).places.airflow_tables.unlink()
    store.env.unlink()
    done = windrow({**shell, **at}, "up", "--store")
    assert "WINDROW_TABLES=s3://windrow/mine and AWS_ENDPOINT_URL=http://127.0.0.1:9/ has them elsewhere" in done.stderr
    own = {**at, "AWS_ENDPOINT_URL": f"{store.endpoint}/", "WINDROW_KAFKA": "127.0.0.1:x"}
    assert "127.0.0.1:x" in windrow({**shell, **own}, "up", "--store").stderr


def test_who_reads_training_rows_is_told_too(shell: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    airflow_of(shell).places.airflow_tables.write_text("/srv/tables")
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TablesElsewhere, match="export WINDROW_TABLES=/srv/tables"):
        training.read("feed")


@pytest.mark.parametrize("words", [["up"], ["up", "--store"]])
def test_an_airflow_whose_tables_are_in_the_homes_store_gets_the_store_again(
    shell: dict[str, str], store: Store, words: list[str]
) -> None:
    """Without a word of the tables in the environment it is started with those that it had, at the store's new port."""
    airflow_of(shell, f"{store.url}/mine", store.endpoint)._keep_location()
    shell["WINDROW_STORE"] = f"127.0.0.1:{free_port()}"
    moved = Store(Places.from_env(shell))
    with running(airflow_of(shell)):
        done = windrow({**shell, "WINDROW_KAFKA": "127.0.0.1:x"}, *words)  # ends where the broker's turn comes
        assert "127.0.0.1:x" in done.stderr, "not that its tables are elsewhere"
        assert moved.is_up()
        moved.stop()


def test_tables_in_a_store_elsewhere_are_not_left_in_silence(shell: dict[str, str]) -> None:
    airflow_of(shell, "s3://lake/windrow", "https://store.example/")._keep_location()
    kept = "kept its tables in s3://lake/windrow at https://store.example, and WINDROW_TABLES is not set"
    for command in ("up", "demo"):
        said = refused(windrow(shell, command))
        assert kept in said
        assert "AWS_ENDPOINT_URL" in said
    assert not (Places.from_env(shell).home / "platform" / "kafka").exists(), "nothing was started before"
    with pytest.raises(platform.OtherPlatform, match="kept its tables in s3://lake"):
        airflow_of(shell).start()  # nor by the entry of an image


def test_who_says_where_the_tables_are_to_be_is_told_that_the_others_stay(
    shell: dict[str, str], started: Airflow, capsys: pytest.CaptureFixture[str]
) -> None:
    local._require_tables(started.places)
    assert not capsys.readouterr().out, "they are where they were"
    other = f"{started.places.home}/other"
    with pytest.raises(platform.OtherPlatform, match="The Airflow that runs keeps"):
        local._require_tables(replace(started.places, tables=other))
    started.processes["scheduler"].stop()
    local._require_tables(replace(started.places, tables=other))
    assert "until now: those stay there" in capsys.readouterr().out


def test_a_folder_is_the_same_whatever_path_leads_to_it(shell: dict[str, str], started: Airflow) -> None:
    home = started.places.home
    (home / "tables").mkdir()
    (home.parent / "link").symlink_to(home)
    for same in (f"{home}/../{home.name}/tables", f"{home.parent}/link/tables"):
        assert airflow_of(shell, same).location == started.location
        airflow_of(shell, same).require_own_data()


def test_an_airflow_of_a_release_that_noted_nothing_is_asked_or_its_user(shell: dict[str, str], store: Store) -> None:
    """While it runs, its processes know; afterwards only a person does, where the home has a store."""
    sourced = {**store.environment(), "WINDROW_TABLES": store.url}
    airflow = airflow_of(shell)
    with running(airflow, **sourced):
        assert airflow.kept == store.location(store.url)
        in_folder = {**shell, "WINDROW_TABLES": str(airflow.places.home / "tables")}
        assert "The Airflow that runs keeps its tables in s3://windrow" in refused(windrow(in_folder, "up"))
    assert airflow.kept is None
    airflow._database.touch()
    said = refused(windrow(shell, "up"))
    assert "`windrow up --store` if they are in the store" in said
    assert f"WINDROW_TABLES={airflow.places.home / 'tables'}" in said


def test_an_airflow_gives_its_tasks_the_tables_that_it_was_given(shell: dict[str, str]) -> None:
    inherited = {"WINDROW_TABLES": "s3://other"}
    assert Airflow(Places.from_env(shell), inherited).environment()["WINDROW_TABLES"] == ""
    assert airflow_of(shell, "/elsewhere").environment()["WINDROW_TABLES"] == "/elsewhere"
