"""Records of a run's intervals that could not be read, up to the pins: only files that can hold them are read.

    event time known      the record counts in its interval
    no event time         it counts at the timestamp of its record, at most at its landing time

A record that was judged again and could be read then does not count. Where a batch has no such record, Spark reads
nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import (
    ARRIVED_AT,
    BATCH,
    ERASED,
    EVENT_TIME,
    LANDING_TYPES,
    QUARANTINED,
    RECORD_AT,
    TOPIC,
    UNREADABLE_VALUES,
)
from windrow.home import Home
from windrow.io.delta import scan
from windrow.io.delta.lookup import Condition, Has, Range
from windrow.io.delta.session import schema_of
from windrow.io.landing import batches
from windrow.io.training.inputs import with_columns
from windrow.semantics.plan import Plan
from windrow.transforms.conditions import any_of
from windrow.transforms.given import given
from windrow.transforms.streams import is_unreadable


def of_intervals(spark: SparkSession, home: Home, plans: Sequence[Plan]) -> DataFrame | None:
    """Return the records of the plans' intervals, and of those between, that a stream is meant to read and cannot.

    Args:
        plans: oldest interval first; they share their pins.

    Returns:
        `_topic`, and as `_event_time` the instant that the record counts at. None where no file can hold one.
    """
    lo, hi = plans[0].interval.start, plans[-1].interval.end
    frames = [_of_topic(spark, home, topic, plans[0].pins, lo, hi) for topic in home.pipeline.topics]
    found = [frame for frame in frames if frame is not None]
    return reduce(DataFrame.unionByName, found) if found else None


def _of_topic(
    spark: SparkSession, home: Home, topic: str, pins: Mapping[str, int], lo: datetime, hi: datetime
) -> DataFrame | None:
    path, pin = home.landing(topic), pins.get(topic, 0)
    files = [(*conditions, Range(BATCH, most=pin)) for conditions in _files(lo, hi)]
    if not scan.can_hold(path, *files):
        return None
    landed = scan.rows(spark, path, *files)
    assert landed is not None, "a table that can hold such rows is there"
    types = {**LANDING_TYPES, **home.pipeline.topic_columns(topic)}
    rows = with_columns(landed, schema_of(", ".join(f"`{name}` {kind}" for name, kind in types.items())))
    at = F.coalesce(EVENT_TIME, F.least(RECORD_AT, ARRIVED_AT))
    rows = rows.where((F.col(BATCH) <= given(pin)) & (at >= given(lo)) & (at < given(hi)) & _is_unread(home, topic))
    again = batches.reconsidered(spark, path, pin)
    if again is not None:
        rows = batches.without_replaced(rows, again)
    return rows.select(TOPIC, at.alias(EVENT_TIME))


def _is_unread(home: Home, topic: str) -> Column:
    quarantined = F.col(QUARANTINED) != ERASED  # of an erased record it is known that it could be read
    unreadable = any_of(is_unreadable(stream) for stream in home.pipeline.streams_of(topic))
    return quarantined | F.col(QUARANTINED).isNull() & unreadable


def _files(lo: datetime, hi: datetime) -> tuple[tuple[Condition, ...], ...]:
    """Return alternative conditions for the files that can hold such a record of [lo, hi)."""
    timeless, within = Has(EVENT_TIME), Range(EVENT_TIME, lo, hi)
    return (
        (Has(QUARANTINED, value=True), within),
        (Has(UNREADABLE_VALUES, value=True), within),
        (timeless, Range(RECORD_AT, lo, hi)),
        (timeless, Range(ARRIVED_AT, lo, hi)),
    )
