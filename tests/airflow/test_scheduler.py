"""A real Airflow with its scheduler: two pipelines, a backfill after a late label, and an interval that is blocked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windrow.io import clocks, publications
from windrow.jobs.run import Context
from windrow.jobs.train import override
from windrow.platform import Airflow
from world import World

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]

MINUTE = timedelta(minutes=1)
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


@dataclass(frozen=True)
class Running:
    """An Airflow that is up, and the two pipelines in it."""

    airflow: Airflow
    world: World
    good: Context
    bad: Context
    start: datetime


@pytest.fixture(scope="module")
def running(
    broker: Any, spark: Any, session_places: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    from conftest import free_port

    folder = tmp_path_factory.mktemp("airflow")
    (folder / "pipelines").mkdir()
    places = replace(session_places, home=folder / "home", pipelines=(folder / "pipelines",), spark_master="local[2]")
    world = World(places, "af")
    now = datetime.now(UTC)
    start = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0) - timedelta(minutes=30)
    world.topics({f"{name}.{side}": 2 for name in ("good", "bad") for side in ("shown", "orders")})

    def text(name: str, columns: str) -> str:
        stamp = f"{start:%Y-%m-%dT%H:%M:%SZ}"
        return PIPELINE.replace("{name}", name).replace("{start}", stamp).replace("{columns}", columns)

    good = world.pipeline(text("good", COLUMNS))
    bad = world.pipeline(text("bad", COLUMNS.replace("}", ", never_sent: double}")))
    for name in ("good", "bad"):
        world.produce(shown(name, start, n) for n in range(300))
        world.produce(ordered(name, start, n) for n in range(0, 300, 10))
    airflow = Airflow(places, {**os.environ, "WINDROW_AIRFLOW_PORT": str(free_port())})
    airflow.start()
    try:
        until(lambda: len(airflow.api.dags()) >= 4, "the DAGs are read", 300)
        yield Running(airflow, world, good, bad, start)
    finally:
        airflow.stop()


def shown(name: str, start: datetime, n: int) -> Any:
    at = start + timedelta(seconds=2 * n + 1)
    value = (
        f'{{"shown_id": "s{n}", "who": "w {n}", "what": {n % 7}, "shown_at": "{at.isoformat()}", '
        f'"timestamp": {n / 4}, "value": [0.5, {n}]}}'
    )
    return (f"{name}.shown", n % 2, value.encode(), at)


def ordered(name: str, start: datetime, n: int) -> Any:
    at = start + timedelta(seconds=2 * n + 31)
    value = f'{{"order_id": "o{n}", "customer": "w {n}", "article": {n % 7}, "ordered_at": "{at.isoformat()}"}}'
    return (f"{name}.orders", n % 2, value.encode(), at)


def until(holds: Callable[[], Any], what: str, seconds: float = 900) -> Any:
    end = time.monotonic() + seconds
    while not (held := holds()):
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(1)
    return held


def landed(running: Running, ctx: Context) -> clocks.Observation:
    """Trigger a landing run and wait for its observation."""
    before = clocks.observe(ctx.pipeline, ctx.places).number
    run = running.airflow.api.trigger(f"{ctx.pipeline.name}.land")["dag_run_id"]
    finished(running, f"{ctx.pipeline.name}.land", run, "success")
    seen = clocks.observe(ctx.pipeline, ctx.places)
    assert seen.number > before
    return seen


def finished(running: Running, dag_id: str, run_id: str, state: str) -> None:
    api = running.airflow.api
    found = until(
        lambda: (s := api.dag_run(dag_id, run_id)["state"]) in ("success", "failed") and s, f"{run_id} has ended"
    )
    states = api.task_states(dag_id, run_id)
    logs = {t: api.task_log(dag_id, run_id, t)[-3000:] for t, s in states.items() if s in ("failed", "up_for_retry")}
    assert found == state, (states, logs)


def standing(ctx: Context) -> dict[datetime, dict[str, Any]]:
    return publications.standing(publications.registered(ctx.pipeline, ctx.places))


def test_the_scheduler_publishes_and_a_backfill_publishes_again_with_the_late_label(running: Running) -> None:
    api, ctx, start = running.airflow.api, running.good, running.start
    api.unpause("good.land")
    api.unpause("good.training")
    landed(running, ctx)
    wanted = {start, start + 5 * MINUTE}
    first = until(lambda: (s := standing(ctx)).keys() >= wanted and s, "the intervals with rows are published")
    rows = running.world.training(ctx)
    assert [row["shown_id"] for row in rows] == [f"s{n}" for n in range(300)]
    assert {row["shown_id"] for row in rows if row["ordered"]} == {f"s{n}" for n in range(0, 300, 10)}
    oldest = until(lambda: api.dag_runs("good.training", state="success"), "the first run has ended")[0]
    assert set(api.task_states("good.training", oldest["dag_run_id"]).values()) == {"success"}
    run_of = {row["run"] for row in first.values()}
    assert run_of == {oldest["dag_run_id"]}  # one run took every closed interval along

    # the next run finds its interval published: it ends without Spark
    second = until(lambda: api.dag_runs("good.training", state="success")[1:], "the second run has ended")[0]
    states = api.task_states("good.training", second["dag_run_id"])
    assert states["wait"] == "success"
    assert {states[t] for t in ("join", "check", "publish")} == {"skipped"}

    # a label that comes after the publication, and a backfill of that interval
    running.world.produce([ordered("good", start, 3)])
    landed(running, ctx)
    assert "s3" not in {row["shown_id"] for row in running.world.training(ctx) if row["ordered"]}
    api.backfill("good.training", start, start, reprocess="completed")
    again = until(
        lambda: (row := standing(ctx)[start])["number"] > first[start]["number"] and row, "the interval is republished"
    )
    assert again["positive"] == first[start]["positive"] + 1
    rows = running.world.training(ctx)
    assert [row["shown_id"] for row in rows] == [f"s{n}" for n in range(300)]
    assert "s3" in {row["shown_id"] for row in rows if row["ordered"]}
    other = start + 5 * MINUTE
    assert standing(ctx)[other]["number"] == first[other]["number"]  # exactly that interval


def test_a_critical_failure_keeps_the_candidate_back_until_a_person_overrides(running: Running) -> None:
    api, ctx, start = running.airflow.api, running.bad, running.start
    api.unpause("bad.land")
    landed(running, ctx)
    api.unpause("bad.training")
    run = until(lambda: api.dag_runs("bad.training", state="failed"), "the first run has failed")[0]["dag_run_id"]
    api.pause("bad.training")
    states = api.task_states("bad.training", run)
    assert (states["join"], states["check"], states["publish"]) == ("success", "failed", "upstream_failed")
    log = api.task_log("bad.training", run, "check")
    assert "null_rate_max" in log
    assert "index.html" in log
    assert start not in standing(ctx)

    row = override(ctx, start, who="ada", why="the column starts tomorrow")
    assert (row["verdict"], row["overridden_by"], row["override_reason"]) == (
        "overridden",
        "ada",
        "the column starts tomorrow",
    )
    assert len([r for r in running.world.training(ctx) if r["_interval"] == start]) == 150
