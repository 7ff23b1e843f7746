"""maintain, summarise: what `<name>.maintenance` and the last task of `<name>.reconcile` do, from a shell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Annotated

import typer

from windrow.cli.show import AsJson, PipelineName, as_json, console
from windrow.jobs.run import BadRequest, context
from windrow.text import parse_duration


def maintain(
    pipeline: PipelineName,
    retention: Annotated[str, typer.Option(help="How long files of past table versions stay, at least 7d.")] = "30d",
    json: AsJson = False,
) -> None:
    """Small files together, dead files and old reports away. Changes no row."""
    from windrow.jobs import maintain as job

    try:
        done = job.maintain(context(pipeline), parse_duration(retention))
    except ValueError as refused:  # no duration, or an unsafe one
        raise BadRequest(str(refused)) from None
    if json:
        as_json(done)
        return
    fewer, deleted = sum(done["fewer_files"].values()), sum(done["deleted_files"].values())
    console.print(
        f"{fewer} files fewer by compaction; {deleted} dead files, {done['outdated_candidates']} outdated candidates "
        f"and {done['old_report_days']} days of reports are gone"
    )


def summarise(
    pipeline: PipelineName,
    day: Annotated[str | None, typer.Option(help="UTC day, 2026-11-01; default: yesterday.")] = None,
) -> None:
    """Write the page of a day: label rate, unknowns, late and flip rate, null rates, served against published."""
    from windrow.jobs import summarise as job

    ctx = context(pipeline)
    try:
        wanted = date.fromisoformat(day) if day else (ctx.now() - timedelta(days=1)).date()
    except ValueError:
        raise BadRequest(f"{day!r} is not a day such as 2026-11-01") from None
    console.print(str(job.summarise(ctx, wanted)))


COMMANDS: dict[str, Callable[..., None]] = {"maintain": maintain, "summarise": summarise}
