"""Compaction and vacuum run all the time while intervals are joined and published and a pinned version is read.

maintenance   discard ─ compact ─ vacuum ─ discard ─ compact ─ vacuum ─ …     (a process of its own)
publishing    join ─ check ─ publish ─ rebuild ─ …
readers       the newest version ─ …                  version N ─ version N ─ …
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from support.again import again_and_again
from support.broken.faults import EVERY, EVERYWHERE, LANDED_AT, WAITING, Reader, check_against_oracle, closing, joining
from support.broken.upkeep import maintenance_that_never_rests
from support.generated import INTERVAL, PARTITIONS, SPAN, START, history
from support.oracle import sent
from support.world import World, content
from windrow.jobs.rebuild import rebuild
from windrow.jobs.train import train_one

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

PARTS = 3
"""Landings, so that there are files to merge."""
NOW = max(LANDED_AT, datetime.now(UTC))
"""Not behind the clock of the host: by that one vacuum counts how long it keeps what a publication has replaced."""


@pytest.mark.both_roots(long=True)
def test_maintenance_that_never_rests_changes_no_row_for_anybody(world: World, spark: Any) -> None:
    ctx = world.pipeline(WAITING.replace("topic: t.", "topic: {t}."), now=NOW)
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    records = sent(history(seed=26))
    size = -(-len(records) // PARTS)
    for n in range(PARTS):
        world.produce(records[n * size : (n + 1) * size])
        if n == PARTS - 1:
            world.produce(closing(START + SPAN + timedelta(minutes=20), EVERYWHERE))
        world.land(ctx)
    train_one(ctx, "first", START, "publish")
    path = world.places.table(ctx.pipeline.name, "training")
    pinned, first = world.register(ctx)[0]["training_version"], content(world.training(ctx))
    opened = spark.read.format("delta").option("versionAsOf", pinned).load(path)  # before, read to the end

    # a day later, so that every hour that has rows is over and may be compacted
    reader = Reader(path)
    with (
        maintenance_that_never_rests(ctx, NOW + timedelta(days=1), joining(spark)) as done,
        reader.reading(),
        again_and_again(lambda: pl.scan_delta(path, version=pinned).collect().height, EVERY) as seen,
    ):
        world.train(ctx)
        world.produce([(topic, 0, b"{", LANDED_AT) for topic in EVERYWHERE])  # more files, and no row
        world.land(ctx)
        rebuild(ctx, "again", START, START + 3 * INTERVAL, lambda row: None)
        assert opened.count() == len(first)

    assert len(done) > 1
    assert sum(sum(one["fewer_files"].values()) for one in done) > 0
    assert set(seen) == {len(first)}
    reader.saw_whole_intervals(world.register(ctx))
    check_against_oracle(world, ctx)
    assert content(row for row in world.training(ctx) if row["_interval"] == START) == first
