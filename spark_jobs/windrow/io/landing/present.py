"""What the broker has at given offsets now: one small fetch per partition, and no record is decoded or kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from windrow.io.landing import broker, log
from windrow.kafka.asking import Refusals
from windrow.kafka.client import Kafka
from windrow.kafka.refusals import of_error
from windrow.semantics.intervals import at_micros
from windrow.semantics.landing.batch import Topic
from windrow.semantics.landing.replaced import A_MARKER

_FETCH_BYTES = 64 * 1024
_GONE = (KafkaError._PARTITION_EOF, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
"""What a fetch ends with where the offset has no record any more."""


def at(spark: SparkSession, kafka: Kafka | str, topic: Topic, offsets: Mapping[int, int]) -> dict[int, datetime | str]:
    """Return the timestamps of the records at these offsets, or `A_MARKER`; partitions without either are missing.

    Args:
        kafka: the brokers.
        topic: the topic as the broker knows it now.
        offsets: by partition.

    Raises:
        BrokerUnreachable: no answer within 30 s.
        Refused: the broker refuses this client.
        LogUnreadable: the broker does not show what is at an offset without a record.
    """
    if not offsets:
        return {}
    found: dict[int, datetime | str] = dict(_timestamps(kafka, topic.name, offsets))
    without = {} if topic.is_compacted else {p: o for p, o in offsets.items() if p not in found}
    with closing(log.Log(spark, kafka, topic)) as shown:
        for partition, offset in without.items():
            headers = shown.batches(partition, [(offset, offset + 1)])
            if any(one.is_left_out and one.start <= offset < one.until for one in headers):
                found[partition] = A_MARKER
    return found


def _timestamps(kafka: Kafka | str, topic: str, offsets: Mapping[int, int]) -> dict[int, datetime]:
    """Return the timestamps of the records at these offsets; partitions without a record there are missing."""
    refusals = Refusals(Kafka.of(kafka))
    settings = {
        **Kafka.of(kafka).librdkafka(),
        "client.id": "windrow",
        "group.id": broker.GROUP,  # the client wants one; nothing is committed to it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
        "enable.partition.eof": True,
        "fetch.message.max.bytes": _FETCH_BYTES,
        "fetch.wait.max.ms": broker.FETCH_WAIT_MS,
        "log_level": 2,
        "error_cb": refusals,
    }
    found: dict[int, datetime] = {}
    waiting, deadline = set(offsets), time.monotonic() + broker.TIMEOUT
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])
        while waiting:
            if time.monotonic() > deadline:
                raise broker.BrokerUnreachable(
                    f"Kafka at {kafka} does not show the newest landed record of topic {topic}, partition "
                    f"{', '.join(map(str, sorted(waiting)))}. Nothing was landed. Run again once the broker is up."
                )
            message = consumer.poll(1.0)
            refusals.raise_if_any()
            if message is None:
                continue
            partition, error = message.partition(), message.error()
            if error is not None and (refused := of_error(kafka, error, _subject(error, topic))):
                raise refused
            if partition is None or partition not in waiting:
                continue
            if error is not None and error.code() not in _GONE:
                if error.fatal() or not error.retriable():
                    raise broker.BrokerUnreachable(f"no answer from Kafka at {kafka} ({error.str()}). Run again.")
                continue
            kind, millis = message.timestamp() if error is None else (TIMESTAMP_NOT_AVAILABLE, 0)
            if kind != TIMESTAMP_NOT_AVAILABLE and message.offset() == offsets[partition]:
                found[partition] = at_micros(millis * 1000)
            waiting.remove(partition)
            consumer.pause([TopicPartition(topic, partition)])
    return found


def _subject(error: KafkaError, topic: str) -> str:
    return broker.GROUP if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else topic
