"""A simulated Kafka record, with what must become of it.

A `SimulatedRecord` is what a generator makes: the facts (key, event time, fate) beside the body. A `Message` is what
the broker gets. The truth is computed from records, so it never reads back what was encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

from windrow.semantics.intervals import at_micros

SideName = Literal["left", "right"]
Fate = Literal["landed", "filtered", "quarantined", "before_start", "lost"]
"""What must become of a record: `filtered` lands and moves clocks but is no label; `lost` never leaves."""


class SimulatedRecord(NamedTuple):
    """One record of a side. Times are microseconds since 1970; `key` is None where a part of it is null."""

    side: SideName
    topic: str
    partition: int
    id: str
    key: tuple[object, ...] | None
    event_us: int | None
    produced_us: int
    fate: Fate
    kind: str
    again: bool
    """A producer's retry: the same event as an earlier record of the same id."""
    body: dict[str, Any] | bytes | None
    stamp_us: int
    """The CreateTime its producer gives it."""


class Message(NamedTuple):
    """What a producer sends: an explicit partition, and the moment at which it is sent in simulated time."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    produced_at: datetime | None = None


def text(us: int) -> str:
    """An instant as it stands in the JSON records: `2026-11-01T00:00:00.000000Z`."""
    return at_micros(us).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode(body: dict[str, Any] | bytes | None) -> bytes | None:
    """The bytes of a record; a body that is bytes or None stays as it is."""
    return json.dumps(body, separators=(",", ":")).encode() if isinstance(body, dict) else body


def messages(records: Iterable[SimulatedRecord]) -> Iterator[Message]:
    """The messages of records, in the same order; `lost` records make none."""
    for record in records:
        if record.fate != "lost":
            yield Message(
                record.topic,
                record.partition,
                None if record.key is None else "/".join(map(str, record.key)).encode(),
                encode(record.body),
                record.stamp_us // 1000,
                at_micros(record.produced_us),
            )
