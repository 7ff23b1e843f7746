"""Counts of what each scenario does to a chunk of left rows: their closing steps, and labels in time and lost.

    chunk of left rows with their labels ─┐
    steps of every (lag, clock) ──────────┴▶ (scenario, measure, bucket) → value     sums only, no rows

`summed` adds up the chunks, `impact.outcomes` reads the sums as `semantics.lag.outcome.LagOutcome`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from windrow.schemas import spark_ddl
from windrow.semantics.intervals import micros
from windrow.semantics.lag.outcome import COUNT_OPEN_EVERY
from windrow.transforms.lag.arrivals import Ints
from windrow.transforms.lag.chunks import Chunk, Closed, chunk_of
from windrow.transforms.lag.plan import IndexedScenario, LagPlan

TALLIES = pa.schema([("scenario", pa.int32()), ("measure", pa.string()), ("bucket", pa.int64()), ("value", pa.int64())])
"""`bucket` is a rounded duration for `delay` and `wait`, a minute for `opened`, and 0 for all other measures."""
Tally = tuple[str, int, int]
"""measure, bucket, value"""


def tallied(rows: DataFrame, routed: DataFrame, plan: LagPlan) -> DataFrame:
    """`TALLIES`, one row per chunk, scenario, measure and bucket.

    Args:
        rows: `events.ROW_COLUMNS`.
        routed: the steps of each chunk (`steps.routed`).
    """
    return (
        rows.withColumn("chunk", F.expr(f"(event_at - pmod(event_at, {plan.chunk}L)) div {plan.chunk}L"))
        .groupBy("chunk")
        .cogroup(routed.groupBy("chunk"))
        .applyInArrow(partial(_tally_chunk, plan), spark_ddl(TALLIES))
    )


def summed(tallies: DataFrame) -> DataFrame:
    """One row per scenario, measure and bucket of the whole range: sums, and for measures on `_max` the largest value.

    The peak of open rows is the largest running sum of `opened`: by minute, rows that open minus rows that leave.

    >>> waits = [(0, "wait_max", 0, 7), (0, "wait_max", 0, 9)]
    >>> opened = [(0, "opened", 1, 5), (0, "opened", 2, -1), (0, "opened", 3, 2)]
    >>> summed(spark.createDataFrame(waits + opened, spark_ddl(TALLIES))).orderBy("measure").show()
    +--------+---------+------+-----+
    |scenario|  measure|bucket|value|
    +--------+---------+------+-----+
    |       0|open_peak|     0|    6|
    |       0| wait_max|     0|    9|
    +--------+---------+------+-----+
    <BLANKLINE>
    """
    total = F.sum(F.col("value").cast("decimal(38,0)"))
    value = F.when(F.col("measure").endswith("_max"), F.max("value").cast("decimal(38,0)")).otherwise(total)
    sums = tallies.groupBy("scenario", "measure", "bucket").agg(value.alias("value"))
    so_far = Window.partitionBy("scenario", "measure").orderBy("bucket")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    # in one pass, not as a union of two: Spark would tally all chunks again for the second
    is_opened = F.col("measure") == "opened"
    open_rows = F.sum("value").over(so_far).cast("decimal(38,0)")
    return (
        sums.withColumn("value", F.when(is_opened, open_rows).otherwise(F.col("value")))
        .withColumn("bucket", F.when(is_opened, F.lit(0).cast("bigint")).otherwise(F.col("bucket")))
        .withColumn("measure", F.when(is_opened, "open_peak").otherwise(F.col("measure")))
        .groupBy("scenario", "measure", "bucket")
        .agg(F.max("value").alias("value"))
    )


def _tally_chunk(plan: LagPlan, key: tuple[pa.Scalar, ...], rows: pa.Table, routed: pa.Table) -> pa.Table:
    rows_out: list[tuple[int, str, int, int]] = []
    if rows.num_rows:
        chunk = chunk_of(plan, rows, routed)
        for number, scenario in enumerate(plan.indexed):
            rows_out += [(number, *tally) for tally in _tallies(chunk, scenario)]
    columns = list(zip(*rows_out, strict=True)) or [()] * 4
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, TALLIES, strict=True)], schema=TALLIES)


def _tallies(chunk: Chunk, scenario: IndexedScenario) -> Iterator[Tally]:
    """Every measure of one scenario over one chunk."""
    rows = len(chunk.event_at)
    closed = chunk.closed(scenario.lag, scenario.clock, scenario.closing)
    matched, lost = _labels(chunk, scenario, closed)
    left = closed.left
    yield from _flips(matched, lost, closed)
    yield ("rows", 0, rows)
    yield ("missing", 0, int(closed.missing.sum()))
    yield ("early", 0, int((closed.missing | (lost > 0)).sum()))
    yield ("open", 0, rows - int(closed.closes.sum()))
    yield ("labels", 0, int(matched.sum()))
    yield ("lost", 0, int(lost.sum()))
    calm = chunk.closed(0, scenario.clock, scenario.closing)
    both = left & calm.left
    if both.any():
        later_by = closed.at(both) - calm.at(both)
        yield ("compared", 0, len(later_by))
        yield from _spread("delay", later_by[later_by > 0])
    left_at = closed.at(left)
    yield from _spread("wait", np.maximum(0, left_at - chunk.event_at[left]))
    yield from _opened(chunk.arrived(scenario.lag)[0][~closed.missing], left_at)


def _labels(chunk: Chunk, scenario: IndexedScenario, closed: Closed) -> tuple[Ints, Ints]:
    """By row: the labels in its window, and those of them that do not leave with it."""
    matched = chunk.matched(scenario.windows)
    is_closing = closed.closes[matched.row_of]
    label, row_of = matched.label[is_closing], matched.row_of[is_closing]
    columns = (chunk.arrived(scenario.lag)[1], chunk.label_event_at, chunk.label_partition, chunk.label_offset)
    # a label leaves with its row if it has arrived before the event that closes the row, in order of arrival
    is_lost = closed.missing[row_of] | closed.is_before(row_of, columns, label)
    return matched.by_row, np.bincount(row_of[is_lost], minlength=len(matched.by_row))


def _flips(matched: Ints, lost: Ints, closed: Closed) -> Iterator[Tally]:
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
    # durations are rounded up to six bits, so that quantiles need few counts and no sorted rows
    codes = _codes(durations)
    least = int(codes.min())
    counts = np.bincount(codes - least)
    for code in np.flatnonzero(counts):
        yield (name, _value(least + int(code)), int(counts[code]))
    yield (f"{name}_total", 0, int(durations.sum()))
    yield (f"{name}_max", 0, int(durations.max()))


_DROPPED_BITS = 47
"""A float has 52 bits behind its first one. Six bits in all are five of these, so that 47 are dropped."""


def _codes(durations: Ints) -> Ints:
    """`outcome.rounded_up` as small numbers for `bincount`: the leading bits of the duration as a float, rounded up.

    A carry goes on into the exponent, so that the next number follows. Exact below 2^53 microseconds, 285 years.

    >>> [_value(int(code)) for code in _codes(np.array([0, 63, 65, 1_000_000]))]
    [0, 63, 66, 1015808]
    """
    return (durations.astype(np.float64).view(np.int64) + (1 << _DROPPED_BITS) - 1) >> _DROPPED_BITS


def _value(code: int) -> int:
    """The duration of a code, in microseconds."""
    return int(np.int64(code << _DROPPED_BITS).view(np.float64))


def _opened(arrived: Ints, left_at: Ints) -> Iterator[Tally]:
    """By full minute: the number of rows that are open minus that at the minute before."""
    minute = micros(COUNT_OPEN_EVERY)
    opened, gone = arrived // minute + 1, left_at // minute + 1
    if not len(opened) + len(gone):
        return
    first = min(int(minutes.min()) for minutes in (opened, gone) if len(minutes))
    size = 1 + max(int(minutes.max()) for minutes in (opened, gone) if len(minutes)) - first
    # only minutes with a change are kept; sums of such changes over all chunks give the open rows of any minute
    net = np.bincount(opened - first, minlength=size) - np.bincount(gone - first, minlength=size)
    for i in np.flatnonzero(net):
        yield ("opened", first + int(i), int(net[i]))
