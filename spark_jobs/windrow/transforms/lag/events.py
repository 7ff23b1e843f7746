"""Landed records as the few numbers that a lag analysis needs, and left rows with the labels that they may match.

All times are microseconds since 1970. `partition` is the index of a partition in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import ARRIVED_AT, EVENT_TIME, QUARANTINED, RECORD_AT
from windrow.config import Pipeline, Stream
from windrow.transforms.lag.delays import sampled
from windrow.transforms.lag.plan import LagPlan
from windrow.transforms.streams import rows_of

EVENT_COLUMNS = "partition int, event_at bigint, record_at bigint, offset bigint"
"""What a clock needs of an event."""
LABEL = "struct<stream: int, partition: int, event_at: bigint, record_at: bigint, offset: bigint>"
"""A label; `stream` is the index of its label stream."""
ROW_COLUMNS = f"{EVENT_COLUMNS}, labels array<{LABEL}>"
"""A left row, and every label that some scenario may match to it."""


def trusted_events(landed: DataFrame, first: datetime, last: datetime) -> DataFrame:
    """The records of [first, last] that clocks trust: not quarantined.

    Returns:
        _topic, _epoch, _partition, event_at, record_at, offset.
    """
    at = F.col(EVENT_TIME)
    trusted = landed.where(F.col(QUARANTINED).isNull() & (at >= F.lit(first)) & (at <= F.lit(last)))
    return trusted.select("_topic", "_epoch", "_partition", *_numbers())


def events_by_partition(events: DataFrame) -> DataFrame:
    """One row per partition: _topic, _epoch, _partition, events (count).

    Args:
        events: records of any topics.
    """
    return events.groupBy("_topic", "_epoch", "_partition").agg(F.count(F.lit(1)).alias("events"))


def indexed_events(events: DataFrame, plan: LagPlan) -> DataFrame:
    """`trusted_events` as `EVENT_COLUMNS`."""
    return events.select(partition_index(plan), "event_at", "record_at", "offset")


def key_names(pipeline: Pipeline) -> list[str]:
    """Names of the key columns of `stream_rows`, the same for all streams."""
    return [f"_key_{i}" for i in range(len(pipeline.left.key))]


def stream_rows(
    landed: DataFrame,
    pipeline: Pipeline,
    stream: Stream,
    first: datetime,
    last: datetime,
    *,
    is_left: bool,
    plan: LagPlan,
    sample: float,
) -> DataFrame:
    """The rows of a stream that the join would keep: `EVENT_COLUMNS`, and the key in the types of the left stream.

    Args:
        landed: landing rows of the stream.
        first, last: event times; `last` is included, except for the left stream.
        sample: share of the keys. Keys are cast first, so that equal keys are in the same sample on each side.
    """
    rows = rows_of(landed, stream, first, last, ends_in=not is_left, mark=pipeline.mark_of(stream)).kept
    left = pipeline.left
    types = [left.columns[name] for name in left.key]
    names = key_names(pipeline)
    key = [F.col(k).cast(kind).alias(name) for k, kind, name in zip(stream.key, types, names, strict=True)]
    return sampled(rows.select(partition_index(plan), *_numbers(), *key), names, sample)


def rows_with_labels(left: DataFrame, labels: DataFrame, keys: Sequence[str], plan: LagPlan) -> DataFrame:
    """Left rows with the labels of their key that some scenario may match (`ROW_COLUMNS`).

    Args:
        left: `EVENT_COLUMNS` and the key columns.
        labels: the same, and `stream`, the index of the label stream.
    """
    label = F.struct("stream", "partition", "event_at", "record_at", "offset")
    by_key = labels.groupBy(*keys).agg(F.collect_list(label).alias("of_key"))
    joined = left.alias("l").join(by_key.alias("k"), on=[F.col(f"l.{k}") == F.col(f"k.{k}") for k in keys], how="left")
    before = F.array(*[F.lit(b).cast("bigint") for b, _ in plan.widest] or [F.lit(0).cast("bigint")])
    after = F.array(*[F.lit(a).cast("bigint") for _, a in plan.widest] or [F.lit(0).cast("bigint")])

    def is_inside(label: Column) -> Column:
        apart = label["event_at"] - F.col("l.event_at")
        return (apart >= -F.get(before, label["stream"])) & (apart <= F.get(after, label["stream"]))

    matched = F.coalesce(F.filter("of_key", is_inside), F.array().cast(f"array<{LABEL}>"))
    return joined.select("l.partition", "l.event_at", "l.record_at", "l.offset", matched.alias("labels"))


def partition_index(plan: LagPlan) -> Column:
    """Index of a record's partition in the plan, null if it has none.

    One array of indexes per topic and epoch, looked up by the partition's number: a map keyed by all three would have
    to be searched for every record.

    >>> from types import SimpleNamespace
    >>> plan = SimpleNamespace(partition_ids=(("feed", 0, 0), ("feed", 0, 2), ("feed", 1, 0)))
    >>> rows = spark.sql("select * from values (0, 0), (0, 1), (0, 2), (1, 0), (2, 0) as r(_epoch, _partition)")
    >>> rows = rows.withColumn("_topic", F.lit("feed"))
    >>> rows.select("_topic", "_epoch", "_partition", partition_index(plan)).show()
    +------+------+----------+---------+
    |_topic|_epoch|_partition|partition|
    +------+------+----------+---------+
    |  feed|     0|         0|        0|
    |  feed|     0|         1|     NULL|
    |  feed|     0|         2|        1|
    |  feed|     1|         0|        2|
    |  feed|     2|         0|     NULL|
    +------+------+----------+---------+
    <BLANKLINE>
    """
    index = {key: n for n, key in enumerate(plan.partition_ids)}
    column = F.lit(None).cast("int")
    for topic, epoch in dict.fromkeys((topic, epoch) for topic, epoch, _ in plan.partition_ids):
        numbers = range(1 + max(p for t, e, p in plan.partition_ids if (t, e) == (topic, epoch)))
        indexes = F.array(*[F.lit(index.get((topic, epoch, p))).cast("int") for p in numbers])
        is_here = (F.col("_topic") == topic) & (F.col("_epoch") == epoch)
        column = F.when(is_here, F.get(indexes, F.col("_partition"))).otherwise(column)
    return column.alias("partition")


def _numbers() -> tuple[Column, Column, Column]:
    """Event time, time on the broker (or of landing, for a record without one) and offset."""
    record_at = F.coalesce(F.col(RECORD_AT), F.col(ARRIVED_AT))
    return (
        F.unix_micros(F.col(EVENT_TIME)).alias("event_at"),
        F.unix_micros(record_at).alias("record_at"),
        F.col("_offset").alias("offset"),
    )
