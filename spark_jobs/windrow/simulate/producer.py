"""Send messages to a real broker: each to its partition, in order, exactly once, or raise an error.

Topics made here have no retention and accept any timestamp: simulated time is often weeks in the past, where retention
would delete records before they are read, or ahead of the broker's clock, where it would refuse them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType, TopicMetadata

from windrow.kafka.asking import Admin, Refusals
from windrow.kafka.client import Kafka
from windrow.kafka.refusals import NotLetIn, of_error
from windrow.simulate.record import Message
from windrow.text import counted

LARGEST = 12 * 1024 * 1024
"""Bytes of the largest record that topics made here, and this producer, accept."""
_QUIET: dict[str, Any] = {"log_level": 2}
"""Failures are raised as errors; librdkafka's log lines about its own retries are suppressed."""


class TopicUnfit(RuntimeError):
    """A topic exists with other settings than requested."""


class ProducerUnreachable(ConnectionError):
    """No broker answers at the bootstrap address. A retry may help."""


class DeliveryFailed(RuntimeError):
    """The broker did not accept a message. Messages delivered before it stay delivered."""


class Live:
    """Each message at its `produced_at`, in real time: an hour of traffic takes an hour."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """`clock` returns the current time."""
        self.clock = clock

    def wait_s(self, message: Message) -> float:
        """Seconds until the message's `produced_at`; 0 or less: it is due."""
        if message.produced_at is None:
            return 0.0
        return (message.produced_at - self.clock()).total_seconds()


@dataclass(frozen=True)
class Produced:
    """What the broker has acknowledged."""

    counts: dict[tuple[str, int], int]
    """Messages by topic and partition."""
    first_offsets: dict[tuple[str, int], int]
    """First offset of this producer by topic and partition; offsets in a `Truth` count from here."""
    size: int
    """Bytes of keys and values."""

    @property
    def total(self) -> int:
        """Number of all messages."""
        return sum(self.counts.values())


def create_topics(
    kafka: Kafka | str,
    topics: Mapping[str, int],
    *,
    append_time: bool = False,
    config: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> tuple[str, ...]:
    """Create the topics that are missing, each with the broker's own replication, and return their names.

    Args:
        kafka: the brokers.
        topics: number of partitions by topic.
        append_time: whether the broker stamps records with its own clock (LogAppendTime).
        config: further topic settings.

    Raises:
        TopicUnfit: an existing topic has another number of partitions or another kind of timestamps.
        ProducerUnreachable: no answer.
        Refused: the broker refuses this client, or to create a topic.
    """
    stamps = "LogAppendTime" if append_time else "CreateTime"
    settings = {
        "message.timestamp.type": stamps,
        "max.message.bytes": str(LARGEST),
        "retention.ms": "-1",
        "message.timestamp.after.max.ms": str(2**63 - 1),
        **(config or {}),
    }
    with Admin(kafka) as admin:
        there = _topics(admin, timeout_s)
        missing = [name for name in topics if name not in there]
        for name in (name for name in topics if name in there):
            _must_fit(admin, name, len(there[name].partitions), topics[name], stamps, timeout_s)
        made = []
        wanted = [NewTopic(name, topics[name], config=settings) for name in missing]
        for name, future in (admin.client.create_topics(wanted, operation_timeout=timeout_s) if wanted else {}).items():
            try:
                admin.answer(future, timeout_s, name)
                made.append(name)
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        _wait_until_known(admin, topics, timeout_s)
        return tuple(made)


def _topics(admin: Admin, timeout_s: float) -> Mapping[str, TopicMetadata]:
    """Return the topics that the brokers have, by name."""
    try:
        return admin.metadata(timeout_s).topics
    except KafkaException as problem:
        raise ProducerUnreachable(
            f"No Kafka broker answers at {admin.kafka} ({problem.args[0].str()}). Is it up "
            f"(`windrow status`), and is WINDROW_KAFKA its address? Then try again."
        ) from problem


def produce(
    kafka: Kafka | str,
    messages: Iterable[Message],
    *,
    pace: Live | None = None,
    on_progress: Callable[[int], None] | None = None,
    timeout_s: float = 60.0,
    config: Mapping[str, Any] | None = None,
) -> Produced:
    """Produce every message, and return when the broker has acknowledged all of them.

    Args:
        kafka: the brokers.
        pace: holds each message back until it is due; default: all are due at once.
        on_progress: gets the number of acknowledged messages, a few times per second.
        config: further settings of the producer.

    Raises:
        DeliveryFailed: the broker refused a message, or did not acknowledge it within `timeout_s`.
        Refused: the broker refuses this client, or to let it write to a topic.
    """
    delivery = _Delivery(Kafka.of(kafka))
    producer = Producer(
        {
            **Kafka.of(kafka).librdkafka(),
            **_QUIET,
            "error_cb": delivery.refusals,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 20,
            "compression.type": "lz4",
            "message.max.bytes": LARGEST,
            "delivery.timeout.ms": int(timeout_s * 1000),
            "queue.buffering.max.kbytes": 65_536,
            **(config or {}),
        }
    )
    try:
        left = _deliver(producer, messages, delivery, pace, on_progress, timeout_s)
    except:  # see `_fatal`: what is raised may be no exception by its type
        if refused := _fatal(delivery, sys.exc_info()[1]):
            raise refused from None
        raise
    if delivery.refused:
        raise delivery.refused
    if delivery.failure:
        raise DeliveryFailed(delivery.failure)
    if left:
        raise DeliveryFailed(f"{left} messages were not acknowledged by {kafka} within {timeout_s:g} s.")
    if on_progress is not None:
        on_progress(delivery.total)
    return Produced(dict(delivery.counts), delivery.first_offsets, delivery.size)


def _fatal(delivery: _Delivery, ended: Any) -> NotLetIn | None:
    """Return the refusal behind an error that ended a call of the client.

    What is fatal to a producer, the client raises in whichever call comes next: as its exception, as the bare error,
    which is no `Exception`, or as the cause of a SystemError.
    """
    while ended is not None:
        error = ended.args[0] if isinstance(ended, KafkaException) else ended
        if isinstance(error, KafkaError):
            return of_error(delivery.kafka, error)
        ended = ended.__cause__
    return None


def _deliver(
    producer: Producer,
    messages: Iterable[Message],
    delivery: _Delivery,
    pace: Live | None,
    on_progress: Callable[[int], None] | None,
    timeout_s: float,
) -> int:
    """Send the messages until one fails, and return how many are not acknowledged in time."""
    reported = time.monotonic()
    try:
        for message in messages:
            if pace is not None and not _wait(producer, pace, message, delivery):
                break
            _send(producer, message, delivery, timeout_s)
            if delivery.has_failed:
                break
            if on_progress is not None and time.monotonic() - reported > 0.2:
                reported = time.monotonic()
                on_progress(delivery.total)
    finally:
        left = _flush(producer, delivery, timeout_s + 5)
    return left


class _Delivery:
    """The delivery reports of the broker."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.refusals = Refusals(kafka)
        self._of_message: NotLetIn | None = None
        self.counts: Counter[tuple[str, int]] = Counter()
        self.first_offsets: dict[tuple[str, int], int] = {}
        self.size = 0
        self.total = 0
        self.failure: str | None = None

    @property
    def refused(self) -> NotLetIn | None:
        """What the broker refuses: this client, or a message."""
        return self._of_message or self.refusals.found

    @property
    def has_failed(self) -> bool:
        """Whether it is useless to go on."""
        return bool(self.failure or self.refused)

    def delivered(self, error: KafkaError | None, message: Delivered) -> None:
        """Delivery report of one message."""
        topic, partition = str(message.topic()), message.partition()
        if error is not None:
            self._of_message = self._of_message or of_error(self.kafka, error, topic)
            self.failure = self.failure or (
                f"{topic}, partition {partition}: {error.str()} ({error.name()}). "
                + ("A retry may help." if error.retriable() else "A retry will not help.")
            )
            return
        where, offset = (topic, int(partition or 0)), int(message.offset() or 0)
        self.counts[where] += 1
        self.total += 1
        self.first_offsets[where] = min(offset, self.first_offsets.get(where, offset))
        self.size += len(message.value() or b"") + len(message.key() or b"")


def _flush(producer: Producer, delivery: _Delivery, seconds: float) -> int:
    """Wait for acknowledgements, and return how many are missing; where it is useless to wait, give up the rest."""
    until = time.monotonic() + seconds
    left = len(producer)
    while left and not delivery.has_failed and time.monotonic() < until:
        left = producer.flush(min(1.0, max(0.0, until - time.monotonic())))
    if delivery.has_failed:
        producer.purge()
        left = producer.flush(5)
    return left


def _wait(producer: Producer, pace: Live, message: Message, delivery: _Delivery) -> bool:
    """Serve delivery reports until the message is due; return False after a failure."""
    while not delivery.has_failed and (left := pace.wait_s(message)) > 0:
        producer.poll(min(left, 0.5))
    return not delivery.has_failed


def _send(producer: Producer, message: Message, delivery: _Delivery, timeout_s: float) -> None:
    """Put a message into the producer's queue, waiting while it is full."""
    deadline = time.monotonic() + timeout_s
    while not delivery.has_failed:
        try:
            producer.produce(
                message.topic,
                value=message.value,
                key=message.key,
                partition=message.partition,
                timestamp=message.timestamp_ms,
                on_delivery=delivery.delivered,
            )
            producer.poll(0)
            return
        except BufferError:
            if time.monotonic() > deadline:
                raise DeliveryFailed(f"The broker accepted nothing for {timeout_s:g} s.") from None
            producer.poll(0.1)
        except KafkaException as problem:
            if of_error(delivery.kafka, problem.args[0]):
                raise
            raise DeliveryFailed(f"{message.topic}, partition {message.partition}: {problem}") from problem


def _must_fit(admin: Admin, name: str, found: int, wanted: int, stamps: str, timeout_s: float) -> None:
    if found != wanted:
        raise TopicUnfit(
            f"Topic {name} has {counted(found, 'partition')}, {wanted} were requested: use another name, or {found}."
        )
    resource = ConfigResource(ResourceType.TOPIC, name)
    config = admin.answer(admin.client.describe_configs([resource])[resource], timeout_s, name)
    current = config["message.timestamp.type"].value
    if current != stamps:
        raise TopicUnfit(f"Topic {name} has {current}, {stamps} was requested: use another name.")


def _wait_until_known(admin: Admin, topics: Mapping[str, int], timeout_s: float) -> None:
    """Wait until every partition has a leader: a producer that starts earlier would not find the partition."""
    deadline = time.monotonic() + timeout_s
    while True:
        known = admin.metadata(timeout_s).topics
        short = [
            name
            for name, many in topics.items()
            if name not in known or sum(p.leader >= 0 for p in known[name].partitions.values()) < many
        ]
        if not short:
            return
        if time.monotonic() > deadline:
            raise TopicUnfit(f"Topics without a leader after {timeout_s:g} s: {', '.join(short)}.")
        admin.client.poll(0.1)
