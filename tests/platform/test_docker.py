"""docker/compose.yaml, as far as it can be read without a container engine: ports, addresses, secrets."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import pytest
import yaml

from windrow.places import PROJECT, Places
from windrow.platform import airflow
from windrow.platform.processes import Address

COMPOSE = yaml.safe_load((PROJECT / "docker" / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def filled(value: Any) -> Any:
    """A value of the file as Compose reads it where no variable is set."""
    if isinstance(value, dict):
        return {name: filled(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner) for inner in value]
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) if isinstance(value, str) else value


def option(service: str, name: str) -> str:
    words = filled(SERVICES[service]["command"])
    return str(words[words.index(name) + 1])


def test_no_two_processes_want_the_same_port() -> None:
    kafka = Address.parse(Places.from_env({}).kafka).port
    ports = [airflow.PORT, airflow.PORT + 1, kafka, kafka + 1, int(option("spark-master", "--port"))]
    ports += [int(option(service, "--webui-port")) for service in ("spark-master", "spark-worker")]
    assert len(set(ports)) == len(ports) == 7


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_everything_listens_on_the_loopback_unless_it_is_told_otherwise(service: str) -> None:
    part = filled(SERVICES[service])
    assert part["network_mode"] == "host"
    assert "ports" not in part
    assert part["environment"]["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert part["environment"]["WINDROW_SPARK_MASTER"] == "spark://127.0.0.1:7077"
    if service.startswith("spark-"):
        assert option(service, "--host") == "127.0.0.1"
    assert Address.parse(Places.from_env(part["environment"]).kafka).host == "127.0.0.1"
    assert "0.0.0.0" not in str(part)


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_sparks_processes_share_a_secret_that_only_a_file_holds(service: str) -> None:
    part = filled(SERVICES[service])
    assert part["secrets"] == ["spark"]
    assert part["environment"]["WINDROW_SPARK_SECRETS"] == "/run/secrets/spark"
    if service.startswith("spark-"):
        assert option(service, "--properties-file") == "/run/secrets/spark"
    words = " ".join([*map(str, part.get("command", [])), *(f"{n}={v}" for n, v in part["environment"].items())])
    assert not re.search(r"(?i)(authenticate|password|token|key)\b|secret[^s/]", words), words


def test_the_secret_stays_out_of_repository_and_image() -> None:
    file = COMPOSE["secrets"]["spark"]["file"]
    assert COMPOSE["secrets"] == {"spark": {"file": file}}
    name = f"docker/{file.removeprefix('./')}"
    assert name in (PROJECT / ".gitignore").read_text().splitlines()
    assert name in (PROJECT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()


@pytest.mark.parametrize(("variable", "mask"), [("", "0077"), ("WINDROW_UMASK=027 ", "0027")])
def test_containers_write_for_their_owner_only(variable: str, mask: str) -> None:
    [line] = re.findall(r'(?m)^ENTRYPOINT \["tini", "--", (.*)\]$', (PROJECT / "docker" / "Dockerfile").read_text())
    entry = yaml.safe_load(f"[{line}]")
    command = f"{variable}{shlex.join([*entry, 'sh', '-c', 'umask'])}"
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.strip() == mask
