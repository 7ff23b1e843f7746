"""How each clock moves under each lag: a list of steps, found bucket by bucket.

    W  │            ┌──────        a step: the arrival at which W first stood there;
       │      ┌─────┘              a row whose window closes at θ leaves at the first step with W > θ
       │ ┌────┘
       └─┴────┴─────┴──────▶ order of arrival
         │ bucket 1 │ bucket 2 …   each begins with what stood before it: newest event and last arrival of
                                   every partition. Buckets are scanned at once, on any number of machines

The clocks are those of `semantics.lag.clocks`, for a whole bucket at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from windrow.semantics.intervals import micros
from windrow.transforms.lag.arrivals import BUCKET, STATE, Ints, frozen, thawed
from windrow.transforms.lag.plan import NO_TIME, NONE, ClockPlan, LagPlan

STEP = 5
"""Columns of a step: W, arrival, event time, partition, offset. The last three order events of one instant."""
_STEPS = "lag int, clock int, bucket bigint, part bigint, top bigint, steps binary"


def steps(packs: DataFrame, state: DataFrame, plan: LagPlan) -> DataFrame:
    """The steps of each bucket by lag and clock, as if nothing stood before; `top`: W at its end."""
    return (
        packs.select(*BUCKET, "events")
        .groupBy(*BUCKET)
        .cogroup(state.groupBy(*STATE))
        .applyInArrow(partial(_scan, plan), _STEPS)
    )


def routed(found: DataFrame, plan: LagPlan) -> DataFrame:
    """The steps that each chunk of left rows asks for: chunk, lag, clock, bucket, part, steps.

    What stood before a bucket is the highest W of all earlier ones; a step not above it is none.
    """
    earlier = Window.partitionBy("lag", "clock").orderBy("bucket", "part").rowsBetween(Window.unboundedPreceding, -1)
    floors = found.select("lag", "clock", "bucket", "part", F.max("top").over(earlier).alias("floor"))
    known = found.join(floors, on=["lag", "clock", "bucket", "part"], how="inner")
    return known.select("lag", "clock", "bucket", "part", "floor", "steps").mapInArrow(
        partial(_route, plan), "chunk bigint, lag int, clock int, bucket bigint, part bigint, steps binary"
    )


def _scan(plan: LagPlan, key: tuple[pa.Scalar, ...], packs: pa.Table, state: pa.Table) -> pa.Table:
    lag, bucket, part = (k.as_py() for k in key)
    events = thawed(packs["events"].to_pylist(), 4)
    events = events[:, np.lexsort((events[3], events[2], events[1], events[0]))]
    was = state.to_pylist()[0]
    before = sorted(was["before"], key=lambda b: b["place"])
    newest = np.array([NONE if b["newest"] is None else b["newest"] for b in before], np.int64)
    heard = np.array([was["start"] if b["last"] is None else b["last"] for b in before], np.int64)
    rows = []
    for number, clock in enumerate(plan.clocks):
        if (lag, number) not in plan.wanted:
            continue
        points = _with_ticks(events, clock, was["first"], was["next"])
        found = _risen(_clock(plan, clock, points, newest, heard), points)
        top = int(found[0, -1]) if found.shape[1] else NONE
        rows.append((lag, number, bucket, part, top, found.tobytes()))
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)


def _with_ticks(events: Ints, clock: ClockPlan, first: int, until: int) -> Ints:
    """The events, and the ticks in `(first, until]` as events of no partition before what arrives then."""
    if clock.policy.tick is None:
        return events
    tick = micros(clock.policy.tick)
    ticks = np.arange(first // tick + 1, until // tick + 1, dtype=np.int64) * tick
    none = np.full_like(ticks, NONE)
    points = np.concatenate([events, np.stack([ticks, none, np.full_like(ticks, -1), none])], axis=1)
    return points[:, np.lexsort((points[3], points[2], points[1], points[0]))]


def _clock(plan: LagPlan, clock: ClockPlan, points: Ints, newest: Ints, heard: Ints) -> Ints:
    """W at each point; anything below `NO_TIME` where there is none."""
    arrived, at, place, _ = points
    disorder, everyone = np.array(clock.disorder, np.int64), range(len(plan.places))
    holding = [p for p in everyone if plan.holds[p]]
    kind = clock.policy.kind

    def newest_of(p: int) -> Ints:
        return np.maximum.accumulate(np.where(place == p, np.maximum(at, newest[p]), newest[p])) - disorder[p]

    if kind == "wall":
        return arrived
    if kind == "fastest_side":
        return np.maximum(np.maximum.accumulate(at), newest.max())
    if kind == "newest_partition":
        topics = [[p for p in everyone if plan.topic_of[p] == t] for t in dict.fromkeys(plan.topic_of)]
        return _least(np.maximum.reduce([newest_of(p) for p in topic]) for topic in topics)
    if kind == "slowest":
        return _least(newest_of(p) for p in holding)
    assert clock.policy.idle_after is not None
    idle_after, never = micros(clock.policy.idle_after), -NONE
    least = np.full(len(at), never)
    for p in holding:
        last = np.maximum.accumulate(np.where(place == p, arrived, heard[p]))
        least = np.minimum(least, np.where(arrived - last < idle_after, newest_of(p), never))
    return np.where(least == never, NONE, least)


def _least(clocks: Iterator[Ints]) -> Ints:
    least = next(clocks)
    for clock in clocks:
        least = np.minimum(least, clock)
    return least


def _risen(w: Ints, points: Ints) -> Ints:
    """The points at which W rises above all before."""
    highest = np.maximum.accumulate(w)
    rises = np.concatenate([[True], highest[1:] > highest[:-1]]) & (w > NO_TIME)
    return np.stack([w[rises], *points[:, rises]])


def _route(plan: LagPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            floor = NONE if row["floor"] is None else row["floor"]
            found = thawed([row.pop("steps")], STEP)
            found = found[:, found[0] > floor]
            row.pop("floor")
            slices = list(_slices(plan, row["clock"], found[0], floor))
            if slices:
                rows = [{**row, "chunk": chunk, "steps": frozen(*found[:, wanted])} for chunk, wanted in slices]
                yield pa.RecordBatch.from_pylist(rows, schema=_ROUTED)


def _slices(plan: LagPlan, clock: int, w: Ints, floor: int) -> Iterator[tuple[int, Ints]]:
    """By chunk, which steps answer some θ of its rows: a step answers those from the W before it up to its own."""
    if not len(w):
        return
    was = np.concatenate([[floor], w[:-1]])
    reaches = plan.reaches(clock)
    first = max(plan.begin // plan.chunk, (floor - max(hi for _, hi in reaches)) // plan.chunk - 1)
    last = min((plan.end - 1) // plan.chunk, (int(w[-1]) - reaches[0][0]) // plan.chunk)
    for chunk in range(first, last + 1):
        wanted = np.zeros(len(w), bool)
        for lo, hi in reaches:
            begin = np.searchsorted(w, chunk * plan.chunk + lo, side="right")
            end = np.searchsorted(was, (chunk + 1) * plan.chunk - 1 + hi, side="right")
            wanted[begin:end] = True
        if wanted.any():
            yield chunk, wanted


_ARROW = pa.schema(
    [
        ("lag", pa.int32()),
        ("clock", pa.int32()),
        ("bucket", pa.int64()),
        ("part", pa.int64()),
        ("top", pa.int64()),
        ("steps", pa.binary()),
    ]
)
_ROUTED = pa.schema(
    [
        ("chunk", pa.int64()),
        ("lag", pa.int32()),
        ("clock", pa.int32()),
        ("bucket", pa.int64()),
        ("part", pa.int64()),
        ("steps", pa.binary()),
    ]
)
