"""What is fetched and configured once: complete or absent, one for every Spark start, told when missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from windrow import platform
from windrow.outcomes import ExitCode
from windrow.places import PROJECT, Places
from windrow.platform import Airflow, JarsMissing, JavaMissing, NoRoom, jars
from windrow.platform.java import find_java
from windrow.platform.servers.airflow import port_of


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.from_env({"WINDROW_HOME": f"{tmp_path}/home", "WINDROW_CACHE": f"{tmp_path}/cache"})


def test_pyspark_and_its_client_are_the_same_version_because_they_own_the_same_files() -> None:
    assert version("pyspark") == version("pyspark-client")


def test_the_client_of_pyspark_alone_is_no_spark(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(origin=str(tmp_path / "pyspark" / "__init__.py"))
    monkeypatch.setattr(jars, "find_spec", lambda name: client)
    with pytest.raises(JarsMissing, match=r"only pyspark-client(.|\n)*windrow\[jobs\](.|\n)*WINDROW_PYTHON"):
        jars.ensure(replace(places, cache=tmp_path / "cache"))
    assert not (tmp_path / "cache").exists(), "nothing is fetched"
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    assert jars.spark_home() == tmp_path / "pyspark"


@pytest.mark.parametrize("missing", ["polars", "typer"])
def test_the_command_without_the_packages_of_jobs_names_them(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from windrow.command import main; main()"
    for words in (["clock", "none"], ["clock", "none", "--json"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
        assert done.returncode == ExitCode.NOT_READY, done.stderr
        assert "Traceback" not in done.stderr
        message = json.loads(done.stderr)["message"] if "--json" in words else done.stderr
        assert f"{missing} is not installed" in message
        assert "windrow[jobs]" in message


def test_no_registry_host_stands_in_the_jar_files() -> None:
    texts = [jars.IVY.read_text(), Path(jars.__file__).read_text()]
    assert [found for text in texts for found in re.findall(r"https?://[\w.-]+\.\w+", text)] == []


def test_a_folder_of_jars_appears_whole_or_not_at_all(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_java: Path, name: str, _cache: Path, staging: Path, _report: object, problems: list[str]) -> None:
        (staging / name).mkdir()
        (staging / name / "first.jar").touch()
        problems.append("the network went away")

    monkeypatch.setattr(jars, "_fetch_set", half)
    with pytest.raises(JarsMissing, match="the network went away"):
        jars.ensure(places, report=lambda _: None)
    assert list(places.cache.glob("jars-*")) == []


@pytest.mark.parametrize(
    ("proxy", "is_used"), [("http://proxy:3128", True), ("http://me:secret@proxy:3128", False), ("proxy", False)]
)
def test_a_proxy_that_jars_are_not_fetched_by_is_told_and_its_login_is_not(
    places: Places, monkeypatch: pytest.MonkeyPatch, proxy: str, is_used: bool
) -> None:
    monkeypatch.setattr(jars, "_fetch_set", lambda *given: given[-1].append("unreachable"))
    monkeypatch.setenv("https_proxy", proxy)
    for other in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(other, raising=False)
    with pytest.raises(JarsMissing) as failure:
        jars.ensure(places, report=lambda _: None)
    assert ("https_proxy is not of the form http://host:port, so it was not used" in str(failure.value)) is not is_used
    assert "secret" not in str(failure.value)
    assert (jars._proxies(os.environ)[0] == ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128"]) is is_used


def test_the_configuration_is_written_once_and_repaired_when_changed(places: Places) -> None:
    (jars.folder(places) / "spark").mkdir(parents=True)
    jars.ensure(places)
    file = places.spark_conf / "spark-defaults.conf"
    assert f"{jars.folder(places)}/spark/*" in file.read_text()
    assert re.search(r"spark.sql.session.timeZone\s+UTC", file.read_text())
    first = file.stat().st_mtime_ns
    (places.cache / "jars.lock").unlink()
    jars.ensure(places)
    assert file.stat().st_mtime_ns == first
    assert not (places.cache / "jars.lock").exists()  # nothing was written, so the cache may be read-only
    file.write_text("spark.sql.session.timeZone Europe/Paris\n")
    jars.ensure(places)
    assert "Paris" not in file.read_text()


def test_every_spark_start_gets_the_one_configuration_in_utc(places: Places) -> None:
    variables = jars.environment(places)
    assert str(places.spark_properties) in variables["PYSPARK_SUBMIT_ARGS"]
    assert variables["TZ"] == "UTC"
    assert Path(variables["SPARK_HOME"], "bin", "spark-submit").exists()
    for master in ("local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"):
        assert jars.environment(replace(places, spark_master=master))["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in jars.environment(replace(places, spark_master="spark://master:7077"))


def test_a_java_that_is_too_old_is_named_with_the_next_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setattr("windrow.platform.java._USUAL_PLACES", ())
    with pytest.raises(JavaMissing, match=r"is Java 11.*\n.*install it"):
        find_java({"PATH": str(tmp_path)})


def test_a_full_disk_is_told_before_anything_is_started(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5 * 2**20))
    with pytest.raises(NoRoom, match=r"5 MB free.*\n.*WINDROW_HOME"):
        platform.up(places, report=lambda _: None)
    assert not (places.home / "platform").exists()


def test_airflow_keeps_its_secrets_to_the_owner_and_makes_them_once(places: Places) -> None:
    first = _configured(places)
    second = _configured(places)
    for name in ("secrets.json", "passwords.json", "airflow.cfg"):
        assert stat.S_IMODE((first.folder / name).stat().st_mode) == 0o600, name
    assert first.login.password == second.login.password
    assert len(first.login.password) >= 16
    secret = json.loads((first.folder / "secrets.json").read_text())
    assert not set(secret.values()) & set(first.environment().values())


def test_airflow_reads_this_projects_dags_and_nothing_else(places: Places) -> None:
    text = (_configured(places).folder / "airflow.cfg").read_text()
    assert f"dags_folder = {PROJECT}/dags\n" in text
    assert f"plugins_folder = {PROJECT}/plugins\n" in text
    assert "load_examples = False" in text


def test_airflows_tasks_see_the_same_places_as_the_command(places: Places, tmp_path: Path) -> None:
    more = {"pipelines": (*places.pipelines, tmp_path / "more"), "spark_secrets": tmp_path / "secrets"}
    more |= {"notifiers": tmp_path / "notifiers"}
    more |= {"registries": (("default", "http://one:8081"), ("orders", "https://two/apis/ccompat/v7"))}
    more |= {"store": "127.0.0.1:19", "postgres": "127.0.0.1:17", "decode_carefully": True}
    places = replace(places, spark_master="spark://master:7077", **more)
    environ = Airflow(places, {"HOME": str(tmp_path), "PATH": os.defpath}).environment()
    assert Places.from_env(environ) == places
    assert json.loads(environ["AIRFLOW_CONN_WINDROW_SPARK"])["host"] == "spark://master:7077"


@pytest.mark.parametrize(("text", "says"), [("host:80", "neither"), ("http://ann:secret@host", "password")])
def test_an_address_of_a_registry_that_is_none_is_refused_and_not_shown(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"WINDROW_REGISTRY .*{says}") as refused:
        Places.from_env({"WINDROW_REGISTRY": text})
    assert text not in str(refused.value)


@pytest.mark.parametrize("text", ["x", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="WINDROW_AIRFLOW_PORT"):
        port_of({"WINDROW_AIRFLOW_PORT": text})


def test_status_of_a_platform_that_never_ran_is_stopped(places: Places) -> None:
    parts = platform.status(replace(places, kafka="127.0.0.1:9"))
    assert {part.name for part in parts} >= {"kafka", "airflow scheduler", "airflow triggerer"}
    assert {part.state for part in parts} == {"stopped"}


def _configured(places: Places) -> Airflow:
    airflow = Airflow(places, {"PATH": os.defpath})
    airflow.folder.mkdir(parents=True, exist_ok=True)
    airflow._write_configuration()
    return airflow
