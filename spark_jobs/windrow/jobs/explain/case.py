"""One left row, everything that could meet it, and the rules by which it was joined at some pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.config import LeftStream, Pipeline, RightStream, Stream
from windrow.config.conditions import predicate
from windrow.io.landing.landed_rows import LandedRows, Row, record_of
from windrow.io.registers import clocks
from windrow.jobs.run import Context
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import Interval, interval_of, shifted
from windrow.semantics.records import Gap, JoinSpec, Left, Predicate, Record, Right

LEAST_NEAR = timedelta(minutes=1)
"""How far outside a window is looked at least, where nothing else is asked for."""


@dataclass(frozen=True)
class Case:
    """One left row and all that was found around it."""

    pipeline: Pipeline
    left: Record
    row: Row
    interval: Interval | None
    records: tuple[Record, ...]
    judged: bool
    """Whether every `where` can be judged without Spark."""

    def spec(self, vector: Sequence[PartitionClock], drained: bool, known_gaps: tuple[Gap, ...]) -> JoinSpec:
        """The rules of the join, and how far the label side had come."""
        p = self.pipeline
        clocks_of = {
            topic: tuple(c.event_clock(p.out_of_orderness(topic)) for c in vector if c.topic == topic)
            for topic in p.topics
        }
        return JoinSpec(
            left=_left(p.left),
            right=tuple(_right(s) for s in p.right),
            start=p.start,
            interval=p.interval,
            grace=p.grace,
            max_skew=p.max_skew,
            event_clocks=clocks_of,
            drained=drained,
            gaps=known_gaps,
        )


def interval_at(pipeline: Pipeline, at: datetime | None) -> Interval | None:
    """The interval of an event time, where there is one."""
    return None if at is None else interval_of(at, pipeline.start, pipeline.interval)


def case_of(ctx: Context, landed: LandedRows, row: Row, near: timedelta | None, pins: Mapping[str, int]) -> Case:
    """What landed around a row. `pins`: of the interval's publication, or none."""
    p, left = ctx.pipeline, record_of(row)
    rows: list[Row] = [row]
    if left.event_at is not None:
        rows += landed.retries(p.left, [row])
        for stream in p.right:
            length = stream.window.before + stream.window.after
            reach = near if near is not None else max(length, LEAST_NEAR)
            rows += landed.around(row, p.left, stream, reach, p.max_skew, pins)
    judged = all(s.where is None or predicate(s.where, s.columns) for s in p.streams)
    return Case(p, left, row, interval_at(p, left.event_at), tuple(record_of(r) for r in rows), judged)


def _left(stream: LeftStream) -> Left:
    return Left(stream.name, stream.topics, stream.key, stream.event_id, _where(stream))


def _right(stream: RightStream) -> Right:
    return Right(
        name=stream.name,
        topics=stream.topics,
        key=stream.key,
        before=stream.window.before,
        after=stream.window.after,
        role=stream.role,
        event_id=stream.event_id,
        where=_where(stream),
        join=stream.join,
        take=stream.take,
        silence=stream.silence,
    )


def _where(stream: Stream) -> Predicate | None:
    return predicate(stream.where, stream.columns) if stream.where else None


def gaps_at(ctx: Context, case: Case, pins: Mapping[str, int]) -> tuple[Gap, ...]:
    if case.interval is None:
        return ()
    lo, hi = shifted(case.interval.start, -ctx.pipeline.before), shifted(case.interval.end, ctx.pipeline.after)
    try:
        return clocks.observe(ctx.home).gaps_between(lo, hi, pipeline=ctx.pipeline, pins=pins)
    except clocks.ClockBehind:
        return ()
