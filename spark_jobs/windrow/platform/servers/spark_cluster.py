"""A Spark standalone cluster on this machine: a master and two workers with a secret that their processes share.

    <home>/platform/cluster/spark-master.log, spark-worker-N.log   their output
    <home>/platform/cluster/spark-master/                          what a master that is started again must know
    <home>/platform/cluster/spark-worker-N/                        work folder of a worker, scratch of its executors
    <home>/platform/cluster/spark-secrets.conf                     for WINDROW_SPARK_SECRETS; only its owner may read it

The master listens at `places.spark_master`, its page on the port after it, the workers' pages on the next ones; all on
the loopback. Executors share code and jars with the drivers, and the object store: credentials reach them by their
worker's environment. Of the home they use their workers' folders only (on one host, executors read each other's shuffle
files there).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from filelock import FileLock

from windrow.files import write_whole
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.processes import Address, Background, require_port

WORKERS = 2
SLOTS = 4
"""Cores that each worker offers, whatever the machine has: as many applications run side by side, each with one core
and a gigabyte of every worker. A warm landing does not keep join and publish from running."""
PATIENCE = timedelta(seconds=120)
_MASTER = "spark-master"


class SparkCluster:
    """The Spark master and workers of a home folder.

    Args:
        store: variables by which executors find the object store.
    """

    def __init__(self, places: Places, store: Mapping[str, str]) -> None:
        self.places = places
        self._store = dict(store)
        self.address = Address.parse(places.spark_master.removeprefix("spark://"))
        self.folder = places.home / "platform" / "cluster"
        names = (_MASTER, *(f"spark-worker-{number}" for number in range(1, WORKERS + 1)))
        self.processes = {name: Background(self.folder, name) for name in names}

    @property
    def secrets(self) -> Path:
        """Spark properties of every process of the cluster and of its drivers."""
        return self.folder / "spark-secrets.conf"

    def page(self, name: str) -> Address:
        """Where a process shows its page; they ask for no password, and show names of jobs."""
        return self.address.next(1 + list(self.processes).index(name))

    def start(self) -> None:
        """Start what is not running, and wait until both workers have joined. Idempotent.

        Raises:
            PortTaken, JavaMissing, DidNotStart: the message says what to do.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "spark.lock"):
            self._write_secrets()
            (self.folder / _MASTER).mkdir(exist_ok=True)
            for name, process in self.processes.items():
                if process.process() is None:
                    process.stop()
                    self._require_ports(name)
                    process.start(self._command(name), self._environment(name), self.folder)
                if name == _MASTER:
                    self._wait(name)
            for name in self.processes:
                self._wait(name)

    def stop(self) -> bool:
        """Stop it, executors included, and return whether any of it ran."""
        patience = timedelta(seconds=10)
        with ThreadPoolExecutor(len(self.processes)) as pool:
            return any(list(pool.map(lambda process: process.stop(patience), self.processes.values())))

    def is_up(self) -> bool:
        """Whether the master answers and every worker has joined."""
        return all(self.answers(name) for name in self.processes)

    def answers(self, name: str) -> bool:
        """Whether a process runs and the master is alive, respectively knows the worker."""
        if self.processes[name].process() is None:
            return False
        try:
            with build_opener(ProxyHandler({})).open(f"http://{self.page(_MASTER)}/json/", timeout=5) as answer:
                seen = json.load(answer)
        except (OSError, ValueError):
            return False
        if name == _MASTER:
            return bool(seen["status"] == "ALIVE")
        alive = {worker["webuiaddress"] for worker in seen["workers"] if worker["state"] == "ALIVE"}
        return f"http://{self.page(name)}" in alive

    def _wait(self, name: str) -> None:
        process = self.processes[name]
        process.wait(partial(self.answers, name), PATIENCE, f"read {process.log}, then run it again.")

    def _require_ports(self, name: str) -> None:
        hint = "WINDROW_SPARK_MASTER (spark://host:port; the three ports after it count)"
        if name == _MASTER:
            require_port(self.address, "Spark's master", hint)
        require_port(self.page(name), f"the page of {name}", hint)

    def _command(self, name: str) -> list[str]:
        host = ["--host", self.address.host, "--webui-port", str(self.page(name).port)]
        host += ["--properties-file", str(self.secrets)]
        launch = str(jars.spark_home() / "bin" / "spark-class")
        if name == _MASTER:
            return [launch, "org.apache.spark.deploy.master.Master", *host, "--port", str(self.address.port)]
        size = ["--cores", str(SLOTS), "--memory", f"{SLOTS}g", "--work-dir", str(self.folder / name / "work")]
        return [launch, "org.apache.spark.deploy.worker.Worker", *host, *size, self.places.spark_master]

    def _environment(self, name: str) -> dict[str, str]:
        """Variables of a process. A worker's are inherited by its executors: the store, and where code is."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environ = {**own, **jars.environment(self.places), "SPARK_DAEMON_MEMORY": "256m"}
        if name == _MASTER:
            return environ
        scratch = self.folder / name / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        code = [str(self.places.project / "spark_jobs"), *filter(None, [own.get("PYTHONPATH")])]
        return {**environ, **self._store, "SPARK_LOCAL_DIRS": str(scratch), "PYTHONPATH": os.pathsep.join(code)}

    def _write_secrets(self) -> None:
        """Write the properties, the first time only: the secret is made once."""
        if self.secrets.exists():
            return
        properties = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
            "spark.cores.max": WORKERS,
            "spark.executor.memory": "1g",
            "spark.worker.cleanup.enabled": "true",
            # A master that forgot running applications would have their executors killed, and they would wait for ever.
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": self.folder / _MASTER,
        }
        write_whole(self.secrets, "".join(f"{name} {value}\n" for name, value in properties.items()), private=True)
