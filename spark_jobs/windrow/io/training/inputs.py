"""The rows of a run's intervals, read from the landing tables at the pins: only files that can hold them are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import reduce

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.columns import (
    BATCH,
    EVENT_TIME,
    FILE,
    LANDING_TYPES,
    PLACE_TYPES,
    QUARANTINED,
    RECORD_AT,
    UNREADABLE_VALUES,
)
from windrow.config import Pipeline, RightStream, Stream
from windrow.home import Home
from windrow.io.delta import lookup, scan
from windrow.io.delta.lookup import Condition, Has, Range
from windrow.io.delta.session import schema_of, threads
from windrow.io.landing import batches, erased
from windrow.io.registers import erasures
from windrow.io.registers.clocks import Observation
from windrow.outcomes import BadInput
from windrow.semantics.intervals import Interval, stretches
from windrow.semantics.plan import Plan
from windrow.text import counted
from windrow.transforms.conditions import any_of
from windrow.transforms.erased import emptied
from windrow.transforms.given import given
from windrow.transforms.join import doubtful_rows
from windrow.transforms.streams import Inputs, StreamRows, divided_by, rows_of, without_repeats


class TooManyLabels(BadInput):
    """One key has more right rows than a join may hold as one array. A retry needs another pipeline file."""


SMALL = 6_000
"""Bytes of a row up to which the ten thousand rows of a batch are within the 64 MB that Spark allows by default."""
_FIXED = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp")
_TEXTS = ("string", "binary")
_META_DDL = ", ".join(f"{name} {kind}" for name, kind in LANDING_TYPES.items())


def read(
    spark: SparkSession, home: Home, plans: Sequence[Plan], clock: Observation, *, with_place: bool = False
) -> Inputs:
    """Read the rows for plans that share their pins; the caller must `release` the result.

    Right rows are read once for all intervals, from `start - before` to `end + after`. Left rows of intervals between
    the plans' are left out.

    Args:
        plans: oldest interval first.
        clock: the newest observation; it holds the accepted gaps.
        with_place: whether left rows get `PLACE_TYPES`, where all their files are named one by one.

    Raises:
        ClockBehind: the clock has not seen the pins.
    """
    lo, hi = plans[0].interval.start, plans[-1].interval.end
    pins = plans[0].pins
    wanted = any_of(_inside(stretch) for stretch in stretches(plan.interval for plan in plans))

    def landed(stream: Stream, begin: datetime, end: datetime) -> DataFrame:
        is_left = stream is home.pipeline.left
        rows = landed_of(spark, home, stream, pins, within(begin, end), with_place=with_place and is_left)
        return rows.where(wanted) if is_left else rows

    return read_range(spark, home, pins, lo, hi, clock, landed)


@lookup.seen_once()
def read_range(
    spark: SparkSession,
    home: Home,
    pins: Mapping[str, int],
    lo: datetime,
    hi: datetime,
    clock: Observation,
    landed: Callable[[Stream, datetime, datetime], DataFrame],
) -> Inputs:
    """Read what a join of the left rows in [lo, hi) needs; the caller must `release` the result.

    Args:
        pins: topic → last batch whose rows are read.
        clock: the newest observation; it holds the accepted gaps.
        landed: returns landing rows of a stream, at least those within a stretch of event time.

    Raises:
        CommitsLost: a landing table lacks what the clock says was landed.
        ClockBehind: the clock has not seen the pins.
        TooManyLabels: a key has more than `max_labels_per_key` rows of a right stream.
    """
    pipeline = home.pipeline
    batches.refuse_lost(home, clock.rows)
    lost = clock.gaps_between(lo - pipeline.before, hi + pipeline.after, pipeline=pipeline, pins=pins)
    has_erased = erasures.are_any(home)

    def side(stream: Stream, begin: datetime, end: datetime, *, ends_in: bool) -> StreamRows:
        rows, mark = landed(stream, begin, end), pipeline.mark_of(stream)
        return rows_of(rows, stream, begin, end, ends_in=ends_in, mark=mark, has_erased=has_erased)

    spans = {stream.name: Interval(lo - stream.window.before, hi + stream.window.after) for stream in pipeline.right}
    sides = [side(pipeline.left, lo, hi, ends_in=False)]
    doubtful = {}
    for stream in pipeline.right:
        begin, end = spans[stream.name].start, spans[stream.name].end
        sides.append(side(stream, begin, end, ends_in=True))
        if stream.role == "label":
            rows = _doubtful_of(spark, home, stream, pins, begin, end)
            if rows is not None:
                doubtful[stream.name] = rows
    served, *rights = _divided_once(sides)
    most = {stream.name: _most_rows(home, stream, pins, spans[stream.name]) for stream in pipeline.right}
    read = Inputs(served, {side.stream.name: side for side in rights}, doubtful, lost, most)
    for stream in pipeline.right:
        _refuse_too_many(home, stream, read, spans[stream.name])
    return read


def release(read: Inputs) -> None:
    """Unpersist the DataFrames that reading has persisted because they are used twice."""
    for side in (read.left, *read.rights.values()):
        if side.repeated is not None:
            side.repeated.unpersist()
            side.duplicates.unpersist()


def _refuse_too_many(home: Home, stream: RightStream, read: Inputs, span: Interval) -> None:
    """Fail where one key has so many rows of a stream that its array may not fit into memory.

    Keys are counted only where the log does not exclude it: files that can hold rows of the windows have more rows.

    Args:
        span: of all windows.

    Raises:
        TooManyLabels: names topic, count and limit; never the key, which may be a person.
    """
    most, doubts = home.pipeline.max_labels_per_key, read.doubtful.get(stream.name)
    if doubts is None and read.most_rows[stream.name] <= most:
        return
    largest = largest_group(read, stream)
    if largest <= most:
        return
    release(read)
    raise TooManyLabels(
        f"{', '.join(stream.topics)}: one key has {counted(largest, 'row')} of the stream {stream.name} in "
        f"{span}, and `max_labels_per_key` is {most:,}: a join holds them as one array in memory. "
        "Nothing was joined or published. Raise `max_labels_per_key` and give the driver more memory; or take fewer "
        "intervals at once (`catch_up: 1`, a shorter range); or shorten `interval` or `window`; or leave out with "
        "`where` what no model needs."
    )


def are_right_rows_small(home: Home, read: Inputs, rows_expected: int) -> bool:
    """Return whether no left row can hold right rows of more than `SMALL` bytes, as it is handed to a Python worker.

    They are weighed only where right rows are fewer than left ones, so that it costs little, and have plain columns:
    else the answer is no.

    Args:
        read: what was read for the join.
        rows_expected: about how many left rows there are.
    """
    held = 0
    for stream in home.pipeline.right:
        is_plain = all(kind.lower() in (*_FIXED, *_TEXTS) for kind in stream.columns.values())
        if not is_plain or read.most_rows[stream.name] > rows_expected:
            return False
        held += _heaviest_group(read.rights[stream.name].kept, stream)
    return held <= SMALL


def _heaviest_group(rows: DataFrame, stream: RightStream) -> int:
    """Return at least how many bytes the rows of any key have, each with the longest texts of its column."""
    texts = [name for name, kind in stream.columns.items() if kind.lower() in _TEXTS]
    longest = {f"_{n}": F.max(F.octet_length(F.col(f"`{name}`"))) for n, name in enumerate(texts)}
    groups = rows.groupBy(*stream.key).agg(F.count("*").alias("_rows"), *[x.alias(n) for n, x in longest.items()])
    (most,) = groups.agg(F.max("_rows"), *[F.max(name) for name in longest]).collect()
    count, *lengths = (value or 0 for value in most)
    return count * (16 * len({*stream.columns, *LANDING_TYPES}) + sum(lengths))


def largest_group(read: Inputs, stream: RightStream) -> int:
    """Return how many rows of a stream the key with most of them has, unreadable labels included."""
    rows, doubts = read.rights[stream.name].kept.select(*stream.key), read.doubtful.get(stream.name)
    grouped = rows if doubts is None else rows.unionByName(doubts.select(*stream.key))  # they share a group in the join
    return grouped.groupBy(*stream.key).count().agg(F.max("count")).collect()[0][0] or 0


def _most_rows(home: Home, stream: RightStream, pins: Mapping[str, int], span: Interval) -> int:
    """Return how many rows the files have, at most, that can hold rows of a stream in a span; from the log."""
    total = 0
    for topic in stream.topics:
        table = lookup.opened(home.landing(topic))
        if table is not None:
            files = table.files_with([*within(span.start, span.end), Range(BATCH, most=pins.get(topic, 0))])
            rows = pc.sum(files["num_records"], skip_nulls=False, min_count=0).as_py()
            total += sys.maxsize if rows is None else rows  # the log does not say it of every file
    return total


def landed_of(
    spark: SparkSession,
    home: Home,
    stream: Stream,
    pins: Mapping[str, int],
    *either: Sequence[Condition],
    with_place: bool = False,
) -> DataFrame:
    """Return landing rows of all topics of a stream, up to the pins; those of erased keys have no payload.

    Args:
        pins: topic → last batch whose rows are read.
        either: files that can meet every condition of one of these are read (see `scan`).
        with_place: whether the rows get `PLACE_TYPES`, where the files of all topics are named one by one.
    Returns:
        `LANDING_TYPES`, `_raw` and the columns of the stream.
    """
    found, keys = [], erased.keys_of(spark, home)
    for topic in stream.topics:
        pin = pins.get(topic, 0)
        files = [(*conditions, Range(BATCH, most=pin)) for conditions in either]
        rows = scan.rows(spark, home.landing(topic), *files, with_place=with_place)
        if rows is not None:
            found.append(emptied(rows.where(F.col(BATCH) <= given(pin)), home.pipeline, topic, keys))
    is_placed = with_place and all(FILE in rows.columns for rows in found)
    columns = {**stream.columns, **(PLACE_TYPES if is_placed else {})}
    schema = schema_of(", ".join([_META_DDL, *[f"`{name}` {kind}" for name, kind in columns.items()]]))
    frames = [with_columns(rows, schema) for rows in found]
    return reduce(DataFrame.unionByName, frames) if frames else scan.nothing(spark, schema)


def with_columns(landed: DataFrame, schema: StructType) -> DataFrame:
    """Return landing rows with exactly these columns; one that joined the pipeline file after they landed is null.

    Args:
        landed: landing rows as an older pipeline file may have written them.
        schema: wanted columns; names are compared ignoring case.
    """
    known = {name.lower() for name in landed.columns}
    return landed.select(
        *[F.col(f.name) if f.name.lower() in known else F.lit(None).cast(f.dataType).alias(f.name) for f in schema]
    )


def within(lo: datetime, hi: datetime) -> tuple[Condition, ...]:
    """Return conditions for the files that can hold event times in [lo, hi].

    Args:
        lo: oldest event time, included.
        hi: newest event time, included.
    """
    return (Range(EVENT_TIME, lo, hi),)


def _doubtful_of(
    spark: SparkSession, home: Home, stream: RightStream, pins: Mapping[str, int], begin: datetime, end: datetime
) -> DataFrame | None:
    """Return the unreadable labels that `doubtful_rows` selects; None where no file can hold one, which is usual."""
    files = _doubtful_files(home.pipeline, begin, end)
    if not any(scan.can_hold(home.landing(topic), *files) for topic in stream.topics):
        return None
    rows = doubtful_rows(landed_of(spark, home, stream, pins, *files), stream, home.pipeline, begin, end)
    for topic in stream.topics:
        again = batches.reconsidered(spark, home.landing(topic), pins.get(topic, 0))
        if again is not None:
            rows = batches.without_replaced(rows, again)
    return None if rows.isEmpty() else rows


def _doubtful_files(pipeline: Pipeline, lo: datetime, hi: datetime) -> tuple[tuple[Condition, ...], ...]:
    """Return alternative conditions for the files that can hold what `doubtful_rows` selects."""
    bad = Has(QUARANTINED, value=True)
    spoilt = Has(UNREADABLE_VALUES, value=True)  # for one stream of several
    # quarantined, or left out by every `where` of the file under which it landed, which another file may not do
    timeless = Has(EVENT_TIME)
    return (
        (bad, *within(lo, hi)),
        (spoilt, *within(lo, hi)),
        (timeless, Range(RECORD_AT, lo - pipeline.max_skew)),
        (timeless, Has(RECORD_AT)),
    )


def _divided_once(sides: Sequence[StreamRows]) -> list[StreamRows]:
    """Find out which event ids repeat, in all streams at once, so that the join and every count divide the rows alike.

    This shuffles one hash per row. In most runs no id repeats, and duplicates need no further work.
    """

    def divide(rows: StreamRows) -> StreamRows:
        if rows.repeated is None:
            return rows
        repeated = rows.repeated.persist()
        if repeated.count():
            known = divided_by(rows, repeated)
            known.duplicates.persist()
            return known
        repeated.unpersist()
        return without_repeats(rows)

    with threads(len(sides)) as pool:
        return list(pool.map(divide, sides))


def _inside(interval: Interval) -> Column:
    at = F.col(EVENT_TIME)
    return (at >= given(interval.start)) & (at < given(interval.end))
