"""What tests share, started once: a real broker and one Spark session. Every test has its own home folder."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ["TZ"] = "America/New_York"  # nothing may depend on the zone of the process
time.tzset()

from windrow.places import Places  # noqa: E402 - after the zone is set


def free_port() -> int:
    """A free port whose successor is free too: the broker's controller takes that one."""
    while True:
        with socket.socket() as one, socket.socket() as next_one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.fixture(scope="session")
def session_places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Places of the session's broker; the jar cache is the user's own."""
    home = tmp_path_factory.mktemp("session")
    return replace(Places.from_env({**os.environ, "WINDROW_HOME": str(home)}), kafka=f"127.0.0.1:{free_port()}")


@pytest.fixture(scope="session")
def broker(session_places: Places) -> Iterator[object]:
    """A real Kafka broker; `.bootstrap` is its address."""
    from windrow.platform import jars
    from windrow.platform.broker import Broker

    jars.ensure(session_places)
    running = Broker(session_places)
    running.start()
    yield SimpleNamespace(bootstrap=session_places.kafka, process=running)
    running.stop()


@pytest.fixture(scope="session")
def spark(session_places: Places) -> Iterator[object]:
    """The one Spark session of the suite."""
    from windrow.jobs.spark import spark_for

    logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye after pytest has closed its streams
    started = spark_for("tests", replace(session_places, spark_master="local[2]"))
    yield started
    started.stop()


@pytest.fixture
def places(session_places: Places, tmp_path: Path) -> Places:
    """Places with an empty home and a folder for this test's pipeline files."""
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    return replace(session_places, home=tmp_path / "home", pipelines=(pipelines,), spark_master="local[2]")


@pytest.fixture
def world(broker: object, spark: object, places: Places, request: pytest.FixtureRequest) -> object:
    """A home folder of its own on the session's broker and Spark session."""
    from world import World

    digest = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:10]
    return World(places, f"t{digest}")
