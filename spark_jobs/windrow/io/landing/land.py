"""Kafka topics into append-only landing tables: every offset exactly once, then the clock.

    ask the broker ─▶ plan offsets ─▶ one Delta commit a topic ─▶ read it back ─▶ one clock commit for all
                                       (the truth: its offsets                     (derived: repaired from the
                                        stand in the commit)                        truth by the next run)

One process lands a pipeline at a time; the lock dies with its holder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import crash_points, scan, tables
from windrow.io.delta.locks import held
from windrow.io.delta.lookup import Range
from windrow.io.landing import broker, gaps
from windrow.io.landing.batches import APP_ID, Batch, committed
from windrow.io.landing.gaps import AcceptedGap
from windrow.io.landing.offsets import NOTHING, GivenUp, Rows, next_batch, refuse_strange
from windrow.io.registers import clocks
from windrow.schemas import BATCH
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import advance, topic_clock
from windrow.semantics.intervals import at_micros
from windrow.transforms.decode import decode

RECORDS_PER_FILE = 250_000
TOPICS_AT_ONCE = 4
"""Small batches are more planning than work: topics are landed side by side."""


def land(
    spark: SparkSession,
    home: Home,
    now: Callable[[], datetime],
    given_up: GivenUp = NOTHING,
) -> clocks.Observation:
    """Land what every topic of the pipeline has, and record the clock.

    A topic that fails keeps the clock where it is, and no other topic from landing: its records may not wait.

    Raises:
        gaps.NoSuchGap: what is given up is not what is lost.
        offsets.OffsetsGone, kafka.BrokerUnreachable, kafka.TopicMissing, BalanceBroken, locks.Locked
    """
    with held(home.lock(Table.LANDING)):
        previous = clocks.observe(home)
        landed_at = now()
        topics = broker.describe(home.places.kafka, home.pipeline.topics)
        refuse_strange(given_up, previous, topics)

        def land_topic(name: str) -> Rows:
            return _land_topic(spark, home, topics[name], landed_at, previous.of_topic(name), given_up)

        with ThreadPoolExecutor(TOPICS_AT_ONCE) as pool:
            landed = [pool.submit(land_topic, name) for name in home.pipeline.topics]
        rows = [row for topic in landed for row in topic.result()]
        seen = clocks.record(home, previous.number + 1, rows)
        crash_points.point("land.after_clock")
        return seen


def _land_topic(
    spark: SparkSession,
    home: Home,
    topic: broker.Topic,
    landed_at: datetime,
    previous: Rows,
    given_up: GivenUp,
) -> Rows:
    path = home.landing(topic.name)
    previous = _repaired(spark, home.pipeline, path, topic.name, previous)
    batch = next_batch(topic, landed_at, previous, given_up)
    crash_points.point("land.offsets_planned")
    if not batch.is_committed:
        return _clock_rows(home.pipeline, batch, previous, counted={})
    delivered = _commit(spark, home, path, batch)
    crash_points.point("land.after_commit")
    return _clock_rows(home.pipeline, batch, previous, _count(spark, home.pipeline, path, batch, delivered))


def _commit(spark: SparkSession, home: Home, path: str, batch: Batch) -> int:
    """One Delta commit, read back, because one of a known version would be skipped in silence.

    Returns:
        how many records Kafka delivered, counted where they came in.
    """
    records = broker.read(
        spark, home.places.kafka, batch.topic, {p: (start, until) for p, (start, until, _) in batch.ranges.items()}
    )
    delivered = Observation()
    rows = decode(
        records.observe(delivered, F.count(F.lit(1)).alias("records")),
        home.pipeline,
        batch.topic,
        epoch=batch.epoch,
        batch=batch.number,
        landed_at=F.lit(batch.landed_at),
    )
    crash_points.point("land.before_commit")
    (
        _in_few_files(rows, batch.size)
        .write.format("delta")
        .mode("append")
        .option("mergeSchema", "true")
        .option("txnAppId", APP_ID)
        .option("txnVersion", str(batch.number))
        .option("userMetadata", batch.to_json())
        .save(path)
    )
    written = committed(path, batch.number)
    if written is None or written[0] != batch:
        raise tables.WriteSkipped(
            f"{path}: batch {batch.number} in the table is not the one this run wrote; another writer was "
            "faster. Run again: it will go on from what is there."
        )
    return int(delivered.get["records"])


def _in_few_files(rows: DataFrame, size: int) -> DataFrame:
    return rows.coalesce(max(1, -(-size // RECORDS_PER_FILE)))


def _repaired(spark: SparkSession, pipeline: Pipeline, path: str, topic: str, previous: Rows) -> Rows:
    """The clock's rows, with the batch that a killed run committed and did not get to clock."""
    clocked = previous[0]["batch"] if previous else 0
    for number in range(clocked + 1, max(0, tables.version_of(path, APP_ID)) + 1):
        found = committed(path, number)
        if found is None:
            raise RuntimeError(
                f"{path}: batch {number} of {topic} is in the table but its commit is not in the log any more, "
                "so its offsets are unknown. Restore the table's _delta_log, or the clock table, from a backup."
            )
        batch, written = found
        previous = _clock_rows(pipeline, batch, previous, _count(spark, pipeline, path, batch, written))
    return previous


def _count(
    spark: SparkSession, pipeline: Pipeline, path: str, batch: Batch, delivered: int | None
) -> dict[int, Mapping[str, Any]]:
    """What a committed batch holds, by partition: one pass over a few narrow columns.

    Raises:
        BalanceBroken: it does not hold as many rows as records were delivered.
    """
    good = F.col("_quarantined").isNull()
    timed = good & F.col("_event_time").isNotNull()
    served = good & F.lit(batch.topic in pipeline.left.topics)
    if pipeline.left.where and batch.topic in pipeline.left.topics:
        served = served & F.expr(pipeline.left.where)
    written = scan.rows(spark, path, (Range(BATCH, batch.number, batch.number),))
    assert written is not None
    rows = (
        written.where(F.col(BATCH) == batch.number)
        .groupBy("_partition")
        .agg(
            F.count_if(good).alias("landed"),
            F.count_if(~good).alias("quarantined"),
            F.count_if(served & (F.col("_event_time") < F.lit(pipeline.start))).alias("before_start"),
            F.unix_micros(F.max(F.when(good, F.col("_event_time")))).alias("newest"),
            F.unix_micros(F.min_by("_event_time", F.when(timed, F.col("_offset")))).alias("first"),
        )
        .collect()  # one row a partition
    )
    stored = sum(row["landed"] + row["quarantined"] for row in rows)
    if delivered is not None and stored != delivered:
        raise BalanceBroken(
            f"{path}: batch {batch.number} holds {stored} rows, but {delivered} records were delivered. The batch is "
            "committed and must not be trusted: keep the table, and report this with its commit log."
        )
    return {row["_partition"]: row.asDict() for row in rows}


def _clock_rows(pipeline: Pipeline, batch: Batch, previous: Rows, counted: Mapping[int, Mapping[str, Any]]) -> Rows:
    """Rule 2, 5 and 6: the clock after the batch, from the clock before it. Counts go on from the last row."""
    moved = batch.number if batch.is_committed else batch.number - 1
    lost = _gaps_after(batch, previous, counted)
    held_at = topic_clock([clocks.partition_clock(row) for row in previous])
    same = {row["partition"]: row for row in previous if row["topic_id"] == batch.topic_id}
    rows = []
    for partition, (start, until, end) in batch.ranges.items():
        last, count = same.get(partition), counted.get(partition, {})
        newest = _newest(last, count.get("newest"))
        ooo = pipeline.out_of_orderness(batch.topic)
        clock = advance(
            clocks.partition_clock(last) if last else None,
            topic=batch.topic,
            epoch=batch.epoch,
            partition=partition,
            next_offset=until,
            end_offset=end,
            newest_at=newest,
            landed_at=batch.landed_at,
            out_of_orderness=ooo,
            idle=pipeline.idle_policy,
            topic_clock=held_at,
        )
        landed, quarantined = count.get("landed", 0), count.get("quarantined", 0)
        grown = {
            "read": until - start,
            "landed": landed,
            "quarantined": quarantined,
            "skipped": until - start - landed - quarantined,
            "before_start": count.get("before_start", 0),
        }
        rows.append(
            {
                "topic": batch.topic,
                "topic_id": batch.topic_id,
                "epoch": batch.epoch,
                "partition": partition,
                "batch": moved,
                "next_offset": until,
                "end_offset": end,
                "newest_at": newest,
                "clock_at": clock.clock_at,
                "idle": clock.clock_at is not None and clock.clock_at != clock.event_clock(ooo),
                "landed_at": batch.landed_at,
                **{name: value + (last[name] if last else 0) for name, value in grown.items()},
                "gap": gaps.to_text(lost.get(partition, ())),
            }
        )
    return tuple(rows)


def _gaps_after(batch: Batch, previous: Rows, counted: Mapping[int, Mapping[str, Any]]) -> dict[int, list[AcceptedGap]]:
    """Every accepted gap of the topic, by the partition whose clock row carries it on."""
    carried: dict[int, list[AcceptedGap]] = {}
    for gap in (*gaps.of_rows(previous), *batch.gaps):
        first = counted.get(gap.lost.partition, {}).get("first")
        if gap.next_after is None and gap.epoch == batch.epoch and first is not None:
            gap = gap.ended(batch.number, at_micros(first))
        at = gap.lost.partition if gap.lost.partition in batch.ranges else min(batch.ranges)
        carried.setdefault(at, []).append(gap)
    return carried


def _newest(last: Mapping[str, Any] | None, micros: int | None) -> datetime | None:
    seen = [last["newest_at"]] if last and last["newest_at"] is not None else []
    return max([*seen, *([] if micros is None else [at_micros(micros)])], default=None)
