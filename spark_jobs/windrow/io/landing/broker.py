"""What the broker says about a topic: its id, its partitions, and how far each can be read.

Offsets are asked for as a `read_committed` consumer sees them: the end is the last stable offset.
A position is never guessed: where none is known, reading starts at the earliest offset, never at the latest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import DataFrame, SparkSession

from windrow.outcomes import NotReady

_TIMEOUT = 30.0


class BrokerUnreachable(NotReady):
    """No answer from Kafka. Trying again helps once it is back; nothing was landed, the clock did not move."""


class TopicMissing(NotReady):
    """The pipeline reads a topic that the broker does not have."""


@dataclass(frozen=True)
class Partition:
    """Readable offsets [begin, end) of a partition, when the broker was asked."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Topic:
    """A topic as the broker knows it. Another id under the same name is another topic."""

    name: str
    id: str
    partitions: tuple[Partition, ...]


def describe(bootstrap: str, names: Iterable[str]) -> dict[str, Topic]:
    """Ids, partitions and offsets of topics.

    Raises:
        BrokerUnreachable: no answer within 30 s.
        TopicMissing: the broker has no such topic.
    """
    admin = AdminClient(
        {"bootstrap.servers": bootstrap, "socket.timeout.ms": 10_000, "log_level": 2, "client.id": "windrow"}
    )
    try:
        described = admin.describe_topics(TopicCollection(list(names)), request_timeout=_TIMEOUT)
        return {name: _topic(admin, name, future) for name, future in described.items()}
    except KafkaException as error:
        raise BrokerUnreachable(
            f"no answer from Kafka at {bootstrap} ({error.args[0].str()}). Nothing was landed and no clock "
            "moved. Check that the broker is up (`windrow status`) and WINDROW_KAFKA, then run again."
        ) from error


def _topic(admin: AdminClient, name: str, future: object) -> Topic:
    try:
        found = future.result()  # type: ignore[attr-defined]
    except KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            raise TopicMissing(
                f"topic {name!r} does not exist on the broker. Create it (or start its producer), or correct "
                "`topic:` in the pipeline file; `windrow simulate` creates the topics it writes."
            ) from None
        raise
    numbers = [p.id for p in found.partitions]
    begins = _offsets(admin, name, numbers, OffsetSpec.earliest())
    ends = _offsets(admin, name, numbers, OffsetSpec.latest())
    partitions = tuple(Partition(n, begins[n], ends[n]) for n in sorted(numbers))
    return Topic(name, str(found.topic_id), partitions)


def _offsets(admin: AdminClient, topic: str, numbers: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
    asked = admin.list_offsets(
        {TopicPartition(topic, n): spec for n in numbers},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=_TIMEOUT,
    )
    return {tp.partition: future.result().offset for tp, future in asked.items()}


def read(spark: SparkSession, bootstrap: str, topic: str, ranges: Mapping[int, tuple[int, int]]) -> DataFrame:
    """Records of exactly these offset ranges `{partition: (from, until)}`; fails where one was deleted."""

    def offsets(end: int) -> str:
        return json.dumps({topic: {str(p): r[end] for p, r in ranges.items()}})

    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({topic: sorted(ranges)}))
        .option("startingOffsets", offsets(0))
        .option("endingOffsets", offsets(1))
        .option("failOnDataLoss", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.partition.fetch.bytes", str(16 * 1024 * 1024))
        .load()
    )
