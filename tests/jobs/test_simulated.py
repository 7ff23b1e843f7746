"""Simulated traffic is published as the simulator's own truth says: a second opinion, written without the oracle."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.world import World
from windrow.io.registers import clocks
from windrow.simulate import producer
from windrow.simulate.poison import KINDS
from windrow.simulate.traffic import Traffic, messages, pipeline_yaml, truth

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

START = datetime(2026, 11, 1, 6, tzinfo=UTC)


def made(world: World, **settings: Any) -> tuple[Any, Any, Traffic]:
    """Traffic that was produced, landed when it was over, and trained."""
    traffic = Traffic(
        start=START,
        span=timedelta(minutes=40),
        users=60,
        items=8,
        click_rate=0.2,
        features=4,
        served_topic=f"{world.name}.served",
        engagements_topic=f"{world.name}.engagements",
        **settings,
    )
    ctx = replace(
        world.pipeline(pipeline_yaml(traffic, "simulated")), now=lambda: traffic.ends_at + timedelta(minutes=30)
    )
    producer.create_topics(world.places.kafka, traffic.topics)
    producer.produce(world.places.kafka, messages(traffic))
    world.land(ctx)
    world.train(ctx)
    return ctx, truth(traffic), traffic


def rows_are_true(world: World, ctx: Any, expected: Any) -> None:
    rows = {
        (row.partition, row.offset): (row.event_at, row.labels, row.state, row.reason, row.interval_at)
        for row in expected.rows()
    }
    found = {
        (r["_partition"], r["_offset"]): (
            r["_event_time"],
            tuple(c["event_id"] for c in r["clicks"]),
            r["label_state"],
            r["label_reason"],
            r["_interval"],
        )
        for r in world.training(ctx)
    }
    assert found == rows


def test_poison_of_every_kind_is_quarantined_and_the_rest_is_published_as_the_truth_says(world: World) -> None:
    ctx, expected, traffic = made(world, rows=3_000, retries=0.05, poison=dict.fromkeys(KINDS, 0.001))
    counts, seen = expected.counts, clocks.observe(ctx.home)
    for topic in traffic.topics:
        found = {n: sum(row[n] for row in seen.of_topic(topic)) for n in ("read", "landed", "quarantined")}
        assert found == counts.landing(topic)
        assert found["quarantined"] >= 5
    assert counts.total.duplicate > 50
    rows_are_true(world, ctx, expected)
    published = {row["interval"]: row for row in world.register(ctx)}
    for start, one in counts.intervals.items():
        row = published[start]
        assert (row["rows"], row["left_duplicate"], row["positive"], row["negative"], row["unknown"]) == (
            one.rows,
            one.duplicate,
            one.positive,
            one.negative,
            sum(one.unknown.values()),
        )
    empty = [row for start, row in published.items() if start not in counts.intervals]
    assert empty  # an interval without rows is published too
    assert {row["rows"] for row in empty} == {0}


def test_a_silent_label_side_makes_unknowns_and_never_negatives(world: World) -> None:
    """The engagements are lost before Kafka from minute 15 on: the broker answers, the topic is silent."""
    silent = (START + timedelta(minutes=15), START + timedelta(days=1))
    ctx, expected, _ = made(world, rows=1_500, silent=silent, idle_partition=2)
    rows_are_true(world, ctx, expected)
    rows = world.training(ctx)
    late = [row for row in rows if row["_event_time"] > silent[0]]
    assert len(late) > 500
    assert {row["label_state"] for row in late} <= {"unknown", "positive"}
    assert {row["clicked"] for row in rows if row["label_state"] == "unknown"} == {None}
