"""Counts of a landed batch, by partition: the clock and the landing balance are computed from them.

Where a batch has fewer rows than offsets, also the ranges of offsets without a row, and the event times around gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from windrow.columns import ERASED, EVENT_TIME, OFFSET, PARTITION, QUARANTINED, RECORD_AT
from windrow.config import Pipeline
from windrow.semantics.intervals import at_micros
from windrow.semantics.landing.batch import Batch, Offsets
from windrow.semantics.landing.clock_rows import Counts
from windrow.semantics.landing.replaced import LastRecord
from windrow.semantics.landing.undelivered import Neighbours
from windrow.transforms.conditions import any_of
from windrow.transforms.expressions import value_of
from windrow.transforms.streams import is_canary, is_unreadable

PIECE = 10_000
"""Ranges of undelivered offsets that the driver looks at in one go."""


def count_by_partition(rows: DataFrame, pipeline: Pipeline, topic: str) -> DataFrame:
    """Count the landing rows of a batch; one pass over a few narrow columns.

    Instants are in microseconds since 1970, because a Python process in another time zone would shift timestamps.

    Args:
        rows: landing rows of one batch of the topic.

    Returns:
        One row per partition, for `counts_of`.
    """
    good, clocked = is_good(), _moves_the_clock(pipeline, topic)
    ends_gap = clocked & F.col(RECORD_AT).isNotNull()
    served = F.lit(False)
    if topic in pipeline.left.topics:  # a right topic may lack the columns of the left stream's `where`
        is_probe = is_canary(pipeline.mark_of(pipeline.left))
        served = F.col(QUARANTINED).isNull() & ~is_unreadable(pipeline.left) & ~is_probe
        if pipeline.left.where:
            served = served & value_of(pipeline.left.where)
    return rows.groupBy(PARTITION).agg(
        F.count_if(good).alias("landed"),
        F.count_if(~good).alias("quarantined"),
        F.count_if(
            F.col(QUARANTINED).isNull() & any_of(is_unreadable(stream) for stream in pipeline.streams_of(topic))
        ).alias("unreadable"),
        F.count_if(served & (F.col(EVENT_TIME) < F.lit(pipeline.start))).alias("before_start"),
        F.unix_micros(F.max(F.when(clocked, F.col(EVENT_TIME)))).alias("newest_us"),
        F.unix_micros(F.min_by(EVENT_TIME, F.when(ends_gap, F.col(OFFSET)))).alias("first_us"),
        F.unix_micros(F.min_by(RECORD_AT, F.when(ends_gap, F.col(OFFSET)))).alias("first_record_us"),
        F.max(OFFSET).alias("last_offset"),
        F.unix_micros(F.max_by(RECORD_AT, OFFSET)).alias("last_record_us"),
    )


def _moves_the_clock(pipeline: Pipeline, topic: str) -> Column:
    """Whether a row's event time is evidence of how far its topic has come: a good row, and no canary (rule 23)."""
    is_probe = any_of(is_canary(pipeline.mark_of(stream)) for stream in pipeline.streams_of(topic))
    return is_good() & F.col(EVENT_TIME).isNotNull() & ~is_probe


def is_good() -> Column:
    """Whether a record was readable when it landed: its event time moves the clock, also where its key was erased.

    >>> rows = spark.sql("select * from values (null), ('erased'), ('wrong_type') as (_quarantined)")
    >>> rows.where(is_good()).show()
    +------------+
    |_quarantined|
    +------------+
    |        NULL|
    |      erased|
    +------------+
    <BLANKLINE>
    """
    return F.col(QUARANTINED).isNull() | (F.col(QUARANTINED) == ERASED)


def counts_of(rows: Iterable[Row]) -> dict[int, Counts]:
    """Rows of `count_by_partition` as values, by partition.

    Args:
        rows: collected; one per partition with at least one row in the batch.
    """
    return {
        row[PARTITION]: Counts(
            row["landed"],
            row["quarantined"],
            row["before_start"],
            row["unreadable"],
            _instant(row["newest_us"]),
            _instant(row["first_us"]),
            _instant(row["first_record_us"]),
            LastRecord(row["last_offset"], _instant(row["last_record_us"])),
        )
        for row in rows
    }


def undelivered_ranges(rows: DataFrame, batch: Batch, partitions: Iterable[int]) -> DataFrame:
    """Find the offsets of a batch that have no row.

    Args:
        rows: landing rows of the batch.
        partitions: those to look at.

    Returns:
        For `pieces_of`: `partition`, `start`, `until`, a row per range; those of a partition stand together, in order.
    """
    starts = [(partition, batch.ranges[partition][0] - 1, batch.ranges[partition][1]) for partition in partitions]
    edges = rows.sparkSession.createDataFrame(starts, "partition int, before bigint, until bigint")
    here = rows.select(F.col(PARTITION).alias("partition"), F.col(OFFSET).alias("offset"))
    landed = here.join(F.broadcast(edges.select("partition", "until")), "partition")
    known = landed.unionByName(edges.withColumnRenamed("before", "offset"))
    next_known = F.lead("offset").over(Window.partitionBy("partition").orderBy("offset"))
    ranges = known.select(
        "partition",
        (F.col("offset") + 1).alias("start"),
        F.coalesce(next_known, F.col("until")).alias("until"),
    )
    return ranges.where("start < until").sortWithinPartitions("partition", "start")


def pieces_of(rows: Iterable[Row], most: int = PIECE) -> Iterator[tuple[int, list[Offsets]]]:
    """Rows of `undelivered_ranges` as ranges of one partition at a time, in order, so many at most.

    Args:
        rows: read one after another; a topic with a transaction per record has as many as records.
    """
    for partition, found in groupby(rows, key=itemgetter("partition")):
        while piece := [(row["start"], row["until"]) for row in islice(found, most)]:
            yield partition, piece


def around_gaps(rows: DataFrame, gaps: Mapping[int, Sequence[Offsets]], pipeline: Pipeline, topic: str) -> DataFrame:
    """Find the event times of the rows around gaps within a batch that move the clock.

    Args:
        rows: landing rows of the batch.
        gaps: by partition.

    Returns:
        For `neighbours_of`: one row per gap in a partition with good rows; instants in microseconds since 1970.
    """
    ranges = [(partition, start, until) for partition, found in gaps.items() for start, until in found]
    wanted = F.broadcast(rows.sparkSession.createDataFrame(ranges, "partition int, start bigint, until bigint"))
    good = rows.where(_moves_the_clock(pipeline, topic) & F.col(RECORD_AT).isNotNull())
    good = good.select(PARTITION, OFFSET, EVENT_TIME, RECORD_AT)
    near = good.join(wanted, good[PARTITION] == wanted["partition"])
    is_behind = F.col(OFFSET) >= F.col("until")
    return near.groupBy("partition", "start", "until").agg(
        F.unix_micros(F.max(F.when(F.col(OFFSET) < F.col("start"), F.col(EVENT_TIME)))).alias("newest_us"),
        F.unix_micros(F.min_by(EVENT_TIME, F.when(is_behind, F.col(OFFSET)))).alias("next_us"),
        F.unix_micros(F.min_by(RECORD_AT, F.when(is_behind, F.col(OFFSET)))).alias("next_record_us"),
    )


def neighbours_of(rows: Iterable[Row], gaps: Mapping[int, Sequence[Offsets]]) -> dict[tuple[int, Offsets], Neighbours]:
    """Rows of `around_gaps` as values, by partition and gap; also for gaps without a good row around them.

    Args:
        rows: collected.
        gaps: partition → its gaps.
    """
    return {(partition, gap): Neighbours() for partition, found in gaps.items() for gap in found} | {
        (row["partition"], (row["start"], row["until"])): Neighbours(
            _instant(row["newest_us"]), _instant(row["next_us"]), _instant(row["next_record_us"])
        )
        for row in rows
    }


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else at_micros(micros)
