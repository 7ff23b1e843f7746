"""The store takes a conditional write and its answer is lost: it is looked up, never believed and never repeated.

writer ──PUT if absent──▶ way that loses ──▶ store        the write is made
       ◀── connection ends                               the writer looks into the log, and finds itself
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from support.broken.faults import LANDED_AT, WAITING, check_against_oracle, closing, prepared
from support.broken.lock_step import SCHEMA
from support.broken.lossy import Lossy
from support.generated import SPAN, START
from support.world import World
from windrow.io.delta import appending, tables
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.erasure.erase import erase
from windrow.jobs.ledger import extend
from windrow.jobs.rebuild import rebuild
from windrow.jobs.upkeep.maintain import maintain
from windrow.platform.servers.store import Store
from windrow.semantics.maintenance import RETENTION

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

LONG = WAITING.replace("interval: 5m", "interval: 15m")
"""Two intervals: each job writes as it does for many, and each request to the store takes that way."""


@pytest.fixture
def lossy(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossy]:
    """A way to the store on which the first answer to every commit is lost; delta-rs takes it."""
    with Lossy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def bucket(lossy: Lossy, store: Store, spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A bucket to which Spark takes that way too; no other test has it, because Spark keeps its connections."""
    name = request.node.name.replace("_", "-")[-60:]
    (store.folder / "data" / name).mkdir()
    hadoop = spark._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    hadoop.set(f"fs.s3a.bucket.{name}.endpoint", lossy.url)
    return f"s3://{name}"


def test_a_commit_whose_answer_is_lost_is_found_and_not_made_again(lossy: Lossy, root: None) -> None:
    """The store has taken the commit, the writer gets an error, and the writer must say that it was made."""
    table = "s3://windrow/lost-answers/table"
    for n in range(5):
        tables.append_once(table, SCHEMA, [{"round": n}], app_id="app", version=n + 1)
        tables.append_next(table, SCHEMA, [{"round": 100 + n}], app_id="other")
    assert lossy.lost >= 10
    assert sorted(row["round"] for row in tables.read(table)) == [*range(5), *range(100, 105)]
    with pytest.raises(tables.WriteSkipped):
        tables.append_once(table, SCHEMA, [{"round": 7}], app_id="app", version=5)
    known = tables.at(table)
    for n in range(5, 8):  # by a writer that keeps the table open
        tables.append_once(table, SCHEMA, [{"round": n}], app_id="app", version=n + 1, table=known)
        assert tables.last_version(known, "app") == n + 1


def test_a_commit_by_spark_whose_answer_is_lost_is_made_once(spark: SparkSession, lossy: Lossy, bucket: str) -> None:
    for n in range(3):
        rows = spark.range(n, n + 1).write.format("delta").mode("append")
        rows.option("txnAppId", "app").option("txnVersion", str(n + 1)).save(f"{bucket}/table")
    assert lossy.lost == 3
    appending.append(
        spark.range(3, 5), f"{bucket}/table", tables.at(f"{bucket}/table"), app_id="app", version=4, message="{}"
    )
    assert lossy.lost == 4
    assert sorted(row["id"] for row in spark.read.format("delta").load(f"{bucket}/table").collect()) == [0, 1, 2, 3, 4]
    assert tables.version_of(f"{bucket}/table", "app") == 4


@pytest.mark.kafka
def test_jobs_that_get_no_first_answer_publish_each_row_once(world: World, lossy: Lossy, bucket: str) -> None:
    """Landing, publishing, a rebuild, the late ledger, maintenance and an erasure, over one way that always loses."""
    world = replace(world, places=replace(world.places, tables=f"{bucket}/tables"))
    ctx, _ = prepared(world, seed=17, text=LONG)
    world.land(ctx)
    world.train(ctx)
    world.produce(closing(START + SPAN + timedelta(minutes=30), {"served": [0], "engagements": [0]}))
    world.land(ctx)
    extend(ctx)
    rebuild(ctx, "again", START, START + ctx.pipeline.interval, lambda row: None)
    maintain(replace(ctx, now=lambda: LANDED_AT + timedelta(days=1)), RETENTION)
    check_against_oracle(world, ctx)
    landed = [world.table(ctx, f"landing/{world.name}.{topic}") for topic in ("served", "engagements")]
    for rows in landed:
        assert len({(row["_partition"], row["_offset"]) for row in rows}) == len(rows)

    user = world.training(ctx)[0]["user_id"]
    erasing = world.pipeline(LONG.replace("topic: t.", "topic: {t}.") + "erase: {by: [user_id]}\n")
    others = [row for row in world.training(ctx) if row["user_id"] != user]
    erase(erasing, "one", [f"user_id={user}"], who="ann")
    assert [row["_offset"] for row in world.training(ctx)] == [row["_offset"] for row in others]
    require_intact(erasing.home)
    assert lossy.lost > 40
