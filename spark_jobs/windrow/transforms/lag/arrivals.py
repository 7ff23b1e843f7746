"""Events in order of arrival under each lag, cut into buckets that tasks scan one by one.

    events ─▶ packed by (lag, bucket, part): one row holds thousands of events as one blob ──┐
                └▶ newest event and last arrival of each partition, by bucket ─▶ state before ┴▶ scan (`steps`)

A blob is one row of int64 columns after another, so Spark moves a few thousand rows however many events there are. The
order of arrival is (arrival, event time, partition, offset). A pause ends in one instant at which its whole backlog
arrives: the bucket of that instant is cut into parts by event time. `part` is 0 in all other buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from windrow.schemas import spark_ddl
from windrow.semantics.intervals import micros
from windrow.semantics.lag.scenario import Lag
from windrow.transforms.lag.plan import NONE, LagPlan

Ints = np.ndarray
"""An array of int64."""
EVENTS_AT_ONCE = 500_000
"""Events that a task holds before it packs them."""

BUCKET = ("lag", "bucket", "part")
STATE = tuple(f"state_{name}" for name in BUCKET)
"""The bucket's columns in `state_before`, renamed: a cogroup would confuse them with those of `packed`."""

_PACKED = pa.schema(
    [
        ("lag", pa.int32()),
        ("bucket", pa.int64()),
        ("part", pa.int64()),
        ("events", pa.binary()),
        ("seen", pa.list_(pa.struct([("partition", pa.int32()), ("newest", pa.int64()), ("last", pa.int64())]))),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)


def blob_of(*columns: Ints) -> bytes:
    """Columns of one length as a blob.

    >>> rows_of_blobs([blob_of(np.array([1, 2]), np.array([3, 4]))], columns=2).tolist()
    [[1, 2], [3, 4]]
    """
    return np.stack([c.astype(np.int64, copy=False) for c in columns]).tobytes()


def rows_of_blobs(blobs: Iterable[bytes], columns: int) -> Ints:
    """Blobs, one after another, as an array of `columns` rows and one entry per event.

    Args:
        blobs: from `blob_of`, each with this many columns.

    Returns:
        Integers of 64 bits, `columns` by events; without a blob, no events.
    """
    parts = [np.frombuffer(blob, np.int64).reshape(columns, -1) for blob in blobs]
    return np.concatenate(parts, axis=1) if parts else np.empty((columns, 0), np.int64)


def arrivals_of(lag: Lag | None, is_lagging: tuple[bool, ...], partition: Ints, record_at: Ints) -> Ints:
    """`Lag.arrival` of many records, in microseconds; `is_lagging` by partition index.

    Args:
        lag: None for no lag, which gives `record_at`.
        is_lagging: whether the lag hits a partition, by its index.
        partition: partition index of each record.
        record_at: time of each record, in microseconds since 1970.

    Returns:
        Microseconds since 1970, one per record.
    """
    if lag is None:
        return record_at
    if lag.kind == "constant":
        lagged = record_at + micros(lag.delay)
    else:
        assert lag.start is not None
        since_start = record_at - micros(lag.start)
        if lag.kind == "drain":
            after_start = record_at + np.maximum(0, micros(lag.delay) - since_start // (lag.rate or 1))
        else:
            assert lag.end is not None
            caught_up = micros(lag.end) + (since_start // lag.rate if lag.rate else 0)
            after_start = np.maximum(record_at, caught_up)
        lagged = np.where(since_start < 0, record_at, after_start)
    return np.where(np.asarray(is_lagging, bool)[partition], lagged, record_at)


def packed(events: DataFrame, plan: LagPlan) -> DataFrame:
    """Pack events by lag and bucket.

    Args:
        events: `events.EVENT_COLUMNS`.
    Returns:
        lag, bucket, part; events: blob of (arrival, event time, partition, offset); seen: by partition, its newest
        event time and last arrival; first, last: arrivals of the whole blob.
    """
    return events.mapInArrow(partial(_pack, plan), spark_ddl(_PACKED))


def state_before(packs: DataFrame, plan: LagPlan) -> DataFrame:
    """The state of every partition before each bucket, with which the bucket's scan begins.

    A clock depends on all earlier arrivals, but only through the newest event and the last arrival of each partition.
    Both are maxima, so running maxima over one row per bucket and partition give the state of all buckets at once, and
    the buckets can then be scanned in parallel.

    Returns:
        state_lag, state_bucket, state_part; before: array of (partition, newest, last), null where there was nothing;
        start: first arrival of all; first: first arrival of the bucket; next: first arrival of the next bucket, or the
        last arrival of all.
    """
    seen = (
        packs.select(*BUCKET, F.explode("seen").alias("s"))
        .groupBy(*BUCKET, F.col("s.partition").alias("partition"))
        .agg(F.max("s.newest").alias("newest"), F.max("s.last").alias("last"))
    )
    buckets = packs.groupBy(*BUCKET).agg(F.min("first").alias("first"), F.max("last").alias("final"))
    in_order = Window.partitionBy("lag").orderBy("bucket", "part")
    of_lag = Window.partitionBy("lag")
    spans = buckets.select(
        *BUCKET,
        "first",
        F.min("first").over(of_lag).alias("start"),
        F.coalesce(F.lead("first").over(in_order), F.max("final").over(of_lag)).alias("next"),
    )
    every_partition = F.explode(F.array(*[F.lit(i) for i in range(len(plan.partition_ids))]))
    earlier = Window.partitionBy("lag", "partition").orderBy("bucket", "part")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    state = F.struct("partition", *[F.max(name).over(earlier).alias(name) for name in ("newest", "last")])
    return (
        spans.withColumn("partition", every_partition)
        .join(seen, on=[*BUCKET, "partition"], how="left")
        .select(*BUCKET, "first", "start", "next", state.alias("state"))
        .groupBy(*BUCKET, "first", "start", "next")
        .agg(F.collect_list("state").alias("before"))
        .withColumnsRenamed(dict(zip(BUCKET, STATE, strict=True)))
    )


def _pack(plan: LagPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the batches of one task, about `EVENTS_AT_ONCE` events at a time, so that its memory stays bounded."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= EVENTS_AT_ONCE:
            yield from _packs(plan, waiting)
            waiting = []
    if waiting:
        yield from _packs(plan, waiting)


def _packs(plan: LagPlan, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One batch per lag, with one row for each of its buckets."""
    table = pa.Table.from_batches(batches)
    names = ("partition", "event_at", "record_at", "offset")
    partition, event_at, record_at, offset = (table[name].to_numpy().astype(np.int64) for name in names)
    for number, lag in enumerate(plan.lags):
        arrived = arrivals_of(lag, plan.lagging(number), partition, record_at)
        bucket, part = _bucket(plan, lag, arrived, event_at)
        order = np.lexsort((partition, part, bucket))  # by bucket, then part, then partition: lexsort's last key leads
        columns = np.stack([arrived, event_at, partition, offset])[:, order]
        starts = _starts(bucket[order], part[order])
        rows = [_row(number, plan, columns[:, lo:hi], lag) for lo, hi in pairwise(starts)]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_PACKED)


def _bucket(plan: LagPlan, lag: Lag | None, arrived: Ints, event_at: Ints) -> tuple[Ints, Ints]:
    """Bucket and part of each event. Both grow in order of arrival."""
    part = np.zeros_like(arrived)
    if lag is not None and lag.kind == "pause" and lag.rate is None and lag.end is not None:
        # All events of the instant `end` are cut by event time; earlier and later ones sort before and after them.
        end = micros(lag.end)
        part = np.where(arrived < end, NONE, np.where(arrived > end, -NONE, event_at // plan.bucket))
    return arrived // plan.bucket, part


def _starts(*keys: Ints) -> Ints:
    """Indexes at which a new combination of keys begins in sorted columns, and the length.

    >>> _starts(np.array([1, 1, 2, 2]), np.array([5, 5, 5, 6])).tolist()
    [0, 2, 3, 4]
    """
    if not len(keys[0]):
        return np.zeros(1, np.int64)
    is_new = np.any([k[1:] != k[:-1] for k in keys], axis=0)
    return np.concatenate([[0], np.flatnonzero(is_new) + 1, [len(keys[0])]])


def _row(number: int, plan: LagPlan, events: Ints, lag: Lag | None) -> dict[str, object]:
    """One bucket, its events sorted by partition."""
    arrived, event_at, partition, _ = events
    starts = _starts(partition)[:-1]
    newest, last = np.maximum.reduceat(event_at, starts), np.maximum.reduceat(arrived, starts)
    bucket, part = _bucket(plan, lag, arrived[:1], event_at[:1])
    return {
        "lag": number,
        "bucket": int(bucket[0]),
        "part": int(part[0]),
        "events": events.tobytes(),
        "seen": [
            {"partition": int(p), "newest": int(n), "last": int(z)}
            for p, n, z in zip(partition[starts], newest, last, strict=True)
        ],
        "first": int(arrived.min()),
        "last": int(arrived.max()),
    }
