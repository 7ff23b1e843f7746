"""What became of the pairs of canaries, joined as other rows are (rule 23). Aggregates only, no rows.

`semantics.canary.pairs` counts the same, slow and obvious; tests compare both.
"""

from __future__ import annotations

from datetime import timedelta
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.columns import ARRIVED_AT, EVENT_TIME, INTERVAL, OFFSET, PARTITION, TOPIC
from windrow.config import Pipeline, RightStream
from windrow.transforms.join import interval_of, with_matches
from windrow.transforms.streams import Inputs

_LABEL = {"topic": TOPIC, "partition": PARTITION, "offset": OFFSET, "event_time": EVENT_TIME}
"""A label as the broker acknowledged it: column of `schemas.CANARIES` → column of the landed row. Where a broker lost
what it had acknowledged, another record has the offset; it has another time."""


def pair_counts(pipeline: Pipeline, acknowledged: DataFrame, read: Inputs, length: timedelta) -> DataFrame:
    """One row per interval: `streams`, a map from label stream to `sent`, `matched` and `delay_us` (the longest).

    The delay is the time from a label's event to the landing of its pair's later row.

    Args:
        acknowledged: columns of `schemas.CANARIES`, at least of the pairs of the intervals.
        read: what the join reads.
        length: length of an interval.
    """
    found = reduce(DataFrame.unionByName, [_matched(pipeline, stream, read) for stream in pipeline.label_streams])
    labels = acknowledged.where(F.col("stream").isin([stream.name for stream in pipeline.label_streams]))
    pairs = labels.join(F.broadcast(found), on=["stream", "served_at", *_LABEL], how="left")
    delay = F.unix_micros("_landed_at") - F.unix_micros("event_time")
    counted = pairs.groupBy(interval_of(F.col("served_at"), length).alias(INTERVAL), "stream").agg(
        F.count(F.lit(1)).alias("sent"), F.count("_landed_at").alias("matched"), F.max(delay).alias("delay_us")
    )
    entry = F.struct(F.col("stream"), F.struct("sent", "matched", "delay_us"))
    return counted.groupBy(INTERVAL).agg(F.map_from_entries(F.collect_list(entry)).alias("streams"))


def _matched(pipeline: Pipeline, stream: RightStream, read: Inputs) -> DataFrame:
    """Pairs of landed canaries that the join finds: `stream`, `served_at`, `_LABEL` and `_landed_at`; each once."""
    landed_at = f"{ARRIVED_AT}_left"
    rows = read.left.canaries.select(*pipeline.left.key, EVENT_TIME, F.col(ARRIVED_AT).alias(landed_at))
    joined = with_matches(rows, read.rights[stream.name].canaries, None, stream, pipeline)
    one = joined.select(EVENT_TIME, landed_at, F.explode(stream.name).alias("_label"))
    pairs = one.select(
        F.lit(stream.name).alias("stream"),
        F.col(EVENT_TIME).alias("served_at"),
        *[F.col(f"_label.{column}").alias(name) for name, column in _LABEL.items()],
        F.greatest(landed_at, f"_label.{ARRIVED_AT}").alias("_landed_at"),
    )
    return pairs.dropDuplicates(["stream", "served_at", *_LABEL])
