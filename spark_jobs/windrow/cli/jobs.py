"""land, train, override: the jobs that Airflow runs, from a shell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli.show import AsJson, console, print_json, raise_blocked
from windrow.home import Home
from windrow.jobs.decision import decision
from windrow.jobs.options import (
    EVERY,
    AcceptGap,
    IntervalStart,
    LandEvery,
    LandFor,
    OptionalIntervalStart,
    PipelineName,
    Reason,
    Reconsider,
    ReplayLost,
    TrustClock,
    Who,
)
from windrow.jobs.plan.far_start import far_start, late_start, refuse_far_start
from windrow.jobs.run import BadRequest, context
from windrow.semantics.judgement import with_reason
from windrow.text import counted, shown_instant

if TYPE_CHECKING:
    from windrow.jobs.landing.replay import Replayed


def land(
    pipeline: PipelineName,
    lasting: LandFor = timedelta(0),
    every: LandEvery = EVERY,
    accept_gap: AcceptGap = None,
    replay_lost: ReplayLost = False,
    trust_clock: TrustClock = False,
    reconsider: Reconsider = None,
    reason: Reason = "",
    who: Who = None,
    json: AsJson = False,
) -> None:
    """Land what the topics have, exactly once, and advance the clock.

    Lost offsets stop it, until a person accepts the gap, with a reason. So do lost commits of a landing table, until
    they are restored, or landed again with --replay-lost, and a host clock that went back.

    \b
    windrow land feed
    windrow land feed --for 10m --every 15s
    windrow land feed --accept-gap feed.served/0:5-10 --reason "retention was too short"
    windrow land feed --replay-lost --reason "the disk lost the newest commits"
    windrow land feed --reconsider "price was declared int, and is a double"
    """
    from windrow.jobs import land as job
    from windrow.jobs.landing.reconsider import reconsidering
    from windrow.jobs.landing.replay import replay

    given_up = job.giving_up(accept_gap or (), who, "" if replay_lost and not accept_gap else reason)
    again = reconsidering(reconsider, who)
    replayed: list[Replayed] = []
    landings: list[dict[str, Any]] = []
    if replay_lost:
        replayed = replay(context(pipeline), decision("landing lost batches again", reason, who))
        console.print("\n".join(map(str, replayed)) or "no batch is lost")
    ctx = context(pipeline)
    for landed in job.land(
        ctx,
        lasting=lasting,
        every=every,
        given_up=given_up,
        trust_clock=trust_clock,
        reconsider=again,
    ):
        done = job.summary(landed)
        landings.append({**done, "topics": job.by_topic(landed)})
        if done["restored"]:
            console.print(f"the clock lacked {done['restored']:,} offsets that had landed before: restored")
        partly = f" (of these, {done['unreadable']:,} not for every stream)" if done["unreadable"] else ""
        console.print(
            f"read {done['read']:,} = landed {done['landed']:,}{partly} + quarantined {done['quarantined']:,} "
            f"+ skipped {done['skipped']:,} + unexplained {done['unexplained']:,}; {done['lag']:,} behind; "
            f"watermark {shown_instant(done['watermark'])}"
        )
    if wrong := far_start(ctx.home):
        console.print(f"warning: {wrong}")
    _print_late_start(ctx.home)
    if json:
        print_json({"landings": landings, "replayed": [_replayed_json(one) for one in replayed]})


def _print_late_start(home: Home) -> None:
    if late := late_start(home):
        console.print(". ".join(late))


def _replayed_json(one: Replayed) -> dict[str, Any]:
    return {**one._asdict(), "gaps": [vars(lost) for lost in one.gaps]}


def train(
    pipeline: PipelineName,
    interval: OptionalIntervalStart = None,
    republish: Annotated[
        bool, typer.Option("--republish", help="With --interval: plan and publish it again, even if it is published.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Declare the end of the stream: every interval with rows closes.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --interval and --reason: publish before it closes; no row is a negative."),
    ] = False,
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start", help="Publish from `start` on although it is long before the first row (empty intervals)."
        ),
    ] = False,
    reason: Reason = "",
    json: AsJson = False,
) -> None:
    """Join, check and publish every closed interval that is not published yet, or one.

    Before the first publication it stops where `start` is more than a hundred intervals before the first row.

    \b
    windrow train feed
    windrow train feed --interval 2026-11-01T00:00:00Z --republish
    """
    from windrow.jobs.ledger import extend_after_publication
    from windrow.jobs.publish import brief
    from windrow.jobs.train import train_all, train_one

    ctx = context(pipeline)
    run = ctx.run_key("train")
    if force and not interval:
        raise BadRequest("--force is for one interval: add --interval 2026-11-01T00:00:00Z")
    if republish and not interval:
        raise BadRequest("--republish is for one interval: add --interval, or use `windrow rebuild` for a range")
    if drain and interval:
        raise BadRequest("--drain closes every interval with rows: leave --interval out")
    if reason and not force:
        raise BadRequest("--reason is recorded with --force only")
    if not from_start:
        refuse_far_start(ctx.home, is_last=drain or force)
    if interval:
        forced = decision("publishing an open interval", reason) if force else None
        rounds = [train_one(ctx, run, interval, "republish" if republish else "publish", _print_publication, forced)]
    else:
        rounds = list(train_all(ctx, run, drain=drain, each=_print_publication))
    published = sum(len(one.published) for one in rounds)
    if published:
        extend_after_publication(ctx)
    console.print(
        f"{counted(published, 'interval')} published"
        if published
        else "nothing to publish: no closed interval is missing"
    )
    _print_late_start(ctx.home)
    blocked = [refusal for one in rounds for refusal in one.blocked.values()]
    if json:
        rows = [row for one in rounds for row in one.published]
        print_json({"run": run, "published": [brief(row) for row in rows], "blocked": [one.why for one in blocked]})
    raise_blocked(blocked)


def override(
    pipeline: PipelineName, interval: IntervalStart, reason: Reason, who: Who = None, json: AsJson = False
) -> None:
    """Publish a blocked interval because you decide so. Counts that do not add up cannot be overridden.

    \b
    windrow override feed --interval 2026-11-01T00:00:00Z --reason "the campaign ended, few clicks are right"
    """
    from windrow.jobs.ledger import extend_after_publication
    from windrow.jobs.publish import brief
    from windrow.jobs.upkeep.override import override as job

    ctx, decided = context(pipeline), decision("an override", reason, who)
    row = job(ctx, interval, decided.who, decided.reason)
    _print_publication(row)
    extend_after_publication(ctx)
    if json:
        print_json(brief(row))


def _print_publication(row: Mapping[str, Any]) -> None:
    console.print(
        f"publication {row['number']}: {shown_instant(row['interval'])}  {counted(row['rows'], 'row')} = "
        f"{row['positive']:,} positive + {row['negative']:,} negative + {row['unknown']:,} unknown  "
        f"({with_reason(row['verdict'], row['why'])})"
    )


COMMANDS: dict[str, Callable[..., None]] = {"land": land, "train": train, "override": override}
