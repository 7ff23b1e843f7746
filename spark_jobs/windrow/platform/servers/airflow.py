"""A real Airflow on this machine: two API servers, scheduler, DAG processor and triggerer, a process each.

People and tasks have separate API servers. Airflow's routes for people write from the event loop: if such a write
waited for SQLite's lock while a task's request of the same process held it, both would wait for ever.

    <home>/platform/airflow/        AIRFLOW_HOME: airflow.cfg, metadata database, all logs
    …/secrets.json                  keys, generated once; readable by the owner only
    …/passwords.json                the generated password of `admin`; readable by the owner only
    …/tables                        where its tasks keep the tables, since its last start

With WINDROW_POSTGRES the metadata database is the PostgreSQL there (`postgres`), and nothing waits for a lock.

The configuration is in `airflow.cfg` (`airflow_config`), so that `AIRFLOW_HOME=… airflow …` by hand uses the same
Airflow.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock

from windrow.files import write_whole
from windrow.places import Places, umask_of
from windrow.platform import jars
from windrow.platform.conditions import DidNotStart, OtherPlatform
from windrow.platform.processes import Address, Background, require_port
from windrow.platform.servers import airflow_config
from windrow.platform.servers.airflow_api import AirflowApi, AirflowDoesNotAnswer, AirflowRefused
from windrow.platform.servers.postgres import Postgres
from windrow.platform.servers.store import Store
from windrow.text import without_login

PORT = 18080
PATIENCE = timedelta(seconds=420)
"""How long a component may take to become healthy."""
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "execution-api": ("api-server", "--apps", "execution"),
    "api-server": ("api-server", "--apps", "core"),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
"""The processes. Logs are read from this disk, so `--skip-serve-logs` saves two ports."""
CONNECTION = "AIRFLOW_CONN_WINDROW_SPARK"
"""The Spark connection, made from WINDROW_SPARK_MASTER unless the environment has one."""


def port_of(environ: Mapping[str, str]) -> int:
    """Port of the API server: WINDROW_AIRFLOW_PORT, or the default.

    Raises:
        ValueError: the variable is not a port number.
    """
    text = environ.get("WINDROW_AIRFLOW_PORT") or str(PORT)
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"WINDROW_AIRFLOW_PORT={text!r} is not a port")
    return int(text)


@dataclass(frozen=True)
class Login:
    """How a person signs in."""

    address: str
    user: str
    password: str
    password_file: Path


ADMIN: Mapping[str, str] = {"admin": "admin"}


class Airflow:
    """The Airflow of a home folder.

    Args:
        environ: inherited by its processes and their tasks; default: os.environ.
        users: who may sign in: role by name.
        dags: a folder of DAG files in addition to the project's.
    """

    def __init__(
        self,
        places: Places,
        environ: Mapping[str, str] | None = None,
        users: Mapping[str, str] = ADMIN,
        dags: Path | None = None,
    ) -> None:
        self.places = places
        self.users = dict(users)
        self.dags = dags
        self._inherited = dict(os.environ if environ is None else environ)
        self.address = Address("127.0.0.1", port_of(self._inherited))
        self._execution = Address("127.0.0.1", self.address.port + 1)
        self.folder = places.home / "platform" / "airflow"
        self.processes = {name: Background(self.folder, name) for name in COMPONENTS}
        self._postgres = Postgres(places) if places.postgres else None

    @property
    def url(self) -> str:
        """Address in a browser."""
        return f"http://{self.address}"

    def start(self) -> None:
        """Start what is not running, and wait until every component is healthy.

        Raises:
            OtherPlatform: the home's Airflow has its state elsewhere, or runs with other tables.
            PortTaken, JavaMissing, DidNotStart: the message says what to do.
        """
        self.require_own_data()
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            self._start()
        self.wait_healthy()

    def require_own_data(self) -> None:
        """Check that the home's Airflow, if it has run, has its state and its tables where this one looks for them.

        A stopped Airflow may get other tables, where WINDROW_TABLES says so; one that runs is never moved.

        Raises:
            OtherPlatform: it has not; the message says how to go on.
        """
        is_cluster = self.places.cluster_env.exists()
        if self._postgres and self._database.exists():
            raise OtherPlatform(
                f"The state of this home's Airflow is in {self._database}, and not in the PostgreSQL at "
                f"{self.places.postgres}.",
                "unset WINDROW_POSTGRES; or name another folder: WINDROW_HOME=<folder>.",
            )
        if is_cluster and not self._postgres:
            raise OtherPlatform(
                f"{self.places.home} is a cluster's home, with Airflow's state in a PostgreSQL.",
                f"`source {self.places.cluster_env}`, and run it again.",
            )
        kept = self.kept
        if kept in (None, self.location):
            return
        if any(process.process() for process in self.processes.values()):
            raise OtherPlatform(
                f"The Airflow that runs keeps its tables in {kept}, and not in {self.location}.",
                "go on there, by the same WINDROW_TABLES (and AWS_ENDPOINT_URL); or move it: `windrow down`, then this "
                "command again. Tables stay where they are.",
            )
        if self.places.tables is None:
            raise OtherPlatform(
                f"This home's Airflow kept its tables in {kept}, and WINDROW_TABLES is not set.",
                "set it (for a store AWS_ENDPOINT_URL and the credentials too) to go on there, or to "
                f"{self.places.home / 'tables'} for tables here; `windrow up` alone goes on in the home's own store.",
            )

    @property
    def has_run(self) -> bool:
        """Whether it has a database in the home."""
        return self._database.exists()

    @property
    def location(self) -> str:
        """Where its tasks keep the tables, so that two texts are the same exactly where the tables are."""
        return self._location_of(self.places, self._inherited)

    def _location_of(self, places: Places, environ: Mapping[str, str]) -> str:
        """A folder, or a prefix with the address of its store; the home's own store may have another address later."""
        if not places.are_in_store:
            return os.path.realpath(places.tables or places.home / "tables")
        endpoint, own = (environ.get("AWS_ENDPOINT_URL") or "").rstrip("/"), Store(self.places)
        if own.is_at(endpoint):
            return own.location(str(places.tables))
        return f"{places.tables} at {without_login(endpoint)}" if endpoint else str(places.tables)

    @property
    def kept(self) -> str | None:
        """The location since its last start; None if it has not started, or by a release that did not note it."""
        if (kept := self.places.kept_tables) is not None:
            return kept
        running = next((one for process in self.processes.values() if (one := process.process())), None)
        if running is None:
            return None
        try:
            environ = running.environ()
        except psutil.Error:
            return None
        tables = environ.get("WINDROW_TABLES") or ""
        places = Places.from_env({"WINDROW_HOME": str(self.places.home), "WINDROW_TABLES": tables})
        return self._location_of(places, environ)

    def _keep_location(self) -> None:
        self.places.keep_tables(self.location)

    def stop(self) -> bool:
        """Stop everything, running tasks included; return whether anything ran. Interrupted tasks run again."""
        others = [process for name, process in self.processes.items() if name != "scheduler"]
        # The scheduler first: a task that ends in time can still report to the API server. The others are killed before
        # they can report a failure, so that the next scheduler starts them again without using up a retry.
        scheduler = self.processes["scheduler"]
        stopped = [scheduler.stop(timedelta(seconds=15), kill_children_after=timedelta(seconds=5))]
        with ThreadPoolExecutor(len(others)) as pool:
            stopped += pool.map(lambda process: process.stop(timedelta(seconds=10)), others)
        return any(stopped)

    def is_up(self) -> bool:
        """Whether every component is healthy."""
        if any(process.process() is None for process in self.processes.values()):
            return False
        return not self.unhealthy()

    def unhealthy(self) -> tuple[str, ...]:
        """Names of the unhealthy components; only "api-server" if that does not answer.

        A heartbeat counts only from the start of the present process on: after a crash the database still has those of
        the dead process.
        """
        try:
            health = self.api.health()
        except (AirflowDoesNotAnswer, AirflowRefused):
            return ("api-server",)
        jobs = [name for name in COMPONENTS if name not in ("api-server", "execution-api")]
        sick = [name for name in jobs if not self._is_healthy(name, health)]
        if not AirflowApi(f"http://{self._execution}", self._passwords).serves_tasks():
            sick.append("execution-api")
        return tuple(sick)

    def _is_healthy(self, name: str, health: Mapping[str, Any]) -> bool:
        part = name.replace("-", "_")
        reported = health.get(part) or {}
        beat = reported.get(f"latest_{part}_heartbeat")
        uptime = self.processes[name].uptime()
        if reported.get("status") != "healthy" or beat is None or uptime is None:
            return False
        return datetime.fromisoformat(beat) >= datetime.now(UTC) - uptime

    def wait_healthy(self, patience: timedelta = PATIENCE) -> None:
        """Wait until every component is healthy.

        Raises:
            DidNotStart: the message names the component and shows the end of its log.
        """
        self._wait_for_api(patience)
        for name, process in self.processes.items():
            process.wait(partial(self._reports, name), patience, self._hint)

    @property
    def _hint(self) -> str:
        return f"read {self.folder}/*.log, then run it again."

    def _wait_for_api(self, patience: timedelta = PATIENCE) -> None:
        for name in ("api-server", "execution-api"):
            self.processes[name].wait(partial(self._reports, name), patience, self._hint)

    def _reports(self, name: str) -> bool:
        return name not in self.unhealthy()

    @property
    def login(self) -> Login:
        """Address, user and generated password."""
        password = json.loads(self._passwords.read_text())["admin"]
        return Login(self.url, "admin", password, self._passwords)

    @property
    def api(self) -> AirflowApi:
        """REST client; it signs in on the first call that needs it."""
        return AirflowApi(self.url, self._passwords)

    def environment(self) -> dict[str, str]:
        """Environment of Airflow's processes and of `airflow` run by hand."""
        places = self.places
        usual = Places.from_env({"WINDROW_HOME": str(places.home)}).pipelines
        variables = {name: value for name, value in self._inherited.items() if not name.startswith("AIRFLOW__")}
        variables |= jars.environment(places)
        variables.setdefault(CONNECTION, json.dumps({"conn_type": "spark", "host": places.spark_master}))
        variables |= {
            "AIRFLOW_HOME": str(self.folder),
            "WINDROW_HOME": str(places.home),
            "WINDROW_TABLES": places.tables or "",
            "WINDROW_CACHE": str(places.cache),
            "WINDROW_KAFKA": places.kafka,
            "WINDROW_KAFKA_CLIENT": str(places.kafka_client or ""),
            "WINDROW_DECODE_CAREFULLY": "1" if places.decode_carefully else "",
            "WINDROW_STORE": places.store,
            "WINDROW_POSTGRES": places.postgres or "",
            "WINDROW_REGISTRY": " ".join(f"{name}={address}" for name, address in places.registries),
            "WINDROW_REGISTRY_CLIENT": str(places.registry_client or ""),
            "WINDROW_SPARK_MASTER": places.spark_master,
            "WINDROW_SPARK_SECRETS": str(places.spark_secrets or ""),
            "WINDROW_NOTIFIERS": str(places.notifiers or ""),
            "WINDROW_PIPELINES": ":".join(str(path) for path in places.pipelines if path not in usual),
            "WINDROW_AIRFLOW_PORT": str(self.address.port),
            "PATH": os.pathsep.join([str(_bin()), self._inherited.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(
                [str(places.project / "spark_jobs"), str(places.project / "plugins")]
                + [path for path in (self._inherited.get("PYTHONPATH") or "").split(os.pathsep) if path]
            ),
            "PYTHONUNBUFFERED": "1",
            "SPT_NOENV": "1",  # a process that shows another title keeps its environment, by which orphans are known
            "no_proxy": ",".join(filter(None, [self._inherited.get("no_proxy"), "127.0.0.1,localhost"])),
            "NO_PROXY": ",".join(filter(None, [self._inherited.get("NO_PROXY"), "127.0.0.1,localhost"])),
        }
        return variables

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the `airflow` command against this Airflow, for example `run("backfill", "create", …)`."""
        return subprocess.run(
            [str(_bin() / "airflow"), *words],
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def _passwords(self) -> Path:
        return self.folder / airflow_config.PASSWORDS

    def _start(self) -> None:
        self._keep_location()
        missing = [name for name, process in self.processes.items() if process.process() is None]
        if "api-server" in missing:
            self.processes["api-server"].stop()
            require_port(self.address, "Airflow", "WINDROW_AIRFLOW_PORT")
        if "execution-api" in missing:
            self.processes["execution-api"].stop()
            require_port(self._execution, "Airflow's tasks", "WINDROW_AIRFLOW_PORT (the port after it counts)")
        if not missing:
            return
        if self._postgres:
            self._postgres.start()
        self._write_configuration()
        self._prepare_database()
        environ = self.environment()
        for name in sorted(missing, key=lambda name: name == "scheduler"):
            if name == "scheduler":
                # It resumes tasks of the previous scheduler at once, and they fail without an API server.
                self._wait_for_api()
            own = ["--port", str(self._execution.port)] if name == "execution-api" else []
            self.processes[name].start([_bin() / "airflow", *COMPONENTS[name], *own], environ, self.folder)

    def _write_configuration(self) -> None:
        airflow_config.write(
            self.places.project,
            self.folder,
            self.address,
            self._execution,
            self.users,
            self.dags,
            umask_of(self._inherited),
            _section(self._postgres) if self._postgres else None,
        )

    @property
    def _database(self) -> Path:
        return self.folder / airflow_config.DATABASE

    def _prepare_database(self) -> None:
        """Create or migrate it once per Airflow version. WAL: readers do not block writers."""
        stamp = self.folder / "database.version"
        made = version("apache-airflow") + (f" {self._postgres.made_at}" if self._postgres else "")
        if (self._postgres or self._database.exists()) and stamp.exists() and stamp.read_text() == made:
            return
        done = self.run("db", "migrate")
        if done.returncode != 0:
            raise DidNotStart(
                f"Airflow's database could not be prepared:\n{(done.stderr or done.stdout).strip()[-1500:]}",
                f"is there room in {self.folder}, and was it made by this or an older Airflow?",
            )
        if not self._postgres:
            with closing(sqlite3.connect(self._database)) as database:
                database.execute("PRAGMA journal_mode=WAL")
            self._database.chmod(0o600)
        write_whole(stamp, made)


def _section(postgres: Postgres) -> dict[str, str]:
    """The section `database` of airflow.cfg, with the password: only its owner may read the file."""
    return {"sql_alchemy_conn": postgres.url("psycopg2"), "sql_alchemy_conn_async": postgres.url("asyncpg")}


def _bin() -> Path:
    """Folder of the commands of this Python environment."""
    return Path(sys.executable).parent
