"""canary: pairs of a left row and a label, sent through the real topics to see whether they arrive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import typer

from windrow.cli.show import AsJson, console, print_json, print_table
from windrow.jobs.options import TIME, CanaryEvery, CanaryFor, PipelineName
from windrow.jobs.run import context, instant
from windrow.text import counted, shown_instant


def canary(
    pipeline: PipelineName,
    every: CanaryEvery = None,
    lasting: CanaryFor = None,
    lost: Annotated[
        bool, typer.Option("--lost", help="Send nothing; list the pairs of an interval that did not arrive.")
    ] = False,
    interval: Annotated[
        datetime | None,
        typer.Option(
            parser=instant, metavar=TIME, help="With --lost: start of the interval; default: the newest that lacks one."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Send pairs of a left row and its labels, marked by keys that the pipeline file keeps for them.

    They land and are joined as other records are, and are left out of the training rows. Whether they arrived is on
    the pipeline's page and in `windrow publications`; a lost pair makes its interval `warned`.

    \b
    windrow canary feed --every 1m
    windrow canary feed --for 30m
    windrow canary feed --lost
    """
    from windrow.jobs import canary as job

    ctx = context(pipeline)
    if lost:
        pairs = job.lost(ctx, interval)
        if json:
            print_json({"lost": pairs})
        elif pairs:
            print_table(pairs, list(pairs[0]))
        else:
            console.print("every pair of the interval has landed; a lost one would not be found by the join alone")
        return
    sent: list[dict[str, Any]] = []
    with suppress(KeyboardInterrupt):
        for rows in job.feed(ctx, every, lasting):
            labels = [row for row in rows if row["delay_s"] is not None]
            sent += rows
            console.print(
                f"{shown_instant(ctx.now())}  acknowledged: {counted(len(rows) - len(labels), 'left row')}, "
                f"{counted(len(labels), 'label')}"
            )
    if json:
        print_json({"sent": sent})


COMMANDS: dict[str, Callable[..., None]] = {"canary": canary}
