"""lag-impact: what consumer lag would have cost, and which window is right."""

from __future__ import annotations

import time
from collections.abc import Callable
from json import loads

from windrow.cli.show import AsJson, console, print_json
from windrow.home import Table
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
from windrow.jobs.run import context
from windrow.text import counted, shown_instant


def lag_impact(
    pipeline: PipelineName,
    begin: LagFrom = None,
    end: LagTo = None,
    side: Sides = None,
    partitions: Partitions = None,
    lag: Lags = None,
    pause: Pauses = None,
    drain: Drains = None,
    rate: Rate = None,
    policy: Policies = None,
    tick: Tick = None,
    idle_after: IdleAfter = None,
    window: Windows = None,
    grace: Graces = None,
    row_by_row: RowByRow = False,
    sample: Sample = None,
    recall: Recalls = None,
    json: AsJson = False,
) -> None:
    """Show what lag would have cost, and the smallest window for a wanted recall.

    Lists take commas, or the option is repeated.

    \b
    windrow lag-impact feed
    windrow lag-impact feed --side right --lag 10m,1h --window 1h --recall 0.99
    """
    from windrow.jobs.lag import impact as job

    ctx = context(pipeline)
    options = job.LagOptions(
        begin, end, side or (), partitions or (), lag or (), pause or (), drain or (), rate, policy or (), tick,
        idle_after, window or (), grace or (), sample, recall or (), row_by_row,
    )  # fmt: skip
    began = time.monotonic()

    def show_progress(step: str) -> None:
        console.print(f"{time.monotonic() - began:4.0f} s  {step}")

    analysis = job.analyse(ctx, options, show_progress)
    if json:
        lines = [{**line, "flips": loads(line["flips"])} for line in analysis.findings.scenarios]
        print_json({**job.result(analysis), "lines": lines})
        return
    findings = analysis.findings
    start, end_ = shown_instant(findings.start), shown_instant(findings.end)
    console.print(f"{counted(findings.rows, 'row')} served from {start} to {end_}")
    for sentence in (*findings.notes, *job.sentences(findings)):
        console.print(f"- {sentence}")
    console.print(f"page: {analysis.report}")
    console.print(f"table: {ctx.home.table(Table.LAG_IMPACT)}, analysis {findings.scenarios[0]['analysis']}")


COMMANDS: dict[str, Callable[..., None]] = {"lag-impact": lag_impact}
