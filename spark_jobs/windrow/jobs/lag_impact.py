"""lag_impact: what consumer lag would have cost, and which window is right; the `lag_impact` table and a page.

Every list takes commas, or is written several times (`--lags 5m --lags 1h`); its singular does as well. An empty text
counts as not given. Defaults in brackets.

    --from T --to T     half-open range of left event time [the last 24 hours that are closed]
    --sides S,…         left, right, both, a stream or a topic: where lag is injected [left,right]
    --partitions N,…    partitions of the side that lag; the others do not [all]
    --lags D,…          constant lags such as 5m,1h [of 1m,10m,1h,6h those that fit four
                        times into the range]; no lag is always among the scenarios
    --pauses D,…        the side stands still this long from the middle of the range, then catches up [the longest lag]
    --drains D,…        the side is this far behind in the middle of the range, and works it off slowly [none]
    --rate N            how many times faster than it was written a backlog is worked off [10]
    --policies P,…      clocks: slowest, fastest_side, newest_partition, idle_timeout, wall [all]
    --tick D            how often the clocks that run on wall time are looked at [1m]
    --idle-after D      after how long idle_timeout leaves a partition out [the pipeline's idle.after]
    --windows D,…       windows (`after`) to run the scenarios with and to judge recall at, besides the pipeline's own
    --graces D,…        graces to run the scenarios with, besides the pipeline's own
    --row-by-row        rows close one by one, as in stream processors, instead of by interval
    --sample F          share of the keys, 0 < F <= 1; all events of a key are kept [1]
    --recalls R,…       wanted recalls [0.99,0.999]

The result names the page as `report` (Airflow links it), and the headline numbers.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

from windrow.io.lag import table as lag_table
from windrow.io.lag.landed import LandedRecords
from windrow.io.registers import clocks
from windrow.jobs.lag_arguments import LagOptions, request_of
from windrow.jobs.lag_delays import count_delays
from windrow.jobs.lag_scenarios import simulate_range
from windrow.jobs.run import BadRequest, Context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.quality.lag import report as lag_report
from windrow.quality.lag.findings import Findings, findings_of
from windrow.quality.lag.sentences import sentences
from windrow.semantics.lag.observed import until_closed
from windrow.semantics.lag.request import LagRequest
from windrow.semantics.lag.scenario import NotAnalysable
from windrow.text import shown_instant

LISTS = {
    "sides": "side",
    "partitions": "partition",
    "lags": "lag",
    "pauses": "pause",
    "drains": "drain",
    "policies": "policy",
    "windows": "window",
    "graces": "grace",
    "recalls": "recall",
}


class Analysis(NamedTuple):
    """The findings, and the path of their page."""

    findings: Findings
    report: Path


def analyse(ctx: Context, options: LagOptions, show_progress: Callable[[str], None] = lambda step: None) -> Analysis:
    """Analyse a range of the landing tables, draw the page and record the scenarios.

    Args:
        show_progress: is called with the name of each step as it begins.
    Raises:
        BadRequest: the options cannot be carried out.
        WindowStillOpen: the range has not closed yet.
        NothingToDo: no row was served in the range.
    """
    # arguments
    seen = clocks.observe(ctx.home)
    partitions = {topic: [row["partition"] for row in seen.of_topic(topic)] for topic in ctx.pipeline.topics}
    request = request_of(options, ctx.pipeline, seen.frontier(ctx.pipeline), partitions)
    # read
    spark = spark_for(f"lag impact {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    landed = LandedRecords(spark, ctx.home, seen.pins)
    readings = lag_table.clock_readings(ctx.home, request.start)
    # compute
    delays = count_delays(landed, seen.clocks, request, show_progress)
    left_topics = ctx.pipeline.left.topics
    _refuse_empty(ctx, seen, request, sum(p["events"] for p in delays.partitions if p["_topic"] in left_topics))
    show_progress(f"cost of lag, in {len(request.scenarios)} scenarios")
    try:
        simulated = simulate_range(landed, seen.clocks, request)
    except NotAnalysable as refused:
        raise BadRequest(str(refused)) from None
    _refuse_empty(ctx, seen, request, simulated.outcomes[request.scenarios[0]].rows_total)
    shared = _shared_columns(ctx, request)
    rows = [lag_table.impact_row(ctx.pipeline, one, simulated.outcomes[one], shared) for one in request.scenarios]
    readings = until_closed(readings, request.end, ctx.pipeline.after, ctx.pipeline.grace)
    findings = findings_of(ctx.pipeline, request, delays, rows, readings, simulated.silent, shared["analysed_at"])
    # write
    show_progress("page")
    report = lag_report.write(findings, Path(shared["report"]).parent)
    lag_table.append(ctx.home, rows)
    return Analysis(findings, report)


def _refuse_empty(ctx: Context, seen: clocks.Observation, request: LagRequest, rows: int) -> None:
    """Refuse a range without rows as NothingToDo: a day on which nothing was served is not a failure."""
    if not rows:
        newest = [c.newest_at for c in seen.clocks if c.topic in ctx.pipeline.left.topics and c.newest_at]
        raise NothingToDo(
            f"no row of {ctx.pipeline.left.name} was served in [{shown_instant(request.start)}, "
            f"{shown_instant(request.end)}). Rows have landed from {shown_instant(ctx.pipeline.start)} to "
            f"{shown_instant(max(newest, default=None), missing='nowhere')}: choose a range in between"
        )


def _shared_columns(ctx: Context, request: LagRequest) -> dict[str, Any]:
    """The columns that all rows of an analysis share. The same request has the same name, and so the same page."""
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
    """The headline numbers of an analysis, for a DAG or a program."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job `lag_impact`; returns its exit code."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--from", dest="begin", help="start of the range, 2026-11-01T00:00:00Z")
        parser.add_argument("--to", dest="end", help="end of the range")
        for many, one in LISTS.items():
            parser.add_argument(f"--{many}", f"--{one}", action="append", default=[])
        for name in ("rate", "tick", "idle-after", "sample"):
            parser.add_argument(f"--{name}")
        parser.add_argument("--row-by-row", action="store_true")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        given = {name: value for name, value in vars(args).items() if name != "pipeline"}
        return result(analyse(ctx, LagOptions(**given), lambda step: print(step, flush=True)))

    return job(__doc__ or "", declare, execute, argv)
