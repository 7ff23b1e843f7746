"""Delays and disorder of a range, counted by Spark from the landing tables: a few numbers come back, never a row.

left rows   [start - widest, end + widest)     a label is counted at its nearest row, so rows around count too
labels      the same stretch, and what lies `before`
disorder    every record of [start, end + widest disorder): what came before it makes an event late
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline, RightStream, Stream
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.delta.session import frame_of
from windrow.io.registers.clocks import Observation
from windrow.schemas import BATCH, EVENT_TIME, QUARANTINED, ROW_ID
from windrow.semantics.clock import topic_clock
from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.lag.recall import Delays
from windrow.transforms.lag.delays import (
    Grid,
    disorder_by_partition,
    disorder_counts,
    label_delays,
    sampled,
    with_disorder,
)
from windrow.transforms.streams import rows_of, selected

FINEST = 1_000
"""Bins of a grid at most."""

WIDER = 4
"""Labels are looked for in this many windows after their row: the window itself says nothing about what it misses."""

SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Counted:
    """What the landed rows of a range say; by label stream, and a line a partition."""

    delays: Mapping[str, Delays]
    orphans: Mapping[str, int]
    disorder: Mapping[str, Delays]
    partitions: tuple[Mapping[str, Any], ...]


def count(
    spark: SparkSession,
    home: Home,
    seen: Observation,
    *,
    start: datetime,
    end: datetime,
    windows: Iterable[timedelta] = (),
    sample: float = 1.0,
    say: Callable[[str], None] = lambda what: None,
) -> Counted:
    """Count what lies in [start, end), up to the pins of `seen`. A stream whose topic has no clock has no delays."""
    topics = {topic: _landed(spark, home, seen, topic) for topic in home.pipeline.topics}
    late = disorder_grid(home.pipeline)
    disorder: dict[str, list[Mapping[str, int]]] = {stream.name: [] for stream in home.pipeline.label_streams}
    partitions: list[Mapping[str, Any]] = []
    for topic, rows in topics.items():
        say(f"how orderly {topic} arrived")
        jumps = _jumps(rows, home.pipeline, topic, start, end, end + late.widest).persist()  # narrow, and read again
        partitions += [row.asDict() for row in disorder_by_partition(jumps).collect()]
        for stream in home.pipeline.label_streams:
            if topic in stream.topics:
                disorder[stream.name] += _disorder(jumps, stream, seen.of_topic(topic), late)
        jumps.unpersist()
    delays, orphans = {}, {}
    for stream in home.pipeline.label_streams:
        say(f"how late {stream.name} came")
        if (heard := _heard_until(stream, seen)) is None:
            continue
        grid = delay_grid(stream, windows)
        found = _label_delays(topics, home.pipeline, stream, grid, start, end, heard, sample).collect()
        delays[stream.name] = _delays(grid, [row.asDict() for row in found if row["bin"] >= 0])
        orphans[stream.name] = sum(row["labels"] for row in found if row["bin"] < 0)
    counted = {name: _delays(late, rows) for name, rows in disorder.items()}
    return Counted(delays, orphans, counted, tuple(partitions))


def delay_grid(stream: RightStream, windows: Iterable[timedelta]) -> Grid:
    """Bins for delays: the stream's window, those that are asked about and four windows are bounds of bins."""
    bounds = [stream.window.after, *windows]
    widest = max([WIDER * stream.window.after, *(window * 5 / 4 for window in windows), 10 * SECOND])
    return _grid(widest, bounds)


def disorder_grid(pipeline: Pipeline) -> Grid:
    """Bins for disorder: ten times what is allowed now, and at least ten minutes."""
    allowed = [pipeline.out_of_orderness(topic) + pipeline.grace for topic in pipeline.topics]
    return _grid(max(10 * max(allowed), 600 * SECOND), allowed)


def _grid(widest: timedelta, bounds: Iterable[timedelta]) -> Grid:
    """At most `FINEST` bins that have the bounds among them where that is possible; whole seconds where they are."""
    whole = math.gcd(*(bound // MICROSECOND for bound in (widest, *bounds)))
    bins = widest // MICROSECOND // whole
    if bins > FINEST:
        step = max(SECOND, SECOND * math.ceil(widest / FINEST / SECOND))
        return Grid(step, -(-widest // step))
    unit = 1_000_000 if whole % 1_000_000 == 0 else 1
    parts = next(n for n in range(FINEST // bins, 0, -1) if whole % (n * unit) == 0)
    return Grid(MICROSECOND * (whole // parts), bins * parts)


def _landed(spark: SparkSession, home: Home, seen: Observation, topic: str) -> DataFrame:
    """The trusted records of a topic up to its pin, with every column that its streams name."""
    path = home.landing(topic)
    columns = home.pipeline.topic_columns(topic)
    meta = f"{EVENT_TIME} timestamp, _topic string, _epoch int, _partition int, _offset bigint, {QUARANTINED} string"
    if tables.opened(path) is None:
        return frame_of(spark, [], ", ".join([meta, *(f"`{name}` {kind}" for name, kind in columns.items())]))
    frame = spark.read.format("delta").load(path).where(F.col(BATCH) <= seen.pins.get(topic, 0))
    known = {name.lower() for name in frame.columns}
    payload = [
        F.col(name) if name.lower() in known else F.lit(None).cast(kind).alias(name) for name, kind in columns.items()
    ]
    return frame.where(F.col(QUARANTINED).isNull()).select(EVENT_TIME, *ROW_ID, QUARANTINED, *payload)


def _jumps(
    rows: DataFrame, pipeline: Pipeline, topic: str, start: datetime, end: datetime, until: datetime
) -> DataFrame:
    """Disorder of the records of [start, end), with a flag for each label stream that selects them."""
    at = F.col(EVENT_TIME)
    flags = [selected(s).alias(f"is_{s.name}") for s in pipeline.label_streams if topic in s.topics]
    narrow = rows.where((at >= F.lit(start)) & (at < F.lit(until))).select(EVENT_TIME, *ROW_ID, *flags)
    return with_disorder(narrow).where(at < F.lit(end))


def _disorder(jumps: DataFrame, stream: Stream, clock: Sequence[Mapping[str, Any]], grid: Grid) -> list[dict[str, int]]:
    newest = {row["partition"]: row["newest_at"] for row in clock if row["newest_at"] is not None}
    epoch = max((row["epoch"] for row in clock), default=0)
    mine = jumps.where(F.col(f"is_{stream.name}") & (F.col("_epoch") == epoch))
    return [row.asDict() for row in disorder_counts(mine, newest, grid).collect()]


def _label_delays(
    topics: Mapping[str, DataFrame],
    pipeline: Pipeline,
    stream: RightStream,
    grid: Grid,
    start: datetime,
    end: datetime,
    heard_until: datetime,
    sample: float,
) -> DataFrame:
    lo, hi = start - grid.widest, end + grid.widest

    def kept(side: Stream, begin: datetime) -> DataFrame:
        rows = reduce(DataFrame.unionByName, (topics[topic].select(*_columns(side)) for topic in side.topics))
        return sampled(rows_of(rows, side, begin, hi, ends_in=True).kept, side.key, sample)

    return label_delays(
        kept(pipeline.left, lo),
        kept(stream, lo - stream.window.before),
        (pipeline.left.key, stream.key),
        begin=start,
        end=end,
        before=stream.window.before,
        heard_until=heard_until,
        grid=grid,
    )


def _columns(stream: Stream) -> list[str]:
    return [EVENT_TIME, *ROW_ID, QUARANTINED, *stream.columns]


def _heard_until(stream: RightStream, seen: Observation) -> datetime | None:
    """Before it every label has landed: the least clock of the stream's topics."""
    clocks = [topic_clock(c for c in seen.clocks if c.topic == topic) for topic in stream.topics]
    return None if None in clocks else min(filter(None, clocks), default=None)


def _delays(grid: Grid, rows: Iterable[Mapping[str, int]]) -> Delays:
    counts: Counter[tuple[int, int]] = Counter()
    for row in rows:
        counts[row["bin"], row["seen"]] += row["labels"]
    return Delays(grid.step, grid.bins, counts)
