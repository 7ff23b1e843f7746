"""An Airflow and a Spark that were installed without us: fresh environments, their real processes, and what these run.

Environment    a virtual environment; pip works in it with the index that this machine is configured with
Spark          a standalone master and a worker, of the jobs' environment
Airflow        `airflow standalone`, of Airflow's environment, with the settings that a person would write
Watch          the command lines of all processes that these start, seen while they run
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import psutil

from windrow.platform.processes import MARK, Address, Background, free_port
from windrow.platform.servers.airflow_api import AirflowApi, AirflowDoesNotAnswer, AirflowRefused

OURS = ("PYTHON", "VIRTUAL_ENV", "UV_", "WINDROW_", "AIRFLOW", "SPARK_", "PYSPARK_", "AWS_")
"""Beginnings of variables that an installation must not inherit from the shell of the tests."""
WATCHED = ("pyspark", "great_expectations")
_OBSERVER = f"""
import os, sys, traceback
def _note(event, arguments):
    if event == "import" and arguments[0] in {WATCHED!r}:
        with open(os.environ["NOTED_IMPORTS"], "a") as file:
            file.write(f"{{arguments[0]}} in {{sys.argv}}:\\n{{''.join(traceback.format_stack())}}\\n")
if "NOTED_IMPORTS" in os.environ:
    sys.addaudithook(_note)
"""
START = timedelta(minutes=5)
"""How long a server may take to start on a busy machine."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment of the Python that runs the tests, which has nothing but pip at first."""

    folder: Path

    @classmethod
    def fresh(cls, folder: Path) -> Environment:
        base = getattr(sys, "_base_executable", sys.executable)
        _run([base, "-m", "venv", str(folder)], folder.parent)
        return cls(folder)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        (found,) = (self.folder / "lib").glob("python*/site-packages")
        return found

    def pip(self, *words: str) -> str:
        """Run pip, and return what it printed."""
        return _run([str(self.python), "-m", "pip", *words], self.folder)

    def freeze(self) -> set[str]:
        """Every installed package with its version, as pip writes it."""
        return set(self.pip("freeze").splitlines())

    def describe(self) -> str:
        """Number of packages, and size on the disk."""
        files = (file.lstat().st_size for file in self.folder.rglob("*"))
        return f"{len(self.freeze())} packages, {sum(files) / 1e6:,.0f} MB"

    def note_imports(self) -> None:
        """Have every process of the environment note imports of `WATCHED`, in the file that NOTED_IMPORTS names."""
        (self.packages / "noted_imports.py").write_text(_OBSERVER)
        (self.packages / "noted_imports.pth").write_text("import noted_imports\n")


def installing() -> dict[str, str]:
    """Environment variables for pip and for the set-up: those of this machine, without those of the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=installing(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} → {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Spark:
    """A master and one worker, which offers four cores; an application takes two."""

    def __init__(self, jobs: Environment, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        port = free_port(2)
        self.address, self._page = Address("127.0.0.1", port), Address("127.0.0.1", port + 1)
        self.master, self.worker = Background(folder, "spark-master"), Background(folder, "spark-worker")
        self._home = jobs.packages / "pyspark"
        self._environ = {
            **environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.deploy.defaultCores=2",
        }

    @property
    def url(self) -> str:
        return f"spark://{self.address}"

    def start(self) -> None:
        host = ["--host", "127.0.0.1", "--webui-port"]
        launch = str(self._home / "bin" / "spark-class")
        master = [launch, "org.apache.spark.deploy.master.Master", *host, str(self._page.port)]
        self.master.start([*master, "--port", str(self.address.port)], self._environ, self.folder)
        self.master.wait(lambda: self._workers() is not None, START, "its log is above")
        worker = [launch, "org.apache.spark.deploy.worker.Worker", *host, str(self._page.port + 1)]
        size = ["--cores", "4", "--memory", "4g", "--work-dir", str(self.folder / "work")]
        self.worker.start([*worker, *size, self.url], self._environ, self.folder)
        self.worker.wait(lambda: bool(self._workers()), START, "its log is above")

    def stop(self) -> None:
        self.worker.stop()
        self.master.stop()

    def _workers(self) -> int | None:
        """Number of workers that have joined; None while the master does not answer."""
        try:
            with build_opener(ProxyHandler({})).open(f"http://{self._page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):
            return None


class Airflow:
    """`airflow standalone`: scheduler, DAG processor, API server and triggerer on SQLite, as Airflow configures them.

    Only ports are named, because a default one may be taken, and the examples are left out.
    """

    def __init__(self, airflow: Environment, folder: Path, environ: Mapping[str, str]) -> None:
        self.home = folder / "airflow"
        self.process = Background(folder, "airflow-standalone")
        port, logs = free_port(), free_port()
        url = f"http://127.0.0.1:{port}"
        self.api = AirflowApi(url, self.home / "simple_auth_manager_passwords.json.generated")
        self._bin = airflow.folder / "bin"
        self._environ = {
            **environ,
            "PATH": os.pathsep.join([str(self._bin), environ["PATH"]]),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": url,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(logs),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(logs + 1),
            "SPT_NOENV": "1",  # processes that show another title keep their environment, by which they are stopped
            "no_proxy": "127.0.0.1,localhost",
        }

    def start(self) -> None:
        self.process.start([self._bin / "airflow", "standalone"], self._environ, self.home)
        self.process.wait(lambda: not self.sick(), START, "its log is above")

    def stop(self) -> None:
        self.process.stop()

    def sick(self) -> list[str]:
        """Components that are not healthy."""
        try:
            health = self.api.health()
        except (AirflowDoesNotAnswer, AirflowRefused):
            return ["api_server"]
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]


class Watch:
    """Command lines of every process that the servers start. A process that lives under half a second may be missed."""

    def __init__(self, *parts: Background) -> None:
        self.seen: set[tuple[str, ...]] = set()
        self._marks = {part.mark for part in parts}
        self._ended = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def having(self, word: str) -> list[tuple[str, ...]]:
        """Command lines of which a word contains `word`."""
        return sorted(line for line in self.seen if any(word in one for one in line))

    def _watch(self) -> None:
        while not self._ended.wait(0.3):
            for process in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    if process.environ().get(MARK) in self._marks:
                        self.seen.add(tuple(process.cmdline()))
