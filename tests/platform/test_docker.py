"""docker/compose.yaml and docker/Dockerfile, as far as they can be read without a container engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from windrow import platform
from windrow.places import PROJECT, Places
from windrow.platform.processes import Address
from windrow.platform.servers import airflow, cluster

COMPOSE = yaml.safe_load((PROJECT / "docker" / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
RUN = ["python", "-m", "windrow.platform", "run", "--cluster"]


def test_the_services_are_the_parts_of_a_cluster() -> None:
    assert {name: part["command"] for name, part in SERVICES.items()} == {
        name: [*RUN, name] for name in platform.CLUSTER_PARTS
    }
    for name, part in SERVICES.items():
        assert part["healthcheck"]["test"] == ["CMD", "python", "-m", "windrow.platform", "answers", name]
    assert set(SERVICES["airflow"]["depends_on"]) == {*platform.CLUSTER_PARTS} - {"airflow"}


def test_the_ports_it_names_are_those_of_the_parts_and_no_two_are_the_same() -> None:
    known = cluster.DEFAULTS
    brokers = [Address.parse(text).port for text in known["WINDROW_KAFKA"].split(",")]
    spark = Address.parse(known["WINDROW_SPARK_MASTER"].removeprefix("spark://")).port
    single = [Address.parse(known[name]).port for name in ("WINDROW_POSTGRES", "WINDROW_STORE")]
    ports = [
        airflow.PORT,
        airflow.PORT + 1,
        *brokers,
        *[port + 1 for port in brokers],
        *range(spark, spark + 4),
        *single,
    ]
    assert len(set(ports)) == len(ports) == 14
    named = re.findall(r"\b1\d{4}\b", (PROJECT / "docker" / "compose.yaml").read_text())
    assert {int(port) for port in named} == {*ports} - {spark + 2}  # a range is named by its ends


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_everything_listens_on_the_loopback_and_no_secret_stands_in_the_file(service: str) -> None:
    part = SERVICES[service]
    assert (part["network_mode"], part["pid"]) == ("host", "host")
    assert "ports" not in part
    assert "0.0.0.0" not in str(part)
    assert list(part["environment"]) == ["WINDROW_UMASK"]


def test_a_part_that_is_unknown_or_only_a_clusters_is_refused() -> None:
    for words in (["run", "store"], ["run", "--cluster", "zookeeper"], ["answers", "nothing"]):
        done = subprocess.run([sys.executable, *RUN[1:3], *words], capture_output=True, text=True)
        assert (done.returncode, "foreground" in done.stderr) == (2, True)


def test_a_part_that_does_not_run_does_not_answer(places: Places) -> None:
    environ = {"WINDROW_HOME": str(places.home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, *RUN[1:3], "answers", "kafka"], env=environ, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize(("variable", "mask"), [("", "0077"), ("WINDROW_UMASK=027 ", "0027")])
def test_containers_write_for_their_owner_only(variable: str, mask: str) -> None:
    [line] = re.findall(
        r'(?m)^ENTRYPOINT \["tini", "-s", "--", (.*)\]$', (PROJECT / "docker" / "Dockerfile").read_text()
    )
    entry = yaml.safe_load(f"[{line}]")
    command = f"{variable}{shlex.join([*entry, 'sh', '-c', 'umask'])}"
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.strip() == mask


def test_the_stage_of_the_jars_has_every_module_that_setting_up_imports(tmp_path: Path) -> None:
    before, _, _ = (PROJECT / "docker" / "Dockerfile").read_text().partition("-m windrow.platform setup")
    copied = re.findall(r"(?m)^COPY (spark_jobs/\S+) (spark_jobs/\S+)$", before)
    assert copied
    for pattern, target in copied:
        for source in PROJECT.glob(pattern):
            if source.is_dir():
                shutil.copytree(source, tmp_path / target)
            else:
                (tmp_path / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(source, tmp_path / target)
    # what is fetched is in the cache already
    done = subprocess.run(
        [sys.executable, "-m", "windrow.platform", "setup"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}/spark_jobs"},
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
