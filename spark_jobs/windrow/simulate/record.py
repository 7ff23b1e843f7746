"""A simulated Kafka record, with what must become of it.

A generator makes `SimulatedRecord`s: facts (key, event time, fate) and a body. A `Message` is what the broker gets. The
expected result is computed from the facts, and never by decoding messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

from windrow.semantics.intervals import at_micros
from windrow.text import instant_text

SideName = Literal["left", "right"]
Fate = Literal["landed", "filtered", "quarantined", "before_start", "lost"]
"""What must become of a record: `filtered` lands and moves clocks but is not a label; `lost` is never sent."""


class SimulatedRecord(NamedTuple):
    """One record. Times are microseconds since 1970; `key` is None if a part of it is null."""

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
    """Whether it is a producer's retry: the same event as an earlier record with the same id."""
    body: dict[str, Any] | bytes | None
    stamp_us: int
    """CreateTime, set by its producer."""


class Message(NamedTuple):
    """A message with an explicit partition, and the simulated time at which it is sent."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    produced_at: datetime | None = None


def text(us: int) -> str:
    """An instant (microseconds since 1970) as JSON records have it: `2026-11-01T00:00:00.000000Z`."""
    return instant_text(at_micros(us))


def encode(body: dict[str, Any] | bytes | None) -> bytes | None:
    """The value of a message: JSON of a mapping; bytes and None unchanged."""
    return json.dumps(body, separators=(",", ":")).encode() if isinstance(body, dict) else body


def messages(
    records: Iterable[SimulatedRecord], encoded: Callable[[SimulatedRecord], bytes | None] | None = None
) -> Iterator[Message]:
    """The messages of records, in the same order, without `lost` ones.

    Args:
        encoded: makes the value of a record; default: JSON.
    """
    for record in records:
        if record.fate != "lost":
            yield Message(
                record.topic,
                record.partition,
                None if record.key is None else "/".join(map(str, record.key)).encode(),
                encoded(record) if encoded else encode(record.body),
                record.stamp_us // 1000,
                at_micros(record.produced_us),
            )
