"""A real Airflow on this machine: two API servers, scheduler, DAG processor and triggerer, a process each.

People and tasks have an API server each. Airflow's routes for people write from the event loop: where one waited
there for SQLite's lock, and a task's request of the same process held it, neither would ever go on.

    <home>/platform/airflow/        AIRFLOW_HOME: airflow.cfg, metadata database, all logs
    …/secrets.json                  keys, made once; readable by the owner only
    …/passwords.json                the generated password of `admin`; readable by the owner only

The configuration stands in `airflow.cfg`, so that `AIRFLOW_HOME=… airflow …` by hand meets the same Airflow.
"""

from __future__ import annotations

import configparser
import json
import os
import secrets
import sqlite3
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from windrow.places import Places
from windrow.platform import jars
from windrow.platform.airflow_api import AirflowApi, AirflowDoesNotAnswer, AirflowRefused
from windrow.platform.conditions import DidNotStart
from windrow.platform.processes import Address, Background, require_port

PORT = 18080
PATIENCE = timedelta(seconds=420)
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "execution-api": ("api-server", "--apps", "execution"),
    "api-server": ("api-server", "--apps", "core"),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
"""Task logs are read from this disk, so nobody needs to serve them over two more ports."""
CONNECTION = "AIRFLOW_CONN_WINDROW_SPARK"
"""Made of WINDROW_SPARK_MASTER; one that is set already stands: it may say more."""


def port_of(environ: Mapping[str, str]) -> int:
    """WINDROW_AIRFLOW_PORT, or the default."""
    text = environ.get("WINDROW_AIRFLOW_PORT") or str(PORT)
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"WINDROW_AIRFLOW_PORT={text!r} is not a port")
    return int(text)


@dataclass(frozen=True)
class Login:
    """How a person gets in."""

    address: str
    user: str
    password: str
    password_file: Path


ADMIN: Mapping[str, str] = {"admin": "admin"}


class Airflow:
    """The Airflow of a home folder. `environ` is what its processes and their tasks inherit.

    `users`: who may sign in, by name, with their role. `dags`: a folder of your own beside this project's.
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

    @property
    def url(self) -> str:
        """Address for the browser."""
        return f"http://{self.address}"

    def start(self) -> None:
        """Start what does not run, and wait until every component is healthy.

        Raises:
            PortTaken, JavaMissing, DidNotStart: with the next move.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            self._start()
        self.wait_healthy()

    def stop(self) -> bool:
        """Stop all of it, running tasks included; True if anything ran. Nothing is lost: tasks run again."""
        others = [process for name, process in self.processes.items() if name != "scheduler"]
        # The scheduler first: a task that ends in time still reports to the API server; the others are killed
        # before they can report a failure, and the next scheduler starts them again without using up a retry.
        scheduler = self.processes["scheduler"]
        stopped = [scheduler.stop(timedelta(seconds=15), kill_children_after=timedelta(seconds=5))]
        with ThreadPoolExecutor(len(others)) as pool:
            stopped += pool.map(lambda process: process.stop(timedelta(seconds=10)), others)
        return any(stopped)

    def is_up(self) -> bool:
        """Whether every component says that it is healthy."""
        if any(process.process() is None for process in self.processes.values()):
            return False
        return not self.unhealthy()

    def unhealthy(self) -> tuple[str, ...]:
        """Names of the components that do not report health; only "api-server" when that does not answer.

        A heartbeat counts from the start of the present process on: after a crash the database still
        praises the dead one for a while.
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
        """Wait for every component.

        Raises:
            DidNotStart: names the component and shows the end of its log.
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
        """REST client, logged in on its first call that needs it."""
        return AirflowApi(self.url, self._passwords)

    def environment(self) -> dict[str, str]:
        """What Airflow's processes, and `airflow` run by hand, need around them."""
        places = self.places
        usual = Places.from_env({"WINDROW_HOME": str(places.home)}).pipelines
        variables = {name: value for name, value in self._inherited.items() if not name.startswith("AIRFLOW__")}
        variables |= jars.environment(places)
        variables.setdefault(CONNECTION, json.dumps({"conn_type": "spark", "host": places.spark_master}))
        variables |= {
            "AIRFLOW_HOME": str(self.folder),
            "WINDROW_HOME": str(places.home),
            "WINDROW_CACHE": str(places.cache),
            "WINDROW_KAFKA": places.kafka,
            "WINDROW_SPARK_MASTER": places.spark_master,
            "WINDROW_PIPELINES": ":".join(str(path) for path in places.pipelines if path not in usual),
            "WINDROW_AIRFLOW_PORT": str(self.address.port),
            "PATH": os.pathsep.join([str(_bin()), self._inherited.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(
                [str(places.project / "spark_jobs"), str(places.project / "plugins")]
                + [path for path in (self._inherited.get("PYTHONPATH") or "").split(os.pathsep) if path]
            ),
            "PYTHONUNBUFFERED": "1",
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
        return self.folder / "passwords.json"

    def _start(self) -> None:
        missing = [name for name, process in self.processes.items() if process.process() is None]
        if "api-server" in missing:
            self.processes["api-server"].stop()
            require_port(self.address, "Airflow", "WINDROW_AIRFLOW_PORT")
        if "execution-api" in missing:
            self.processes["execution-api"].stop()
            require_port(self._execution, "Airflow's tasks", "WINDROW_AIRFLOW_PORT (the port after it counts)")
        if not missing:
            return
        self._configure()
        self._prepare_database()
        environ = self.environment()
        for name in sorted(missing, key=lambda name: name == "scheduler"):
            if name == "scheduler":
                # It starts what the last one left unfinished, and such a task fails when it finds no API server.
                self._wait_for_api()
            own = ["--port", str(self._execution.port)] if name == "execution-api" else []
            self.processes[name].start([_bin() / "airflow", *COMPONENTS[name], *own], environ, self.folder)

    def _configure(self) -> None:
        keys = _once(self.folder / "secrets.json", _new_keys)
        _once(self._passwords, lambda: {user: secrets.token_urlsafe(12) for user in self.users})
        parser = configparser.RawConfigParser()
        parser.read_dict(self._settings(keys))
        file = self.folder / "airflow.cfg"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as target:
            parser.write(target)

    def _settings(self, keys: Mapping[str, str]) -> dict[str, dict[str, str]]:
        project = self.places.project
        return {
            "core": {
                "dags_folder": str(project / "dags"),
                "plugins_folder": str(project / "plugins"),
                "load_examples": "False",
                "executor": "LocalExecutor",
                "parallelism": "6",
                "default_timezone": "utc",
                "fernet_key": keys["fernet_key"],
                "execution_api_server_url": f"http://{self._execution}/execution/",
                "hostname_callable": "socket.gethostname",
                "simple_auth_manager_users": ",".join(f"{user}:{role}" for user, role in self.users.items()),
                "simple_auth_manager_passwords_file": str(self._passwords),
            },
            "database": {
                "sql_alchemy_conn": f"sqlite:///{self._database}",
                "sql_alchemy_connect_args": "windrow.platform.sqlite.CONNECT_ARGS",
                "sql_alchemy_connect_args_async": "windrow.platform.sqlite.CONNECT_ARGS",
            },
            "logging": {
                "base_log_folder": str(self.folder / "logs"),
                "dag_processor_child_process_log_directory": str(self.folder / "logs" / "dag_processor"),
                "colored_console_log": "False",
            },
            "api": {
                "host": self.address.host,
                "port": str(self.address.port),
                "base_url": self.url,
                "workers": "1",
                "secret_key": keys["secret_key"],
            },
            "api_auth": {"jwt_secret": keys["jwt_secret"], "jwt_issuer": "windrow"},
            "scheduler": {
                "scheduler_heartbeat_sec": "2",
                "task_instance_heartbeat_timeout": "120",
                "catchup_by_default": "False",
            },
            "dag_processor": {
                "parsing_processes": "1",
                "min_file_process_interval": "30",
                "refresh_interval": "30",
                "bundle_refresh_check_interval": "5",
                "dag_bundle_config_list": json.dumps(self._bundles()),
            },
            "triggerer": {"capacity": "200"},
        }

    def _bundles(self) -> list[dict[str, Any]]:
        """Where DAG files are: this project's folder is named as Airflow names the only one."""
        folders = {"dags-folder": self.places.project / "dags", **({"own-dags": self.dags} if self.dags else {})}
        kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
        return [{"name": name, "classpath": kind, "kwargs": {"path": str(path)}} for name, path in folders.items()]

    @property
    def _database(self) -> Path:
        return self.folder / "airflow.db"

    def _prepare_database(self) -> None:
        """Make or migrate it once per Airflow version; readers do not block writers (WAL)."""
        stamp = self.folder / "database.version"
        if self._database.exists() and stamp.exists() and stamp.read_text() == version("apache-airflow"):
            return
        done = self.run("db", "migrate")
        if done.returncode != 0:
            raise DidNotStart(
                f"Airflow's database could not be prepared:\n{(done.stderr or done.stdout).strip()[-1500:]}",
                f"is there room in {self.folder}, and was it made by this or an older Airflow?",
            )
        with closing(sqlite3.connect(self._database)) as database:
            database.execute("PRAGMA journal_mode=WAL")
        self._database.chmod(0o600)
        stamp.write_text(version("apache-airflow"))


def _bin() -> Path:
    """Folder of this environment's commands."""
    return Path(sys.executable).parent


def _new_keys() -> dict[str, str]:
    return {
        "fernet_key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "jwt_secret": secrets.token_urlsafe(64),
        "secret_key": secrets.token_urlsafe(32),
    }


def _once(file: Path, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Read the file; the first time, make it, readable by its owner only from the first byte on."""
    if not file.exists():
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            json.dump(make(), target)
        beside.replace(file)
    return dict(json.loads(file.read_text()))
