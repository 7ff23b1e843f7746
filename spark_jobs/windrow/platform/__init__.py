"""The local platform: a real Kafka broker, a real Airflow and, on request, an object store. It needs Java and Python.

`up` starts what is not running and waits until it answers; `down` stops every process and keeps all data. Everything is
under `<home>/platform`, so that two homes with different ports do not interfere.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from windrow.places import Places
from windrow.platform import jars
from windrow.platform.airflow import Airflow, Login
from windrow.platform.airflow_api import AirflowApi, AirflowDoesNotAnswer, AirflowRefused
from windrow.platform.broker import Broker
from windrow.platform.conditions import (
    DidNotStart,
    DiskFull,
    JarsMissing,
    JavaMissing,
    PlatformNotReady,
    PortTaken,
)
from windrow.platform.disk import require_room
from windrow.platform.processes import Background
from windrow.platform.store import Store

__all__ = [
    "PARTS",
    "Airflow",
    "AirflowApi",
    "AirflowDoesNotAnswer",
    "AirflowRefused",
    "Broker",
    "DidNotStart",
    "DiskFull",
    "JarsMissing",
    "JavaMissing",
    "Login",
    "Part",
    "PlatformNotReady",
    "PortTaken",
    "Store",
    "down",
    "setup",
    "status",
    "up",
]

PARTS = ("kafka", "airflow")
"""Parts that every local platform has; `store` is the third."""
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
        """As plain values for `--json`; uptime in seconds."""
        return {**asdict(self), "uptime": self.uptime.total_seconds() if self.uptime else None}


def setup(places: Places, sets: Collection[str] = (), report: jars.Progress = print) -> None:
    """Fetch jars, write the Spark configuration, and make the class-data archive. Idempotent.

    Args:
        sets: sets of jars besides those that every installation needs (`jars.SETS`).

    Raises:
        JavaMissing, DiskFull, JarsMissing: the message says what to do.
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
    jars.ensure(places, report, also=["s3", "store"] if "store" in only else [])
    if "store" in only:
        store = Store(places)
        if not store.is_up():
            report(f"Starting an object store on {store.address} …")
        store.start()
        report(f"The object store answers; `source {store.env}` puts the tables there, for this shell's commands")
    if "kafka" in only:
        broker = Broker(places)
        if not broker.is_up():
            report(f"Starting the Kafka broker on {broker.address} …")
        broker.start()
        report(f"Kafka answers on {places.kafka}")
    if "airflow" in only:
        airflow = Airflow(places)
        if not airflow.is_up():
            report(f"Starting Airflow on {airflow.url} (up to a minute; the first time it creates its database) …")
        airflow.start()
        report(f"Airflow answers on {airflow.url} (user admin, password in {airflow.login.password_file})")


def down(places: Places, report: jars.Progress = print, only: Collection[str] = PARTS) -> None:
    """Stop every process of this home's platform; records, tables, runs and logs are kept."""
    if "airflow" in only:
        report("Airflow stopped" if Airflow(places).stop() else "Airflow was not running")
    if "kafka" in only:
        report("Kafka stopped" if Broker(places).stop() else "Kafka was not running")
    if Store(places).stop():
        report("The object store stopped")


def status(places: Places) -> list[Part]:
    """The state of every part."""
    broker, airflow = Broker(places), Airflow(places)
    unhealthy = airflow.unhealthy() if airflow.processes["api-server"].process() else ("api-server",)
    parts = [_part("kafka", broker.process, places.kafka, broker.is_up())]
    if not broker.is_ours:
        state = "elsewhere" if broker.is_up() else "elsewhere, does not answer"
        parts = [Part("kafka", state, None, places.kafka, None, "")]
    store = Store(places)
    if store.env.exists():
        parts.append(_part("store", store.process, str(store.address), store.is_up()))
    for name, process in airflow.processes.items():
        answers = "api-server" not in unhealthy and name not in unhealthy
        address = airflow.url if name == "api-server" else ""
        parts.append(_part(f"airflow {name}", process, address, answers))
    return parts


def environment(places: Places) -> dict[str, str]:
    """os.environ with the variables that every process of the platform gets."""
    return Airflow(places, os.environ).environment()


def _part(name: str, process: Background, address: str, answers: bool) -> Part:
    running = process.process()
    state = "stopped" if running is None else "running" if answers else "starting"
    return Part(name, state, running.pid if running else None, address, process.uptime(), str(process.log))
