"""Counts of a landed batch, by partition: the clock and the landing balance are computed from them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, OFFSET, PARTITION, QUARANTINED
from windrow.config import Pipeline
from windrow.semantics.intervals import at_micros
from windrow.semantics.landing.clock_rows import Counts


def count_by_partition(rows: DataFrame, pipeline: Pipeline, topic: str) -> DataFrame:
    """Count the landing rows of a batch; one pass over a few narrow columns.

    Instants are in microseconds since 1970, because a Python process in another time zone would shift timestamps.

    Args:
        rows: landing rows of one batch of the topic.

    Returns:
        One row per partition, for `counts_of`.
    """
    good = F.col(QUARANTINED).isNull()
    has_time = good & F.col(EVENT_TIME).isNotNull()
    served = good & F.lit(topic in pipeline.left.topics)
    if pipeline.left.where and topic in pipeline.left.topics:
        served = served & F.expr(pipeline.left.where)
    return rows.groupBy(PARTITION).agg(
        F.count_if(good).alias("landed"),
        F.count_if(~good).alias("quarantined"),
        F.count_if(served & (F.col(EVENT_TIME) < F.lit(pipeline.start))).alias("before_start"),
        F.unix_micros(F.max(F.when(good, F.col(EVENT_TIME)))).alias("newest_us"),
        F.unix_micros(F.min_by(EVENT_TIME, F.when(has_time, F.col(OFFSET)))).alias("first_us"),
    )


def counts_of(rows: Iterable[Row]) -> dict[int, Counts]:
    """Rows of `count_by_partition` as values, by partition."""
    return {
        row[PARTITION]: Counts(
            row["landed"],
            row["quarantined"],
            row["before_start"],
            None if row["newest_us"] is None else at_micros(row["newest_us"]),
            None if row["first_us"] is None else at_micros(row["first_us"]),
        )
        for row in rows
    }
