"""late, reconcile: what landed after publication, and whether it explains how live rows differ from a rebuild."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from windrow.cli.show import AsJson, console, print_json, print_table
from windrow.jobs.options import OptionalFrom, OptionalIntervalStart, OptionalTo, PipelineName
from windrow.jobs.run import BadRequest, context
from windrow.text import counted, short_instant_text

COLUMNS = (
    "interval", "publication", "rows", "labels", "late_labels", "late_lefts", "other", "flips", "recall", "flip_rate",
    "missed_by_p50", "missed_by_p90", "missed_by_max", "causes",
)  # fmt: skip
"""Columns of the totals of an interval that people are shown."""


def late(
    pipeline: PipelineName,
    interval: OptionalIntervalStart = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="First look at what has landed since; training does so by itself.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show what a rebuild would change, by interval: late labels and rows, flips of the label state, recall, and why.

    With --interval it lists the changes of that interval one by one.

    \b
    windrow late feed
    windrow late feed --interval 2026-11-01T00:00:00Z --json
    """
    from windrow.io.ledger import table
    from windrow.jobs import ledger as job

    ctx = context(pipeline, is_reader=not extend)
    if interval:
        job.require_published(ctx, interval)
    if extend:
        job.extend(ctx)
    last = table.last_pass(ctx.home)
    if last is None:
        raise BadRequest(f"{pipeline} has no late ledger yet: training makes it, or `windrow late {pipeline} --extend`")
    if interval:
        lines = table.lines(ctx.home, [interval]).to_dicts()
        print_json(lines) if json else print_table([job.brief(line) for line in lines], job.BRIEF)
        return
    totals, unseen = job.totals(ctx), job.unseen(ctx, last)
    if json:
        print_json({"pass": last.number, "pins": dict(last.known.pins), "unseen": unseen, "intervals": totals})
        return
    console.print(f"complete up to batches {', '.join(f'{t} {b}' for t, b in last.known.pins.items())}")
    if unseen:
        console.print(f"not looked at yet: {', '.join(unseen)}; `windrow late {pipeline} --extend` does")
    changed, published = [job.shown(row) for row in totals if row["lines"]], counted(len(totals), "published interval")
    if changed:
        print_table(changed, COLUMNS)
        console.print(f"{len(changed)} of {published} would change; page: {job.page(ctx)}")
    elif unseen:
        console.print(f"{published}; no change is on record yet")
    else:
        console.print(f"{published}; a rebuild would change nothing")


def reconcile(pipeline: PipelineName, begin: OptionalFrom = None, end: OptionalTo = None, json: AsJson = False) -> None:
    """Check that live rows plus late ledger equal a rebuild, with a number for each interval; a difference fails.

    By default the intervals of yesterday (UTC). A closed interval without a publication is named as a hole.
    """
    from windrow.jobs.audit import reconcile as job

    ctx = context(pipeline)
    done = job.reconcile_range(ctx, *job.range_or_yesterday(ctx, begin, end))
    if json:
        print_json({"intervals": done.intervals, "shown": [vars(one) for one in done.shown]})
    else:
        print_table(done.intervals, ("interval", "publication", "outcome", "rows", "ledger_lines", "unexplained"))
        for hole in done.of("hole"):
            console.print(f"hole: {short_instant_text(hole['interval'])} is closed and has no publication")
    job.check(ctx, done)


COMMANDS: dict[str, Callable[..., None]] = {"late": late, "reconcile": reconcile}
