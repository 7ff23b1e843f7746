"""How each clock moves under each lag: a list of steps, computed bucket by bucket.

    W  │            ┌──────        a step: the arrival at which W first had this value;
       │      ┌─────┘              a row that closes at θ leaves at the first step with W > θ
       │ ┌────┘
       └─┴────┴─────┴──────▶ order of arrival
         │ bucket 1 │ bucket 2 …   each scan begins with the state before its bucket (`arrivals.state_before`), so
                                   all buckets are scanned in parallel

The clocks are those of `semantics.lag.clocks`, computed for a whole bucket at a time. θ lies at the ends of intervals,
so of the steps of a bucket only those are kept that pass one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from windrow.schemas import spark_ddl
from windrow.semantics.intervals import micros
from windrow.transforms.lag.arrivals import BUCKET, STATE, Ints, blob_of, rows_of_blobs
from windrow.transforms.lag.plan import NO_TIME, NONE, ClockPlan, Closing, LagPlan

STEP_COLUMNS = 5
"""Columns of a step: W, arrival, event time, partition, offset. The last three order the events of one instant."""
_KEY = [("lag", pa.int32()), ("clock", pa.int32()), ("bucket", pa.int64()), ("part", pa.int64())]
_SCANNED = pa.schema([*_KEY, ("top", pa.int64()), ("steps", pa.binary())])
_ROUTED = pa.schema([("chunk", pa.int64()), *_KEY, ("steps", pa.binary())])


def steps(packs: DataFrame, state: DataFrame, plan: LagPlan) -> DataFrame:
    """The steps of each bucket by lag and clock.

    The first W of a bucket always counts as a step, because the highest W of the buckets before it is not known yet:
    `routed` removes the steps that are not above it.

    Returns:
        lag, clock, bucket, part; top: W at the end of the bucket; steps: blob of `STEP_COLUMNS`.
    """
    return (
        packs.select(*BUCKET, "events")
        .groupBy(*BUCKET)
        .cogroup(state.groupBy(*STATE))
        .applyInArrow(partial(_scan, plan), spark_ddl(_SCANNED))
    )


def routed(steps: DataFrame, plan: LagPlan) -> DataFrame:
    """The steps that each chunk of left rows needs: chunk, lag, clock, bucket, part, steps.

    `floor` is the highest W of all earlier buckets. A step that is not above it does not raise W.

    Args:
        steps: rows of `steps`, of all buckets.
    """
    key = ["lag", "clock", "bucket", "part"]
    # buckets are scanned in parallel, so what the earlier ones have reached is known only now
    earlier = Window.partitionBy("lag", "clock").orderBy("bucket", "part").rowsBetween(Window.unboundedPreceding, -1)
    floors = steps.select(*key, F.max("top").over(earlier).alias("floor"))  # without the blobs, which need no sorting
    with_floor = steps.join(floors, on=key, how="inner").select(*key, "floor", "steps")
    return with_floor.mapInArrow(partial(_route, plan), spark_ddl(_ROUTED))


def _scan(plan: LagPlan, key: tuple[pa.Scalar, ...], packs: pa.Table, state: pa.Table) -> pa.Table:
    """The steps of every clock in one bucket (`_SCANNED`), from its events and the one row of the state before it."""
    lag, bucket, part = (k.as_py() for k in key)
    events = _in_order(rows_of_blobs(packs["events"].to_pylist(), 4))
    known = state.to_pylist()[0]
    before = sorted(known["before"], key=lambda b: b["partition"])
    newest = np.array([NONE if b["newest"] is None else b["newest"] for b in before], np.int64)
    last_arrival = np.array([known["start"] if b["last"] is None else b["last"] for b in before], np.int64)
    points_of: dict[timedelta | None, _Points] = {}
    rows = []
    for number, clock in enumerate(plan.clocks):
        # a pair of lag and clock that no scenario has needs no scan
        if (lag, number) not in plan.used_clocks:
            continue
        tick = clock.policy.tick
        if tick not in points_of:
            points_of[tick] = _Points(_with_ticks(events, tick, known["first"], known["next"]), newest, last_arrival)
        points = points_of[tick]
        rises = _rises(_clock(plan, clock, points), points.columns)
        top = int(rises[0, -1]) if rises.shape[1] else NONE
        rises = rises[:, _closes(rises[0], plan.closings(number))]
        rows.append((lag, number, bucket, part, top, rises.tobytes()))
    columns = list(zip(*rows, strict=True)) or [()] * 6
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCANNED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCANNED)


def _in_order(points: Ints) -> Ints:
    """Sorted by arrival, event time, partition, offset.

    >>> _in_order(np.array([[5, 3, 5], [1, 9, 0], [0, 0, 0], [7, 8, 9]])).tolist()
    [[3, 5, 5], [9, 0, 1], [0, 0, 0], [8, 9, 7]]
    """
    points = points[:, np.argsort(points[0], kind="stable")]
    is_tie = points[0, 1:] == points[0, :-1]
    # few arrive in the same instant, so only these are sorted by all four (lexsort's last key leads)
    tied = np.flatnonzero(np.concatenate([is_tie, [False]]) | np.concatenate([[False], is_tie]))
    ties = points[:, tied]
    points[:, tied] = ties[:, np.lexsort((ties[3], ties[2], ties[1], ties[0]))]
    return points


def _with_ticks(events: Ints, tick: timedelta | None, first: int, until: int) -> Ints:
    """The events, and the ticks in `(first, until]` if the clock has any.

    A tick is an event of partition -1 at `NONE`: it moves no clock, and comes before the arrivals of its instant.
    """
    if tick is None:
        return events
    length = micros(tick)
    ticks = np.arange(first // length + 1, until // length + 1, dtype=np.int64) * length
    none = np.full_like(ticks, NONE)
    before = np.searchsorted(events[0], ticks, side="left")
    return np.insert(events, before, np.stack([ticks, none, np.full_like(ticks, -1), none]), axis=1)


@dataclass
class _Points:
    """The arrivals and ticks of a bucket, in order, and the state of each partition before it.

    What several clocks ask of a partition is computed once.
    """

    columns: Ints
    """Rows: arrival, event time, partition, offset."""
    newest_before: Ints
    last_arrival_before: Ints
    _newest: dict[int, Ints] = field(default_factory=dict, init=False)

    def newest(self, partition: int) -> Ints:
        """The partition's newest event time at each point."""
        if partition not in self._newest:
            self._newest[partition] = self._so_far(self.columns[1], partition, self.newest_before[partition])
        return self._newest[partition]

    def last_arrival(self, partition: int) -> Ints:
        """The partition's last arrival at each point."""
        return self._so_far(self.columns[0], partition, self.last_arrival_before[partition])

    def _so_far(self, values: Ints, partition: int, before: int) -> Ints:
        """At each point, the largest of `before` and the partition's values so far."""
        own = np.flatnonzero(self.columns[2] == partition)
        largest = np.maximum.accumulate(np.concatenate([[before], values[own]]))
        # it stays the same until the partition's next event
        return np.repeat(largest, np.diff(own, prepend=0, append=len(values)))


def _clock(plan: LagPlan, clock: ClockPlan, points: _Points) -> Ints:
    """W at each point; a value below `NO_TIME` means that there is none yet."""
    arrived, event_at, _, _ = points.columns
    every_partition = range(len(plan.partition_ids))
    holding = [p for p in every_partition if plan.holds[p]]

    def partition_clock(p: int) -> Ints:
        return points.newest(p) - clock.out_of_orderness[p]

    if clock.policy.kind == "wall":
        return arrived
    if clock.policy.kind == "fastest_side":
        return np.maximum(np.maximum.accumulate(event_at), points.newest_before.max())
    if clock.policy.kind == "newest_partition":
        topics = [[p for p in every_partition if plan.topic_of[p] == t] for t in dict.fromkeys(plan.topic_of)]
        return _least(reduce(np.maximum, map(partition_clock, topic)) for topic in topics)
    if clock.policy.kind == "slowest":
        return _least(partition_clock(p) for p in holding)
    assert clock.policy.idle_after is not None
    idle_after, idle = micros(clock.policy.idle_after), -NONE  # plus infinity: an idle partition is never the least

    def clock_unless_idle(p: int) -> Ints:
        return np.where(arrived - points.last_arrival(p) < idle_after, partition_clock(p), idle)

    least = _least(clock_unless_idle(p) for p in holding)
    return np.where(least == idle, NONE, least)


def _least(clocks: Iterable[Ints]) -> Ints:
    return reduce(np.minimum, clocks)


def _rises(w: Ints, points: Ints) -> Ints:
    """The steps (`STEP_COLUMNS`): the points at which W rises above all its earlier values."""
    highest = np.maximum.accumulate(w)
    is_rise = np.concatenate([[True], highest[1:] > highest[:-1]]) & (w > NO_TIME)
    return np.stack([w[is_rise], *points[:, is_rise]])


def _closes(w: Ints, closings: Iterable[Closing]) -> Ints:
    """Which steps can close a row: an interval plus its wait ends between the step before and this one.

    A chunk of rows needs these alone, so what it gets does not grow with the events of an interval. Of the first step
    of a bucket the one before is not known, so it always can.

    >>> _closes(np.array([5, 8, 12, 13, 31]), [Closing(wait=1, interval=10)]).tolist()
    [True, False, True, False, True]
    """
    can = np.zeros(len(w), bool)
    can[:1] = True
    for one in closings:
        ended = (w - one.wait) // one.interval
        can[1:] |= ended[1:] > ended[:-1]
    return can


def _route(plan: LagPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Drop the steps that do not raise W, and send each of the others to the chunks with a row that it can close."""
    for batch in batches:
        for row in batch.to_pylist():
            floor = row.pop("floor")
            floor = NONE if floor is None else floor
            steps = rows_of_blobs([row.pop("steps")], STEP_COLUMNS)
            steps = steps[:, steps[0] > floor]
            slices = _slices(plan, row["clock"], steps[0], floor)
            rows = [{**row, "chunk": chunk, "steps": blob_of(*steps[:, wanted])} for chunk, wanted in slices]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=_ROUTED)


def _slices(plan: LagPlan, clock: int, w: Ints, floor: int) -> Iterator[tuple[int, Ints]]:
    """(chunk, mask of its steps): the steps at which a row of the chunk can close.

    A row that closes at θ leaves at the first step with W > θ, so a step serves the θ from the step before it (or
    `floor`) up to, but without, its own W. The θ of a chunk lie between its first row time plus `lo` and its last plus
    `hi`.
    """
    if not len(w):
        return
    previous = np.concatenate([[floor], w[:-1]])
    reaches = plan.reaches(clock)
    first = max(plan.begin // plan.chunk, (floor - max(hi for _, hi in reaches)) // plan.chunk - 1)
    last = min((plan.end - 1) // plan.chunk, (int(w[-1]) - reaches[0][0]) // plan.chunk)
    for chunk in range(first, last + 1):
        wanted = np.zeros(len(w), bool)
        for lo, hi in reaches:
            # W only rises along the steps, so those that serve a range of θ lie next to each other
            begin = np.searchsorted(w, chunk * plan.chunk + lo, side="right")
            end = np.searchsorted(previous, (chunk + 1) * plan.chunk - 1 + hi, side="right")
            wanted[begin:end] = True
        if wanted.any():
            yield chunk, wanted
