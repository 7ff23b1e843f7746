"""The scenarios of a lag analysis over the landing tables, on Spark: one outcome per scenario comes back.

Rows are the left rows of the range; a sample keeps every row of a key. Clocks see every trusted event of every topic in
`span_of_events`, sampled or not, so the outcome of a sample is that of its rows among all events. Where the events end,
a record that was never written looks like one that is still to come: rows that close later count as open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.config import Stream
from windrow.io.lag.landed import LandedRecords
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import shifted
from windrow.semantics.lag.outcome import LagOutcome
from windrow.semantics.lag.request import LagRequest
from windrow.semantics.lag.scenario import LagScenario, NotAnalysable
from windrow.semantics.lag.setting import LagSetting, PartitionId
from windrow.text import shown_instant
from windrow.transforms.lag import events as lag_events
from windrow.transforms.lag import impact
from windrow.transforms.lag.arrivals import packed
from windrow.transforms.lag.plan import LagPlan, plan_of, span_of_events


@dataclass(frozen=True)
class SimulatedRange:
    """The outcomes of the scenarios, and the events that they are based on."""

    outcomes: Mapping[LagScenario, LagOutcome]
    """in the order of the scenarios"""
    setting: LagSetting
    """partitions and streams, as the simulation takes them"""
    events: int
    """number of events that moved clocks"""
    silent: tuple[PartitionId, ...]
    """partitions that have a clock in production but no event here, so that no policy waits for them"""


def simulate_range(landed: LandedRecords, clocks: Sequence[PartitionClock], request: LagRequest) -> SimulatedRange:
    """Simulate what each scenario of the request would have done to the left rows of its range.

    Args:
        clocks: the clock of every partition, as of the pins of `landed`.

    Raises:
        NotAnalysable: the range has no event, or a lag hits no partition that has one.
    """
    pipeline = landed.home.pipeline
    events = _events(landed, request)
    counts = {
        (row["_topic"], row["_epoch"], row["_partition"]): row["events"]
        for row in lag_events.events_by_partition(events).collect()
    }
    if not counts:
        raise NotAnalysable(
            f"no event of {pipeline.name} lies in or around [{shown_instant(request.start)}, "
            f"{shown_instant(request.end)}): there is nothing to analyse"
        )
    plan = plan_of(pipeline, request.scenarios, request.start, request.end, counts)
    outcomes = simulate_plan(lag_events.indexed_events(events, plan), _rows(landed, request, plan), plan)
    return SimulatedRange(
        dict(zip(plan.scenarios, outcomes, strict=True)),
        plan.setting,
        sum(counts.values()),
        tuple(sorted({clock.identity for clock in clocks} - counts.keys())),
    )


def simulate_plan(events: DataFrame, rows: DataFrame, plan: LagPlan) -> tuple[LagOutcome, ...]:
    """Return the outcomes of the scenarios, in the order of the plan.

    Events and steps are kept on disk, because they are read twice.

    Args:
        events: `events.EVENT_COLUMNS`.
        rows: `events.ROW_COLUMNS`.
    """
    packs = packed(events, plan).persist(StorageLevel.DISK_ONLY)
    steps = impact.clock_steps(packs, plan).persist(StorageLevel.DISK_ONLY)
    try:
        return impact.outcomes((row.asDict() for row in impact.impact(steps, rows, plan).collect()), plan)
    finally:
        steps.unpersist()
        packs.unpersist()


def _events(landed: LandedRecords, request: LagRequest) -> DataFrame:
    """Return every trusted event that a clock can see."""
    pipeline = landed.home.pipeline
    first, last = span_of_events(pipeline, request.scenarios, request.start, request.end)
    topics = [landed.of_topic(topic, first, last) for topic in pipeline.topics]
    return reduce(DataFrame.unionByName, [lag_events.trusted_events(topic, first, last) for topic in topics])


def _rows(landed: LandedRecords, request: LagRequest, plan: LagPlan) -> DataFrame:
    """Return the left rows with their labels, as the join would keep them."""
    pipeline = landed.home.pipeline

    def kept(stream: Stream, before: timedelta, after: timedelta, *, is_left: bool = False) -> DataFrame:
        first, last = shifted(request.start, -before), shifted(request.end, after)
        rows = landed.of_stream(stream, first, last)
        return lag_events.stream_rows(
            rows, pipeline, stream, first, last, is_left=is_left, plan=plan, sample=request.sample
        )

    left = kept(pipeline.left, timedelta(0), timedelta(0), is_left=True)
    labels = [
        kept(stream, timedelta(microseconds=before), timedelta(microseconds=after)).withColumn("stream", F.lit(number))
        for number, (stream, (before, after)) in enumerate(zip(pipeline.label_streams, plan.widest, strict=True))
    ]
    none = left.where(F.lit(False)).withColumn("stream", F.lit(0))
    return lag_events.rows_with_labels(
        left, reduce(DataFrame.unionByName, labels) if labels else none, lag_events.key_names(pipeline), plan
    )
