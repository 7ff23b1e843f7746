"""Compacted topics: records in segments of their own, a cleaner that runs often, and a wait until it has run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

COMPACTING = {
    "cleanup_policy": "compact",
    "segment_ms": "1",
    "min_cleanable_dirty_ratio": "0",
    "min_compaction_lag_ms": "0",
}
"""Settings of a topic for `World.topics`; the cleaner leaves its last segment alone."""

Keyed = tuple[str, int, bytes, datetime]
"""record key, partition, value, timestamp"""


def produce_one_by_one(bootstrap: str, topic: str, records: Iterable[Keyed]) -> None:
    """Send each record by itself: it closes the segment before it where its timestamp is another one."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, partition, value, at in records:
        producer.produce(topic, value, key=key, partition=partition, timestamp=int(at.timestamp() * 1000))
        producer.flush(30)


def until_compacted(bootstrap: str, topic: str, partition: int, left: list[int]) -> None:
    """Let the broker's cleaner run often, and wait until it has left these offsets."""
    alter(bootstrap, ResourceType.BROKER, "1", "log.cleaner.backoff.ms", "100")
    deadline = time.monotonic() + 60
    while (found := offsets_of(bootstrap, topic, partition)) != left:
        assert time.monotonic() < deadline, found


def alter(bootstrap: str, kind: ResourceType, of: str, name: str, value: str) -> None:
    """Change a setting of a broker or a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([ConfigResource(kind, of, incremental_configs=[entry])]).values():
        future.result(30)


def offsets_of(bootstrap: str, topic: str, partition: int) -> list[int]:
    """Offsets of the records that a partition has."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and not message.error():
        found.append(message.offset())
    consumer.close()
    return found
