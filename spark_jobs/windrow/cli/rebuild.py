"""rebuild, verify, rollback: publish intervals again, compare them with a rebuild, or put earlier rows back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Annotated, Any

import typer

from windrow.cli.show import PUBLICATION, AsJson, console, print_json, print_table, progress, raise_blocked
from windrow.jobs.decision import decision
from windrow.jobs.options import (
    DryRun,
    Everything,
    IntervalStart,
    LastPublications,
    OptionalFrom,
    OptionalTo,
    PipelineName,
    PublicationNumber,
    Reason,
    RollbackTo,
    StandingOf,
    Who,
)
from windrow.jobs.plan.plan_intervals import listing
from windrow.jobs.plan.survey import Survey, record_survey, survey
from windrow.jobs.run import BadRequest, Context, context
from windrow.text import counted, shown_instant

SHOWN = 40
"""Most lines of a plan that are printed; `--json` lists all."""


def rebuild(
    pipeline: PipelineName,
    begin: OptionalFrom = None,
    end: OptionalTo = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    everything: Everything = False,
    resume: Annotated[
        str | None, typer.Option(metavar="KEY", help="Continue an interrupted rebuild, by the key that it printed.")
    ] = None,
    who: Who = None,
    json: AsJson = False,
) -> None:
    """Publish a range of closed intervals again, with everything that has landed by now.

    A range that reaches past the frontier is refused.

    \b
    windrow rebuild feed --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z --dry-run
    windrow rebuild feed --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z --reason "late clicks"
    """
    ctx = context(pipeline)
    if resume is not None:
        if begin or end or dry_run:
            raise BadRequest("--resume continues what is planned: it takes no range and no --dry-run")
        _carry_out(ctx, resume, {}, json)
        return
    if begin is None or end is None:
        raise BadRequest("a rebuild needs --from and --to, or --resume with the key of an interrupted run")
    why = None if dry_run else decision("a rebuild", reason, who)
    found = survey(ctx, begin, end, everything=everything)
    if why is None:
        print_json(listing(found)) if json else _print_survey(found)
        return
    _print_survey(found)
    run = ctx.run_key("rebuild")
    record_survey(ctx, run, found, why)
    console.print(f"planned; if it is interrupted: windrow rebuild {pipeline} --resume {run}")
    _carry_out(ctx, run, listing(found), json)


def _carry_out(ctx: Context, run: str, planned_json: dict[str, Any], json: bool) -> None:
    """Carry out the recorded plans of a run, and print what came of them after `planned_json`."""
    from windrow.jobs.ledger import extend_after_publication
    from windrow.jobs.plan.planning import recorded_plans
    from windrow.jobs.publish import brief
    from windrow.jobs.rebuild import resume

    planned, number = recorded_plans(ctx, run, first="plan"), count(1)
    with progress("rebuilding", len(planned)) as show:
        done = resume(ctx, run, lambda row: show(next(number)))
        show(len(done.published))  # an interrupted try may have published a part of them before
    if done.published:
        extend_after_publication(ctx)
    if json:
        blocked = [refusal.why for refusal in done.blocked.values()]
        print_json(
            {**planned_json, "run": run, "published": [brief(row) for row in done.published], "blocked": blocked}
        )
    elif done.published:
        print_table(done.published[-SHOWN:], (*PUBLICATION, "why"))
        console.print(f"{len(done.published)} of {counted(len(planned), 'interval')} published by run {run}")
    raise_blocked(done.blocked.values())


def _print_survey(found: Survey) -> None:
    changed = [line for line in found.lines if line.action != "leave"]
    table = [
        {
            "interval": line.interval.start,
            "does": line.action,
            "publication": line.publication,
            "rows": line.rows,
            "would change": ", ".join(f"{n} {kind}" for kind, n in line.changes.items()),
            "why": line.why,
        }
        for line in changed[:SHOWN]
    ]
    if table:
        print_table(table, list(table[0]))
    if len(changed) > SHOWN:
        console.print(f"… and {len(changed) - SHOWN} more (--json lists all)")
    left = [line for line in found.lines if line.action == "leave"]
    if left:
        console.print(f"left alone: {counted(len(left), 'interval')}, {left[0].why} (--all makes them again)")
    counts = ", ".join(f"{n} to {action}" for action, n in sorted(found.counts.items(), reverse=True))
    pins = ", ".join(f"{topic} {batch}" for topic, batch in found.clock.pins.items())
    console.print(f"{counted(len(found.lines), 'interval')}: {counts}; with everything up to batch: {pins}")


def verify(
    pipeline: PipelineName,
    publication: PublicationNumber = None,
    interval: StandingOf = None,
    last: LastPublications = None,
    json: AsJson = False,
) -> None:
    """Make publications again at their recorded pins and pipeline file, and compare every column by hash.

    Without an option it compares the newest publication only.

    \b
    windrow verify feed --last 3
    windrow verify feed --interval 2026-11-01T00:00:00Z
    """
    from windrow.jobs.audit.verify import NEWEST_ONLY, chosen, described, refuse_differences
    from windrow.jobs.audit.verify import verify as job

    ctx = context(pipeline)
    outcomes = []
    for outcome in job(ctx, chosen(ctx, number=publication, at=interval, last=last)):
        outcomes.append(outcome)
        if outcome.is_same:
            console.print(described(outcome))
    if publication is None and interval is None and last is None:
        console.print(NEWEST_ONLY)
    if json:
        print_json([{**vars(outcome), "is_same": outcome.is_same} for outcome in outcomes])
    refuse_differences(ctx.home, outcomes)


def rollback(
    pipeline: PipelineName,
    interval: IntervalStart,
    to: RollbackTo,
    reason: Reason = "",
    who: Who = None,
    json: AsJson = False,
) -> None:
    """Make an interval's rows of an earlier publication visible again, in one commit, on record.

    \b
    windrow rollback feed --interval 2026-11-01T00:00:00Z --to 3 --reason "the new labels are wrong"
    """
    from windrow.jobs.publish import brief
    from windrow.jobs.upkeep.rollback import rollback as job

    row = job(context(pipeline), interval, to, decision("a rollback", reason, who))
    if json:
        print_json({**brief(row), "rolled_back_to": to})
        return
    console.print(
        f"publication {row['number']}: {shown_instant(row['interval'])}  {counted(row['rows'], 'row')}, "
        f"those of publication {to}; training table version {row['training_version']}"
    )


COMMANDS: dict[str, Callable[..., None]] = {"rebuild": rebuild, "verify": verify, "rollback": rollback}
