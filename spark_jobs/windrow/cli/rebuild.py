"""rebuild, verify, rollback: published intervals again, compared with what they should be, or put back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from windrow.cli.show import PUBLICATION, AsJson, PipelineName, as_json, console, instant, rows
from windrow.jobs.plan_intervals import listing
from windrow.jobs.planning import request
from windrow.jobs.run import BadRequest, Context, context
from windrow.jobs.run import instant as instant_of
from windrow.jobs.survey import Survey, record_survey, survey
from windrow.outcomes import Blocked

SHOWN = 40
"""Lines of a plan that a terminal gets; `--json` has all."""

Who = Annotated[str | None, typer.Option("--who", help="Who asks for it; default: the user of this shell.")]


def rebuild(
    pipeline: PipelineName,
    begin: Annotated[str | None, typer.Option("--from", help="Start of the first interval.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the last interval.")] = None,
    reason: Annotated[str, typer.Option(help="Why; recorded with every publication.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look: what it would replace and change.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also the intervals that cannot change.")] = False,
    resume: Annotated[str | None, typer.Option(help="Go on with an interrupted run, by the key that it said.")] = None,
    who: Who = None,
    json: AsJson = False,
) -> None:
    """Publish a range of closed intervals again, with everything that has landed by now. Past the frontier: refused."""
    ctx = context(pipeline)
    told: dict[str, Any] = {}
    if resume is None:
        if begin is None or end is None:
            raise BadRequest("a rebuild needs --from and --to, or --resume with the key of an interrupted run")
        found = survey(ctx, instant_of(begin), instant_of(end), everything=everything)
        told = listing(found)
        if not json:
            _show(found)
        if dry_run:
            if json:
                as_json(told)
            return
        why = request(reason, who)
        resume = f"rebuild__{ctx.now():%Y-%m-%dT%H:%M:%S.%fZ}__{os.getpid()}"
        record_survey(ctx, resume, found, why)
        if not json:
            console.print(f"planned; if it is interrupted: windrow rebuild {pipeline} --resume {resume}")
    elif begin or end or dry_run:
        raise BadRequest("--resume goes on with what is planned: it takes no range and no --dry-run")
    _carry_out(ctx, resume, told, json)


def _carry_out(ctx: Context, run: str, told: dict[str, Any], json: bool) -> None:
    from windrow.jobs.planning import recorded_plans
    from windrow.jobs.publish import brief
    from windrow.jobs.rebuild import resume

    planned = recorded_plans(ctx, run, first="plan")
    columns = (TextColumn("rebuilding"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=json) as progress:
        task = progress.add_task("", total=len(planned))
        done = resume(ctx, run, lambda row: progress.advance(task))
        progress.update(task, completed=len(done.published))
    if json:
        blocked = [refusal.why for refusal in done.blocked.values()]
        as_json({**told, "run": run, "published": [brief(row) for row in done.published], "blocked": blocked})
    elif done.published:
        rows(done.published[-SHOWN:], PUBLICATION)
        console.print(f"{len(done.published)} of {len(planned)} intervals published by run {run}")
    if done.blocked:
        raise Blocked("\n\n".join(refusal.why for refusal in done.blocked.values()))


def _show(found: Survey) -> None:
    worked = [line for line in found.lines if line.action != "leave"]
    table = [
        {
            "interval": line.interval.start,
            "does": line.action,
            "publication": line.publication,
            "rows": line.rows,
            "would change": ", ".join(f"{n} {kind}" for kind, n in line.changes.items()),
            "why": line.why,
        }
        for line in worked[:SHOWN]
    ]
    if table:
        rows(table, list(table[0]))
    if len(worked) > SHOWN:
        console.print(f"… and {len(worked) - SHOWN} more (--json lists all)")
    left = [line for line in found.lines if line.action == "leave"]
    if left:
        console.print(f"left alone: {len(left)} intervals, {left[0].why} (--all makes them again)")
    counts = ", ".join(f"{n} to {action}" for action, n in sorted(found.counts.items(), reverse=True))
    pins = ", ".join(f"{topic} {batch}" for topic, batch in found.clock.pins.items())
    console.print(f"{len(found.lines)} intervals: {counts}; with everything up to batch: {pins}")


def verify(
    pipeline: PipelineName,
    publication: Annotated[int | None, typer.Option(help="Its number.")] = None,
    interval: Annotated[str | None, typer.Option(help="Start of an interval: its standing publication.")] = None,
    last: Annotated[int | None, typer.Option(help="How many of the last publications; default 1.")] = None,
    json: AsJson = False,
) -> None:
    """Make publications again at their recorded pins and pipeline file, and compare every column by hash."""
    from windrow.jobs.verify import chosen, refuse_differences, told
    from windrow.jobs.verify import verify as job

    if sum(value is not None for value in (publication, interval, last)) > 1:
        raise BadRequest("one of --publication, --interval and --last")
    ctx = context(pipeline)
    at = instant_of(interval) if interval else None
    outcomes = []
    for outcome in job(ctx, chosen(ctx, number=publication, at=at, last=last)):
        outcomes.append(outcome)
        if not json and outcome.is_same:
            console.print(told(outcome))
    if json:
        as_json([{**vars(outcome), "is_same": outcome.is_same} for outcome in outcomes])
    refuse_differences(outcomes)


def rollback(
    pipeline: PipelineName,
    interval: Annotated[str, typer.Option("--interval", help="Start of the interval.")],
    to: Annotated[int, typer.Option("--to", help="Number of the publication to go back to.")],
    reason: Annotated[str, typer.Option(help="Why; recorded with the publication.")] = "",
    who: Who = None,
) -> None:
    """Make an interval's rows of an earlier publication visible again, in one commit, on record."""
    from windrow.jobs.rollback import rollback as job

    row = job(context(pipeline), instant_of(interval), to, request(reason, who))
    console.print(
        f"publication {row['number']}: {instant(row['interval'])}  {row['rows']:,} rows, those of publication {to}; "
        f"training table version {row['training_version']}"
    )


COMMANDS: dict[str, Callable[..., None]] = {"rebuild": rebuild, "verify": verify, "rollback": rollback}
