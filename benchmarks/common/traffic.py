"""JSON records of about 500 bytes on a real broker: the same for a seed on every machine, and made fast enough
that making them is not what is measured.

Texts of features are put together from parts that were made beforehand; no two records are the same.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import AnyStr

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from windrow.config import Pipeline, load
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.processes import free_port
from windrow.platform.servers.broker import Broker
from windrow.simulate.producer import create_topics

START = datetime(2026, 11, 1, tzinfo=UTC)
SPAN = timedelta(hours=1)
FEATURES, PART = 40, 8
_PART_BITS = 13
_SHIFTS = range(0, FEATURES // PART * _PART_BITS, _PART_BITS)
SERVED = {
    "request_id": "string",
    "user_id": "bigint",
    "item_id": "bigint",
    "served_at": "timestamp",
    "features": "array<float>",
}
CLICKS = {"event_id": "string", "user_id": "bigint", "item_id": "bigint", "engaged_at": "timestamp"}
_PIPELINE = """\
name: {name}
start: {start:%Y-%m-%dT%H:%M:%SZ}
interval: {interval}
left:
  name: served
  topic: {name}.served
  format: {form}
  columns: {{{served}}}
  key: [user_id, item_id]
  event_time: served_at
  event_id: request_id
  out_of_orderness: 1s
right:
  - name: clicks
    role: label
    topic: {name}.clicks
    columns: {{{clicks}}}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: 1s
    window: {{before: 0s, after: 10s}}
grace: 1s
idle: {{mode: wait}}
labels: {{clicked: "size(clicks) > 0"}}
"""


class Records:
    """Records by number; instants are microseconds since 1970."""

    def __init__(self, seed: int = 1) -> None:
        """`seed` decides the features."""
        numbers = random.Random(seed)
        self._parts = [",".join(f"{numbers.random():.6f}" for _ in range(PART)) for _ in range(1 << _PART_BITS)]
        self._packed = [struct.pack(f"<{PART}f", *map(float, part.split(","))) for part in self._parts]
        self._second, self._text = -1, ""

    def served(self, number: int, at: int) -> bytes:
        """What was served."""
        user, item = key(number)
        features = ",".join(self._of(number, self._parts))
        return (
            f'{{"request_id":"r{number:010d}","user_id":{user},"item_id":{item},'
            f'"served_at":"{self._instant(at)}","features":[{features}]}}'
        ).encode()

    def served_avro(self, number: int, at: int) -> bytes:
        """The same in Avro, behind the frame of schema 1."""
        user, item = key(number)
        request = f"r{number:010d}".encode()
        packed = b"".join(self._of(number, self._packed))
        numbers = varint(zigzag(user)) + varint(zigzag(item)) + varint(zigzag(at)) + varint(zigzag(FEATURES))
        return b"\0\0\0\0\1" + varint(zigzag(len(request))) + request + numbers + packed + b"\0"

    def served_protobuf(self, number: int, at: int) -> bytes:
        """The same in Protobuf, behind the frame of schema 1."""
        user, item = key(number)
        request = f"r{number:010d}".encode()
        second, micros = divmod(at, 1_000_000)
        stamp = b"\x08" + varint(second) + b"\x10" + varint(micros * 1_000)
        packed = b"".join(self._of(number, self._packed))
        numbers = b"\x10" + varint(user) + b"\x18" + varint(item) + b"\x22" + varint(len(stamp)) + stamp
        return b"\0\0\0\0\1\0\x0a" + varint(len(request)) + request + numbers + b"\x2a" + varint(len(packed)) + packed

    def _of(self, number: int, parts: Sequence[AnyStr]) -> list[AnyStr]:
        """The parts that a record is put together from."""
        mixed, last = number * 0x9E3779B97F4A7C15, (1 << _PART_BITS) - 1
        return [parts[mixed >> shift & last] for shift in _SHIFTS]

    def click(self, number: int, at: int) -> bytes:
        """A click on what was served under that number."""
        user, item = key(number)
        return (
            f'{{"event_id":"c{number:010d}","user_id":{user},"item_id":{item},"engaged_at":"{self._instant(at)}"}}'
        ).encode()

    def _instant(self, at: int) -> str:
        second, micros = divmod(at, 1_000_000)
        if second != self._second:
            self._second, self._text = second, f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        return f"{self._text}.{micros:06d}Z"


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the last of which has no mark."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def zigzag(number: int) -> int:
    """A signed number of 64 bits as one without a sign."""
    return (number << 1) ^ (number >> 63)


def key(number: int) -> tuple[int, int]:
    """User and item: a key comes again now and then."""
    return number * 7_919 % 200_003, number * 104_729 % 9_973


@contextmanager
def broker(home: Path) -> Iterator[Places]:
    """A real broker whose data stay in `home`, on a port that is free now; the folder's places."""
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    known = Places.from_env({**os.environ, "WINDROW_HOME": str(home)})
    places = replace(known, kafka=f"127.0.0.1:{free_port()}", spark_master="local[*]")
    jars.ensure(places)
    jars.warm_up(places)
    running = Broker(places)
    running.stop()  # one that a killed run left
    running.start()
    try:
        yield places
    finally:
        running.stop()


def pipeline(places: Places, name: str, start: datetime = START, form: str = "json", interval: str = "1m") -> Pipeline:
    """The pipeline file of these records, written and read; what was served is in a format."""
    columns = {
        side: ", ".join(f'{name}: "{kind}"' for name, kind in kinds.items())
        for side, kinds in (("served", SERVED), ("clicks", CLICKS))
    }
    file = places.home / "pipelines" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_PIPELINE.format(name=name, start=start, form=form, interval=interval, **columns))
    return load(file, places.expectations)


def fill(bootstrap: str, topic: str, rows: int, partitions: int, form: str = "json") -> None:
    """`rows` served records, evenly over the partitions and over an hour; a topic that has them is left alone."""
    create_topics(bootstrap, {topic: partitions})
    found = sum(ends(bootstrap, topic, partitions).values())
    if found == rows:
        return
    if found:
        raise SystemExit(f"topic {topic} has {found} records of {rows}: an earlier run was killed; empty the folder")
    print(f"producing {rows:,} records (once) …", flush=True)
    workers = min(os.cpu_count() or 1, partitions)
    mine = (range(first, partitions, workers) for first in range(workers))
    shares = [(bootstrap, topic, rows, partitions, one, form) for one in mine]
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(_fill, shares))
    if (found := sum(ends(bootstrap, topic, partitions).values())) != rows:
        raise SystemExit(f"topic {topic} has {found} records, not {rows}")


def ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Offset after the last record, by partition. The leader of a new partition is not ready at once."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})  # its answers come only while it lives
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
    deadline = time.monotonic() + 30
    while True:
        try:
            answers = admin.list_offsets(asked, request_timeout=30)
            return {place.partition: answer.result(60).offset for place, answer in answers.items()}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def sender(bootstrap: str) -> Producer:
    """A producer for bulk; ends the process where the broker refuses a record."""

    def refused(error: object, _message: object) -> None:
        raise SystemExit(f"not delivered: {error}")

    settings = {"bootstrap.servers": bootstrap, "log_level": 2, "acks": "all", "enable.idempotence": True}
    bulk = {"compression.type": "lz4", "linger.ms": 20, "batch.size": 1_000_000}
    return Producer({**settings, **bulk, "delivery.report.only.error": True, "on_delivery": refused})


def _fill(share: tuple[str, str, int, int, range, str]) -> None:
    bootstrap, topic, rows, partitions, mine, form = share
    records, producer = Records(), sender(bootstrap)
    make = {"json": records.served, "avro": records.served_avro, "protobuf": records.served_protobuf}[form]
    begin, step = int(START.timestamp() * 1_000_000), SPAN / timedelta(microseconds=1) / rows
    for first in range(0, rows, partitions):
        for number in range(first + mine.start, min(first + partitions, rows), mine.step):
            at = begin + int(number * step)
            send(producer, topic, number - first, make(number, at), at)
    producer.flush()


def send(producer: Producer, topic: str, partition: int, value: bytes, at: int) -> None:
    """Into the producer's queue, waiting for room there; the record is stamped with its event time."""
    while True:
        try:
            producer.produce(topic, value, partition=partition, timestamp=at // 1000)
            break
        except BufferError:
            producer.poll(0.05)
