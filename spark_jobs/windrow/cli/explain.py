"""explain: why one row has these labels, from its landing to its publication.

Shows ids, times and keys, on this terminal only; payload columns only with --columns.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

import typer

from windrow.cli.show import AsJson, console, print_json
from windrow.jobs.explain.lines import lines
from windrow.jobs.options import LENGTH, TIME, PipelineName
from windrow.jobs.run import context, duration, instant


def explain(
    pipeline: PipelineName,
    row: Annotated[
        str | None,
        typer.Argument(help="topic/partition/offset, topic/epoch/partition/offset, or an event id.", metavar="[ROW]"),
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE,…", help="Instead of ROW: user_id=1,item_id=2, with --at.")
    ] = None,
    at: Annotated[
        datetime | None, typer.Option(parser=instant, metavar=TIME, help="The row's event time, 2026-11-01T00:00:03Z.")
    ] = None,
    near: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar=LENGTH,
            help="How far outside a window to look; default: as far as the window is long.",
        ),
    ] = None,
    columns: Annotated[bool, typer.Option("--columns", help="Show payload columns too.")] = False,
    json: AsJson = False,
) -> None:
    """Explain why a row has these labels: window, clock, matches, near misses, state, publications.

    \b
    windrow explain feed feed.served/1/4711
    windrow explain feed 5f0c2a --columns
    windrow explain feed --key user_id=1,item_id=2 --at 2026-11-01T00:00:03Z
    """
    from windrow.jobs.explain.answer import explain as job
    from windrow.jobs.explain.question import Question, key_of

    question = Question(row=row, key=key_of(key or []), at=at, near=near, columns=columns)
    answer = job(context(pipeline, is_reader=True), question)
    if json:
        print_json(answer)
        return
    for line in lines(answer):
        console.print(line)


COMMANDS: dict[str, Callable[..., None]] = {"explain": explain}
