"""Delay and disorder of a range of the landing tables, on Spark: a few numbers come back, never a row.

left rows   [start - widest, end + widest)     a label is counted at its nearest row, so rows around the range count too
labels      the same stretch, and `before` earlier
disorder    every record of [start, end + widest disorder): an event is late because of what came before it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from windrow.config import RightStream, Stream
from windrow.io.lag.landed import LandedRecords
from windrow.semantics.clock import PartitionClock
from windrow.semantics.lag.observed import complete_until
from windrow.semantics.lag.request import LagRequest
from windrow.transforms.lag.delays import (
    DelayStatistics,
    delay_counts,
    disorder_by_partition,
    disorder_counts,
    label_delays,
    sampled,
    topic_disorder,
)
from windrow.transforms.lag.grids import Grid, delay_grid, disorder_grid
from windrow.transforms.streams import rows_of

Row = dict[str, Any]


def count_delays(
    landed: LandedRecords,
    clocks: Sequence[PartitionClock],
    request: LagRequest,
    show_progress: Callable[[str], None],
) -> DelayStatistics:
    """Count delay and disorder of the request's range.

    Args:
        clocks: the clock that the records were read at; a label stream without one has no delays.
        show_progress: is called with the name of each step as it begins.
    """
    pipeline = landed.home.pipeline
    disorder: dict[str, list[Row]] = {stream.name: [] for stream in pipeline.label_streams}
    partitions: list[Row] = []
    for topic in pipeline.topics:
        show_progress(f"disorder of {topic}")
        by_partition, by_stream = _disorder(landed, topic, clocks, request)
        partitions += by_partition
        for name, rows in by_stream.items():
            disorder[name] += rows
    delays, orphans = {}, {}
    for stream in pipeline.label_streams:
        show_progress(f"delays of {stream.name}")
        until = complete_until(clocks, stream.topics)
        if until is None:
            continue
        grid = delay_grid(stream, request.windows)
        rows = _collected(_label_delays(landed, stream, grid, until, request))
        delays[stream.name] = delay_counts(grid, [row for row in rows if row["bin"] >= 0])
        orphans[stream.name] = sum(row["labels"] for row in rows if row["bin"] < 0)
    grid = disorder_grid(pipeline)
    return DelayStatistics(
        delays, orphans, {name: delay_counts(grid, rows) for name, rows in disorder.items()}, tuple(partitions)
    )


def _disorder(
    landed: LandedRecords, topic: str, clocks: Sequence[PartitionClock], request: LagRequest
) -> tuple[list[Row], dict[str, list[Row]]]:
    """Return `disorder_by_partition` of a topic, and by name `disorder_counts` of each of its label streams."""
    pipeline, grid = landed.home.pipeline, disorder_grid(landed.home.pipeline)
    of_topic = [clock for clock in clocks if clock.topic == topic]
    newest = {clock.partition: clock.newest_at for clock in of_topic if clock.newest_at is not None}
    epoch = max((clock.epoch for clock in of_topic), default=0)
    until = request.end + grid.widest
    records = landed.of_topic(topic, request.start, until)
    jumps = topic_disorder(records, pipeline, topic, request.start, request.end, until)
    jumps = jumps.persist()  # narrow, sorted once, and read again for each label stream
    try:
        return _collected(disorder_by_partition(jumps)), {
            stream.name: _collected(
                disorder_counts(jumps.where(f"`is_{stream.name}` and _epoch = {epoch}"), newest, grid)
            )
            for stream in pipeline.label_streams
            if topic in stream.topics
        }
    finally:
        jumps.unpersist()


def _label_delays(
    landed: LandedRecords, stream: RightStream, grid: Grid, until: datetime, request: LagRequest
) -> DataFrame:
    """Return `label_delays` of a label stream for a sample of the keys; its records are complete until `until`."""
    left, before = landed.home.pipeline.left, stream.window.before
    first, last = request.start - grid.widest, request.end + grid.widest

    def kept(side: Stream, first: datetime) -> DataFrame:
        mark = landed.home.pipeline.mark_of(side)
        rows = rows_of(landed.of_stream(side, first, last), side, first, last, ends_in=True, mark=mark).kept
        return sampled(rows, side.key, request.sample)

    return label_delays(
        kept(left, first),
        kept(stream, first - before),
        (left.key, stream.key),
        begin=request.start,
        end=request.end,
        before=before,
        complete_until=until,
        grid=grid,
    )


def _collected(rows: DataFrame) -> list[Row]:
    return [row.asDict() for row in rows.collect()]
