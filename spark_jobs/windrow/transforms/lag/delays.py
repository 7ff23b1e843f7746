"""Delay and disorder of landed rows, counted in bins: only the counts ever leave Spark.

Delay is the time from a row to its label. Disorder is how far an event was behind the newest event of its partition
when it arrived, in offset order (a "time jump"; 0 for an event that arrived in order):

    offset          0      1      2      3      4
    event time     10:00  10:01  10:05  10:02  10:06
    disorder        0      0      0      3 min  0

A label that several rows could carry is counted once, at the nearest row before it: where keys repeat, every wider
window would otherwise seem to catch more. Rows are never multiplied: one sort per key, one sort per partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, QUARANTINED, ROW_ID
from windrow.config import Pipeline
from windrow.semantics.intervals import MICROSECOND, micros
from windrow.semantics.lag.recall import DelayCounts
from windrow.transforms.lag.grids import Grid
from windrow.transforms.streams import selected

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
ACCURACY = 1_000
"""Quantiles are approximate: their rank is off by at most one in this many."""

_SAMPLE_PARTS = 1 << 20
"""Keys are hashed to this many parts, so a sample's share is a multiple of about one millionth."""


@dataclass(frozen=True)
class DelayStatistics:
    """Delay and disorder of a range of landed rows.

    Args:
        delays: label stream → counts; without the streams whose topic has no clock.
        orphans: label stream → labels of the range that no row could carry.
        disorder: label stream → counts.
        partitions: one row per partition (`disorder_by_partition`).
    """

    delays: Mapping[str, DelayCounts]
    orphans: Mapping[str, int]
    disorder: Mapping[str, DelayCounts]
    partitions: tuple[Mapping[str, Any], ...]


def sampled(rows: DataFrame, key: Sequence[str], share: float) -> DataFrame:
    """All rows of a share of the keys: the same keys for every stream and in every run.

    Args:
        rows: rows of one stream.
        key: columns that are hashed.
        share: 0 to 1; from 1 on all rows.
    """
    if share >= 1:
        return rows
    # by hash of the key, so that a row and its labels are in the sample together, in every run
    part = F.pmod(F.xxhash64(*[F.col(name) for name in key]), F.lit(_SAMPLE_PARTS))
    return rows.where(part < F.lit(int(share * _SAMPLE_PARTS)))


def label_delays(
    left: DataFrame,
    labels: DataFrame,
    keys: tuple[Sequence[str], Sequence[str]],
    *,
    begin: datetime,
    end: datetime,
    before: timedelta,
    complete_until: datetime,
    grid: Grid,
) -> DataFrame:
    """Count the labels of rows in [begin, end) by delay and by the horizon of their row.

    A label nine seconds after its row, in bins of five seconds, and a label without a row:

    >>> from datetime import UTC
    >>> at = "cast('2026-11-01 10:00:0{}Z' as timestamp) _event_time"
    >>> left = spark.sql(f"select 'a' user, {at.format(0)}")
    >>> labels = spark.sql(f"select 'a' user, {at.format(9)} union all select 'b', {at.format(1)}")
    >>> begin, minute = datetime(2026, 11, 1, 10, tzinfo=UTC), timedelta(minutes=1)
    >>> counts = label_delays(
    ...     left, labels, (["user"], ["user"]), begin=begin, end=begin + minute, before=timedelta(0),
    ...     complete_until=begin + minute, grid=Grid(minute / 12, 4),
    ... )
    >>> counts.orderBy("bin").show()
    +---+-------+------+
    |bin|horizon|labels|
    +---+-------+------+
    | -1|      0|     1|
    |  2|      5|     1|
    +---+-------+------+
    <BLANKLINE>

    Args:
        left: kept left rows from `begin - grid.widest` to `end + grid.widest`.
        labels: kept labels of that stretch.
        keys: key columns of the left and of the label stream.
        before: how long before its row a label may come.
        complete_until: the label topic's clock. Labels from it on have not all landed, and are left out.
    Returns:
        bin, horizon, labels (count): see `semantics.lag.recall.DelayCounts`. Bin -1 counts labels of [begin, end) that
        no row could carry within the grid.
    """
    lo, hi, until = (F.lit(micros(at)) for at in (begin, end, complete_until))
    paired = _with_row_at(_both_sides(left, labels, keys), before, grid)
    complete = paired.where(F.col("is_label") & (F.col("at") < until))
    is_in_range = (F.col("row_at") >= lo) & (F.col("row_at") < hi)
    is_orphan = F.col("row_at").isNull() & (F.col("at") >= lo) & (F.col("at") < hi)
    delay, horizon = F.col("at") - F.col("row_at"), until - F.col("row_at")
    return (
        complete.where(is_in_range | is_orphan)
        .select(
            F.when(is_orphan, F.lit(-1)).otherwise(grid.bin_of(delay)).alias("bin"),
            F.when(is_orphan, F.lit(0)).otherwise(grid.bins_before(horizon)).alias("horizon"),
        )
        .groupBy("bin", "horizon")
        .agg(F.count(F.lit(1)).alias("labels"))
    )


def with_disorder(rows: DataFrame) -> DataFrame:
    """Add `behind`: microseconds from the event to the newest event of its partition so far, 0 in order.

    >>> at = "timestamp '2026-11-01 10:0{}:00'"
    >>> values = ", ".join(f"({n}, {at.format(m)})" for n, m in enumerate((0, 5, 2, 6)))
    >>> rows = spark.sql(f"select 'a' _topic, 0 _epoch, 0 _partition, * from values {values} v(_offset, _event_time)")
    >>> with_disorder(rows).select("_offset", "behind").orderBy("_offset").show()
    +-------+---------+
    |_offset|   behind|
    +-------+---------+
    |      0|        0|
    |      1|        0|
    |      2|180000000|
    |      3|        0|
    +-------+---------+
    <BLANKLINE>

    Args:
        rows: the trusted records of whole topics. Records that no stream selects count too: they move the clock.
    """
    so_far = (
        Window.partitionBy(*ROW_ID[:-1]).orderBy("_offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at = F.unix_micros(EVENT_TIME)
    return rows.withColumn("behind", F.max(at).over(so_far) - at)


def topic_disorder(
    landed: DataFrame, pipeline: Pipeline, topic: str, start: datetime, end: datetime, until: datetime
) -> DataFrame:
    """Disorder of the trusted records of a topic in [start, end), computed among those of [start, until).

    Args:
        landed: the topic's landing rows, with the columns that its label streams name.
    Returns:
        event time, row id, behind (microseconds), and a boolean `is_<stream>` for each label stream of the topic.
    """
    at = F.col(EVENT_TIME)
    flags = [selected(s).alias(f"is_{s.name}") for s in pipeline.label_streams if topic in s.topics]
    trusted = landed.where(F.col(QUARANTINED).isNull() & (at >= F.lit(start)) & (at < F.lit(until)))
    return with_disorder(trusted.select(EVENT_TIME, *ROW_ID, *flags)).where(at < F.lit(end))


def disorder_by_partition(rows: DataFrame) -> DataFrame:
    """One row per partition of `with_disorder` rows.

    Returns:
        _topic, _partition; events (count); in_order (share); p50, p90, p99, p999 (approximate, see `ACCURACY`) and
        most, in microseconds.
    """
    quantiles = F.percentile_approx("behind", list(QUANTILES.values()), ACCURACY)
    return rows.groupBy("_topic", "_partition").agg(
        F.count(F.lit(1)).alias("events"),
        F.avg((F.col("behind") == 0).cast("double")).alias("in_order"),
        *[F.element_at(quantiles, i + 1).alias(name) for i, name in enumerate(QUANTILES)],
        F.max("behind").alias("most"),
    )


def disorder_counts(rows: DataFrame, newest: Mapping[int, datetime], grid: Grid) -> DataFrame:
    """Count `with_disorder` rows of one topic by disorder and by horizon: bin, horizon, labels (count).

    An event that is `d` behind lands when the newest event of its partition is `d` further. So of the last events only
    those in order have landed: the distance to the newest landed event is the horizon.

    Args:
        newest: partition → event time of its newest landed event.
    """
    pairs = [F.lit(x) for p, at in sorted(newest.items()) for x in (p, micros(at))]
    newest_at = F.element_at(F.create_map(*pairs), F.col("_partition")) if pairs else F.lit(None).cast("bigint")
    # `bins_before` counts the bins that end before the horizon. Here a bin that ends exactly at the newest event has
    # been observed too, hence one microsecond more.
    distance = newest_at - F.unix_micros(EVENT_TIME) + 1
    horizon = F.coalesce(grid.bins_before(distance), F.lit(grid.bins + 1))
    return (
        rows.select(grid.bin_of(F.col("behind")).alias("bin"), horizon.alias("horizon"))
        .groupBy("bin", "horizon")
        .agg(F.count(F.lit(1)).alias("labels"))
    )


def delay_counts(grid: Grid, rows: Iterable[Mapping[str, int]]) -> DelayCounts:
    """Collected rows of `label_delays` (without bin -1) or `disorder_counts` as counts.

    Args:
        grid: the bins that the rows were counted in.
        rows: with `bin`, `horizon` and `labels`.
    """
    counts: Counter[tuple[int, int]] = Counter()
    for row in rows:
        counts[row["bin"], row["horizon"]] += row["labels"]
    return DelayCounts(grid.step, grid.bins, counts)


def _both_sides(left: DataFrame, labels: DataFrame, keys: tuple[Sequence[str], Sequence[str]]) -> DataFrame:
    """Rows and labels with a key, one below the other: the key columns, at (microseconds), is_label."""
    names = _key_names(len(keys[0]))

    def side(rows: DataFrame, key: Sequence[str], is_label: bool) -> DataFrame:
        columns = [F.col(k).alias(n) for k, n in zip(key, names, strict=True)]
        all_known = F.expr(" and ".join(f"{n} is not null" for n in names))
        return rows.select(*columns, F.unix_micros(EVENT_TIME).alias("at"), F.lit(is_label).alias("is_label")).where(
            all_known
        )

    return side(left, keys[0], False).unionByName(side(labels, keys[1], True))


def _with_row_at(both: DataFrame, before: timedelta, grid: Grid) -> DataFrame:
    """Add `row_at`: the time of the nearest row before the label within the grid, else of the next row within `before`.

    One sort per key stands in for a join, which would give every label a row for each left row of its key.
    """
    names = _key_names(len(both.columns) - 2)
    row_at = F.when(~F.col("is_label"), F.col("at"))

    def nearest(order: Column) -> Column:  # at one instant the row sorts before the label, from both sides
        return F.last(row_at, ignorenulls=True).over(Window.partitionBy(*names).orderBy(order, "is_label"))

    # the nearest row carries the label here: a window that reaches it is the smallest that catches the label
    preceding = nearest(F.col("at").asc())
    carried_by = F.when(F.col("at") - preceding <= F.lit(grid.widest // MICROSECOND), preceding)
    if before > timedelta(0):
        following = nearest(F.col("at").desc())
        is_near = following - F.col("at") <= F.lit(before // MICROSECOND)
        carried_by = F.coalesce(carried_by, F.when(is_near, following))
    return both.select("at", "is_label", carried_by.alias("row_at"))


def _key_names(count: int) -> list[str]:
    return [f"_key_{i}" for i in range(count)]
