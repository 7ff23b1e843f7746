"""lag-impact: what consumer lag would have cost, and which window is right."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from windrow.cli.show import AsJson, PipelineName, as_json, console, instant
from windrow.home import Table
from windrow.jobs.run import context

Many = list[str] | None


def lag_impact(
    pipeline: PipelineName,
    begin: Annotated[str | None, typer.Option("--from", help="Start of the range of served time.")] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="End of it. Default: the last 24 hours that are closed.")
    ] = None,
    side: Annotated[
        Many, typer.Option(help="Where lag is injected: left, right, both, a stream or a topic. Default: left, right.")
    ] = None,
    partitions: Annotated[Many, typer.Option(help="Partitions that lag, e.g. 0,2. Default: all.")] = None,
    lag: Annotated[Many, typer.Option(help="Constant lag, e.g. 5m. Default: 1m,10m,1h,6h as far as they fit.")] = None,
    pause: Annotated[Many, typer.Option(help="A standstill that is caught up. Default: the longest lag.")] = None,
    drain: Annotated[Many, typer.Option(help="A backlog that is worked off slowly. Default: none.")] = None,
    rate: Annotated[str | None, typer.Option(help="How many times faster than written. Default: 10.")] = None,
    policy: Annotated[
        Many,
        typer.Option(help="Clocks: slowest, fastest_side, newest_partition, idle_timeout, wall. Default: all."),
    ] = None,
    tick: Annotated[str | None, typer.Option(help="How often clocks on wall time are looked at. Default: 1m.")] = None,
    idle_after: Annotated[str | None, typer.Option(help="Of idle_timeout. Default: the pipeline's.")] = None,
    window: Annotated[Many, typer.Option(help="A window to try besides the pipeline's, e.g. 1h.")] = None,
    grace: Annotated[Many, typer.Option(help="A grace to try besides the pipeline's.")] = None,
    row_by_row: Annotated[bool, typer.Option("--row-by-row", help="Close row by row, not by interval.")] = False,
    sample: Annotated[str | None, typer.Option(help="Share of the keys, e.g. 0.1; all events of a key stay.")] = None,
    recall: Annotated[Many, typer.Option(help="Wanted recall, e.g. 0.99. Default: 0.99,0.999.")] = None,
    json: AsJson = False,
) -> None:
    """What lag would have cost, and the smallest window for a wanted recall. Lists take commas, or are repeated."""
    from windrow.jobs import lag_impact as job

    ctx = context(pipeline)
    texts = job.LagOptions(
        begin, end, side or (), partitions or (), lag or (), pause or (), drain or (), rate, policy or (), tick,
        idle_after, window or (), grace or (), sample, recall or (), row_by_row,
    )  # fmt: skip
    began = time.monotonic()

    def say(what: str) -> None:
        if not json:
            console.print(f"{time.monotonic() - began:4.0f} s  {what}")

    done = job.analyse(ctx, texts, say)
    if json:
        as_json({**job.result(done), "lines": done.findings.scenarios})
        return
    found = done.findings
    console.print(f"{found.rows:,} rows served from {instant(found.start)} to {instant(found.end)}")
    for sentence in (*found.notes, *job.sentences(found)):
        console.print(f"- {sentence}")
    console.print(f"page: {done.report}")
    console.print(f"table: {ctx.home.table(Table.LAG_IMPACT)}, analysis {found.scenarios[0]['analysis']}")


COMMANDS: dict[str, Callable[..., None]] = {"lag-impact": lag_impact}
