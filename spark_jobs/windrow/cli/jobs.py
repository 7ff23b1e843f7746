"""simulate, land, train, override: the jobs that Airflow runs, from a shell."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from windrow.cli.show import PipelineName, console, instant
from windrow.jobs.run import BadRequest, Context, context
from windrow.jobs.run import instant as instant_of
from windrow.outcomes import Blocked
from windrow.places import Places
from windrow.text import parse_duration

At = Annotated[str | None, typer.Option("--interval", help="Start of one interval, 2026-11-01T00:00:00Z.")]


def simulate(
    rows: Annotated[int, typer.Option(help="Served rows.")] = 10_000,
    start: Annotated[
        str | None, typer.Option(help="First event time; default: so that all of it is in the past, on the hour.")
    ] = None,
    span: Annotated[str, typer.Option(help="Event time that the rows cover.")] = "1h",
    seed: Annotated[int, typer.Option(help="The same seed gives the same traffic.")] = 1,
    poison: Annotated[float, typer.Option(help="Share of the rows that have each kind of poison behind them.")] = 0.0,
    served_topic: Annotated[str, typer.Option(help="Topic of served rows.")] = "feed.served",
    engagements_topic: Annotated[str, typer.Option(help="Topic of engagements.")] = "feed.engagements",
    pipeline_file: Annotated[
        str | None,
        typer.Option(help="Also write the pipeline file that fits, e.g. .windrow/pipelines/sim.yaml."),
    ] = None,
    live: Annotated[bool, typer.Option(help="Produce each event when its time comes, instead of at once.")] = False,
) -> None:
    """Produce realistic traffic with known truth to the broker, and say what must come out."""
    from windrow.simulate import producer, traffic
    from windrow.simulate.poison import KINDS

    now = datetime.now(UTC)
    made = traffic.Traffic(
        start=instant_of(start) if start else now,
        rows=rows,
        span=parse_duration(span),
        seed=seed,
        poison=dict.fromkeys(KINDS, poison) if poison else {},
        served_topic=served_topic,
        engagements_topic=engagements_topic,
    )
    if not start and not live:  # all of it, the last late label too, is in the past
        made = replace(made, start=(now - (made.ends_at - made.start)).replace(minute=0, second=0, microsecond=0))
    elif not start:
        made = replace(made, start=now.replace(minute=now.minute // 10 * 10, second=0, microsecond=0))
    places = Places.from_env(os.environ)
    truth = traffic.truth(made).counts
    producer.create_topics(places.kafka, made.topics)
    with _bar("producing") as (progress, task):
        progress.update(task, total=sum(truth.produced.values()))
        produced = producer.produce(
            places.kafka,
            traffic.messages(made),
            pace=producer.Live() if live else None,
            on_progress=lambda n: progress.update(task, completed=n),
        )
    total = truth.total
    console.print(f"produced {produced.total:,} records to {', '.join(made.topics)} on {places.kafka}")
    console.print(
        f"truth, when all has landed and the topics have idled: {total.rows:,} rows = {total.positive:,} positive "
        f"+ {total.negative:,} negative + {sum(total.unknown.values()):,} unknown; {total.duplicate:,} duplicates"
    )
    if pipeline_file:
        from pathlib import Path

        path = Path(pipeline_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traffic.pipeline_yaml(made, path.stem))
        console.print(f"wrote {path}: `windrow land {path.stem}`, then `windrow train {path.stem}`")


def land(
    pipeline: PipelineName,
    lasting: Annotated[str, typer.Option("--for", help="Keep landing this long with a warm JVM.")] = "0s",
    every: Annotated[str, typer.Option(help="How often, with --for.")] = "15s",
    accept_gap: Annotated[
        list[str] | None,
        typer.Option(help="Give up offsets that the broker deleted, e.g. feed.served/0:5-10, as the failed run said."),
    ] = None,
    reason: Annotated[str, typer.Option(help="With --accept-gap: why; recorded in the landing commit.")] = "",
    who: Annotated[str | None, typer.Option(help="With --accept-gap: who decides; default: this shell's user.")] = None,
) -> None:
    """Land what the topics have, exactly once, and advance the clock."""
    from windrow.jobs import land as job

    ctx = context(pipeline)
    given_up = job.giving_up(accept_gap or (), who or getpass.getuser(), reason)
    for landed in job.land(ctx, lasting=job.duration(lasting), every=job.duration(every), given_up=given_up):
        done = job.summary(landed)
        console.print(
            f"read {done['read']:,} = landed {done['landed']:,} + quarantined {done['quarantined']:,} "
            f"+ skipped {done['skipped']:,}; {done['lag']:,} behind; watermark {instant(done['watermark'])}"
        )


def train(
    pipeline: PipelineName,
    interval: At = None,
    republish: Annotated[
        bool,
        typer.Option("--republish", help="With --interval: a new plan and publication even if published."),
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Declare the end of the stream: every interval with rows closes.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --interval: before it closes; its rows say so, no negatives.")
    ] = False,
    reason: Annotated[str, typer.Option(help="With --force: why; recorded with the publication.")] = "",
) -> None:
    """Join, check and publish every closed interval that is not published yet, or one."""
    from windrow.io.registers.plans import Request
    from windrow.jobs.ledger import extend_after_publication
    from windrow.jobs.train import Round, train_all, train_one

    ctx = context(pipeline)
    run = _run_key(ctx, "train")
    if force and not interval:
        raise BadRequest("--force is for one interval: add --interval 2026-11-01T00:00:00Z")
    if interval:
        mode = "republish" if republish else "publish"
        forced = Request(reason.strip(), getpass.getuser()) if force else None
        if forced and not forced.reason:
            raise BadRequest("publishing an open interval needs a reason: --reason 'why it cannot wait'")
        rounds = iter([train_one(ctx, run, instant_of(interval), mode, _say, forced)])  # type: ignore[arg-type]
    else:
        rounds = train_all(ctx, run, drain=drain, each=_say)
    done: list[Round] = list(rounds)
    published = sum(len(one.published) for one in done)
    if published:
        extend_after_publication(ctx)
    console.print(
        f"{published} intervals published" if published else "nothing to publish: no closed interval is missing"
    )
    _raise_blocked(refusal.why for one in done for refusal in one.blocked.values())


def override(
    pipeline: PipelineName,
    interval: Annotated[str, typer.Option("--interval", help="Start of the blocked interval.")],
    reason: Annotated[str, typer.Option("--reason", help="Why it is right; recorded with the publication.")],
    who: Annotated[str | None, typer.Option("--who", help="Who decides; default: the user of this shell.")] = None,
) -> None:
    """Publish a blocked interval on your word. A balance that does not add up cannot be overridden."""
    from windrow.jobs.override import override as job

    if not reason.strip():
        raise BadRequest("an override needs a reason: --reason 'why these rows are right'")
    row = job(context(pipeline), instant_of(interval), who or getpass.getuser(), reason.strip())
    _say(row)


def _run_key(ctx: Context, what: str) -> str:
    return f"{what}__{ctx.now():%Y-%m-%dT%H:%M:%S.%fZ}__{os.getpid()}"


def _say(row: dict[str, Any]) -> None:
    console.print(
        f"publication {row['number']}: {instant(row['interval'])}  {row['rows']:,} rows = {row['positive']:,} positive "
        f"+ {row['negative']:,} negative + {row['unknown']:,} unknown  ({row['verdict']})"
    )


def _raise_blocked(reasons: Any) -> None:
    if told := list(reasons):
        raise Blocked("\n\n".join(told))


class _bar:  # noqa: N801 - reads as a function
    """A progress bar with one task."""

    def __init__(self, what: str) -> None:
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console)

    def __enter__(self) -> tuple[Progress, Any]:
        self._progress.start()
        return self._progress, self._progress.add_task("", total=None)

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()


COMMANDS: dict[str, Callable[..., None]] = {
    "simulate": simulate,
    "land": land,
    "train": train,
    "override": override,
}
