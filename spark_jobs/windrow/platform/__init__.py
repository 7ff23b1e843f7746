"""The local platform: a real Kafka, a real Airflow, a warm engine and, on request, an object store or a whole cluster.

It needs Java and Python.

`up` starts what is not running and waits until it answers; `down` stops every process and keeps all data. Everything is
under `<home>/platform`, so that two homes with different ports do not interfere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from windrow.places import Places
from windrow.platform import engine, jars, jobs_side
from windrow.platform.conditions import (
    DidNotStart,
    JarsMissing,
    JavaMissing,
    NoRoom,
    OtherPlatform,
    PlatformNotReady,
    PortTaken,
    ServerMissing,
)
from windrow.platform.disk import require_room
from windrow.platform.processes import Background
from windrow.platform.servers import cluster
from windrow.platform.servers.airflow import Airflow, Login
from windrow.platform.servers.airflow_api import AirflowApi, AirflowDoesNotAnswer, AirflowRefused
from windrow.platform.servers.broker import Broker
from windrow.platform.servers.engine import Engine
from windrow.platform.servers.postgres import Postgres
from windrow.platform.servers.registry import Registry
from windrow.platform.servers.spark_cluster import SparkCluster
from windrow.platform.servers.store import Store

__all__ = [
    "CLUSTER_PARTS",
    "PARTS",
    "Airflow",
    "AirflowApi",
    "AirflowDoesNotAnswer",
    "AirflowRefused",
    "Broker",
    "DidNotStart",
    "Engine",
    "JarsMissing",
    "JavaMissing",
    "Login",
    "NoRoom",
    "OtherPlatform",
    "Part",
    "PlatformNotReady",
    "PortTaken",
    "Postgres",
    "Registry",
    "ServerMissing",
    "SparkCluster",
    "Store",
    "cluster",
    "down",
    "setup",
    "status",
    "up",
]

PARTS = ("kafka", "engine", "airflow")
"""Parts that every local platform has; `store` and `registry` are further ones."""
CLUSTER_PARTS = ("store", "postgres", "kafka", "spark", "airflow")
"""Parts of a cluster, in the order in which they start."""
_HOME_BYTES = 1024 * 2**20


@dataclass(frozen=True)
class Part:
    """One process of the platform as `windrow status` shows it."""

    name: str
    state: str
    """running (it answers), starting (the process runs but does not answer yet), stopped, elsewhere."""
    pid: int | None
    address: str
    uptime: timedelta | None
    log: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `--json`; uptime in seconds."""
        return {**asdict(self), "uptime": self.uptime.total_seconds() if self.uptime else None}


def setup(places: Places, sets: Collection[str] = (), report: jars.Progress = print) -> None:
    """Fetch jars, write the Spark configuration, and make the class-data archive. Idempotent.

    Args:
        sets: sets of jars besides those that every installation needs (`jars.SETS`).

    Raises:
        JavaMissing, NoRoom, JarsMissing: the message says what to do.
    """
    jars.ensure(places, report, also=sets)
    jars.warm_up(places, report)


def up(places: Places, report: jars.Progress = print, only: Collection[str] = PARTS) -> None:
    """Fetch what is missing, start what is not running, and wait until it answers. Idempotent.

    Args:
        report: gets progress lines for people.
        only: the parts to start.

    Raises:
        PlatformNotReady: something is missing; the message says what to do.
    """
    require_room(places.home, _HOME_BYTES, "WINDROW_HOME")
    also = [*(["s3", "store"] if "store" in only else []), *(["registry"] if "registry" in only else [])]
    jars.ensure(places, report, also=[*also, *(["postgres"] if places.postgres and "airflow" in only else [])])
    if "store" in only:
        store = Store(places)
        if not store.is_up():
            report(f"Starting an object store on {store.address} …")
        store.start()
        env = cluster.env_file(places.home) if cluster.is_in(places.home) else store.env
        report(f"The object store answers; `source {env}` puts the tables there, for this shell's commands")
    if "registry" in only:
        registry = Registry(places)
        if not registry.is_up():
            report(f"Starting a schema registry on {registry.address} …")
        registry.start()
        report(f"The schema registry answers; for this shell's commands: export WINDROW_REGISTRY={registry.url}")
    if "postgres" in only:
        postgres = Postgres(places)
        if not postgres.process.process():
            report(f"Starting PostgreSQL on {postgres.address} …")
        postgres.start()
        report(f"PostgreSQL answers on {postgres.address}")
    if "kafka" in only:
        broker = Broker(places)
        if not broker.is_up():
            report(f"Starting the Kafka broker on {places.kafka} …")
        broker.start()
        report(f"Kafka answers on {places.kafka}")
    if "spark" in only:
        spark = SparkCluster(places, Store(places).environment())
        if not spark.is_up():
            report(f"Starting Spark's master and workers on {spark.address} …")
        spark.start()
        report(f"Spark answers on {places.spark_master}, its page on http://{spark.page('spark-master')}")
    if "engine" in only and _has_engine(places):
        warm = Engine(places)
        if not warm.process.process():
            report("Starting an engine; until it answers, jobs start a Spark each")
        warm.start(jobs_side.of(places), engine_environment(places))
    if "airflow" in only:
        airflow = Airflow(places)
        if not airflow.is_up():
            report(f"Starting Airflow on {airflow.url} (up to a minute; the first time it creates its database) …")
        airflow.start()
        report(f"Airflow answers on {airflow.url} (user admin, password in {airflow.login.password_file})")


def _has_engine(places: Places) -> bool:
    """Whether this home is to have an engine: on Linux, with Spark in one process, unless WINDROW_ENGINE says `off`."""
    is_possible = sys.platform == "linux" and places.spark_master.startswith("local")
    return is_possible and engine.wanted(os.environ) is not engine.Wanted.OFF


def engine_environment(places: Places, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment of the engine: what tasks of an Airflow with this environment give their jobs."""
    inherited, side = Airflow(places, environ).environment(), jobs_side.of(places)
    return {**inherited, **side.environment(places, inherited), **side.spark_environment}


def down(places: Places, report: jars.Progress = print, only: Collection[str] = PARTS) -> None:
    """Stop every process of this home's platform; records, tables, runs and logs are kept."""
    if "airflow" in only:
        report("Airflow stopped" if Airflow(places).stop() else "Airflow was not running")
    if "engine" in only:
        report("The engine stopped" if Engine(places).stop() else "The engine was not running")
    if "spark" in only:
        report("Spark stopped" if SparkCluster(places, {}).stop() else "Spark was not running")
    if "kafka" in only:
        report("Kafka stopped" if Broker(places).stop() else "Kafka was not running")
    if "postgres" in only:
        report("PostgreSQL stopped" if Postgres(places).stop() else "PostgreSQL was not running")
    if "store" in only and Store(places).env.exists():
        report("The object store stopped" if Store(places).stop() else "The object store was not running")
    if "registry" in only and Registry(places).folder.exists():
        report("The schema registry stopped" if Registry(places).stop() else "The schema registry was not running")


def status(places: Places) -> list[Part]:
    """The state of every part."""
    broker, airflow = Broker(places), Airflow(places)
    unhealthy = airflow.unhealthy() if airflow.processes["api-server"].process() else ("api-server",)
    names = ["kafka"] if len(broker.nodes) == 1 else [f"kafka {node.number}" for node in broker.nodes]
    parts = [
        _part(name, node.process, str(node.address), broker.answers(node))
        for name, node in zip(names, broker.nodes, strict=True)
    ]
    if not broker.is_ours:
        refusal = broker.refusal()
        found = "elsewhere" if broker.is_up() else "elsewhere, does not answer"
        state = f"elsewhere, refused: {type(refusal).__name__}" if refusal else found
        parts = [Part("kafka", state, None, places.kafka, None, "")]
    store = Store(places)
    if store.env.exists() or cluster.is_in(places.home):
        parts.append(_part("store", store.process, str(store.address), store.is_up()))
    registry = Registry(places)
    if registry.folder.exists():
        parts.append(_part("registry", registry.process, str(registry.address), registry.is_up()))
    if cluster.is_in(places.home):
        parts += _cluster_parts(places)
    warm = Engine(places)
    if warm.process.process() or warm.process.pid_file.exists():
        parts.append(_part("engine", warm.process, "", warm.is_up()))
    for name, process in airflow.processes.items():
        answers = "api-server" not in unhealthy and name not in unhealthy
        address = airflow.url if name == "api-server" else ""
        parts.append(_part(f"airflow {name}", process, address, answers))
    return parts


def _cluster_parts(places: Places) -> list[Part]:
    postgres, spark = Postgres(places), SparkCluster(places, {})
    found = [_part("postgres", postgres.process, str(postgres.address), postgres.is_up())]
    for name, process in spark.processes.items():
        address = places.spark_master if name == "spark-master" else f"http://{spark.page(name)}"
        found.append(_part(name, process, address, spark.answers(name)))
    return found


def environment(places: Places) -> dict[str, str]:
    """os.environ with the variables that every process of the platform gets."""
    return Airflow(places, os.environ).environment()


def _part(name: str, process: Background, address: str, answers: bool) -> Part:
    running = process.process()
    state = "stopped" if running is None else "running" if answers else "starting"
    return Part(name, state, running.pid if running else None, address, process.uptime(), str(process.log))
