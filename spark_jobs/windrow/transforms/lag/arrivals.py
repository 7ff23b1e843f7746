"""Events in order of arrival, under each lag, cut into buckets that tasks scan one by one.

    events ─▶ packed by (lag, bucket): one row holds thousands of events as one blob ─┐
                └▶ newest and last of each partition, by bucket ─▶ what stood before ─┴▶ scan

A blob is one row of int64 columns after another: Spark moves a few thousand rows however many events there are.
Order of arrival is (arrival, event time, partition, offset). Where a pause ends, everything arrives in one instant:
that instant is cut again, by event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from windrow.semantics.intervals import micros
from windrow.semantics.lag.scenario import Lag
from windrow.transforms.lag.plan import NONE, LagPlan

Ints = np.ndarray
EVENTS_AT_ONCE = 500_000
MOVES = "place int, at bigint, logged bigint, offset bigint"
"""What a clock sees of an event: the index of its partition, event time, record time, offset."""

BUCKET = ("lag", "bucket", "part")
STATE = tuple(f"state_{name}" for name in BUCKET)
"""The same, under names that cannot be taken for those of the events they are grouped with."""

_PACKED = (
    "lag int, bucket bigint, part bigint, events binary, seen array<struct<place: int, newest: bigint, last: bigint>>, "
    "first bigint, last bigint"
)


def frozen(*columns: Ints) -> bytes:
    """Columns of one length as a blob."""
    return np.stack([c.astype(np.int64, copy=False) for c in columns]).tobytes()


def thawed(blobs: Iterable[bytes], columns: int) -> Ints:
    """Blobs, one after another, as an array of that many rows."""
    parts = [np.frombuffer(blob, np.int64).reshape(columns, -1) for blob in blobs]
    return np.concatenate(parts, axis=1) if parts else np.empty((columns, 0), np.int64)


def arrival(lag: Lag | None, lagging: tuple[bool, ...], place: Ints, logged: Ints) -> Ints:
    """`Lag.arrival` for many records."""
    if lag is None:
        return logged
    if lag.kind == "constant":
        moved = logged + micros(lag.delay)
    else:
        assert lag.start is not None
        written = logged - micros(lag.start)
        if lag.kind == "drain":
            late = logged + np.maximum(0, micros(lag.delay) - written // (lag.rate or 1))
        else:
            assert lag.end is not None
            late = np.maximum(logged, micros(lag.end) + (written // lag.rate if lag.rate else 0))
        moved = np.where(written < 0, logged, late)
    return np.where(np.asarray(lagging, bool)[place], moved, logged)


def packed(moves: DataFrame, plan: LagPlan) -> DataFrame:
    """Blobs of (arrival, event time, partition, offset), by lag and bucket, with what they hold by partition."""
    return moves.mapInArrow(partial(_pack, plan), _PACKED)


def state_before(packs: DataFrame, plan: LagPlan) -> DataFrame:
    """By bucket: newest event and last arrival of each partition before it, and where arrival time stands.

    Returns:
        state_lag, state_bucket, state_part; before: array of (place, newest, last), nulls where there was nothing;
        start: first arrival of all; first: first arrival of the bucket; next: first arrival of the next one, or the
        last of all.
    """
    seen = (
        packs.select(*BUCKET, F.explode("seen").alias("s"))
        .groupBy(*BUCKET, F.col("s.place").alias("place"))
        .agg(F.max("s.newest").alias("newest"), F.max("s.last").alias("last"))
    )
    buckets = packs.groupBy(*BUCKET).agg(F.min("first").alias("first"), F.max("last").alias("final"))
    in_order = Window.partitionBy("lag").orderBy("bucket", "part")
    whole = Window.partitionBy("lag")
    spans = buckets.select(
        *BUCKET,
        "first",
        F.min("first").over(whole).alias("start"),
        F.coalesce(F.lead("first").over(in_order), F.max("final").over(whole)).alias("next"),
    )
    places = F.explode(F.array(*[F.lit(i) for i in range(len(plan.places))]))
    before = Window.partitionBy("lag", "place").orderBy("bucket", "part").rowsBetween(Window.unboundedPreceding, -1)
    known = F.struct("place", F.max("newest").over(before).alias("newest"), F.max("last").over(before).alias("last"))
    return (
        spans.withColumn("place", places)
        .join(seen, on=[*BUCKET, "place"], how="left")
        .select(*BUCKET, "first", "start", "next", known.alias("known"))
        .groupBy(*BUCKET, "first", "start", "next")
        .agg(F.collect_list("known").alias("before"))
        .withColumnsRenamed(dict(zip(BUCKET, STATE, strict=True)))
    )


def _pack(plan: LagPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= EVENTS_AT_ONCE:
            yield from _packs(plan, waiting)
            waiting = []
    if waiting:
        yield from _packs(plan, waiting)


def _packs(plan: LagPlan, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    place, at, logged, offset = (table[c].to_numpy().astype(np.int64) for c in ("place", "at", "logged", "offset"))
    for number, lag in enumerate(plan.lags):
        arrived = arrival(lag, plan.lagging(number), place, logged)
        bucket, part = _bucket(plan, lag, arrived, at)
        order = np.lexsort((place, part, bucket))
        columns = np.stack([arrived, at, place, offset])[:, order]
        starts = _starts(bucket[order], part[order])
        rows = [_row(number, plan, columns[:, lo:hi], lag) for lo, hi in pairwise(starts)]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def _bucket(plan: LagPlan, lag: Lag | None, arrived: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Number of the bucket and of the part of it, in order of arrival."""
    part = np.zeros_like(arrived)
    if lag is not None and lag.kind == "pause" and lag.rate is None and lag.end is not None:
        end = micros(lag.end)
        part = np.where(arrived < end, NONE, np.where(arrived > end, -NONE, at // plan.bucket))
    return arrived // plan.bucket, part


def _starts(*keys: Ints) -> Ints:
    """Where a new combination of keys begins in sorted columns, and the end."""
    if not len(keys[0]):
        return np.zeros(1, np.int64)
    new = np.any([k[1:] != k[:-1] for k in keys], axis=0)
    return np.concatenate([[0], np.flatnonzero(new) + 1, [len(keys[0])]])


def _row(number: int, plan: LagPlan, events: Ints, lag: Lag | None) -> dict[str, object]:
    arrived, at, place, _ = events
    starts = _starts(place)
    newest, last = np.maximum.reduceat(at, starts[:-1]), np.maximum.reduceat(arrived, starts[:-1])
    bucket, part = _bucket(plan, lag, arrived[:1], at[:1])
    return {
        "lag": number,
        "bucket": int(bucket[0]),
        "part": int(part[0]),
        "events": events.tobytes(),
        "seen": [
            {"place": int(p), "newest": int(n), "last": int(z)}
            for p, n, z in zip(place[starts[:-1]], newest, last, strict=True)
        ],
        "first": int(arrived.min()),
        "last": int(arrived.max()),
    }


_ARROW = pa.schema(
    [
        ("lag", pa.int32()),
        ("bucket", pa.int64()),
        ("part", pa.int64()),
        ("events", pa.binary()),
        ("seen", pa.list_(pa.struct([("place", pa.int32()), ("newest", pa.int64()), ("last", pa.int64())]))),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)
