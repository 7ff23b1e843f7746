"""The broker's log: the headers of the record batches around undelivered offsets.

No consumer delivers a transaction marker, and none says why it left an offset out. The log does: its batches are
fetched as a consumer fetches them, and only their headers are read. Records are neither decoded nor kept.

    fetch at 10      ┌ 10…11 data, aborted ┐┌ 12 marker ┐┌ 13…15 data ┐   64 KiB to 1 MiB, or one batch
                     └ header ┘             └ header    ┘└ header ┘
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Node, TopicCollection
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from windrow.io.landing import broker
from windrow.kafka.client import Kafka
from windrow.kafka.refusals import of_java
from windrow.outcomes import NotReady
from windrow.semantics.landing.batch import Offsets, Topic
from windrow.semantics.landing.undelivered import LogBatch, joined

FETCH_BYTES = 64 * 1024
_WHERE_DENSE = 16
"""So many times larger is a fetch where the one before it covered several ranges."""
_WAIT_MS, _TIMEOUT_MS = 5_000, 30_000
_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Record batch of format 2 (https://kafka.apache.org/documentation/#recordbatch): base offset, length, leader epoch,
format, checksum, attributes, last offset delta, two timestamps, producer id, its epoch, sequence, number of records."""
_LENGTH_AT = 12
"""Bytes of a batch that its length does not count."""
_FORMAT = 2
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class LogUnreadable(NotReady):
    """The broker does not show its log. A retry goes on from the committed batch; the clock did not move."""


class Chunk(NamedTuple):
    """What one fetch brings."""

    data: bytes
    aborted: tuple[tuple[int, int], ...]
    """producer id and first offset of aborted transactions that overlap the data, by first offset"""


class Log:
    """The log of a topic. It connects to each broker once, and to none before it is asked; the caller closes it.

    Args:
        kafka: the brokers.
        topic: the topic as the broker knows it now.
    """

    def __init__(self, spark: SparkSession, kafka: Kafka | str, topic: Topic) -> None:
        self._spark, self._kafka, self._topic = spark, kafka, topic
        self._begins = {partition.number: partition.begin for partition in topic.partitions}
        self._connected: dict[int, _Leader] = {}

    @cached_property
    def _nodes(self) -> dict[int, Node]:
        return _leaders(self._kafka, self._topic.name)

    def batches(self, partition: int, undelivered: Sequence[Offsets]) -> list[LogBatch]:
        """Return the log's whole batches around undelivered offsets, in order; adjacent ones are joined.

        Offsets that the broker has deleted meanwhile are in no batch.

        Args:
            undelivered: ranges in order.

        Raises:
            Refused: the broker refuses this client.
            LogUnreadable: the partition has no leader, or it does not answer.
        """
        topic, kafka = self._topic.name, self._kafka
        try:
            node = self._nodes[partition]
            if node.id not in self._connected:
                self._connected[node.id] = _Leader(self._spark, kafka, node)
            headers = _around(self._connected[node.id], topic, partition, undelivered, self._begins[partition])
            return list(joined(headers))
        except (KafkaException, Py4JJavaError) as error:
            reason = error.java_exception.toString() if isinstance(error, Py4JJavaError) else error.args[0].str()
            if refused := of_java(kafka, reason):
                raise refused from error
            raise LogUnreadable(
                f"the log of topic {topic} cannot be read at {kafka}: {reason}. Undelivered offsets cannot be "
                "explained without it. The batch is committed and no clock moved; run again once the broker is up."
            ) from error

    def close(self) -> None:
        """Close the connections."""
        for leader in self._connected.values():
            leader.close()


def _around(
    leader: _Leader, topic: str, partition: int, undelivered: Sequence[Offsets], begin: int
) -> Iterator[LogBatch]:
    """Yield the batches around undelivered offsets; one fetch often covers several ranges."""
    at, covered = begin, 0
    for start, until in undelivered:
        at = max(at, start)
        covered += 1
        while at < until:
            size = FETCH_BYTES * (_WHERE_DENSE if covered > 2 else 1)
            covered = 0
            headers = list(batches_in(leader.fetch(topic, partition, at, size)))
            if not headers:
                raise LogUnreadable(
                    f"topic {topic} partition {partition}: the broker does not show what is at offset {at}. The batch "
                    "is committed and no clock moved; run again."
                )
            yield from headers
            at = headers[-1].until


def batches_in(chunk: Chunk) -> Iterator[LogBatch]:
    """Yield the whole batches of a chunk. A format older than 2 has no transactions, so it explains nothing.

    Args:
        chunk: bytes as a fetch returned them; the last batch may be cut.

    Yields:
        Batches in the order of their offsets; markers and aborted ones are marked as left out.
    """
    announced, aborted, at = deque(chunk.aborted), set[int](), 0
    while at + _HEADER.size <= len(chunk.data):
        base, length, _, magic, _, attributes, delta, _, _, producer, _, _, records = _HEADER.unpack_from(
            chunk.data, at
        )
        at += _LENGTH_AT + length
        if at > len(chunk.data):  # a fetch ends anywhere
            return
        if magic < _FORMAT:
            yield LogBatch(base, base + 1, 0, is_left_out=False)
            continue
        while announced and announced[0][1] <= base + delta:
            aborted.add(announced.popleft()[0])
        is_marker = bool(attributes & _CONTROL)
        is_aborted = bool(attributes & _TRANSACTIONAL) and producer in aborted
        yield LogBatch(base, base + delta + 1, records, is_marker or is_aborted)
        if is_marker:  # it ends the transaction of its producer
            aborted.discard(producer)


def _leaders(kafka: Kafka | str, topic: str) -> dict[int, Node]:
    """Return the broker that leads each partition."""
    with broker.admin(kafka) as asked:
        described = asked.client.describe_topics(TopicCollection([topic]), request_timeout=broker.TIMEOUT)
        found = asked.answer(described[topic], broker.TIMEOUT, topic)
    leaders = {partition.id: partition.leader for partition in found.partitions}
    if without := [number for number, leader in leaders.items() if leader is None]:
        raise LogUnreadable(f"topic {topic}: no broker leads partition {without[0]}. Run again once one does.")
    return leaders


class _Leader:
    """A connection to the broker that leads a partition, by the Kafka client that Spark's source uses."""

    def __init__(self, spark: SparkSession, kafka: Kafka | str, node: Node) -> None:
        assert spark._jvm is not None
        self._java = spark._jvm.java.util
        self._kafka: Any = spark._jvm.org.apache.kafka
        self._time = self._kafka.common.utils.Time.SYSTEM
        self._node = self._kafka.common.Node(node.id, node.host, node.port)
        bytes_as_they_are = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        settings = self._java.HashMap()
        for name, value in Kafka.of(kafka).java().items():
            settings.put(name, value)
        settings.put("key.deserializer", bytes_as_they_are)
        settings.put("value.deserializer", bytes_as_they_are)
        self._metrics = self._kafka.common.metrics.Metrics()
        self._client = self._kafka.clients.ClientUtils.createNetworkClient(
            self._kafka.clients.consumer.ConsumerConfig(settings),
            "windrow",
            self._metrics,
            "windrow",
            self._kafka.common.utils.LogContext(),
            self._kafka.clients.ApiVersions(),
            self._time,
            1,
            _TIMEOUT_MS,
            self._kafka.clients.ManualMetadataUpdater(),
            self._kafka.clients.DefaultHostResolver(),
        )

    def fetch(self, topic: str, partition: int, offset: int, size: int) -> Chunk:
        """Return so many bytes of the log from an offset on, but the first batch as a whole."""
        requests, clients = self._kafka.common.requests, self._kafka.clients
        wanted = self._java.LinkedHashMap()
        wanted.put(
            self._kafka.common.TopicPartition(topic, partition),
            getattr(requests, "FetchRequest$PartitionData")(
                self._kafka.common.Uuid.ZERO_UUID, offset, -1, size, self._java.Optional.empty()
            ),
        )
        # version 12 is the last one that names topics by name; every broker since 2.0 reads it or an older one
        request = getattr(requests, "FetchRequest$Builder").forConsumer(12, _WAIT_MS, 1, wanted)
        request.isolationLevel(self._kafka.common.IsolationLevel.READ_COMMITTED).setMaxBytes(size)
        clients.NetworkClientUtils.awaitReady(self._client, self._node, self._time, _TIMEOUT_MS)
        sent = self._client.newClientRequest(self._node.idString(), request, self._time.milliseconds(), True)
        answer = clients.NetworkClientUtils.sendAndReceive(self._client, sent, self._time).responseBody()
        (topic_answer,) = answer.data().responses()
        (found,) = topic_answer.partitions()
        self._kafka.common.protocol.Errors.forCode(found.errorCode()).maybeThrow()
        aborted = sorted((one.firstOffset(), one.producerId()) for one in found.abortedTransactions() or ())
        data = bytes(self._kafka.common.utils.Utils.toArray(found.records().buffer())) if found.records() else b""
        return Chunk(data, tuple((producer, first) for first, producer in aborted))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
        self._metrics.close()
