"""What each scenario does to a chunk of left rows: find their closing steps, and count labels in time and lost.

    chunk of left rows with their labels ─┐
    steps of every (lag, clock) ──────────┴▶ (scenario, measure, bucket) → value     sums only, no rows

`summed` adds up the chunks, `impact.outcomes` reads the sums as `semantics.lag.outcome.LagOutcome`.
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
from windrow.semantics.lag.outcome import COUNT_OPEN_EVERY
from windrow.transforms.lag.arrivals import Ints, arrivals_of, rows_of_blobs
from windrow.transforms.lag.plan import Closing, IndexedScenario, LagPlan
from windrow.transforms.lag.steps import STEP_COLUMNS

TALLY_COLUMNS = "scenario int, measure string, bucket bigint, value bigint"
"""`bucket` is a rounded duration for `delay` and `wait`, a minute for `opened`, and 0 for all other measures."""
Bools = np.ndarray
Tally = tuple[str, int, int]
"""measure, bucket, value"""


def tallied(rows: DataFrame, routed: DataFrame, plan: LagPlan) -> DataFrame:
    """`TALLY_COLUMNS`, one row per chunk, scenario, measure and bucket.

    Args:
        rows: `events.ROW_COLUMNS`.
        routed: the steps of each chunk (`steps.routed`).
    """
    return (
        rows.withColumn("chunk", F.expr(f"(event_at - pmod(event_at, {plan.chunk}L)) div {plan.chunk}L"))
        .groupBy("chunk")
        .cogroup(routed.groupBy("chunk"))
        .applyInArrow(partial(_tally_chunk, plan), TALLY_COLUMNS)
    )


def summed(tallies: DataFrame) -> DataFrame:
    """One row per scenario, measure and bucket of the whole range: sums, and for measures on `_max` the largest value.

    The peak of open rows is the largest running sum of `opened`: the rows that open less those that leave, by minute.
    """
    keys = ["scenario", "measure", "bucket"]
    total = F.sum(F.col("value").cast("decimal(38,0)"))
    value = F.when(F.col("measure").endswith("_max"), F.max("value").cast("decimal(38,0)")).otherwise(total)
    sums = tallies.groupBy(*keys).agg(value.alias("value"))
    so_far = Window.partitionBy("scenario").orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0)
    peak = (
        sums.where(F.col("measure") == "opened")
        .select("scenario", F.sum("value").over(so_far).alias("open"))
        .groupBy("scenario")
        .agg(F.max("open").cast("decimal(38,0)").alias("value"))
        .select("scenario", F.lit("open_peak").alias("measure"), F.lit(0).cast("bigint").alias("bucket"), "value")
    )
    return sums.where(F.col("measure") != "opened").unionByName(peak)


@dataclass
class _Chunk:
    """Left rows, and their labels in flat columns: `row_of` is the index of the row that a label belongs to.

    Scenarios share lags, clocks and closings, so what depends on these alone is computed once.
    """

    plan: LagPlan
    partition: Ints
    event_at: Ints
    record_at: Ints
    offset: Ints
    row_of: Ints
    stream: Ints
    label_partition: Ints
    label_event_at: Ints
    label_record_at: Ints
    label_offset: Ints
    steps: dict[tuple[int, int], Ints]
    """(lag, clock) → `STEP_COLUMNS`"""
    _closed: dict[tuple[int, int, Closing], _Closed] = field(default_factory=dict, init=False)
    _arrived: dict[int, tuple[Ints, Ints]] = field(default_factory=dict, init=False)

    def arrived(self, lag: int) -> tuple[Ints, Ints]:
        """Arrivals of the rows and of the labels under a lag."""
        if lag not in self._arrived:
            injected, is_lagging = self.plan.lags[lag], self.plan.lagging(lag)
            self._arrived[lag] = (
                arrivals_of(injected, is_lagging, self.partition, self.record_at),
                arrivals_of(injected, is_lagging, self.label_partition, self.label_record_at),
            )
        return self._arrived[lag]

    def closed(self, lag: int, clock: int, closing: Closing) -> _Closed:
        """How the rows close under a lag, a clock and a closing."""
        key = (lag, clock, closing)
        if key not in self._closed:
            self._closed[key] = self._close(*key)
        return self._closed[key]

    def _close(self, lag: int, clock: int, closing: Closing) -> _Closed:
        """Each row closes at the first step with W > θ, where θ is the last W at which its interval is still open."""
        theta = self.event_at - self.event_at % closing.interval + closing.interval + closing.wait - 1
        w, *position = self.steps.get((lag, clock), np.empty((STEP_COLUMNS, 0), np.int64))
        step = np.searchsorted(w, theta, side="right")
        closes = step < len(w)
        step = np.where(closes, step, 0)  # any step: the position of a row that does not close is never used
        closed_by = tuple(c[step] if len(w) else np.zeros_like(theta) for c in position)
        rows = (self.arrived(lag)[0], self.event_at, self.partition, self.offset)
        return _Closed(closes, closed_by, missing=closes & _is_before(closed_by, rows))


@dataclass(frozen=True)
class _Closed:
    """By row: whether it closes; the position of the event that closes it; whether that is before its own arrival.

    A position is (arrival, event time, partition, offset): the order of arrival.
    """

    closes: Bools
    by: tuple[Ints, ...]
    missing: Bools

    @property
    def left(self) -> Bools:
        """Rows that closed after they had arrived."""
        return self.closes & ~self.missing


def _is_before(positions: tuple[Ints, ...], others: tuple[Ints, ...]) -> Bools:
    """Whether positions come before others in order of arrival, column by column.

    >>> _is_before((np.array([1, 1]), np.array([2, 3])), (np.array([1, 1]), np.array([3, 3]))).tolist()
    [True, False]
    """
    is_before, is_equal = np.zeros(len(positions[0]), bool), np.ones(len(positions[0]), bool)
    for a, b in zip(positions, others, strict=True):
        is_before |= is_equal & (a < b)
        is_equal &= a == b
    return is_before


def _tally_chunk(plan: LagPlan, key: tuple[pa.Scalar, ...], rows: pa.Table, routed: pa.Table) -> pa.Table:
    found: list[tuple[int, str, int, int]] = []
    if rows.num_rows:
        chunk = _chunk(plan, rows, routed)
        for number, scenario in enumerate(plan.indexed):
            found += [(number, *tally) for tally in _tallies(chunk, scenario)]
    columns = list(zip(*found, strict=True)) or [()] * 4
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)


def _chunk(plan: LagPlan, rows: pa.Table, routed: pa.Table) -> _Chunk:
    rows = rows.sort_by("event_at").combine_chunks()
    labels = rows["labels"].combine_chunks()
    sizes = labels.value_lengths().to_numpy(zero_copy_only=False)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    flat = labels.flatten()
    names = ("partition", "event_at", "record_at", "offset")

    def label_column(name: str) -> Ints:
        return flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64)

    return _Chunk(
        plan=plan,
        **{name: rows[name].to_numpy().astype(np.int64) for name in names},
        row_of=row_of,
        stream=label_column("stream"),
        **{f"label_{name}": label_column(name) for name in names},
        steps=_steps_by_clock(routed),
    )


def _steps_by_clock(routed: pa.Table) -> dict[tuple[int, int], Ints]:
    """(lag, clock) → its steps, the blobs in the order of their buckets."""
    blobs: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for row in routed.to_pylist():
        blobs.setdefault((row["lag"], row["clock"]), []).append((row["bucket"], row["part"], row["steps"]))
    return {key: rows_of_blobs([blob for _, _, blob in sorted(parts)], STEP_COLUMNS) for key, parts in blobs.items()}


def _tallies(chunk: _Chunk, scenario: IndexedScenario) -> Iterator[Tally]:
    """Every measure of one scenario over one chunk."""
    rows = len(chunk.event_at)
    closed = chunk.closed(scenario.lag, scenario.clock, scenario.closing)
    matched, lost = _labels(chunk, scenario, closed)
    yield from _flips(matched, lost, closed)
    yield ("rows", 0, rows)
    yield ("missing", 0, int(closed.missing.sum()))
    yield ("early", 0, int((closed.missing | (lost > 0)).sum()))
    yield ("open", 0, rows - int(closed.closes.sum()))
    yield ("labels", 0, int(matched.sum()))
    yield ("lost", 0, int(lost.sum()))
    calm = chunk.closed(0, scenario.clock, scenario.closing)
    both = closed.left & calm.left
    later_by = closed.by[0][both] - calm.by[0][both]
    if len(later_by):
        yield ("compared", 0, len(later_by))
        yield from _spread("delay", later_by[later_by > 0])
    yield from _spread("wait", np.maximum(0, closed.by[0] - chunk.event_at)[closed.left])
    yield from _opened(chunk.arrived(scenario.lag)[0][~closed.missing], closed.by[0][closed.left])


def _labels(chunk: _Chunk, scenario: IndexedScenario, closed: _Closed) -> tuple[Ints, Ints]:
    """By row: the labels in its window, and those of them that do not leave with it."""
    rows = len(chunk.event_at)
    before, after = np.array(scenario.windows or [(0, 0)], np.int64).T
    apart = chunk.label_event_at - chunk.event_at[chunk.row_of]
    is_inside = (-before[chunk.stream] <= apart) & (apart <= after[chunk.stream])
    row_of = chunk.row_of[is_inside]
    columns = (chunk.arrived(scenario.lag)[1], chunk.label_event_at, chunk.label_partition, chunk.label_offset)
    is_late = _is_before(tuple(c[row_of] for c in closed.by), tuple(c[is_inside] for c in columns))
    is_lost = closed.missing[row_of] | (closed.closes[row_of] & is_late)
    return np.bincount(row_of, minlength=rows), np.bincount(row_of[is_lost], minlength=rows)


def _flips(matched: Ints, lost: Ints, closed: _Closed) -> Iterator[Tally]:
    """Rows whose state as they left differs from their state with all labels."""
    is_positive, is_there = matched > 0, ~closed.missing
    flips = {
        "positive>negative": is_positive & is_there & (matched == lost),
        "positive>missing": is_positive & closed.missing,
        "negative>missing": ~is_positive & closed.missing,
    }
    yield from ((name, 0, int(flipped.sum())) for name, flipped in flips.items() if flipped.any())


def _spread(name: str, durations: Ints) -> Iterator[Tally]:
    if not len(durations):
        return
    counts = np.bincount(_codes(durations))
    for code in np.flatnonzero(counts):
        yield (name, _value(int(code)), int(counts[code]))
    yield (f"{name}_total", 0, int(durations.sum()))
    yield (f"{name}_max", 0, int(durations.max()))


def _codes(durations: Ints) -> Ints:
    """`outcome.rounded_up` as small numbers for `bincount`: 128 times the dropped bits plus the six bits that stay.

    The exponent of a float is the bit length of its integer; rounding up can carry into a seventh bit, hence 128.

    >>> [_value(int(code)) for code in _codes(np.array([63, 65, 1_000_000]))]
    [63, 66, 1015808]
    """
    dropped_bits = np.maximum(0, np.frexp(durations.astype(np.float64))[1] - 6).astype(np.int64)
    return dropped_bits * 128 + -(-durations >> dropped_bits)


def _value(code: int) -> int:
    """The duration of a code, in microseconds."""
    return code % 128 << code // 128


def _opened(arrived: Ints, left: Ints) -> Iterator[Tally]:
    """By full minute: how many more rows are open than at the minute before."""
    minute = micros(COUNT_OPEN_EVERY)
    minutes, change = np.concatenate([arrived, left]) // minute + 1, np.repeat([1, -1], [len(arrived), len(left)])
    if not len(minutes):
        return
    first = int(minutes.min())
    net = np.bincount(minutes - first, weights=change).astype(np.int64)
    for i in np.flatnonzero(net):
        yield ("opened", first + int(i), int(net[i]))


_ARROW = pa.schema([("scenario", pa.int32()), ("measure", pa.string()), ("bucket", pa.int64()), ("value", pa.int64())])
