"""One partition an hour behind the others: no interval closes early, and in the end the rows are the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.broken.faults import EVERYWHERE, WAITING, check_against_oracle, closing, landed_history
from support.explained import explained, explains_rows, row_text
from support.generated import AFTER, DISORDER, ENGAGEMENTS, GRACE, INTERVAL, PARTITIONS, SPAN, START, history
from support.oracle import expected, expected_rows, found_rows, sent
from support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SLOW = 2
"""The partition of the engagements that is behind."""
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
REACHED = START + 14 * MINUTE


def test_a_partition_an_hour_behind_changes_only_when(world: World) -> None:
    """While the pipeline waits for the partition, and afterwards, rows are explained as the tables have them."""
    ctx = world.pipeline(WAITING.replace("topic: t.", "topic: {t}."))
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    records = history(seed=11)
    behind = [r for r in records if (r.topic, r.partition) == (ENGAGEMENTS, SLOW)]
    early = [r for r in behind if r.timestamp < REACHED]
    others = {**EVERYWHERE, "engagements": [p for p in EVERYWHERE["engagements"] if p != SLOW]}
    world.produce(sent([r for r in records if r not in behind]))
    world.produce(closing(START + SPAN + HOUR, others))
    world.produce(sent(early))
    seen = world.land(ctx)
    frontier = seen.frontier(ctx.pipeline)

    slow = next(row for row in seen.rows if (row["topic"], row["partition"]) == (f"{world.name}.engagements", SLOW))
    assert seen.watermark == slow["newest_at"] - DISORDER[ENGAGEMENTS]  # an hour behind what others have shown
    assert frontier == seen.watermark - AFTER - GRACE
    world.train(ctx)
    published = [row["interval"] for row in world.register(ctx)]
    assert published == [START]
    assert frontier < START + 2 * INTERVAL

    served = world.table(ctx, f"landing/{world.name}.served")
    waiting = [r for r in served if not r["_quarantined"] and r["_event_time"] > frontier and r["request_id"]]
    result = explained(ctx, row_text(waiting[0]))
    assert result["outcome"] == "open"
    assert result["clock"]["held_by"] == f"{world.name}.engagements/{SLOW}"

    world.produce(sent([r for r in behind if r not in early]))
    world.produce(closing(START + SPAN + 20 * MINUTE, {"served": [], "engagements": [SLOW]}))
    world.land(ctx)
    first = rows_of(world, ctx, published)
    joined = expected(landed_history(world, ctx), START + timedelta(days=1), START + INTERVAL)
    assert first == expected_rows(joined)  # closed while the partition was behind: it had come far enough
    world.train(ctx, run="caught up")
    check_against_oracle(world, ctx)

    outcomes = explains_rows(world, ctx, each=4)
    assert {"published", "before_start", "quarantined", "duplicate"} <= outcomes.keys()
    assert {"before_window", "after_window", "filtered"} <= outcomes.keys()


def rows_of(world: World, ctx: Any, intervals: list[Any]) -> list[Any]:
    return found_rows([row for row in world.training(ctx) if row["_interval"] in intervals], world)
