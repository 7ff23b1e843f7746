"""The broker: ids, cleanup policies, partitions and readable offsets of topics, and the records of given offsets.

Offsets are those that a `read_committed` consumer sees: the end of a partition is its last stable offset. Where its
log ends, records of open transactions included, is asked too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from windrow.kafka.asking import Admin
from windrow.kafka.client import Kafka
from windrow.outcomes import NotReady
from windrow.semantics.intervals import at_micros
from windrow.semantics.landing import spread
from windrow.semantics.landing.batch import Batch, Partition, Topic

TIMEOUT = 30.0
"""Seconds that the broker has for an answer."""
GROUP = "windrow"
"""How the names of all consumer groups begin. Nothing is committed to them, but a broker may ask for the right."""
FETCH_WAIT_MS = 10
"""How long a broker keeps a fetch from the end of a partition waiting for records. None that come are wanted, and what
a client asks meanwhile waits behind it."""
_CLOCK_MS = 5_000
_ELECTING = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
"""Answers about a partition that has no leader yet: right after its topic was made, or after a broker's death."""
_ELECTION_S = 10.0


class BrokerUnreachable(NotReady):
    """No answer from Kafka. A retry helps once the broker is up; nothing was landed, the clock did not move."""


_AGES = 10**14
"""Milliseconds beyond which a retention is as good as for ever, and a timedelta overflows."""
_NO_ID = "A" * 22
"""A zero UUID as Kafka writes it."""


class TopicWithoutId(NotReady):
    """The broker is older than topic ids, or keeps them from this client."""


class TopicMissing(NotReady):
    """The broker does not have a topic of the pipeline."""


def admin(kafka: Kafka | str) -> Admin:
    """Return a client for questions about topics.

    Args:
        kafka: the brokers.
    """
    return Admin(kafka, {"socket.timeout.ms": 10_000})


def describe(kafka: Kafka | str, names: Iterable[str]) -> dict[str, Topic]:
    """Return ids, settings, partitions and readable offsets of topics, by name.

    Args:
        kafka: the brokers.

    Raises:
        BrokerUnreachable: no answer within 30 s.
        Refused: the broker refuses this client, or its questions about a topic.
        TopicMissing: the broker has no such topic.
    """
    try:
        with admin(kafka) as asked:
            described = asked.client.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT)
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in described]
            settings = asked.client.describe_configs(resources, request_timeout=TIMEOUT)
            settings_of = {resource.name: future for resource, future in settings.items()}
            return {name: _topic(asked, name, future, settings_of[name]) for name, future in described.items()}
    except KafkaException as error:
        raise BrokerUnreachable(
            f"no answer from Kafka at {kafka} ({error.args[0].str()}). Nothing was landed and no clock "
            "moved. Check that the broker is up (`windrow status`), WINDROW_KAFKA and, if it asks who a client is, "
            "WINDROW_KAFKA_CLIENT, then run again."
        ) from error


def clock(spark: SparkSession, kafka: Kafka | str) -> datetime | None:
    """Return the time by the clock of the active controller; None where the cluster does not tell it.

    A cluster tells it with the state of its quorum: the leader counts itself as having fetched right now. Clusters with
    ZooKeeper have no quorum, and others may keep it from this client.

    Args:
        kafka: the brokers.
    """
    assert spark._jvm is not None
    limits = {"default.api.timeout.ms": _CLOCK_MS, "request.timeout.ms": _CLOCK_MS}
    settings = spark._jvm.java.util.HashMap()
    for name, value in {**Kafka.of(kafka).java(), "client.id": "windrow", **limits}.items():
        settings.put(name, value)
    client = spark._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        voters = client.describeMetadataQuorum().quorumInfo().get().voters()
        fetched = [voter.lastFetchTimestamp() for voter in voters]
    except Py4JJavaError:
        return None
    finally:
        client.close()
    return max((at_micros(at.getAsLong() * 1000) for at in fetched if at.isPresent()), default=None)


def _topic(asked: Admin, name: str, future: Any, settings: Any) -> Topic:
    try:
        topic = asked.answer(future, TIMEOUT, name)
        of_topic = {name: setting.value for name, setting in asked.answer(settings, TIMEOUT, name).items()}
    except KafkaException as error:
        if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
            raise TopicMissing(
                f"topic {name!r} does not exist on the broker. Create it (or start its producer), or correct "
                "`topic:` in the pipeline file; `windrow simulate` creates the topics it writes."
            ) from None
        raise
    if str(topic.topic_id) == _NO_ID:
        raise TopicWithoutId(
            f"the broker reports no id for topic {name!r}: a topic that is deleted and created again would not be "
            "noticed, and its records would be taken for landed ones. Windrow needs a broker of Kafka 2.8 or later."
        )
    numbers = [p.id for p in topic.partitions]
    begins = _offsets(asked, name, numbers, OffsetSpec.earliest())
    ends = _offsets(asked, name, numbers, OffsetSpec.latest())
    log_ends = _offsets(asked, name, numbers, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    partitions = tuple(Partition(n, begins[n], ends[n], log_ends[n]) for n in sorted(numbers))
    return Topic(
        name,
        str(topic.topic_id),
        partitions,
        is_compacted="compact" in of_topic["cleanup.policy"],
        is_stamped=of_topic["message.timestamp.type"] == "LogAppendTime",
        retention=_retention(of_topic),
    )


def _retention(settings: Mapping[str, str | None]) -> timedelta | None:
    milliseconds = int(settings.get("retention.ms") or -1)
    if milliseconds < 0 or "delete" not in (settings["cleanup.policy"] or ""):
        return None
    return timedelta(milliseconds=min(milliseconds, _AGES))


def _offsets(
    asked: Admin,
    topic: str,
    numbers: Iterable[int],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[int, int]:
    wanted = {TopicPartition(topic, n): spec for n in numbers}
    patience = time.monotonic() + _ELECTION_S
    while True:
        futures = asked.client.list_offsets(wanted, isolation_level=isolation, request_timeout=TIMEOUT)
        try:
            found = {tp.partition: asked.answer(future, TIMEOUT, topic).offset for tp, future in futures.items()}
            break
        except KafkaException as error:
            if error.args[0].code() not in _ELECTING or time.monotonic() > patience:
                raise
        time.sleep(0.2)
    if unknown := [number for number, offset in found.items() if offset < 0]:
        raise BrokerUnreachable(
            f"Kafka returned no offset for topic {topic!r}, partition {', '.join(map(str, sorted(unknown)))}. Nothing "
            "was landed. Right after a broker's death its partitions have no leader for some seconds: run again."
        )
    return found


def read(
    spark: SparkSession, kafka: Kafka | str, batch: Batch, *, with_headers: bool = False
) -> tuple[DataFrame, Observation]:
    """Read the records at exactly the offsets of a batch, and count how many Kafka delivers.

    The first action on the records fails if the broker has deleted one of them. It also fills `records` of the
    observation: the number of delivered records, counted before anything is decoded.

    Returns:
        Rows with the columns of Spark's Kafka source (`headers` where wanted), and the observation.
    """

    def offsets(end: int) -> str:
        return json.dumps({batch.topic: {str(p): limits[end] for p, limits in batch.ranges.items()}})

    tasks = spread.tasks(batch.size, spark.sparkContext.defaultParallelism)
    pieces = spread.pieces(tasks, len(batch.ranges))
    records = (
        spark.read.format("kafka")
        .options(**({"minPartitions": str(pieces)} if pieces else {}))
        .options(**{f"kafka.{name}": value for name, value in Kafka.of(kafka).java().items()})
        .option("groupIdPrefix", GROUP)
        .option("assign", json.dumps({batch.topic: sorted(batch.ranges)}))
        .option("startingOffsets", offsets(0))
        .option("endingOffsets", offsets(1))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(with_headers).lower())
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.partition.fetch.bytes", str(4 * 1024 * 1024))
        .option("kafka.fetch.max.wait.ms", str(FETCH_WAIT_MS))
        .load()
    )
    delivered = Observation()
    return records.observe(delivered, F.count(F.lit(1)).alias("records")), delivered
