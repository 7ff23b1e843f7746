"""How many rows each interval has, by topic partition: readable records, and those that could not be read.

Every record counts in the interval of its own event time, whatever windows it is in. Aggregates only, no rows.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, INTERVAL, PARTITION, TOPIC
from windrow.transforms.given import given
from windrow.transforms.join import interval_of
from windrow.transforms.streams import StreamRows


def volume_counts(side: StreamRows, start: datetime, end: datetime, length: timedelta) -> DataFrame:
    """One row per interval: `partitions`, a map from `topic/partition` to rows `read`, `selected` by `where`, `canary`.

    Canaries are counted in neither of the first two: a topic is as empty as it is without them.

    Args:
        start, end: rows with event time in [start, end) count.
        length: length of an interval.

    >>> from types import SimpleNamespace
    >>> from datetime import UTC
    >>> rows = spark.sql('''select timestamp'2026-11-01 00:00:01Z' as _event_time, t.*, false as _canary
    ...     from values ('feed.served', 0, false), ('feed.served', 0, true) as t(_topic, _partition, _filtered)''')
    >>> day = datetime(2026, 11, 1, tzinfo=UTC)
    >>> hour = timedelta(hours=1)
    >>> volume_counts(SimpleNamespace(read=rows), day, day + hour, hour).select("partitions").show(truncate=False)
    +----------------------------+
    |partitions                  |
    +----------------------------+
    |{feed.served/0 -> {2, 1, 0}}|
    +----------------------------+
    <BLANKLINE>
    """
    at = F.col(EVENT_TIME)
    counted = (
        side.read.where((at >= given(start)) & (at < given(end)))
        .groupBy(interval_of(at, length).alias(INTERVAL), TOPIC, PARTITION)
        .agg(
            F.count_if(~F.col("_canary")).alias("read"),
            F.count_if(~F.col("_filtered") & ~F.col("_canary")).alias("selected"),
            F.count_if("_canary").alias("canary"),
        )
    )
    entry = F.struct(F.concat_ws("/", TOPIC, PARTITION), F.struct("read", "selected", "canary"))
    return counted.groupBy(INTERVAL).agg(F.map_from_entries(F.collect_list(entry)).alias("partitions"))


def unread_counts(unread: DataFrame, length: timedelta) -> DataFrame:
    """One row per interval: `topics`, a map from topic to the number of records that could not be read.

    Args:
        unread: `_topic` and `_event_time` of each such record (`io.training.unread`).
        length: length of an interval.
    """
    counted = unread.groupBy(interval_of(F.col(EVENT_TIME), length).alias(INTERVAL), TOPIC).count()
    entry = F.struct(F.col(TOPIC), F.col("count"))
    return counted.groupBy(INTERVAL).agg(F.map_from_entries(F.collect_list(entry)).alias("topics"))
