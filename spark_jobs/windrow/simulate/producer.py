"""Brings messages to a real broker: each to its partition, in order, once, or an error says which failed.

Topics keep what they are given: simulated time often lies weeks back, where a broker's retention would
delete it under the reader, or ahead of its clock, where it would be refused.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from windrow.simulate.record import Message

LARGEST = 12 * 1024 * 1024
"""Bytes of the largest record that topics made here, and this producer, accept."""
_QUIET: dict[str, Any] = {"log_level": 2}
"""What goes wrong comes back as an error; what is tried again (a coordinator that still loads) is no news."""


class TopicUnfit(RuntimeError):
    """A topic is there, and is not what is asked for."""


class BrokerUnreachable(ConnectionError):
    """No broker answers at the bootstrap address. Trying again may help."""


class DeliveryFailed(RuntimeError):
    """The broker did not take a message. What was delivered before it stays delivered."""


class Pace(Protocol):
    """When a message is due."""

    def wait_s(self, index: int, message: Message) -> float:
        """Seconds until the message may be sent; 0 or less: now."""


class Steady:
    """So many messages a second, counted from the first."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`rate` in messages a second."""
        if rate <= 0:
            raise ValueError(f"a rate is above 0 messages a second, not {rate}")
        self.rate, self.clock = rate, clock
        self.began: float | None = None

    def wait_s(self, index: int, message: Message) -> float:
        """Seconds until the index-th message is due."""
        now = self.clock()
        if self.began is None:
            self.began = now
        return self.began + index / self.rate - now


class Live:
    """Each message at the moment it is produced in simulated time: `start` now, and an hour takes an hour."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """`clock` gives the time that messages wait for."""
        self.clock = clock

    def wait_s(self, index: int, message: Message) -> float:
        """Seconds until the message's own moment."""
        if message.produced_at is None:
            return 0.0
        return (message.produced_at - self.clock()).total_seconds()


@dataclass(frozen=True)
class Produced:
    """What the broker acknowledged."""

    counts: dict[tuple[str, int], int]
    """Messages by topic and partition."""
    first_offsets: dict[tuple[str, int], int]
    """Where this producer's messages begin; offsets of the truth count from here if nobody else writes."""
    size: int
    """Bytes of keys and values."""

    @property
    def total(self) -> int:
        """All messages."""
        return sum(self.counts.values())


def create_topics(
    bootstrap: str,
    topics: Mapping[str, int],
    *,
    append_time: bool = False,
    config: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> tuple[str, ...]:
    """Make the topics that are missing, and return their names; those that are there must fit.

    `append_time` stamps records with the broker's clock (LogAppendTime). Raises TopicUnfit where a topic
    has another number of partitions or the other kind of timestamps, BrokerUnreachable where nobody
    answers.
    """
    stamps = "LogAppendTime" if append_time else "CreateTime"
    settings = {
        "message.timestamp.type": stamps,
        "max.message.bytes": str(LARGEST),
        "retention.ms": "-1",
        "message.timestamp.after.max.ms": str(2**63 - 1),
        **(config or {}),
    }
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    try:
        there = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as problem:
        raise BrokerUnreachable(
            f"No Kafka broker answers at {bootstrap} ({problem.args[0].str()}). Is it up "
            f"(`windrow status`), and is WINDROW_KAFKA its address? Then try again."
        ) from problem
    missing = [name for name in topics if name not in there]
    for name in (name for name in topics if name in there):
        _must_fit(admin, name, len(there[name].partitions), topics[name], stamps, timeout_s)
    made = []
    wanted = [NewTopic(name, topics[name], 1, config=settings) for name in missing]
    for name, future in (admin.create_topics(wanted, operation_timeout=timeout_s) if wanted else {}).items():
        try:
            future.result(timeout=timeout_s)
            made.append(name)
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    _wait_until_known(admin, topics, timeout_s)
    return tuple(made)


def produce(
    bootstrap: str,
    messages: Iterable[Message],
    *,
    pace: Pace | None = None,
    on_progress: Callable[[int], None] | None = None,
    timeout_s: float = 60.0,
    config: Mapping[str, Any] | None = None,
) -> Produced:
    """Produce every message and return when the broker has acknowledged them all.

    `on_progress` gets the number acknowledged so far, a few times a second. Raises DeliveryFailed at the
    first message that the broker refuses, or does not acknowledge within `timeout_s`.
    """
    ledger = _Ledger()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **_QUIET,
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
    told = time.monotonic()
    try:
        for index, message in enumerate(messages):
            if pace is not None and not _wait(producer, pace, index, message, ledger):
                break
            _send(producer, message, ledger, timeout_s)
            if ledger.failure:
                break
            if on_progress is not None and time.monotonic() - told > 0.2:
                told = time.monotonic()
                on_progress(ledger.total)
    finally:
        if ledger.failure:
            producer.purge()
        left = producer.flush(timeout_s + 5)
    if ledger.failure:
        raise DeliveryFailed(ledger.failure)
    if left:
        raise DeliveryFailed(f"{left} messages were not acknowledged by {bootstrap} within {timeout_s:g} s.")
    if on_progress is not None:
        on_progress(ledger.total)
    return Produced(dict(ledger.counts), ledger.first_offsets, ledger.size)


class _Ledger:
    """What came back from the broker."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self.first_offsets: dict[tuple[str, int], int] = {}
        self.size = 0
        self.total = 0
        self.failure: str | None = None

    def delivered(self, error: KafkaError | None, message: Delivered) -> None:
        """Delivery report of one message."""
        topic, partition = str(message.topic()), message.partition()
        if error is not None:
            self.failure = self.failure or (
                f"{topic}, partition {partition}: {error.str()} ({error.name()}). "
                + ("Trying again may help." if error.retriable() else "Trying again will not help.")
            )
            return
        where, offset = (topic, int(partition or 0)), int(message.offset() or 0)
        self.counts[where] += 1
        self.total += 1
        self.first_offsets[where] = min(offset, self.first_offsets.get(where, offset))
        self.size += len(message.value() or b"") + len(message.key() or b"")


def _wait(producer: Producer, pace: Pace, index: int, message: Message, ledger: _Ledger) -> bool:
    """Serve delivery reports until the message is due; False where one of them is a failure."""
    while not ledger.failure and (left := pace.wait_s(index, message)) > 0:
        producer.poll(min(left, 0.5))
    return not ledger.failure


def _send(producer: Producer, message: Message, ledger: _Ledger, timeout_s: float) -> None:
    """Put a message into the producer's queue, waiting for room there."""
    deadline = time.monotonic() + timeout_s
    while not ledger.failure:
        try:
            producer.produce(
                message.topic,
                value=message.value,
                key=message.key,
                partition=message.partition,
                timestamp=message.timestamp_ms,
                on_delivery=ledger.delivered,
            )
            producer.poll(0)
            return
        except BufferError:
            if time.monotonic() > deadline:
                raise DeliveryFailed(f"The broker took nothing for {timeout_s:g} s.") from None
            producer.poll(0.1)
        except KafkaException as problem:
            raise DeliveryFailed(f"{message.topic}, partition {message.partition}: {problem}") from problem


def _must_fit(admin: AdminClient, name: str, found: int, wanted: int, stamps: str, timeout_s: float) -> None:
    if found != wanted:
        raise TopicUnfit(f"Topic {name} has {found} partitions, {wanted} are asked for: use another name, or {found}.")
    resource = ConfigResource(ResourceType.TOPIC, name)
    config = admin.describe_configs([resource])[resource].result(timeout=timeout_s)
    is_now = config["message.timestamp.type"].value
    if is_now != stamps:
        raise TopicUnfit(f"Topic {name} has {is_now}, {stamps} is asked for: use another name.")


def _wait_until_known(admin: AdminClient, topics: Mapping[str, int], timeout_s: float) -> None:
    """Return when every partition has a leader: a producer that starts before finds no partition."""
    deadline = time.monotonic() + timeout_s
    while True:
        known = admin.list_topics(timeout=timeout_s).topics
        short = [
            name
            for name, many in topics.items()
            if name not in known or sum(p.leader >= 0 for p in known[name].partitions.values()) < many
        ]
        if not short:
            return
        if time.monotonic() > deadline:
            raise TopicUnfit(f"Topics without a leader after {timeout_s:g} s: {', '.join(short)}.")
        admin.poll(0.1)
