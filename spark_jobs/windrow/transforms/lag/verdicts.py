"""What each scenario does to a chunk of left rows: their closing steps looked up, their labels in time or lost.

    chunk of left rows with their labels ─┐
    steps of every (lag, clock) ──────────┴▶ scenario, measure, bucket → value     only sums, no rows

`summed` adds the chunks up; `semantics.lag.scenario.Outcome` says what each figure means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from windrow.semantics.intervals import micros
from windrow.semantics.lag.scenario import LOOK_EVERY
from windrow.transforms.lag.arrivals import Ints, arrival, thawed
from windrow.transforms.lag.plan import Closing, LagPlan, Line
from windrow.transforms.lag.steps import STEP

LABELS = "array<struct<stream: int, place: int, at: bigint, logged: bigint, offset: bigint>>"
ROWS = f"place int, at bigint, logged bigint, offset bigint, labels {LABELS}"
"""A left row, and every label that a scenario may match to it."""
MEASURED = "scenario int, measure string, bucket bigint, value bigint"
Bools = np.ndarray
Found = tuple[str, int, int]
"""measure, bucket, value"""


def judged(rows: DataFrame, routed: DataFrame, plan: LagPlan) -> DataFrame:
    """One row a chunk, scenario, measure and bucket."""
    return (
        rows.withColumn("chunk", F.expr(f"(at - pmod(at, {plan.chunk}L)) div {plan.chunk}L"))
        .groupBy("chunk")
        .cogroup(routed.groupBy("chunk"))
        .applyInArrow(partial(_judge, plan), MEASURED)
    )


def summed(measured: DataFrame) -> DataFrame:
    """One row a scenario, measure and bucket of the whole range: sums, and the largest for `_max`.

    The peak of open rows is the largest running sum of what opens and leaves, minute by minute.
    """
    keys = ["scenario", "measure", "bucket"]
    total = F.sum(F.col("value").cast("decimal(38,0)"))
    value = F.when(F.col("measure").endswith("_max"), F.max("value").cast("decimal(38,0)")).otherwise(total)
    sums = measured.groupBy(*keys).agg(value.alias("value"))
    until = Window.partitionBy("scenario").orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0)
    peak = (
        sums.where(F.col("measure") == "opened")
        .select("scenario", F.sum("value").over(until).alias("open"))
        .groupBy("scenario")
        .agg(F.max("open").cast("decimal(38,0)").alias("value"))
        .select("scenario", F.lit("open_peak").alias("measure"), F.lit(0).cast("bigint").alias("bucket"), "value")
    )
    return sums.where(F.col("measure") != "opened").unionByName(peak)


@dataclass
class _Chunk:
    """Left rows and, flat, their labels: `of` says whose."""

    plan: LagPlan
    place: Ints
    at: Ints
    logged: Ints
    offset: Ints
    of: Ints
    stream: Ints
    label_place: Ints
    label_at: Ints
    label_logged: Ints
    label_offset: Ints
    steps: dict[tuple[int, int], Ints]
    """by lag and clock"""
    _closed: dict[tuple[int, int, Closing], _Closed] = field(default_factory=dict)
    _arrived: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def arrived(self, lag: int) -> tuple[Ints, Ints]:
        """When rows and labels arrive."""
        if lag not in self._arrived:
            injected, lagging = self.plan.lags[lag], self.plan.lagging(lag)
            self._arrived[lag] = (
                arrival(injected, lagging, self.place, self.logged),
                arrival(injected, lagging, self.label_place, self.label_logged),
            )
        return self._arrived[lag]

    def closed(self, lag: int, clock: int, closing: Closing) -> _Closed:
        key = (lag, clock, closing)
        if key not in self._closed:
            self._closed[key] = self._close(*key)
        return self._closed[key]

    def _close(self, lag: int, clock: int, closing: Closing) -> _Closed:
        """The first step with W > θ; θ is the last instant at which the row's unit is still open."""
        theta = self.at - self.at % closing.interval + closing.interval + closing.reach - 1
        w, *position = self.steps.get((lag, clock), np.empty((STEP, 0), np.int64))
        step = np.searchsorted(w, theta, side="right")
        closes = step < len(w)
        step = np.where(closes, step, 0)
        columns = tuple(c[step] if len(w) else np.zeros_like(theta) for c in position)
        rows = (self.arrived(lag)[0], self.at, self.place, self.offset)
        return _Closed(closes, columns, missing=closes & _before(columns, rows))


@dataclass(frozen=True)
class _Closed:
    """By row: whether it closes, by which arrival (see `lag_steps.STEP`), and whether before it arrived itself."""

    closes: Bools
    by: tuple[Ints, ...]
    missing: Bools

    @property
    def left(self) -> Bools:
        return self.closes & ~self.missing


def _before(one: tuple[Ints, ...], other: tuple[Ints, ...]) -> Bools:
    """Whether positions in order of arrival come before others."""
    is_before, is_equal = np.zeros(len(one[0]), bool), np.ones(len(one[0]), bool)
    for a, b in zip(one, other, strict=True):
        is_before |= is_equal & (a < b)
        is_equal &= a == b
    return is_before


def _judge(plan: LagPlan, key: tuple[pa.Scalar, ...], rows: pa.Table, routed: pa.Table) -> pa.Table:
    found: list[tuple[int, str, int, int]] = []
    if rows.num_rows:
        chunk = _chunk(plan, rows, routed)
        for scenario, line in enumerate(plan.lines):
            found += [(scenario, *one) for one in _verdict(chunk, line)]
    columns = list(zip(*found, strict=True)) or [()] * 4
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)


def _chunk(plan: LagPlan, rows: pa.Table, routed: pa.Table) -> _Chunk:
    rows = rows.sort_by("at").combine_chunks()
    labels = rows["labels"].combine_chunks()
    sizes = labels.value_lengths().to_numpy(zero_copy_only=False)
    flat = labels.flatten()
    place, at, logged, offset = (rows[c].to_numpy().astype(np.int64) for c in ("place", "at", "logged", "offset"))
    names = ("stream", "place", "at", "logged", "offset")
    fields = (flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in names)
    of = np.repeat(np.arange(len(sizes)), sizes)
    stream, of_place, of_at, of_logged, of_offset = fields
    labels_of = (of_place, of_at, of_logged, of_offset)
    return _Chunk(plan, place, at, logged, offset, of, stream, *labels_of, _thawed_steps(routed))


def _thawed_steps(routed: pa.Table) -> dict[tuple[int, int], Ints]:
    blobs: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for row in routed.to_pylist():
        blobs.setdefault((row["lag"], row["clock"]), []).append((row["bucket"], row["part"], row["steps"]))
    return {key: thawed([blob for _, _, blob in sorted(parts)], STEP) for key, parts in blobs.items()}


def _verdict(chunk: _Chunk, line: Line) -> Iterator[Found]:
    rows = len(chunk.at)
    closed = chunk.closed(line.lag, line.clock, line.closing)
    met, lost = _labels(chunk, line, closed)
    yield from _states(met, lost, closed)
    yield ("rows", 0, rows)
    yield ("missing", 0, int(closed.missing.sum()))
    yield ("early", 0, int((closed.missing | (lost > 0)).sum()))
    yield ("open", 0, rows - int(closed.closes.sum()))
    yield ("labels", 0, int(met.sum()))
    yield ("lost", 0, int(lost.sum()))
    usual = chunk.closed(0, line.clock, line.closing)
    both = closed.left & usual.left
    late = closed.by[0][both] - usual.by[0][both]
    if len(late):
        yield ("compared", 0, len(late))
        yield from _spread("delay", late[late > 0])
    yield from _spread("wait", np.maximum(0, closed.by[0] - chunk.at)[closed.left])
    yield from _opened(chunk.arrived(line.lag)[0][~closed.missing], closed.by[0][closed.left])


def _labels(chunk: _Chunk, line: Line, closed: _Closed) -> tuple[Ints, Ints]:
    """By row: the labels in its window, and those of them that do not leave with it."""
    rows = len(chunk.at)
    before, after = np.array(line.windows or [(0, 0)], np.int64).T
    apart = chunk.label_at - chunk.at[chunk.of]
    inside = (-before[chunk.stream] <= apart) & (apart <= after[chunk.stream])
    of = chunk.of[inside]
    columns = (chunk.arrived(line.lag)[1], chunk.label_at, chunk.label_place, chunk.label_offset)
    late = _before(tuple(c[of] for c in closed.by), tuple(c[inside] for c in columns))
    gone = closed.missing[of] | (closed.closes[of] & late)
    return np.bincount(of, minlength=rows), np.bincount(of[gone], minlength=rows)


def _states(met: Ints, lost: Ints, closed: _Closed) -> Iterator[Found]:
    positive, stays = met > 0, ~closed.missing
    flips = {
        "positive>negative": positive & stays & (met == lost),
        "positive>missing": positive & closed.missing,
        "negative>missing": ~positive & closed.missing,
    }
    yield from ((name, 0, int(flipped.sum())) for name, flipped in flips.items() if flipped.any())


def _spread(name: str, durations: Ints) -> Iterator[Found]:
    if not len(durations):
        return
    codes = np.bincount(_code(durations))
    for code in np.flatnonzero(codes):
        yield (name, _value(int(code)), int(codes[code]))
    yield (f"{name}_total", 0, int(durations.sum()))
    yield (f"{name}_max", 0, int(durations.max()))


def _code(durations: Ints) -> Ints:
    """`semantics.lag.scenario.rounded`, as small numbers: how many binary digits are cut off, and the six that stay."""
    digits = np.maximum(0, np.frexp(durations.astype(np.float64))[1] - 6).astype(np.int64)
    return digits * 128 + -(-durations >> digits)


def _value(code: int) -> int:
    return code % 128 << code // 128


def _opened(arrived: Ints, left: Ints) -> Iterator[Found]:
    """At each full minute: how many more rows are open than at the one before."""
    minute = micros(LOOK_EVERY)
    minutes, change = np.concatenate([arrived, left]) // minute + 1, np.repeat([1, -1], [len(arrived), len(left)])
    if not len(minutes):
        return
    first = int(minutes.min())
    net = np.bincount(minutes - first, weights=change).astype(np.int64)
    for i in np.flatnonzero(net):
        yield ("opened", first + int(i), int(net[i]))


_ARROW = pa.schema([("scenario", pa.int32()), ("measure", pa.string()), ("bucket", pa.int64()), ("value", pa.int64())])
