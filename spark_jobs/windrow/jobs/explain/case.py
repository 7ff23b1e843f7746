"""Everything on record about one left row, read once: the answer is computed from these values alone.

No Spark, no scan of history: every table is read for the row's interval, key or id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from windrow.columns import EVENT_TIME, INTERVAL, OBSERVED_UNTIL, PUBLICATION, REASON, ROW_ID, STATE
from windrow.config import Pipeline, RightStream, Stream
from windrow.config.conditions import predicate
from windrow.home import Home, Table
from windrow.io.delta import lookup, tables
from windrow.io.delta.lookup import Range, all_of, equal
from windrow.io.landing import joined
from windrow.io.landing.landed_rows import LandedRows, Row, record_of
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, judgements, plans, publications
from windrow.semantics.clock import PartitionClock, watermark
from windrow.semantics.explain import EVERY_BATCH, Batch, interval_holding
from windrow.semantics.intervals import Interval, interval_of, shifted
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap, JoinSpec, Left, Predicate, Record, Right

LEAST_NEAR = timedelta(minutes=1)
"""How far outside a window right rows are read at least, unless the question says otherwise."""


@dataclass(frozen=True)
class Case:
    """One left row, and all that is on record about it."""

    pipeline: Pipeline
    row: Row
    """as it was landed"""
    interval: Interval | None
    """the interval that holds it; None for a row that is in none, such as one before the pipeline's start"""
    records: tuple[Record, ...]
    """the row, its retries, and the right rows that match it or nearly do"""
    register: Sequence[Mapping[str, Any]]
    """publications of its interval, by number; the last one stands"""
    training_row: Row | None
    """as readers see it"""
    clock: clocks.Observation
    """as of the last landing"""
    watermarks: Mapping[Batch, datetime | None]
    """for each batch above its pin, the watermark before it landed"""
    judgements: Sequence[Mapping[str, Any]]
    """of the standing publication's plan; without one, of the interval's last plan"""
    ledger: Sequence[Mapping[str, Any]]
    """lines of the late ledger about the row"""
    files: Mapping[str, Mapping[str, int]]
    """topic or table → how many files were opened, and of how many"""
    not_whole: str | None = None
    """why no interval at the row's event time may be planned under this pipeline file; None: it may"""

    @cached_property
    def left(self) -> Record:
        """The row, as the reference join takes it."""
        return record_of(self.row)

    @property
    def standing(self) -> Mapping[str, Any] | None:
        """Register row of the publication that stands."""
        return self.register[-1] if self.register else None

    @cached_property
    def plan(self) -> Plan | None:
        """Plan of the publication that stands."""
        return Plan.from_json(self.standing["plan"]) if self.standing else None

    @property
    def pins(self) -> Mapping[str, int]:
        """Pins of the publication that stands; without one, the last landed batches."""
        return self.plan.pins if self.plan else self.clock.pins

    @property
    def settled_pins(self) -> Mapping[str, int]:
        """Pins that decide which retry stands: those of the publication; without one, all that has landed."""
        return self.plan.pins if self.plan else dict.fromkeys(self.pipeline.topics, EVERY_BATCH)

    @property
    def watermark(self) -> datetime | None:
        """The watermark at those pins; None until every topic has landed."""
        clocks = self.partition_clocks
        return watermark(clocks) if {c.topic for c in clocks} == set(self.pipeline.topics) else None

    @property
    def partition_clocks(self) -> Sequence[PartitionClock]:
        """The clock at those pins."""
        return self.plan.watermark if self.plan else self.clock.clocks

    @cached_property
    def spec(self) -> JoinSpec:
        """Rules of the join at those pins."""
        return self.spec_at(self.plan) if self.plan else self.newest_spec

    @cached_property
    def newest_spec(self) -> JoinSpec:
        """Rules of the join at the last landed batches."""
        return self._spec(self.clock.clocks, self.clock.pins)

    def spec_at(self, plan: Plan) -> JoinSpec:
        """Rules of the join under a plan."""
        is_forced = plan.is_forced(self.pipeline.after, self.pipeline.grace)
        return replace(self._spec(plan.watermark, plan.pins), drained=plan.drained, forced=is_forced)

    @property
    def is_same_config(self) -> bool:
        """Whether the standing publication, if any, is of the pipeline file as it is now."""
        return self.plan is None or self.plan.config_hash == self.pipeline.config_hash

    @property
    def is_where_known(self) -> bool:
        """Whether every `where` can be evaluated without Spark."""
        return all(s.where is None or predicate(s.where, s.columns) for s in self.pipeline.streams)

    def _spec(self, vector: Sequence[PartitionClock], pins: Mapping[str, int]) -> JoinSpec:
        p = self.pipeline
        event_clocks = {
            topic: tuple(c.event_clock(p.out_of_orderness(topic)) for c in vector if c.topic == topic)
            for topic in p.topics
        }
        return JoinSpec(
            left=_left(p),
            right=tuple(_right(p, s) for s in p.right),
            start=p.start,
            interval=p.interval,
            grace=p.grace,
            max_skew=p.max_skew,
            event_clocks=event_clocks,
            gaps=self._gaps(pins),
        )

    def _gaps(self, pins: Mapping[str, int]) -> tuple[Gap, ...]:
        """Return the gaps that were accepted up to the pins and touch the windows of the interval."""
        if self.interval is None:
            return ()
        lo, hi = shifted(self.interval.start, -self.pipeline.before), shifted(self.interval.end, self.pipeline.after)
        try:
            return self.clock.gaps_between(lo, hi, pipeline=self.pipeline, pins=pins)
        except clocks.ClockBehind:  # the clock table was lost: explained without gaps rather than not at all
            return ()


def read_case(home: Home, landed: LandedRows, row: Row, *, near: timedelta | None, all_columns: bool) -> Case:
    """Read what is on record about a landed left row.

    Args:
        near: how far outside a window right rows are read; None: as far as the window is long.
        all_columns: whether the payload is read too.
    """
    pipeline, event_at = home.pipeline, row[EVENT_TIME]
    on_grid = None if event_at is None else interval_of(event_at, pipeline.start, pipeline.interval)
    training_row, training_files = _training_row(home, row, on_grid, all_columns)
    holding = interval_holding(record_of(row), _left(pipeline), pipeline.start, pipeline.interval)
    interval = on_grid if training_row else holding  # it may be published under an earlier pipeline file
    register = _register(home, interval)
    plan = Plan.from_json(register[-1]["plan"]) if register else None
    records = _records(landed, pipeline, row, near, plan.pins if plan else {})
    clock = clocks.observe(home)
    judged = plan or (plans.last_of_interval(home, interval.start) if interval else None)
    return Case(
        pipeline=pipeline,
        row=row,
        interval=interval,
        records=records,
        register=register,
        training_row=training_row,
        clock=clock,
        watermarks=_watermarks(home, records, plan.pins if plan else clock.pins) if interval else {},
        judgements=judgements.of_plans(home, [judged]).get(judged.id, []) if judged else [],
        ledger=ledger_table.of_row(home, record_of(row).row_id, interval.start if interval else None),
        files={**landed.looked, **({"training": training_files} if training_files else {})},
        not_whole=joined.reason_not_whole(home, on_grid.start, on_grid.end, clock.pins) if on_grid else None,
    )


def _register(home: Home, interval: Interval | None) -> list[dict[str, Any]]:
    """Return publications of the interval, by number; one that a killed run did not register is among them."""
    if interval is None:
        return []
    return sorted(publications.complete_of_interval(home, interval.start), key=lambda row: row["number"])


def _records(
    landed: LandedRows, pipeline: Pipeline, row: Row, near: timedelta | None, pins: Mapping[str, int]
) -> tuple[Record, ...]:
    """Return the row, its retries, and the right rows around it. A row without an event time has neither."""
    rows = [row]
    if row[EVENT_TIME] is not None:
        rows += landed.retries(pipeline.left, [row])
        for stream in pipeline.right:
            length = stream.window.before + stream.window.after
            reach = near if near is not None else max(length, LEAST_NEAR)
            rows += landed.around(row, pipeline.left, stream, reach, pipeline.max_skew, pins)
    return tuple(record_of(r) for r in rows)


def _training_row(
    home: Home, row: Row, interval: Interval | None, all_columns: bool
) -> tuple[Row | None, dict[str, int] | None]:
    """Return the row as readers see it, and how many files of the training table were opened for it."""
    table = lookup.opened(home.table(Table.TRAINING))
    if table is None or interval is None:
        return None, None
    pipeline, at, start = home.pipeline, row[EVENT_TIME], interval.start
    names = [STATE, REASON, OBSERVED_UNTIL, PUBLICATION, *[s.name for s in pipeline.right], *pipeline.labels]
    payload = list(pipeline.left.columns) if all_columns else []
    wanted = all_of([equal(EVENT_TIME, at), *[equal(name, row[name]) for name in ROW_ID]])
    rows = table.read([*names, *payload], wanted, [Range(INTERVAL, start, start), Range(EVENT_TIME, at, at)])
    return (rows[0] if rows else None), table.file_counts


def _watermarks(home: Home, records: Iterable[Record], pins: Mapping[str, int]) -> dict[Batch, datetime | None]:
    """Return the watermark before each batch above its pin that one of the right rows landed in."""
    right = {topic for stream in home.pipeline.right for topic in stream.topics}
    above = {
        (r.row_id.topic, r.batch) for r in records if r.row_id.topic in right and r.batch > pins.get(r.row_id.topic, 0)
    }
    return {batch: _watermark_before(home, *batch) for batch in above}


def _watermark_before(home: Home, topic: str, batch: int) -> datetime | None:
    """Return the watermark of the last observation before the batch landed."""
    path = home.table(Table.CLOCK)
    holding = tables.read(path, ["observation"], [("topic", "=", topic), ("batch", "=", batch)])
    number = min((row["observation"] for row in holding), default=0) - 1
    rows = tables.read(path, filters=[("observation", "=", number)]) if number >= 0 else []
    return clocks.Observation(number, home.pipeline.topics, tuple(rows)).watermark if rows else None


def _left(pipeline: Pipeline) -> Left:
    stream, columns = pipeline.left, frozenset(pipeline.left.columns)
    mark = pipeline.mark_of(stream)
    return Left(stream.name, stream.topics, stream.key, stream.event_id, _where(stream), columns, mark)


def _right(pipeline: Pipeline, stream: RightStream) -> Right:
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
        columns=frozenset(stream.columns),
        canary=pipeline.mark_of(stream),
    )


def _where(stream: Stream) -> Predicate | None:
    return predicate(stream.where, stream.columns) if stream.where else None
