"""The rows of a run's intervals, read from the landing tables at the pins: only what closes is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.columns import BATCH, EVENT_TIME, QUARANTINED, RECORD_AT
from windrow.config import Pipeline, Stream
from windrow.home import Home
from windrow.io.delta import lookup, scan
from windrow.io.delta.lookup import Condition, Has, Range
from windrow.io.delta.session import schema_of
from windrow.io.registers import clocks
from windrow.semantics.clock import PartitionClock, watermark
from windrow.semantics.close import frontier, is_closed
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap
from windrow.transforms.conditions import any_of
from windrow.transforms.join import Facts, doubtful_rows, join
from windrow.transforms.streams import StreamRows, looked_through, rows_of

_META_DDL = (
    "_event_time timestamp, _topic string, _epoch int, _partition int, _offset bigint, _batch bigint, "
    "_arrived_at timestamp, _record_at timestamp, _quarantined string, _raw binary"
)


@dataclass(frozen=True)
class Inputs:
    """What the join of a run's plans reads. `left` covers the span of the plans' intervals."""

    left: StreamRows
    rights: Mapping[str, StreamRows]
    doubtful: Mapping[str, DataFrame]
    """label stream → its quarantined rows whose key could be read, where it has any: as a rule none has"""
    gaps: tuple[Gap, ...]

    def release(self) -> None:
        """Let go of what was kept for reading it twice."""
        for side in (self.left, *self.rights.values()):
            side.release()


def inputs(spark: SparkSession, home: Home, plans: tuple[Plan, ...]) -> Inputs:
    """Rows for plans that share their pins. Intervals between the plans' are left out.

    Labels are read once for all intervals, from `start - before` to `end + after`.
    """
    lo, hi = plans[0].interval.start, plans[-1].interval.end
    pins = plans[0].pins
    wanted = any_of(_inside(stretch) for stretch in _stretches(plans))

    def landed(stream: Stream, begin: datetime, end: datetime) -> DataFrame:
        rows = landed_of(spark, home, stream, pins, within(begin, end))
        return rows.where(wanted) if stream is home.pipeline.left else rows

    return inputs_of(spark, home, pins, lo, hi, landed)


def inputs_of(
    spark: SparkSession,
    home: Home,
    pins: Mapping[str, int],
    lo: datetime,
    hi: datetime,
    landed: Callable[[Stream, datetime, datetime], DataFrame],
) -> Inputs:
    """What a join of the left rows in [lo, hi) reads.

    `landed`: landing rows of a stream, at least those that are wanted of a stretch of event time.
    """
    sides = [rows_of(landed(home.pipeline.left, lo, hi), home.pipeline.left, lo, hi, ends_in=False)]
    doubtful = {}
    for stream in home.pipeline.right:
        begin, end = lo - stream.window.before, hi + stream.window.after
        sides.append(rows_of(landed(stream, begin, end), stream, begin, end, ends_in=True))
        if stream.role == "label":
            files = doubtful_files(home.pipeline, begin, end)
            if any(scan.can_hold(home.landing(topic), *files) for topic in stream.topics):
                landing = landed_of(spark, home, stream, pins, *files)
                rows = doubtful_rows(landing, stream, home.pipeline, begin, end)
                if not rows.isEmpty():
                    doubtful[stream.name] = rows
    left, *rights = looked_through(sides)
    lost = clocks.observe(home).gaps_between(
        lo - home.pipeline.before, hi + home.pipeline.after, pipeline=home.pipeline, pins=pins
    )
    return Inputs(left, {side.stream.name: side for side in rights}, doubtful, lost)


def most_rows(home: Home, plans: Sequence[Plan]) -> int:
    """About how many left rows the plans have, by the statistics of landed files, whose rows are taken as even."""
    spans = [Range(EVENT_TIME, stretch.start, stretch.end) for stretch in _stretches(plans)]
    tables = [lookup.opened(home.landing(topic)) for topic in home.pipeline.left.topics]
    return sum(table.rows_within(span) for table in tables if table is not None for span in spans)


def _stretches(plans: Sequence[Plan]) -> list[Interval]:
    """The plans' intervals, neighbours merged: one condition a stretch, however many intervals."""
    stretches: list[Interval] = []
    for plan in plans:
        if stretches and stretches[-1].end == plan.interval.start:
            stretches[-1] = Interval(stretches[-1].start, plan.interval.end)
        else:
            stretches.append(plan.interval)
    return stretches


def joined(pipeline: Pipeline, plans: tuple[Plan, ...], read: Inputs) -> DataFrame:
    """The candidate rows of the plans."""
    rights = {name: rows.kept for name, rows in read.rights.items()}
    return join(read.left.kept, rights, read.doubtful, pipeline, facts_of(pipeline, plans, read.gaps))


def facts_of(pipeline: Pipeline, plans: tuple[Plan, ...], gaps: tuple[Gap, ...]) -> Facts:
    """What the plans say about the label side. All plans of a run are made from one clock observation."""
    vector = plans[0].watermark
    label_topics = {topic for stream in pipeline.label_streams for topic in stream.topics}
    label_clocks = [p.clock_at for p in vector if p.topic in label_topics]
    return Facts(
        plan_of={plan.interval.start: plan.id for plan in plans},
        heard_until={s.name: _heard_until(pipeline, s, vector) for s in pipeline.label_streams},
        observed_until=None if None in label_clocks else min(filter(None, label_clocks), default=None),
        drained=plans[0].drained,
        gaps=gaps,
        forced=frozenset(plan.interval.start for plan in plans if is_forced(pipeline, plan)),
    )


def is_forced(pipeline: Pipeline, plan: Plan) -> bool:
    """Whether a person had the interval published before it closed: its own clock says so."""
    return not closed_by(pipeline, plan)(plan.interval)


def closed_by(pipeline: Pipeline, plan: Plan) -> Callable[[Interval], bool]:
    """Whether an interval had closed when the plan was made; a drain closes every one."""
    reached = frontier(watermark(plan.watermark), pipeline.after, pipeline.grace)
    return lambda interval: plan.drained or is_closed(interval, reached)


def _heard_until(pipeline: Pipeline, stream: Stream, vector: Iterable[PartitionClock]) -> datetime | None:
    """The newest event clock of each topic's partitions; of several topics the one that fell silent first."""
    by_topic = []
    for topic in stream.topics:
        clocks = (p.event_clock(pipeline.out_of_orderness(topic)) for p in vector if p.topic == topic)
        by_topic.append(max((c for c in clocks if c is not None), default=None))
    return None if None in by_topic else min(filter(None, by_topic))


def _inside(interval: Interval):  # type: ignore[no-untyped-def]
    at = F.col(EVENT_TIME)
    return (at >= F.lit(interval.start)) & (at < F.lit(interval.end))


def landed_of(
    spark: SparkSession,
    home: Home,
    stream: Stream,
    pins: Mapping[str, int],
    *either: Sequence[Condition],
) -> DataFrame:
    """The stream's landing rows up to the pins, of all its topics; `either` says in which files (see `scan`)."""
    found = []
    for topic in stream.topics:
        pin = pins.get(topic, 0)
        files = [(*conditions, Range(BATCH, most=pin)) for conditions in either]
        rows = scan.rows(spark, home.landing(topic), *files)
        if rows is not None:
            found.append(rows.where(F.col(BATCH) <= pin))
    payload = ", ".join(f"`{name}` {kind}" for name, kind in stream.columns.items())
    schema = schema_of(f"{_META_DDL}, {payload}")
    frames = [_with_columns(rows, schema) for rows in found]
    return reduce(DataFrame.unionByName, frames) if frames else scan.nothing(spark, schema)


def within(lo: datetime, hi: datetime) -> tuple[Condition, ...]:
    """Files with event times in [lo, hi]."""
    return (Range(EVENT_TIME, lo, hi),)


def doubtful_files(pipeline: Pipeline, lo: datetime, hi: datetime) -> tuple[tuple[Condition, ...], ...]:
    """Files that can hold what `doubtful_rows` selects."""
    bad, timeless = Has(QUARANTINED, value=True), Has(EVENT_TIME)
    logged = Range(RECORD_AT, lo - pipeline.max_skew)
    return (bad, *within(lo, hi)), (bad, timeless, logged), (bad, timeless, Has(RECORD_AT))


def _with_columns(frame: DataFrame, schema: StructType) -> DataFrame:
    """Exactly these columns: one that joined the pipeline file after the last landing is null."""
    known = {name.lower() for name in frame.columns}
    return frame.select(
        *[F.col(f.name) if f.name.lower() in known else F.lit(None).cast(f.dataType).alias(f.name) for f in schema]
    )
