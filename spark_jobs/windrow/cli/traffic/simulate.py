"""simulate: realistic traffic with known truth, produced to the broker."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windrow.cli.show import AsJson, console, print_json, progress
from windrow.config.fields import pipeline_name, topic_name
from windrow.config.formats import DEFAULT_REGISTRY
from windrow.jobs.options import LENGTH, NAME, TIME, longer_than_zero
from windrow.jobs.run import BadRequest, instant
from windrow.places import Places
from windrow.text import counted

if TYPE_CHECKING:
    from windrow.simulate.traffic import Traffic
    from windrow.simulate.truth import Counts


class Form(Enum):
    """Formats of records, as a pipeline file names them."""

    JSON = "json"
    JSON_SCHEMA = "json_schema"
    AVRO = "avro"
    PROTOBUF = "protobuf"


def _topic(text: str) -> str:
    try:
        return topic_name(text)
    except ValueError as wrong:
        raise BadRequest(str(wrong)) from None


def simulate(
    rows: Annotated[int, typer.Option(min=1, help="Served rows.")] = 10_000,
    start: Annotated[
        datetime | None,
        typer.Option(
            parser=instant, metavar=TIME, help="First event time; default: on the hour, so that all of it is past."
        ),
    ] = None,
    span: Annotated[
        timedelta,
        typer.Option(
            parser=longer_than_zero,
            metavar=LENGTH,
            show_default=False,
            help="Event time that the rows cover; default: 1h.",
        ),
    ] = timedelta(hours=1),
    seed: Annotated[int, typer.Option(help="The same seed gives the same traffic.")] = 1,
    poison: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the rows that are followed by a broken record of each kind.")
    ] = 0.0,
    served_topic: Annotated[
        str, typer.Option(parser=_topic, metavar=NAME, help="Topic of served rows.")
    ] = "feed.served",
    engagements_topic: Annotated[
        str, typer.Option(parser=_topic, metavar=NAME, help="Topic of engagements.")
    ] = "feed.engagements",
    pipeline_file: Annotated[
        Path | None, typer.Option(help="Also write the pipeline file that fits, e.g. .windrow/pipelines/sim.yaml.")
    ] = None,
    form: Annotated[
        Form,
        typer.Option("--format", help="Format of the records; all but json need a registry (`windrow up --registry`)."),
    ] = Form.JSON,
    live: Annotated[bool, typer.Option(help="Produce each event when its time comes, instead of at once.")] = False,
    json: AsJson = False,
) -> None:
    """Produce realistic traffic with known truth to the broker, and print what must come out.

    \b
    windrow simulate --pipeline-file .windrow/pipelines/sim.yaml --poison 0.001
    windrow land sim
    windrow train sim
    """
    from windrow.simulate import traffic
    from windrow.simulate.poison import KINDS

    registry = Places.from_env(os.environ).registry(DEFAULT_REGISTRY)
    if form is not Form.JSON and registry is None:
        raise BadRequest(
            f"--format {form.value} needs a schema registry: start one with `windrow up --registry`, and set "
            "WINDROW_REGISTRY to its address"
        )
    if served_topic == engagements_topic:
        raise BadRequest(f"{served_topic} cannot be both topics: served rows and engagements are two streams")
    made = traffic.Traffic(
        start=start or datetime.now(UTC),
        rows=rows,
        span=span,
        seed=seed,
        poison=dict.fromkeys(KINDS, poison) if poison else {},
        served_topic=served_topic,
        engagements_topic=engagements_topic,
    )
    if start is None:
        made = replace(made, start=_usual_start(made, live))
    if pipeline_file:  # before producing, which cannot be undone
        _write(pipeline_file, traffic.pipeline_yaml(made, pipeline_file.stem, form=form.value))
    truth = _produce(made, live, form, registry)
    if json:
        print_json(_as_json(made, truth, pipeline_file))
        return
    _print_truth(truth)
    if pipeline_file:
        name = pipeline_file.stem
        console.print(f"wrote {pipeline_file}: `windrow land {name}`, then `windrow train {name}`")


def _write(path: Path, text: str) -> None:
    """Write a pipeline file.

    Raises:
        BadRequest: its name cannot be a pipeline's, or it cannot be written.
    """
    try:
        pipeline_name(path.stem)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except (ValueError, OSError) as wrong:
        raise BadRequest(f"--pipeline-file {path}: {wrong}; nothing was produced") from None


def _usual_start(made: Traffic, live: bool) -> datetime:
    """Return when traffic starts without `--start`.

    Live traffic starts at the last full ten minutes, other traffic early enough that even its last label is past.
    """
    if live:
        return made.start.replace(minute=made.start.minute // 10 * 10, second=0, microsecond=0)
    return (made.start - (made.ends_at - made.start)).replace(minute=0, second=0, microsecond=0)


def _produce(made: Traffic, live: bool, form: Form, registry: str | None) -> Counts:
    """Produce the traffic; return what must come out of it."""
    from windrow.simulate import formats, producer, traffic

    places = Places.from_env(os.environ)
    truth = traffic.truth(made).counts
    producer.create_topics(places.brokers, made.topics)
    pace = producer.Live() if live else None
    with progress("producing", sum(truth.produced.values())) as show:
        sent = traffic.messages(made, formats.encoder(form.value, registry))
        produced = producer.produce(places.brokers, sent, pace=pace, on_progress=show)
    console.print(f"produced {counted(produced.total, 'record')} to {', '.join(made.topics)} on {places.kafka}")
    return truth


def _as_json(made: Traffic, truth: Counts, file: Path | None) -> dict[str, Any]:
    total = truth.total
    return {
        "topics": list(made.topics),
        "from": made.start,
        "to": made.ends_at,
        "produced": sum(truth.produced.values()),
        "pipeline_file": file,
        "truth": {
            "rows": total.rows,
            "positive": total.positive,
            "negative": total.negative,
            "unknown": sum(total.unknown.values()),
            "duplicates": total.duplicate,
            "topics": {topic: truth.landing(topic) for topic in made.topics},
        },
    }


def _print_truth(truth: Counts) -> None:
    total = truth.total
    console.print(
        f"truth, when all has landed and the topics have idled: {counted(total.rows, 'row')} = "
        f"{total.positive:,} positive + {total.negative:,} negative + {sum(total.unknown.values()):,} unknown; "
        f"{counted(total.duplicate, 'duplicate')}"
    )


COMMANDS: dict[str, Callable[..., None]] = {"simulate": simulate}
