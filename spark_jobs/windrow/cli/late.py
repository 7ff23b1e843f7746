"""late, reconcile: what came after publication, and whether published rows are what they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from windrow.cli.show import AsJson, PipelineName, as_json, console, rows
from windrow.jobs.run import BadRequest, context
from windrow.jobs.run import instant as instant_of

COLUMNS = (
    "interval", "publication", "rows", "labels", "late_labels", "late_lefts", "other", "flips", "recall", "flip_rate",
    "missed_by_p50", "missed_by_p90", "missed_by_max", "causes",
)  # fmt: skip


def late(
    pipeline: PipelineName,
    interval: Annotated[str | None, typer.Option("--interval", help="Start of one interval: its lines.")] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="First look at what has landed since; training does it by itself.")
    ] = False,
    json: AsJson = False,
) -> None:
    """What a rebuild would change, by interval: late labels and rows, flips of the label state, recall, and why."""
    from windrow.io.ledger import table
    from windrow.jobs import ledger as job

    ctx = context(pipeline)
    if extend:
        job.extend(ctx)
    made = table.last_pass(ctx.home)
    if made is None:
        raise BadRequest(f"{pipeline} has no late ledger yet: training makes it, or `windrow late {pipeline} --extend`")
    if interval:
        found = table.lines(ctx.home, [instant_of(interval)]).to_dicts()
        as_json(found) if json else rows([job.brief(line) for line in found], job.BRIEF)
        return
    totals = job.totals(ctx)
    if json:
        as_json({"pass": made.number, "pins": dict(made.known.pins), "intervals": totals})
        return
    console.print(f"complete up to batches {', '.join(f'{t} {b}' for t, b in made.known.pins.items())}")
    changed = [job.shown(row) for row in totals if row["lines"]]
    if not changed:
        console.print(f"{len(totals)} published intervals; a rebuild would change nothing")
        return
    rows(changed, COLUMNS)
    console.print(f"{len(changed)} of {len(totals)} published intervals would change; page: {job.page(ctx)}")


def reconcile(
    pipeline: PipelineName,
    begin: Annotated[str | None, typer.Option("--from", help="Start of the range; default: yesterday, UTC.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the range.")] = None,
    json: AsJson = False,
) -> None:
    """Live rows plus late ledger = a rebuild? A number for each interval; holes are named; a difference fails."""
    from windrow.jobs import reconcile as job

    ctx = context(pipeline)
    done = job.reconcile_range(ctx, *job.asked_range(ctx, begin, end))
    if json:
        as_json({"intervals": done.intervals, "shown": [vars(one) for one in done.shown]})
    else:
        rows(done.intervals, ("interval", "publication", "outcome", "rows", "ledger_lines", "unexplained"))
        for hole in done.of("hole"):
            console.print(f"hole: {hole['interval']:%Y-%m-%dT%H:%M:%SZ} is closed and has no publication")
    job.check(ctx, done)


COMMANDS: dict[str, Callable[..., None]] = {"late": late, "reconcile": reconcile}
