"""The rows around the intervals that a pass of the late ledger looks at, read at its pins and its training version.

Landing files and training partitions around the touched intervals are read. One exception: a quarantined label that
cannot be dated makes every earlier row of its key doubtful (rule 10), so the published keys of all intervals are read.
Which rows count is decided in `transforms.ledger.affected`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import BATCH, DATE, EVENT_TIME, INTERVAL
from windrow.config import Stream
from windrow.home import Home, Table
from windrow.io.delta import scan
from windrow.io.delta.lookup import Range
from windrow.io.delta.session import frame_of
from windrow.io.ledger.state import observations_above
from windrow.io.registers.clocks import Observation
from windrow.io.training import inputs, versions
from windrow.semantics.intervals import micros
from windrow.transforms.conditions import any_of
from windrow.transforms.given import given
from windrow.transforms.ledger.affected import is_fresh
from windrow.transforms.ledger.due import STANDING, began_at, floor_of, standing_row, stretches_of, window_of
from windrow.transforms.ledger.passes import Due, instants_of
from windrow.transforms.streams import Inputs


def fresh(spark: SparkSession, home: Home, work: Due, stream: Stream) -> DataFrame:
    """Return landed rows of a stream with which at least one comparable publication has not been compared yet.

    Args:
        work: the pass; rows up to its pins are read.

    Returns:
        Landing rows above the floor of their topic, quarantined ones too.
    """
    floor = floor_of(home.pipeline, work.seen)
    lowest = min(floor[topic] for topic in stream.topics)
    rows = inputs.landed_of(spark, home, stream, work.known.pins, (Range(BATCH, lowest + 1),))
    return rows.where((F.col(BATCH) > given(lowest)) & is_fresh(stream, floor))


def around(spark: SparkSession, home: Home, work: Due, starts: Sequence[datetime], clock: Observation) -> Inputs:
    """Read what a join of these intervals needs at the newest pins; the caller must release it (`inputs.release`).

    Args:
        starts: starts of the intervals, ascending; rows of intervals between them are left out where they are far.
        clock: the observation that the newest pins are of.
    """

    def landed(stream: Stream, *_: datetime) -> DataFrame:
        before, after = window_of(stream)
        stretches = stretches_of(starts, home.pipeline.interval, before + after)
        bounds = [(stretch.start - before, stretch.end + after) for stretch in stretches]
        files = [inputs.within(low, high) for low, high in bounds]
        rows = inputs.landed_of(spark, home, stream, work.known.pins, *files)
        at = F.col(EVENT_TIME)
        return rows.where(any_of((at >= given(low)) & (at <= given(high)) for low, high in bounds))

    end = starts[-1] + home.pipeline.interval
    return inputs.read_range(spark, home, work.known.pins, starts[0], end, clock, landed)


def published(spark: SparkSession, home: Home, work: Due, starts: Sequence[datetime] | None = None) -> DataFrame:
    """Return the training rows as of the pass.

    Args:
        starts: only rows of these intervals, and perhaps of intervals between them; None for all.
    """
    if starts is None:
        return versions.training_at(spark, home, work.training_version)
    wanted = stretches_of(starts, home.pipeline.interval, timedelta(0))
    files = [(Range(DATE, s.start.date(), s.end.date()), Range(INTERVAL, s.start, s.end)) for s in wanted]
    rows = scan.rows(spark, home.table(Table.TRAINING), *files, version=work.training_version)
    assert rows is not None, "what is published has a table"
    at = F.col(INTERVAL)
    return rows.where(any_of((at >= given(s.start)) & (at < given(s.end)) for s in wanted))


def pins(spark: SparkSession, home: Home, work: Due, starts: Sequence[datetime]) -> DataFrame:
    """Return `_interval`, `_topic`, `_pin`: up to which batch each of these publications has been compared.

    Args:
        starts: of published intervals of the current config.

    Returns:
        One row per interval and topic.
    """
    rows = [
        (start, topic, seen.known.pins.get(topic, 0))
        for seen in work.seen
        for start in instants_of(seen.starts[np.isin(seen.starts, [micros(start) for start in starts])])
        for topic in home.pipeline.topics
    ]
    return frame_of(spark, rows, f"{INTERVAL} timestamp, _topic string, _pin bigint")


def standing(spark: SparkSession, home: Home, work: Due, starts: Sequence[datetime]) -> DataFrame:
    """Return the standing publications of these intervals, as `transforms.ledger.lines` takes them.

    Args:
        starts: of published intervals.

    Returns:
        One row per interval, columns `STANDING`.
    """
    return frame_of(spark, [standing_row(home.pipeline, work, start) for start in starts], STANDING)


def began(spark: SparkSession, home: Home, floor: dict[str, int]) -> DataFrame:
    """Return `topic`, `batch`, `_watermark`: the watermark when each batch above the floor began to land.

    Args:
        floor: topic → batch.

    Returns:
        One row per topic and batch above its floor; the watermark is null before the first.
    """
    observed = [(clock.pins, clock.watermark) for clock in observations_above(home, floor)]
    return frame_of(spark, began_at(observed, floor), "topic string, batch bigint, _watermark timestamp")
