"""What a lag analysis found, as values; `sentences` and `report` put them into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from windrow.config import Pipeline, RightStream
from windrow.quality.lag.notes import notes_of
from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.lag.advice import Advice, Assessment, CostModel, WindowSettings, advise, recall_of
from windrow.semantics.lag.observed import ClockReading
from windrow.semantics.lag.recall import Curve, DelayCounts, Estimate, TooFewLabels, estimate
from windrow.semantics.lag.request import LagRequest
from windrow.semantics.lag.setting import PartitionId
from windrow.transforms.lag.delays import DelayStatistics

ImpactRow = Mapping[str, Any]
"""A row of the `lag_impact` table, by column."""


@dataclass(frozen=True)
class StreamFindings:
    """One label stream over the range. A curve is None where it is unknown; `reason` says why."""

    name: str
    current: WindowSettings
    delays: Curve | None
    disorder: Curve | None
    assessment: Assessment | None
    """What the current settings catch and cost."""
    advice: tuple[Advice, ...] = ()
    windows: tuple[tuple[timedelta, Estimate], ...] = ()
    """The windows of the request, and the share of labels inside each."""
    orphans: int = 0
    """Labels of the range that no row could carry, however wide the window."""
    reason: str = ""


@dataclass(frozen=True)
class Disorder:
    """How far the records of one partition arrived behind its newest event. The quantiles are approximate."""

    partition: str
    events: int
    in_order: float
    """Share of the records."""
    p50: timedelta
    p99: timedelta
    p999: timedelta
    most: timedelta
    allowed: timedelta
    """The topic's out-of-orderness."""


@dataclass(frozen=True)
class Findings:
    """A whole analysis. `notes`: what is unknown, and what to keep in mind."""

    pipeline: str
    start: datetime
    end: datetime
    analysed_at: datetime
    sample: float
    rows: int
    streams: tuple[StreamFindings, ...]
    scenarios: tuple[ImpactRow, ...]
    readings: tuple[ClockReading, ...]
    disorder: tuple[Disorder, ...]
    notes: tuple[str, ...] = ()


def findings_of(
    pipeline: Pipeline,
    request: LagRequest,
    delays: DelayStatistics,
    scenarios: Sequence[ImpactRow],
    readings: Sequence[ClockReading],
    silent: Sequence[PartitionId],
    analysed_at: datetime,
) -> Findings:
    """Estimate recall, assess the current settings and advise better ones, for each label stream.

    Args:
        scenarios: their rows of the `lag_impact` table, in the order of the request.
        readings: the clock as the landing runs of the range left it.
        silent: partitions of the pipeline that have no record in the range.
    """
    rows = scenarios[0]["rows"]
    rate = rows / request.sample / (request.end - request.start).total_seconds()
    cost = CostModel(rate, pipeline.interval)
    return Findings(
        pipeline=pipeline.name,
        start=request.start,
        end=request.end,
        analysed_at=analysed_at,
        sample=request.sample,
        rows=rows,
        streams=tuple(_stream(pipeline, stream, delays, request, cost) for stream in pipeline.label_streams),
        scenarios=tuple(scenarios),
        readings=tuple(readings),
        disorder=tuple(_disorder(pipeline, row) for row in delays.partitions),
        notes=tuple(notes_of(pipeline, request, delays, scenarios, silent)),
    )


def _stream(
    pipeline: Pipeline, stream: RightStream, statistics: DelayStatistics, request: LagRequest, cost: CostModel
) -> StreamFindings:
    slack = pipeline.grace + max(pipeline.out_of_orderness(topic) for topic in stream.topics)
    current = WindowSettings(stream.window.after, slack)
    no_clock = f"its topic has no clock yet: `windrow clock {pipeline.name}`"
    delays, delays_reason = _curve(statistics.delays.get(stream.name), no_clock)
    disorder, disorder_reason = _curve(statistics.disorder[stream.name], "")
    findings = StreamFindings(
        stream.name, current, delays, disorder, None,
        windows=tuple((window, delays.at(window)) for window in request.windows) if delays else (),
        orphans=statistics.orphans.get(stream.name, 0),
        reason=delays_reason or disorder_reason,
    )  # fmt: skip
    if delays is None or disorder is None:
        return findings
    is_judged = current.window < delays.widest
    return replace(
        findings,
        assessment=cost.assess(current, recall_of(delays, disorder, current)) if is_judged else None,
        advice=tuple(advise(delays, disorder, cost, wanted) for wanted in request.wanted),
    )


def _curve(delays: DelayCounts | None, reason_if_none: str) -> tuple[Curve | None, str]:
    """The curve of the counts, or None and the reason."""
    if delays is None:
        return None, reason_if_none
    try:
        return estimate(delays), ""
    except TooFewLabels as unknown:
        return None, str(unknown)


def _disorder(pipeline: Pipeline, row: Mapping[str, Any]) -> Disorder:
    return Disorder(
        partition=f"{row['_topic']}/{row['_partition']}",
        events=row["events"],
        in_order=row["in_order"],
        allowed=pipeline.out_of_orderness(row["_topic"]),
        **{name: MICROSECOND * row[name] for name in ("p50", "p99", "p999", "most")},
    )
