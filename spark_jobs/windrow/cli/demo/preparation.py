"""The demo's pipeline file, and its input on the broker. A second demo continues with the first one's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from confluent_kafka import KafkaException

from windrow.cli.show import console
from windrow.config import Pipeline, load
from windrow.files import write_whole
from windrow.home import Home
from windrow.io.landing import broker
from windrow.kafka.client import Kafka
from windrow.places import Places
from windrow.simulate import open_bandit, producer
from windrow.simulate.truth import Truth
from windrow.text import counted, shown_instant


@dataclass(frozen=True)
class Demo:
    """One demo: its pipeline, its input and where it runs."""

    places: Places
    pipeline: Pipeline
    moved: open_bandit.Moved
    wheel: Path

    @cached_property
    def truth(self) -> Truth:
        """What must come out, known from the input alone."""
        return open_bandit.truth(self.moved, self.wheel)

    @property
    def home(self) -> Home:
        """The pipeline with its places."""
        return Home(self.pipeline, self.places)


def prepare(places: Places, wheel: Path) -> Demo:
    """Write the pipeline file and produce the input, unless an earlier demo has produced all of it.

    Topics that hold other records, or a part of the input, are left alone: the demo then takes the next free number.
    """
    number = 0
    while True:
        number += 1
        suffix = "" if number == 1 else f"_{number}"
        path = places.home / "pipelines" / f"open_bandit{suffix}.yaml"
        moved = _moved(path, suffix)
        prepared = _with_file(places, path, moved, wheel)
        expected = dict(prepared.truth.counts.produced)
        found = _ends(places.brokers, moved)
        if found and found != {k: n for k, n in expected.items() if n}:
            console.print(f"the topics of {path.stem} hold other records (an interrupted demo?): starting a new one")
            continue
        if not found:
            producer.create_topics(places.brokers, moved.topics)
            console.print(f"producing {counted(sum(expected.values()), 'record')} to {', '.join(moved.topics)} …")
            producer.produce(places.brokers, open_bandit.messages(moved, wheel))
        console.print(
            f"input: {counted(sum(expected.values()), 'record')}, event time from {shown_instant(moved.start)}"
        )
        return prepared


def _moved(path: Path, suffix: str) -> open_bandit.Moved:
    """Return the input with its times moved to the present, or to where an earlier demo has moved them."""
    fresh = open_bandit.recent(datetime.now(UTC))
    start = load(path).start if path.exists() else fresh.start
    return replace(
        fresh,
        start=start,
        impressions_topic=f"open_bandit{suffix}.impressions",
        clicks_topic=f"open_bandit{suffix}.clicks",
    )


def _with_file(places: Places, path: Path, moved: open_bandit.Moved, wheel: Path) -> Demo:
    """Write the pipeline file of a demo, and return the demo."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, open_bandit.pipeline_yaml(moved, path.stem))
    return Demo(places, load(path, places.expectations), moved, wheel)


def _ends(kafka: Kafka, moved: open_bandit.Moved) -> dict[tuple[str, int], int]:
    """Return the end offsets of those partitions that hold records, by topic and partition."""
    try:
        with broker.admin(kafka) as asked:
            known = asked.metadata(30).topics
    except KafkaException as error:
        raise broker.BrokerUnreachable(str(error)) from error
    existing = [topic for topic in moved.topics if topic in known]
    described = broker.describe(kafka, existing) if existing else {}
    return {(name, p.number): p.end for name, topic in described.items() for p in topic.partitions if p.end}
