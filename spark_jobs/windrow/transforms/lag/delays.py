"""What the landed rows say about delay and disorder, counted in bins: only the counts ever leave Spark.

Delay is how long after its row a label came; disorder is how far behind the newest event of its partition an event
was when it arrived, in offset order (a "time jump"; 0 for an event that arrived in order):

    offset          0      1      2      3      4
    event time     10:00  10:01  10:05  10:02  10:06
    disorder        0      0      0      3 min  0

A label that several rows could carry is counted once, at the nearest row before it: where keys repeat, every wider
window would otherwise look like a gain. Nothing here multiplies rows: one sort a key, one sort a partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from windrow.schemas import EVENT_TIME, ROW_ID
from windrow.semantics.intervals import MICROSECOND, micros

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
ACCURACY = 1_000
"""Quantiles are approximate: their rank is off by at most one in this many."""

HORIZONS = 64
"""How finely the age of young rows is told apart. Coarser loses some of their labels, never invents one."""


@dataclass(frozen=True)
class Grid:
    """Bins of one step: bin 0 for zero and below, bin i for `(step * (i - 1), step * i]`, up to `bins`."""

    step: timedelta
    bins: int

    @property
    def widest(self) -> timedelta:
        return self.step * self.bins

    def bin_of(self, micros: Column) -> Column:
        """The bin of a length in microseconds; what is longer than the widest is in the last."""
        return F.least(F.greatest(self._steps(micros), F.lit(0)), F.lit(self.bins)).cast("int")

    def bins_before(self, micros: Column) -> Column:
        """How many bins end before a horizon: coarse, and never more than there are."""
        coarse = max(1, self.bins // HORIZONS)
        ended = F.greatest(self._steps(micros), F.lit(0))
        return F.when(ended > self.bins, self.bins + 1).otherwise(ended - F.pmod(ended, F.lit(coarse))).cast("int")

    def _steps(self, micros: Column) -> Column:
        """Whole steps that cover a length, in integer arithmetic: rounded towards the longer."""
        step = F.lit(self.step // MICROSECOND).cast("bigint")
        return ((micros + F.pmod(-micros, step)) / step).cast("bigint")


def sampled(rows: DataFrame, key: Sequence[str], share: float) -> DataFrame:
    """All rows of a share of the keys, the same keys on every side and in every run."""
    if share >= 1:
        return rows
    parts = 1 << 20
    return rows.where(F.pmod(F.xxhash64(*[F.col(name) for name in key]), F.lit(parts)) < F.lit(int(share * parts)))


def label_delays(
    left: DataFrame,
    labels: DataFrame,
    keys: tuple[Sequence[str], Sequence[str]],
    *,
    begin: datetime,
    end: datetime,
    before: timedelta,
    heard_until: datetime,
    grid: Grid,
) -> DataFrame:
    """Labels of rows in [begin, end) by delay and by how long their row could be watched.

    Args:
        left: kept left rows from `begin - grid.widest` to `end + grid.widest`.
        labels: kept labels of that stretch.
        keys: key columns of the left and of the label stream.
        heard_until: the label topic's clock; labels from it on are not complete and are left out.
    Returns:
        (`bin`, `seen`, `labels`): see `semantics.lag.recall.Delays`; `bin` -1 counts labels of [begin, end) that no row
        could carry within the grid.
    """
    names = [f"_key_{i}" for i in range(len(keys[0]))]

    def side(rows: DataFrame, key: Sequence[str], is_label: bool) -> DataFrame:
        columns = [F.col(k).alias(n) for k, n in zip(key, names, strict=True)]
        return rows.select(*columns, F.unix_micros(EVENT_TIME).alias("at"), F.lit(is_label).alias("is_label")).where(
            F.expr(" and ".join(f"{n} is not null" for n in names))
        )

    both = side(left, keys[0], False).unionByName(side(labels, keys[1], True))
    row_at = F.when(~F.col("is_label"), F.col("at"))
    earlier = Window.partitionBy(*names).orderBy("at", "is_label")
    later = Window.partitionBy(*names).orderBy(F.col("at").desc(), "is_label")
    nearest = F.last(row_at, ignorenulls=True).over(earlier)
    near = F.when(F.col("at") - nearest <= F.lit(grid.widest // MICROSECOND), nearest)
    if before > timedelta(0):  # a label before its row: the next row, where none came earlier
        following = F.last(row_at, ignorenulls=True).over(later)
        near = F.coalesce(near, F.when(following - F.col("at") <= F.lit(before // MICROSECOND), following))
    lo, hi, until = (F.lit(micros(at)) for at in (begin, end, heard_until))
    met = both.select("at", "is_label", near.alias("row_at")).where(F.col("is_label") & (F.col("at") < until))
    mine = (F.col("row_at") >= lo) & (F.col("row_at") < hi)
    orphan = F.col("row_at").isNull() & (F.col("at") >= lo) & (F.col("at") < hi)
    return (
        met.where(mine | orphan)
        .select(
            F.when(orphan, F.lit(-1)).otherwise(grid.bin_of(F.col("at") - F.col("row_at"))).alias("bin"),
            F.when(orphan, F.lit(0)).otherwise(grid.bins_before(until - F.col("row_at"))).alias("seen"),
        )
        .groupBy("bin", "seen")
        .agg(F.count(F.lit(1)).alias("labels"))
    )


def with_disorder(rows: DataFrame) -> DataFrame:
    """Adds `behind`: microseconds between the newest event of the partition so far and the event.

    `rows` are the trusted records of whole topics: an event is behind what arrived before it, wanted or not.
    """
    so_far = (
        Window.partitionBy(*ROW_ID[:-1]).orderBy("_offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at = F.unix_micros(EVENT_TIME)
    return rows.withColumn("behind", F.max(at).over(so_far) - at)


def disorder_by_partition(rows: DataFrame) -> DataFrame:
    """One line a partition of `with_disorder` rows: events, share in order, quantiles and the largest, in microseconds.

    Quantiles are approximate (`ACCURACY`).
    """
    found = F.percentile_approx("behind", list(QUANTILES.values()), ACCURACY)
    return rows.groupBy("_topic", "_partition").agg(
        F.count(F.lit(1)).alias("events"),
        F.avg((F.col("behind") == 0).cast("double")).alias("in_order"),
        *[F.element_at(found, i + 1).alias(name) for i, name in enumerate(QUANTILES)],
        F.max("behind").alias("most"),
    )


def disorder_counts(rows: DataFrame, newest: Mapping[int, datetime], grid: Grid) -> DataFrame:
    """Rows of one topic by disorder and by how much could have shown: (`bin`, `seen`, `labels`).

    An event that is `d` behind lands when its partition's newest event is `d` further: of the last events only the
    orderly ones are there yet. `newest`: partition → its newest landed event.
    """
    pairs = [F.lit(x) for p, at in sorted(newest.items()) for x in (p, micros(at))]
    newest_at = F.element_at(F.create_map(*pairs), F.col("_partition")) if pairs else F.lit(None).cast("bigint")
    # a bin that ends exactly at the newest event is seen: one microsecond more than bins_before asks for
    horizon = newest_at - F.unix_micros(EVENT_TIME) + 1
    seen = F.coalesce(grid.bins_before(horizon), F.lit(grid.bins + 1))
    return (
        rows.select(grid.bin_of(F.col("behind")).alias("bin"), seen.alias("seen"))
        .groupBy("bin", "seen")
        .agg(F.count(F.lit(1)).alias("labels"))
    )
