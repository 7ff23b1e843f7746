"""Scenarios through a real broker, Spark and Delta: the rows and states that they have on paper.

Every batch is produced and landed with the scenario's own clock, every run is the product's.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from windrow.jobs import train
from windrow.jobs.run import Context
from windrow.scenarios import Rehearsal, Scenario, read
from windrow.scenarios.kafka import kafka_record, pipeline_file, why_only_on_paper
from windrow.scenarios.notation import Row
from windrow.scenarios.rehearsal import names_of, windows
from windrow.scenarios.scenario import Expect, Land, Publish
from windrow.scenarios.timeline import beside
from world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HERE = Path(__file__).parent
CHOSEN = (
    "02_with_before_the_start_moves_back",
    "08_a_late_label_joins_what_is_still_open",
    "11_keys_are_compared_column_by_column",
    "17_silent_labels_are_unknown",
    "19_a_day_has_24_hours_in_autumn",
    "22_the_winner_lands_late",
    "rule_12_where_filters_first",
    "adform_the_slowest_partition",
)
"""One of every kind: each costs some JVM seconds, and all of them run on paper. WINDROW_SCENARIOS=all runs all."""
FEW = 10
"""Publications of a scenario at most: each is some commits."""


def chosen() -> list[str]:
    if os.environ.get("WINDROW_SCENARIOS") != "all":
        return list(CHOSEN)
    files = sorted(HERE.glob("*.yaml"))
    return [path.stem for path in files if not why_only_on_paper(read(path)) and publications(path) <= FEW]


def publications(path: Path) -> int:
    paper = Rehearsal(read(path))
    paper.run()
    return len(paper.model.publications)


@pytest.mark.parametrize("name", chosen())
def test_kafka_spark_and_delta_give_the_rows_of_a_scenario(world: World, name: str) -> None:
    scenario = read(HERE / f"{name}.yaml")
    assert why_only_on_paper(scenario) is None
    paper = Rehearsal(scenario)
    assert paper.run() == ()
    found = on_spark(world, scenario)
    assert found == paper.rows, "\n" + "\n".join(beside(paper.rows, found, windows(scenario)))


def on_spark(world: World, scenario: Scenario) -> tuple[Row, ...]:
    """Carry a scenario out; what it expects on the way is compared too."""
    world.topics(dict(scenario.rules.partitions))
    text = pipeline_file(scenario, "scenario", "{t}.{topic}")
    now = scenario.times.start
    ctx = world.pipeline(text, now)
    for n, step in enumerate(scenario.history):
        if isinstance(step, Land):
            records = [kafka_record(event, scenario) for event in step.events]
            world.produce([(r.topic, r.partition, r.value, r.timestamp) for r in records])
            now = step.now_at or max([now, *(r.timestamp for r in records)])
            ctx = at(ctx, now)
            world.land(ctx)
        elif isinstance(step, Publish):
            publish(ctx, step, f"step {n}")
        elif isinstance(step, Expect) and step.rows is not None:
            rows = in_words(world, ctx, scenario)
            assert rows == step.rows, "\n" + "\n".join(beside(step.rows, rows, windows(scenario)))
    return in_words(world, ctx, scenario)


def at(ctx: Context, now: datetime) -> Context:
    return replace(ctx, now=lambda: now)


def publish(ctx: Context, step: Publish, run: str) -> None:
    if step.intervals:
        rounds = [train.rebuild(ctx, run, *step.intervals, each=lambda row: None)]
    else:
        rounds = list(train.train_all(ctx, run, drain=step.is_drain))
    assert not [why for one in rounds for why in one.blocked.values()]


def in_words(world: World, ctx: Context, scenario: Scenario) -> tuple[Row, ...]:
    """The training table by the names of the scenario; nothing is published before the first run."""
    names = names_of(scenario)
    right = tuple(r.name for r in scenario.rules.spec.right)

    def name_of(x: dict[str, Any]) -> str:
        assert x["_epoch"] == 0
        return names[x["_topic"].removeprefix(f"{world.name}."), x["_partition"], x["_offset"]]

    def row(found: dict[str, Any]) -> Row:
        met = {s: tuple(name_of(m) for m in found[s]) for s in right if found[s]}
        state = "/".join(part for part in (found["label_state"], found["label_reason"]) if part)
        has_label = any(found[r.name] for r in scenario.rules.spec.labels)
        assert found["seen"] == (None if found["label_state"] == "unknown" else has_label)
        return Row(name_of(found), state, tuple(sorted(met.items())))

    if not Path(ctx.places.table(ctx.pipeline.name, "training")).exists():
        return ()
    return tuple(row(found) for found in world.training(ctx))
