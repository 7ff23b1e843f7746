"""A small pipeline for tests of landing and clock: the test sets every instant, also that of the host."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from support.world import World
from windrow.jobs.run import Context

START = datetime(2026, 11, 1, tzinfo=UTC)
PIPELINE = """\
name: small
start: 2026-11-01T00:00:00Z
interval: 1m
left:
  name: served
  topic: {t}.served
  columns: {id: string, k: bigint, t: timestamp}
  key: [k]
  event_time: t
  out_of_orderness: 10s
right:
  - name: likes
    role: label
    topic: {t}.likes
    columns: {id: string, k: bigint, t: timestamp}
    key: [k]
    event_time: t
    out_of_orderness: 5s
    window: {before: 0s, after: 2m}
grace: 30s
idle: {mode: wait}
max_skew: 1m
labels: {liked: "size(likes) > 0"}
"""
IDLING = PIPELINE.replace("idle: {mode: wait}", "idle: {mode: caught_up, after: 3m}")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(topic: str, partition: int, seconds: float, key: int = 1, name: str = "x") -> Any:
    stamp = at(seconds).isoformat().replace("+00:00", "Z")
    return (topic, partition, f'{{"id": "{name}", "k": {key}, "t": "{stamp}"}}'.encode(), at(max(seconds, 0)))


def made(world: World, text: str, partitions: dict[str, int], now: float = 10_000) -> Context:
    ctx = world.pipeline(text, now=at(now))
    world.topics(partitions)
    return ctx


def delete(world: World, topic: str, until: int) -> None:
    """The broker forgets what its partition 0 holds before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": world.places.kafka})
    for future in admin.delete_records([TopicPartition(f"{world.name}.{topic}", 0, until)]).values():
        future.result(30)


def recreate(world: World) -> None:
    """A topic's deletion is not finished when its future is: try until the name is free."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return world.topics({"served": 1})
        except KafkaException:
            if time.monotonic() > deadline:
                raise
