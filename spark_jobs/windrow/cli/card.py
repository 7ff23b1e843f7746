"""card: what a training table holds, as pages for people and a Croissant file for programs."""

from __future__ import annotations

from collections.abc import Callable
from json import loads
from typing import Annotated

import typer

from windrow.cli.show import AsJson, console, print_json
from windrow.jobs.options import TIME, PipelineName
from windrow.jobs.run import context
from windrow.text import counted


def card(
    pipeline: PipelineName,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar=TIME, help="First served time; default: the start.", show_default=False),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar=TIME, help="End, not included; default: what is published.", show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="A publication, an instant, or snapshot:NAME; default: the newest.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Where to write it; default: the reports of the pipeline.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Write the data card of a pipeline: columns, ranges, rates, delays and limits, as HTML, Markdown and Croissant.

    It shows counts, shares and ranges, and no value of a key, an id or a text.

    \b
    windrow card feed
    windrow card feed --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --out /data/card
    windrow card feed --at snapshot:ranker-7
    """
    from windrow.training import card as cards  # imported late: only this command needs Polars and the pages

    ctx = context(pipeline, is_reader=True)
    state = int(at) if at is not None and at.isdecimal() else at
    made = cards.card_of(pipeline, begin, end, at=state, places=ctx.places)
    paths = cards.write(made, out or ctx.home.reports / "card")
    if json:
        span = made.pin.request.range
        exact = {"from": span.start, "to": span.end, "pin": loads(made.pin.to_json())}
        print_json({**cards.brief(made), **exact, "files": paths})
        return
    rows, columns = counted(made.figures.rows, "row"), counted(len(made.columns), "column")
    console.print(f"{rows}, {columns}: " + ", ".join(map(str, paths)), soft_wrap=True)


COMMANDS: dict[str, Callable[..., None]] = {"card": card}
