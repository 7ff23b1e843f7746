"""The producer against the real broker: everything where it belongs, once, in order, or a clear failure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition

from windrow.simulate.producer import (
    DeliveryFailed,
    Live,
    ProducerUnreachable,
    TopicUnfit,
    create_topics,
    produce,
)
from windrow.simulate.record import Message
from windrow.simulate.traffic import Traffic, messages, truth

START = datetime(2026, 9, 1, tzinfo=UTC)
"""Weeks back: a topic with a retention would lose it."""


@pytest.fixture
def topic() -> str:
    return f"simulate.{uuid.uuid4().hex[:8]}"


def _read(bootstrap: str, topic: str, partition: int) -> Iterator[Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "fetch.message.max.bytes": 16_000_000})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, 0)])
        position = 0
        while position < end:
            record = consumer.poll(30)
            assert record is not None, f"nothing more at {position} of {end}"
            assert record.error() is None
            position = (record.offset() or 0) + 1
            yield record
    finally:
        consumer.close()


@pytest.mark.kafka
def test_every_message_arrives_once_at_the_offset_that_the_truth_knows(broker: Any, topic: str) -> None:
    traffic = Traffic(
        START, rows=3_000, served_topic=topic, engagements_topic=f"{topic}.e", idle_partition=1,
        poison={"tombstone": 0.001, "bad_utf8": 0.001, "deep_nesting": 0.001, "too_large": 0.0001},
    )  # fmt: skip
    seen: list[int] = []
    assert set(create_topics(broker.bootstrap, traffic.topics)) == set(traffic.topics)
    sent = list(messages(traffic))
    done = produce(broker.bootstrap, sent, on_progress=seen.append)
    assert done.total == len(sent) == seen[-1]
    assert done.counts == truth(traffic).counts.produced
    assert set(done.first_offsets.values()) == {0}
    for name, many in traffic.topics.items():
        for partition in range(many):
            read = [(r.key(), r.value(), r.timestamp(), r.offset()) for r in _read(broker.bootstrap, name, partition)]
            mine = [m for m in sent if (m.topic, m.partition) == (name, partition)]
            assert read == [(m.key, m.value, (TIMESTAMP_CREATE_TIME, m.timestamp_ms), i) for i, m in enumerate(mine)]


@pytest.mark.kafka
def test_a_record_of_2099_is_taken_as_its_producer_stamped_it(broker: Any, topic: str) -> None:
    create_topics(broker.bootstrap, {topic: 1})
    ahead = int(datetime(2099, 1, 1, tzinfo=UTC).timestamp() * 1000)
    produce(broker.bootstrap, [Message(topic, 0, None, b"{}", ahead)])
    assert [r.timestamp()[1] for r in _read(broker.bootstrap, topic, 0)] == [ahead]


@pytest.mark.kafka
def test_a_topic_with_append_time_is_stamped_by_the_broker(broker: Any, topic: str) -> None:
    create_topics(broker.bootstrap, {topic: 1}, append_time=True)
    produce(broker.bootstrap, [Message(topic, 0, b"k", b"{}", 1_000)])
    (record,) = _read(broker.bootstrap, topic, 0)
    kind, at = record.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert at > START.timestamp() * 1000


@pytest.mark.kafka
def test_topics_that_are_there_are_used_if_they_fit_and_refused_if_not(broker: Any, topic: str) -> None:
    assert create_topics(broker.bootstrap, {topic: 2}) == (topic,)
    assert create_topics(broker.bootstrap, {topic: 2}) == ()
    with pytest.raises(TopicUnfit, match="2 partitions"):
        create_topics(broker.bootstrap, {topic: 3})
    with pytest.raises(TopicUnfit, match="LogAppendTime"):
        create_topics(broker.bootstrap, {topic: 2}, append_time=True)


@pytest.mark.kafka
def test_a_message_that_the_broker_refuses_is_an_error_that_names_it(broker: Any, topic: str) -> None:
    create_topics(broker.bootstrap, {topic: 1}, config={"max.message.bytes": "1000"})
    big = Message(topic, 0, None, b"x" * 5_000, 1_000)
    with pytest.raises(DeliveryFailed, match=topic):
        produce(broker.bootstrap, [big], config={"compression.type": "none"})
    with pytest.raises(DeliveryFailed, match="partition 7"):
        produce(broker.bootstrap, [Message(topic, 7, None, b"x", 1_000)], timeout_s=10)


def test_without_a_broker_it_fails_and_names_the_address() -> None:
    with pytest.raises(DeliveryFailed, match="A retry"):
        produce("127.0.0.1:1", [Message("t", 0, None, b"x", 0)], timeout_s=1)
    with pytest.raises(ProducerUnreachable, match=r"127\.0\.0\.1:1 "):
        create_topics("127.0.0.1:1", {"t": 1}, timeout_s=1)


def test_live_messages_wait_for_their_own_moment() -> None:
    pace = Live(clock=lambda: START)
    message = Message("t", 0, None, None, 0, START + timedelta(seconds=3))
    assert pace.wait_s(message) == 3
    assert pace.wait_s(message._replace(produced_at=START - timedelta(seconds=1))) == -1
