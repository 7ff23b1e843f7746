"""Kafka, Spark and Delta agree with the reference join on generated histories, however landing is sliced."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from generated import INTERVAL, PARTITIONS, PIPELINE, SPAN, START, history, oracle_records, oracle_spec
from windrow.io import candidates
from windrow.jobs.run import Context
from windrow.semantics.intervals import intervals_between
from windrow.semantics.reference import JoinedRow, reference_join
from world import World, content

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

LANDED_AT = START + SPAN + timedelta(minutes=35)
"""Late enough for every event, early enough that idling does not close weeks of empty intervals."""
PINS = {"t.served": 1, "t.engagements": 1}


def prepared(world: World, seed: int) -> tuple[Context, list[Any]]:
    ctx = world.pipeline(PIPELINE.replace("topic: t.", "topic: {t}."), now=LANDED_AT)
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    return ctx, history(seed)


def sent(records: list[Any]) -> list[Any]:
    return [(r.topic.removeprefix("t."), r.partition, r.value, r.timestamp) for r in records]


@pytest.mark.parametrize(("seed", "slices"), [(1, 1), (2, 3), (3, 2)])
def test_published_rows_are_those_of_the_reference_join(world: World, seed: int, slices: int) -> None:
    ctx, records = prepared(world, seed)
    size = -(-len(records) // slices)
    for n in range(slices):
        world.produce(sent(records[n * size : (n + 1) * size]))
        seen = world.land(ctx)
    rounds = world.train(ctx)
    assert not [why for one in rounds for why in one.blocked.values()]

    oracle = oracle_records(records, landed_at=LANDED_AT)
    spec = oracle_spec(oracle, PINS)
    expected = {
        interval.start: reference_join(oracle, spec, interval, PINS)
        for interval in intervals_between(START, seen.frontier(ctx.pipeline), INTERVAL)
    }
    assert sum(len(joined.rows) for joined in expected.values()) > 40  # the history says something
    found = world.training(ctx)
    assert [as_found(row, world) for row in found] == [
        as_expected(row) for _, joined in sorted(expected.items()) for row in joined.rows
    ]
    register = {row["interval"]: row for row in world.register(ctx)}
    assert register.keys() == expected.keys()
    for start, joined in expected.items():
        measures = {
            row["name"]: row["value"]
            for row in candidates.measures_of(ctx.pipeline, ctx.places, [register[start]["plan_id"]])
        }
        wanted = joined.balance.measures()
        assert {name: measures[name] for name in wanted} == wanted
        assert measures["left_conflict"] == joined.conflict["served"]
        assert measures["clicks.conflict"] == joined.conflict["clicks"]


def test_landing_quarantines_what_the_reference_decoder_does(world: World) -> None:
    ctx, records = prepared(world, seed=4)
    world.produce(sent(records))
    world.land(ctx)
    found = {
        (topic, row["_partition"], row["_offset"]): row["_quarantined"]
        for topic in ("served", "engagements")
        for row in world.table(ctx, f"landing/{world.name}.{topic}")
    }
    expected = {
        (r.row_id.topic.removeprefix("t."), r.row_id.partition, r.row_id.offset): r.quarantined
        for r in oracle_records(records, landed_at=LANDED_AT)
    }
    assert found == expected
    assert len(set(expected.values())) > 4


def test_how_landing_was_sliced_makes_no_difference_to_published_rows(world: World, tmp_path: Any) -> None:
    ctx, records = prepared(world, seed=5)
    world.produce(sent(records[:100]))
    world.land(ctx)
    world.produce(sent(records[100:]))
    world.land(ctx)
    world.train(ctx)
    from dataclasses import replace

    whole = replace(ctx, places=replace(ctx.places, home=tmp_path / "other"))
    world.land(whole)
    world.train(whole)
    assert content(world.training(ctx)) == content(World(whole.places, world.name).training(whole))


def as_expected(row: JoinedRow) -> dict[str, Any]:
    clicks = row.matches["clicks"]
    state = row.label_state
    return {
        "row": (row.row_id.topic, row.row_id.epoch, row.row_id.partition, row.row_id.offset),
        "at": row.event_at,
        "values": {k: list(v) if isinstance(v, tuple) else v for k, v in row.values.items()},
        "clicks": [
            ((c.row_id.topic, c.row_id.epoch, c.row_id.partition, c.row_id.offset), dict(c.values))
            for c in clicks
        ],
        "state": (state, row.label_reason),
        "clicked": None if state == "unknown" else bool(clicks),
    }


def as_found(row: dict[str, Any], world: World) -> dict[str, Any]:
    def row_id(x: dict[str, Any]) -> tuple[Any, ...]:
        topic = x["_topic"].replace(world.name + ".", "t.")
        return (topic, x["_epoch"], x["_partition"], x["_offset"])

    names = ("request_id", "user_id", "item_id", "served_at", "score", "features")
    columns = ("event_id", "user_id", "item_id", "action", "engaged_at")
    return {
        "row": row_id(row),
        "at": row["_event_time"],
        "values": {name: row[name] for name in names},
        "clicks": [(row_id(c), {name: c[name] for name in columns}) for c in row["clicks"]],
        "state": (row["label_state"], row["label_reason"]),
        "clicked": row["clicked"],
    }
