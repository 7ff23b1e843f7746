"""The engine's Java process, and what a job has of it: a gateway and a session of its own.

Java keeps every object that a Python process may still ask for until that process lets go of it, and a killed process
lets go of nothing. So each job has its own gateway: when it is closed, all of its objects may go. Spark jobs that a
killed process has left running are cancelled by the tag that Spark gives to all jobs of one session.

The keeper itself never talks to Java, because a process with open connections must not be forked. What has to be said
before and after a job is said by forks.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import JavaObject
from pyspark.serializers import UTF8Deserializer, read_int

from windrow.io.delta import session
from windrow.places import Places
from windrow.platform import jars

_FAIR = ("--conf", "spark.scheduler.mode=FAIR")
"""A small job does not wait for the tasks of a large one."""
PATIENCE = 120.0
"""Seconds in which Java has to start."""


class JavaEnded(RuntimeError):
    """Java did not start; its words are in the log."""


_kept: list[Any] = []
"""Java objects that this process must not let go of: its own gateway."""


@dataclass(frozen=True)
class Java:
    """A Java process with a gateway for Spark."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str

    def start_spark(self, places: Places) -> None:
        """Start Spark in Java. Call it in a fork; Spark stays when the fork ends.

        Raises:
            BadInput: the file that WINDROW_SPARK_SECRETS names is missing or open to others.
        """
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(self.port), self.secret
        session.session("windrow engine", places.spark_master, places.spark_secrets)

    def open_gateway(self, tell: Callable[[str, str], None]) -> None:
        """Give this process, a fork for one job, a gateway of its own; PySpark finds it by its environment.

        Args:
            tell: gets what `clean_up` needs, `gateway` or `session` with an id, as soon as there is one.
        """
        main = self._connect()
        gateway = main.jvm.org.apache.spark.api.python.Py4JServer(main.jvm.org.apache.spark.SparkConf())
        gateway.start()
        tell("gateway", gateway._target_id)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.getListeningPort())
        os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.secret()
        session.when_shared.append(lambda id_: tell("session", id_))
        _kept.append(gateway)

    def clean_up(self, told: dict[str, str], *, is_idle: bool = False) -> None:
        """Cancel what a job has left running, and let Java forget its objects. Call it in a fork.

        Args:
            told: what the job's process has told.
            is_idle: whether no other job runs; then rows that killed jobs have left in Spark's cache go too.
        """
        main = self._connect()
        if "session" in told:
            default = main.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
            if not default.isDefined():  # Spark has stopped: the keeper sees that Java ends, and starts another
                os.kill(self.process.pid, signal.SIGKILL)
                return
            first = default.get()
            first.sparkContext().cancelJobsWithTag(f"spark-session-{told['session']}")
            if is_idle:
                first.sharedState().cacheManager().clearCache()
            for one in (first, default):  # or Java would keep what it has lent for ever
                main.detach(one)
        if "gateway" in told:
            gateway = JavaObject(told["gateway"], main._gateway_client)
            gateway.shutdown()
            main.detach(gateway)

    def end(self) -> None:
        """End it in its own way, so that it removes its files, and kill it if that takes long."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _connect(self) -> ClientServer:
        return ClientServer(
            java_parameters=JavaParameters(port=self.port, auth_token=self.secret, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )


def start(places: Places) -> Java:
    """Start Java with what Spark needs; it ends with this process, because its standard input does.

    Raises:
        JavaEnded: it ended, or did not open its gateway within `PATIENCE`.
    """
    environ = {**os.environ, **jars.environment(places, options=jars.FOR_ENGINE)}
    submit = f"{environ['SPARK_HOME']}/bin/spark-submit"
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "gateway"
        process = subprocess.Popen(
            [submit, "--master", places.spark_master, *_FAIR, *shlex.split(environ["PYSPARK_SUBMIT_ARGS"])],
            stdin=subprocess.PIPE,
            env={**environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(found), "SPARK_CONNECT_MODE": "0"},
            start_new_session=True,  # a signal to the keeper's terminal is not one to Java
        )
        until = time.monotonic() + PATIENCE
        while not found.exists():
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise JavaEnded("Java has not opened its gateway; its own words are above")
            time.sleep(0.05)
        with found.open("rb") as file:
            return Java(process, read_int(file), UTF8Deserializer().loads(file))
