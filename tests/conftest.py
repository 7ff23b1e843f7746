"""What tests share, started once: a real broker, a real object store and one Spark session. Each test has its own home.

A test marked `both_roots` runs twice: with its tables in a folder, and in the object store. One that is marked
`both_roots(long=True)` runs in the store alone, unless WINDROW_BOTH_ROOTS is set.
"""

from __future__ import annotations

import faulthandler
import hashlib
import logging
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

os.environ["TZ"] = "America/New_York"  # nothing may depend on the zone of the process
time.tzset()

from windrow.places import Places  # noqa: E402 - after the zone is set
from windrow.platform import jars, jobs_side  # noqa: E402
from windrow.platform.processes import free_port  # noqa: E402
from windrow.platform.servers.engine import Engine  # noqa: E402
from windrow.platform.servers.store import Store  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.world import World
    from windrow.quality.validation import Item, _Group

LONGEST = (
    "tests/airflow",
    "tests/ui",
    "tests/faults/test_soak.py",
    "tests/faults/test_faults.py",
    "tests/jobs/test_histories_on_spark.py",
    "tests/proof",
    "tests/scenarios/test_scenarios_on_spark.py",
    "tests/faults",
    "tests/engine",
    "tests/jobs",
    "tests/ledger",
    "tests/lag",
    "tests/kafka",
    "tests/semantics/test_histories.py",
    "tests/transforms",
    "tests/training",
    "tests/platform",
    "",
)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Print the stack of the crashed thread only: the stacks of all threads fill the end of a log."""
    assert sys.__stderr__ is not None
    faulthandler.enable(os.dup(sys.__stderr__.fileno()), all_threads=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest are begun first."""
    items.sort(key=lambda item: next(n for n, place in enumerate(LONGEST) if item.nodeid.startswith(place)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The one Airflow is stopped after the last test that uses it."""
    if "running" in getattr(item, "fixturenames", ()) and "running" not in getattr(nextitem, "fixturenames", ()):
        from support.running_airflow import stop_the_airflow

        stop_the_airflow(item.config)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A file is one worker's work, and so is all that shares the one Airflow, and what shares an engine."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(("tests/airflow/", "tests/ui/")):
            return "airflow"
        return "engine" if nodeid.startswith(WITH_ENGINE) else nodeid.partition("::")[0]


WITH_ENGINE = tuple(f"tests/faults/test_{name}.py" for name in ("faults", "fault_zombies"))
"""An engine is three gigabytes of memory, and most of a minute until it is warm."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    return ByFile(config, log)


@pytest.fixture(scope="session")
def session_places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Places of the session's broker; the jar cache is the user's own."""
    home = tmp_path_factory.mktemp("session")
    environ = {**os.environ, "WINDROW_HOME": str(home), "WINDROW_TABLES": "", "WINDROW_KAFKA_CLIENT": ""}
    return replace(Places.from_env(environ), kafka=f"127.0.0.1:{free_port()}")


@pytest.fixture(scope="session")
def local_store(session_places: Places) -> Store:
    """The object store, not yet started. Every process that starts after this finds it by its environment."""
    found = Store(replace(session_places, store=f"127.0.0.1:{free_port()}"))
    os.environ.update(found.environment())
    return found


@pytest.fixture(scope="session")
def store(session_places: Places, local_store: Store) -> Iterator[Store]:
    """A real object store."""
    jars.ensure(session_places, also=["s3", "store"])
    local_store.start()
    yield local_store
    local_store.stop()


@pytest.fixture(scope="session")
def broker(session_places: Places) -> Iterator[object]:
    """A real Kafka broker; `.bootstrap` is its address."""
    from windrow.platform.servers.broker import Broker

    jars.ensure(session_places)
    running = Broker(session_places)
    running.start()
    yield SimpleNamespace(bootstrap=session_places.kafka, process=running)
    for node in running.nodes:
        node.process.stop(timedelta(0))  # nobody reads its hundreds of topics again


@pytest.fixture(scope="session")
def spark(session_places: Places, local_store: Store) -> Iterator[SparkSession]:
    """The one Spark session of the suite."""
    from windrow.jobs.spark import spark_for

    jars.ensure(session_places, also=["s3"])
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it says goodbye after pytest has closed its streams
    started = spark_for("tests", replace(session_places, spark_master="local[2]"))
    for name, value in SMALL.items():
        started.conf.set(name, value)
    with judged_once():
        yield started
    started.stop()


@contextmanager
def judged_once() -> Iterator[None]:
    """Within the body, every gate of this process asks Great Expectations about a number once.

    A gate does so for the intervals of its run, and the suite has hundreds of runs of an interval each. That such a
    result is that of a new gate is shown in tests/quality, whose gates remember for themselves.
    """
    from windrow.quality.validation import _Group

    made, known = _Group.__init__, defaultdict[tuple[int, str], dict[tuple[object, ...], object]](dict)

    def made_with_memory(self: _Group, name: str, batches: object, items: Mapping[int, Item]) -> None:
        made(self, name, batches, items)
        self._results = known[threading.get_ident(), repr(items)]  # no thread clears what another reads

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Group, "__init__", made_with_memory)
        yield


@pytest.fixture(scope="session")
def engine_places(session_places: Places, local_store: Store) -> Iterator[Places]:
    """Places of an engine that takes jobs of every home."""
    jars.ensure(session_places, also=["s3"])
    places = replace(session_places, spark_master="local[2]")
    started, side = Engine(places), jobs_side.here(places)
    environ = {**os.environ, **jars.environment(places), **side.environment(places, os.environ)}
    started.start(side, {**environ, "WINDROW_SPARK_MASTER": "local[2]"})
    started.wait()
    yield places
    started.stop()


@pytest.fixture
def warm_engine(world: World, engine_places: Places) -> World:
    """The world, with an engine for its jobs."""
    return replace(world, engine=engine_places)


SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a handful of rows compiling a query takes longer than interpreting it."""


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Queries are compiled, as they are in every process of the product."""
    for name in SMALL:
        spark.conf.unset(name)
    yield
    for name, value in SMALL.items():
        spark.conf.set(name, value)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test marked `both_roots` on each root; a long one in the store alone, unless all are asked for."""
    if mark := metafunc.definition.get_closest_marker("both_roots"):
        one = mark.kwargs.get("long") and not os.environ.get("WINDROW_BOTH_ROOTS")
        metafunc.parametrize("root", ["store"] if one else ["folder", "store"], indirect=True)


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str | None:
    """Location of this test's tables, where it is not the home folder."""
    if getattr(request, "param", "folder") == "folder":
        return None
    return f"{request.getfixturevalue('store').url}/{_name(request)}"


@pytest.fixture
def places(session_places: Places, tmp_path: Path, root: str | None) -> Places:
    """Places with an empty home and a folder for this test's pipeline files."""
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    home = tmp_path / "home"
    return replace(session_places, home=home, pipelines=(pipelines,), spark_master="local[2]", tables=root)


@pytest.fixture(params=["spark", "files"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test twice: candidates come to their payload in each of the two ways (`windrow.io.training.ways`)."""
    monkeypatch.setenv("WINDROW_PAYLOAD", request.param)


@pytest.fixture
def world(broker: object, spark: object, places: Places, request: pytest.FixtureRequest) -> object:
    """A home folder of its own on the session's broker and Spark session."""
    from support.world import World

    return World(places, _name(request))


def _name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return f"t{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:10]}"
