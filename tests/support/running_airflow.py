"""One real Airflow for every test that needs one: a scheduler, three pipelines on the session's broker, a reader.

Started by the first test that asks, stopped after the last. Jobs start a Spark of their own, by spark-submit, until a
test starts the warm engine that `windrow up` starts. A secret is planted in the environment of all of its processes
(the store's too), in its connection and in the file of a registry's client; tests/airflow/test_secrets.py looks for it
in everything that was written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.world import World
from windrow import platform
from windrow.files import write_whole
from windrow.io.registers import clocks, publications
from windrow.jobs.run import Context
from windrow.places import Places
from windrow.platform import Airflow, Engine, jobs_side
from windrow.platform.processes import free_port
from windrow.platform.servers.airflow_api import AirflowApi, AirflowDoesNotAnswer

MINUTE = timedelta(minutes=1)
INTERVAL = 5 * MINUTE
SECRET = "planted-7f3a9c51e8d24b60"
PERSON = "Ada Planted"
"""Personal data: it begins the key of every row and label, and stands in a record that cannot be read."""
USERS = {"admin": "admin", "operator": "user", "viewer": "viewer", "nobody": ""}
"""`nobody` can sign in, and has no role."""
NAMES = ("good", "bad", "shop")
PIPELINE = """\
name: {name}
start: {start}
interval: 5m
left:
  name: shown
  topic: {t}.{name}.shown
  columns: {columns}
  key: [who, what]
  event_time: shown_at
  event_id: shown_id
  out_of_orderness: 1s
right:
  - name: orders
    role: label
    topic: {t}.{name}.orders
    columns: {order_id: string, customer: string, article: int, ordered_at: timestamp, silence: boolean}
    key: [customer, article]
    event_time: ordered_at
    event_id: order_id
    out_of_orderness: 1s
    window: {before: 0s, after: 2m}
    silence: negative
idle: {mode: caught_up, after: 1s}
labels:
  ordered: "size(orders) > 0"
land_every: 1h
"""
COLUMNS = '{shown_id: string, who: string, what: int, shown_at: timestamp, timestamp: double, value: "array<float>"}'
_KEY = pytest.StashKey["Running"]()


@dataclass(frozen=True)
class Running:
    """An Airflow that is up, and the pipelines in it. Each has 300 rows in the two intervals from `start` on."""

    airflow: Airflow
    environ: Mapping[str, str]
    engine: Engine
    world: World
    contexts: Mapping[str, Context]
    start: datetime

    def api_of(self, user: str) -> AirflowApi:
        return AirflowApi(self.airflow.url, self.airflow.login.password_file, user=user)

    def land(self, name: str) -> clocks.Observation:
        """Trigger a landing run and wait for its observation."""
        ctx = self.contexts[name]
        before = clocks.observe(ctx.home).number
        self.run(f"{name}.land")
        seen = clocks.observe(ctx.home)
        assert seen.number > before
        return seen

    def landed(self, name: str) -> None:
        """Land, unless a run has landed before: an unpaused DAG is scheduled at once, and that run is waited for."""
        api, dag_id = self.airflow.api, f"{name}.land"
        if not api.dag_runs(dag_id, state="success"):
            api.unpause(dag_id)
            first = until(lambda: api.dag_runs(dag_id), f"{dag_id} is scheduled")[0]["dag_run_id"]
            self.finished(dag_id, first, "success")

    def start_engine(self) -> None:
        """Start the engine that later jobs run in, unless it runs."""
        places = self.airflow.places
        self.engine.start(jobs_side.of(places), platform.engine_environment(places, self.environ))
        self.engine.wait()

    def run(self, dag_id: str, conf: Mapping[str, Any] | None = None, state: str = "success") -> str:
        """Trigger a DAG and wait until the run has ended in `state`; returns its id."""
        run = str(self.airflow.api.trigger(dag_id, conf)["dag_run_id"])
        self.finished(dag_id, run, state)
        return run

    def finished(self, dag_id: str, run_id: str, state: str) -> None:
        api = self.airflow.api
        found = until(
            lambda: (s := api.dag_run(dag_id, run_id)["state"]) in ("success", "failed") and s, f"{run_id} has ended"
        )
        states = api.task_states(dag_id, run_id)
        logs = {
            t: api.task_log(dag_id, run_id, t)[-3000:] for t, s in states.items() if s in ("failed", "up_for_retry")
        }
        assert found == state, (states, logs)

    def standing(self, name: str) -> dict[datetime, dict[str, Any]]:
        ctx = self.contexts[name]
        return publications.standing(publications.registered(ctx.home))

    def numbers(self, name: str) -> dict[datetime, int]:
        """Publication numbers of the two intervals that have rows; scheduled runs go on behind them."""
        standing = self.standing(name)
        return {at: standing[at]["number"] for at in (self.start, self.start + INTERVAL)}

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.world.training(self.contexts[name])

    def ordered_ids(self, name: str) -> set[str]:
        return {row["shown_id"] for row in self.rows(name) if row["ordered"]}


def the_airflow(config: pytest.Config, session_places: Places, folder: Callable[[], Path]) -> Running:
    """Return the Airflow of the suite, started by the first call."""
    if _KEY not in config.stash:
        config.stash[_KEY] = _start(config, session_places, folder())
    return config.stash[_KEY]


def stop_the_airflow(config: pytest.Config) -> None:
    """Stop the Airflow of the suite, because its scheduled runs would slow down the other tests."""
    if _KEY in config.stash:
        config.stash[_KEY].airflow.stop()
        config.stash[_KEY].engine.stop()
        del config.stash[_KEY]


def _start(config: pytest.Config, session_places: Places, folder: Path) -> Running:
    (folder / "pipelines").mkdir()
    client = folder / "registry.properties"
    write_whole(client, f"basic.auth.user.info=windrow:{SECRET}\n", private=True)
    places = replace(session_places, home=folder / "home", pipelines=(folder / "pipelines",), spark_master="local[2]")
    places = replace(places, registries=(("default", "http://127.0.0.1:9"),), registry_client=client)
    world = World(places, "af")
    now = datetime.now(UTC)
    start = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0) - timedelta(minutes=30)
    world.topics({f"{name}.{side}": 2 for name in NAMES for side in ("shown", "orders")})
    columns = dict.fromkeys(NAMES, COLUMNS) | {"bad": COLUMNS.replace("}", ", never_sent: double}")}
    more = dict.fromkeys(NAMES, "") | {"bad": "erase: {by: [who]}\n"}
    contexts = {name: world.pipeline(_text(name, start, columns[name]) + more[name]) for name in NAMES}
    for name in NAMES:
        world.produce(shown(name, start, n) for n in range(300))
        world.produce(ordered(name, start, n) for n in range(0, 300, 10))
        world.produce([(f"{name}.shown", 0, f'{{"who": "{PERSON}", "what": '.encode(), start)])
    connection = {"conn_type": "spark", "host": "local[2]", "password": SECRET, "extra": {"token": SECRET}}
    environ = {
        **os.environ,
        **dict.fromkeys(("WAREHOUSE_PASSWORD", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), SECRET),
        "WINDROW_AIRFLOW_PORT": str(free_port()),
        "AIRFLOW_CONN_WINDROW_SPARK": json.dumps(connection),
    }
    airflow = Airflow(places, environ, users=USERS, dags=_consumers(folder))
    engine = Engine(places)
    for part in (airflow, engine):
        config.add_cleanup(part.stop)
    airflow.start()
    until(lambda: len(airflow.api.dags()) >= 7 * len(NAMES) + 3, "the DAGs are read")
    assert airflow.api.import_errors() == []
    return Running(airflow, environ, engine, world, contexts, start)


def _consumers(folder: Path) -> Path:
    """DAG files of training teams: one of ours, and the README's, on the pipeline `good`."""
    project, dags = Path(__file__).parents[2], folder / "consumers"
    shutil.copytree(project / "tests" / "airflow" / "consumers", dags)
    snippets = re.findall(r"```python\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
    [shown] = [text for text in snippets if "@asset" in text]
    (dags / "model.py").write_text(shown.replace("open_bandit", "good").replace("clicked", "ordered") + "# a dag\n")
    return dags


def _text(name: str, start: datetime, columns: str) -> str:
    stamp = f"{start:%Y-%m-%dT%H:%M:%SZ}"
    return PIPELINE.replace("{name}", name).replace("{start}", stamp).replace("{columns}", columns)


def shown(name: str, start: datetime, n: int) -> Any:
    at = start + timedelta(seconds=2 * n + 1)
    value = (
        f'{{"shown_id": "s{n}", "who": "{PERSON} {n}", "what": {n % 7}, "shown_at": "{at.isoformat()}", '
        f'"timestamp": {n / 4}, "value": [0.5, {n}]}}'
    )
    return (f"{name}.shown", n % 2, value.encode(), at)


def ordered(name: str, start: datetime, n: int) -> Any:
    at = start + timedelta(seconds=2 * n + 31)
    value = f'{{"order_id": "o{n}", "customer": "{PERSON} {n}", "article": {n % 7}, "ordered_at": "{at.isoformat()}"}}'
    return (f"{name}.orders", n % 2, value.encode(), at)


def until(holds: Callable[[], Any], what: str, seconds: float = 900) -> Any:
    """Wait until `holds` returns something true, and return that; an Airflow too busy to answer is asked again."""
    end = time.monotonic() + seconds
    while True:
        try:
            if held := holds():
                return held
        except AirflowDoesNotAnswer as busy:
            print(f"until {what}: {busy}")
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(1)
