"""lag_impact: what consumer lag would have cost, and which window is right; the `lag_impact` table and a page.

Every list takes commas, or is written several times (`--lags 5m --lags 1h`); `windrow.jobs.options` describes each.

The result names the page as `report` (Airflow links it), and the headline numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

from windrow.io.lag import table as lag_table
from windrow.io.lag.landed import LandedRecords
from windrow.io.registers import clocks
from windrow.jobs.lag.arguments import LagOptions, request_of
from windrow.jobs.lag.delays import count_delays
from windrow.jobs.lag.scenarios import SimulatedRange, simulate_range
from windrow.jobs.options import (
    Drains,
    Graces,
    IdleAfter,
    LagFrom,
    Lags,
    LagTo,
    Partitions,
    Pauses,
    PipelineName,
    Policies,
    Rate,
    Recalls,
    RowByRow,
    Sample,
    Sides,
    Tick,
    Windows,
)
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.quality.lag import report as lag_report
from windrow.quality.lag.findings import Findings, findings_of
from windrow.quality.lag.sentences import sentences
from windrow.semantics.lag.observed import until_closed
from windrow.semantics.lag.request import LagRequest
from windrow.semantics.lag.scenario import NotAnalysable
from windrow.text import shown_instant


class Analysis(NamedTuple):
    """The findings, and the path of their page."""

    findings: Findings
    report: Path


def analyse(ctx: Context, options: LagOptions, show_progress: Callable[[str], None] = lambda step: None) -> Analysis:
    """Analyse a range of the landing tables, write the page and record the scenarios.

    Args:
        show_progress: is called with the name of each step as it begins.
    Raises:
        BadRequest: the options cannot be carried out.
        WindowStillOpen: the range has not closed yet.
        NothingToDo: no row was served in the range.
    """
    # arguments
    seen = clocks.observe(ctx.home)
    partitions = {topic: [c.partition for c in seen.clocks if c.topic == topic] for topic in ctx.pipeline.topics}
    request = request_of(options, ctx.pipeline, seen.frontier(ctx.pipeline), partitions)
    # read: Spark passes over the landing tables, from which a few numbers come back
    spark = spark_for(f"lag impact {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    landed = LandedRecords(spark, ctx.home, seen.pins)
    delays = count_delays(landed, seen.clocks, request, show_progress)
    left_topics = ctx.pipeline.left.topics
    _refuse_empty(ctx, seen, request, sum(p["events"] for p in delays.partitions if p["_topic"] in left_topics))
    show_progress(f"cost of lag, in {len(request.scenarios)} scenarios")
    simulated = _simulated(landed, seen, request)
    _refuse_empty(ctx, seen, request, simulated.outcomes[request.scenarios[0]].rows_total)
    readings = lag_table.clock_readings(ctx.home, request.start)
    # compute
    shared = _shared_columns(ctx, request)
    rows = [lag_table.impact_row(ctx.pipeline, one, simulated.outcomes[one], shared) for one in request.scenarios]
    readings = until_closed(readings, request.end, ctx.pipeline.after, ctx.pipeline.grace)
    findings = findings_of(ctx.pipeline, request, delays, rows, readings, simulated.silent, shared["analysed_at"])
    # write
    show_progress("page")
    report = lag_report.write(findings, Path(shared["report"]).parent)
    lag_table.append(ctx.home, rows)
    return Analysis(findings, report)


def _simulated(landed: LandedRecords, seen: clocks.Observation, request: LagRequest) -> SimulatedRange:
    """Return the result of `simulate_range`; a lag that hits no partition with an event is refused as BadRequest."""
    try:
        return simulate_range(landed, seen.clocks, request)
    except NotAnalysable as refused:
        raise BadRequest(str(refused)) from None


def _refuse_empty(ctx: Context, seen: clocks.Observation, request: LagRequest, rows: int) -> None:
    """Refuse a range without rows as NothingToDo, because a day on which nothing was served is not a failure."""
    if not rows:
        newest = [c.newest_at for c in seen.clocks if c.topic in ctx.pipeline.left.topics and c.newest_at]
        raise NothingToDo(
            f"no row of {ctx.pipeline.left.name} was served in [{shown_instant(request.start)}, "
            f"{shown_instant(request.end)}). Rows have landed from {shown_instant(ctx.pipeline.start)} to "
            f"{shown_instant(max(newest, default=None), missing='nowhere')}: choose a range in between"
        )


def _shared_columns(ctx: Context, request: LagRequest) -> dict[str, Any]:
    """Return the columns that all rows of an analysis share. The same request has the same name and the same page."""
    digest = hashlib.sha256(f"{ctx.pipeline.config_hash} {astuple(request)}".encode()).hexdigest()[:8]
    name = f"{request.start:%Y%m%dT%H%M%SZ}_{request.end:%Y%m%dT%H%M%SZ}-{digest}"
    return {
        "analysis": name,
        "analysed_at": ctx.now(),
        "range_start": request.start,
        "range_end": request.end,
        "sample": request.sample,
        "config_hash": ctx.pipeline.config_hash,
        "report": str(ctx.home.reports / "lag_impact" / name / "index.html"),
    }


def result(analysis: Analysis) -> dict[str, Any]:
    """Return the headline numbers of an analysis, for a DAG or a program."""
    findings = analysis.findings
    return {
        "report": str(analysis.report),
        "analysis": findings.scenarios[0]["analysis"],
        "start": findings.start,
        "end": findings.end,
        "rows": findings.rows,
        "labels": findings.scenarios[0]["labels"],
        "scenarios": len(findings.scenarios),
        "recall": {s.name: s.assessment.recall.share for s in findings.streams if s.assessment},
        "findings": [*findings.notes, *sentences(findings)],
    }


def execute(
    pipeline: PipelineName,
    begin: LagFrom = None,
    end: LagTo = None,
    sides: Sides = None,
    partitions: Partitions = None,
    lags: Lags = None,
    pauses: Pauses = None,
    drains: Drains = None,
    rate: Rate = None,
    policies: Policies = None,
    tick: Tick = None,
    idle_after: IdleAfter = None,
    windows: Windows = None,
    graces: Graces = None,
    sample: Sample = None,
    recalls: Recalls = None,
    row_by_row: RowByRow = False,
) -> Mapping[str, Any]:
    """Analyse the range, write the page, and return the headline.

    Raises:
        BadRequest: the options cannot be carried out.
        WindowStillOpen: the range has not closed yet.
        NothingToDo: no row was served in the range.
    """
    options = LagOptions(
        begin, end, sides or (), partitions or (), lags or (), pauses or (), drains or (), rate, policies or (), tick,
        idle_after, windows or (), graces or (), sample, recalls or (), row_by_row,
    )  # fmt: skip
    return result(analyse(context(pipeline), options, lambda step: print(step, flush=True)))


main = job(execute)
