"""Small random histories of two topics, and the same records as the reference join takes them.

The same seed always gives the same records: the Spark version must agree with the oracle on every one.

    history(seed) ──▶ KafkaRecord, in arrival order ──▶ produced to Kafka, landed, joined by Spark ──┐
                                  └──▶ oracle_records() ──▶ reference_join(…, oracle_spec()) ────────┴▶ equal

Every event keeps its promise: it is at most `DISORDER` older than the newest before it in its partition.
Many lie exactly on a window's end, or a microsecond off it. Among them: retries, the same event id with
another payload or another time, null keys, null event ids, records of other actions that lack columns, left
rows before `START`, and poison of every kind, one defect per record. In some histories the labels fall silent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from support.slow_values import Unreadable, parsed, value_of
from windrow.config.column_types import parse_type
from windrow.semantics.intervals import utc
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import event_clocks

SERVED, ENGAGEMENTS = "t.served", "t.engagements"
PARTITIONS = {SERVED: 2, ENGAGEMENTS: 3}
START = datetime(2026, 11, 1, tzinfo=UTC)
INTERVAL = timedelta(minutes=5)
SPAN = timedelta(minutes=25)
"""Left rows are served in `[START, START + SPAN)`, and a few before."""
BEFORE, AFTER = timedelta(seconds=30), timedelta(minutes=6)
GRACE, MAX_SKEW = timedelta(minutes=1), timedelta(minutes=10)
DISORDER = {SERVED: timedelta(seconds=20), ENGAGEMENTS: timedelta(minutes=1)}
LANDED_AT = START + timedelta(days=1)
"""Any landing time from here to 2098 gives the same rows: events that are ahead are of the year 2099."""

KEY = ("user_id", "item_id")
COLUMNS: Mapping[str, Mapping[str, str]] = {
    SERVED: {
        "request_id": "string",
        "user_id": "bigint",
        "item_id": "bigint",
        "served_at": "timestamp",
        "score": "double",
        "features": "array<float>",
    },
    ENGAGEMENTS: {
        "event_id": "string",
        "user_id": "bigint",
        "item_id": "bigint",
        "action": "string",
        "engaged_at": "timestamp",
    },
}
EVENT_TIME = {SERVED: "served_at", ENGAGEMENTS: "engaged_at"}
PRICED: Mapping[str, str] = {**COLUMNS[ENGAGEMENTS], "price": "double"}
"""Columns of a stream that also reads the price of an engagement, which is not always a number."""

PIPELINE = """\
name: generated
start: 2026-11-01T00:00:00Z
interval: 5m
left:
  name: served
  topic: t.served
  format: json
  columns: {request_id: string, user_id: bigint, item_id: bigint, served_at: timestamp, score: double,
            features: "array<float>"}
  key: [user_id, item_id]
  event_time: served_at
  event_id: request_id
  out_of_orderness: 20s
right:
  - name: clicks
    role: label
    topic: t.engagements
    where: "action = 'click'"
    columns: {event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: 1m
    window: {before: 30s, after: 6m}
grace: 1m
idle: {mode: caught_up, after: 5m}
max_skew: 10m
labels:
  clicked: "size(clicks) > 0"
expectations: training_rows
"""
"""The pipeline file of these topics, with the same rules as `oracle_spec`."""

SECOND, MICROSECOND, ZERO = timedelta(seconds=1), timedelta(microseconds=1), timedelta(0)


@dataclass(frozen=True)
class KafkaRecord:
    """What a producer sends, with the offset that a topic that began empty gives it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    timestamp: datetime


@dataclass(frozen=True)
class _Sent:
    """One send before it has an offset: it arrives at its partition at `arrives_at`."""

    topic: str
    event_at: datetime
    arrives_at: datetime
    value: bytes | None
    partition: int


@dataclass(frozen=True)
class Reader:
    """What a stream needs of a record. `key`: only where a record without a key is of no use to it."""

    columns: Mapping[str, str]
    where: Callable[[Mapping[str, Any]], bool | None] | None = None
    key: tuple[str, ...] = ()


def is_click(values: Mapping[str, Any]) -> bool | None:
    """`action = 'click'`, with SQL's third value."""
    action = values.get("action")
    return None if action is None else action == "click"


READERS: Mapping[str, tuple[Reader, ...]] = {
    SERVED: (Reader(COLUMNS[SERVED]),),
    ENGAGEMENTS: (Reader(COLUMNS[ENGAGEMENTS], is_click, KEY),),
}
"""The streams of `PIPELINE`, by topic."""


def history(seed: int, *, lefts: int = 60) -> list[KafkaRecord]:
    """Records of both topics in the order of their arrival; offsets of a partition count from 0."""
    rng = random.Random(seed)
    sent = _served(rng, lefts)
    sent += _engagements(rng, [s.event_at for s in sent], lefts * 2)
    sent.sort(key=lambda s: s.arrives_at)
    offsets: dict[tuple[str, int], int] = {}
    records = []
    for s in sent:
        offset = offsets.setdefault((s.topic, s.partition), 0)
        offsets[s.topic, s.partition] += 1
        milliseconds = s.arrives_at.replace(microsecond=s.arrives_at.microsecond // 1000 * 1000)
        records.append(KafkaRecord(s.topic, s.partition, offset, s.value, milliseconds))
    return records


def oracle_records(
    records: Iterable[KafkaRecord],
    *,
    batches: Sequence[int] | None = None,
    landed_at: datetime = LANDED_AT,
    max_skew: timedelta = MAX_SKEW,
    readers: Mapping[str, tuple[Reader, ...]] = READERS,
) -> list[Record]:
    """The records as landing should hold them. `batches`: of each record; without it all are of batch 1."""
    records = list(records)
    return [
        decode(record, batch, landed_at=landed_at, max_skew=max_skew, readers=readers)
        for record, batch in zip(records, batches or [1] * len(records), strict=True)
    ]


def oracle_spec(records: Iterable[Record], pins: Mapping[str, int], **changes: Any) -> JoinSpec:
    """`PIPELINE`, with the label clocks as of the pins. `changes`: fields of the click stream."""
    clicks: dict[str, Any] = {
        "name": "clicks",
        "topics": (ENGAGEMENTS,),
        "key": KEY,
        "before": BEFORE,
        "after": AFTER,
        "event_id": "event_id",
        "where": is_click,
        "columns": frozenset(COLUMNS[ENGAGEMENTS]),
    }
    return JoinSpec(
        left=Left("served", (SERVED,), KEY, event_id="request_id"),
        right=(Right(**{**clicks, **changes}),),
        start=START,
        interval=INTERVAL,
        grace=GRACE,
        max_skew=MAX_SKEW,
        event_clocks=event_clocks(records, pins, DISORDER),
    )


def decode(
    record: KafkaRecord,
    batch: int,
    *,
    landed_at: datetime,
    max_skew: timedelta,
    readers: Mapping[str, tuple[Reader, ...]] = READERS,
) -> Record:
    """One Kafka record as landing should see it, in plain Python.

    The first reason that applies: tombstone, bad_utf8, malformed, event_time_ahead; then, if every stream that `where`
    selects it for has one: wrong_type, event_time_missing, null_key. What no stream selects lands and is filtered.
    """
    row_id = RowId(record.topic, 0, record.partition, record.offset)
    streams = readers[record.topic]
    raw, reason = _json_object(record.value)
    read = {name: _read(raw.get(name), kind) for stream in streams for name, kind in stream.columns.items()}
    values = {name: None if value is WRONG else value for name, value in read.items()}
    unreadable = {name: "wrong_type" for name, value in read.items() if value is WRONG}
    event_at = values[EVENT_TIME[record.topic]]
    if event_at is not None and event_at > utc(landed_at) + max_skew:
        event_at, reason = None, reason or "event_time_ahead"
    found = [] if reason else [_judge(stream, values, unreadable, event_at) for stream in streams]
    if found and "readable" not in found:
        worst = ("wrong_type", "event_time_missing", "null_key")
        reason = next((why for why in worst if why in found), None)
    return Record(row_id, batch, event_at, values, record.timestamp, reason, unreadable)


def _judge(stream: Reader, values: Mapping[str, Any], unreadable: Mapping[str, str], event_at: datetime | None) -> str:
    """What a record is to one stream: filtered, readable, or the reason why it cannot be read."""
    is_spoilt = any(name in unreadable for name in stream.columns)
    chosen = stream.where is None or stream.where(values)
    if chosen is False or (chosen is None and not is_spoilt):
        return "filtered"
    if is_spoilt:
        return "wrong_type"
    if event_at is None:
        return "event_time_missing"
    return "null_key" if any(values[name] is None for name in stream.key) else "readable"


def _json_object(value: bytes | None) -> tuple[dict[str, Any], str | None]:
    if value is None:
        return {}, "tombstone"
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return {}, "bad_utf8"
    try:
        read = parsed(text, _without_repeats)
    except ValueError:
        return {}, "malformed"
    return (read, None) if isinstance(read, dict) else ({}, "malformed")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, unless a name stands in it twice: which of the values was meant is not known."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return dict(pairs)


WRONG: Any = object()
"""Stands for a value that is not of its column's type."""


def _read(value: Any, kind: str) -> Any:
    if kind == "timestamp":
        return _read_instant(value)
    try:
        read = value_of(value, parse_type(kind))
    except Unreadable:
        return WRONG
    return tuple(read) if isinstance(read, list) else read


def _read_instant(value: Any) -> Any:
    if value is None:
        return None
    try:
        read = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return WRONG
    return utc(read if read.tzinfo else read.replace(tzinfo=UTC))


def _served(rng: random.Random, count: int) -> list[_Sent]:
    sent: list[_Sent] = []
    for n in range(count):
        at = START + rng.uniform(-0.05, 1) * SPAN
        if rng.random() < 0.2:  # on the grid itself, or a microsecond before it
            at = START + rng.randrange(SPAN // INTERVAL) * INTERVAL - rng.choice((ZERO, MICROSECOND))
        value: dict[str, Any] = {
            "request_id": f"r{n}",
            "user_id": rng.randrange(4),
            "item_id": rng.randrange(3),
            "served_at": _iso(at),
            "score": rng.randrange(8) / 8,
            "features": [rng.randrange(-8, 8) / 4 for _ in range(3)],
        }
        if rng.random() < 0.05:
            value["user_id"] = None
        if rng.random() < 0.05:
            value["request_id"] = None
        sent += _with_retries(rng, SERVED, at, value, "request_id")
    return sent + _poison(rng, SERVED)


def _engagements(rng: random.Random, served_at: list[datetime], count: int) -> list[_Sent]:
    sent: list[_Sent] = []
    falls_silent_at = START + rng.choice((0.6, 1.0, 1.6)) * SPAN
    for n in range(count):
        at = rng.choice(served_at) + rng.choice(
            (
                rng.uniform(-0.2, 1.2) * AFTER,
                -BEFORE - rng.choice((ZERO, MICROSECOND)),
                AFTER + rng.choice((ZERO, MICROSECOND)),
            )
        )
        if at > falls_silent_at:
            continue
        value: dict[str, Any] = {
            "event_id": f"e{n}",
            "user_id": rng.randrange(4),
            "item_id": rng.randrange(3),
            "action": rng.choice(("click", "click", "click", "click", "view", None)),
            "engaged_at": _iso(at),
            "price": (1.5, None, 2.5, "dear")[n % 4],
        }
        if value["action"] != "click" and rng.random() < 0.4:  # filtered, whatever it lacks
            del value[rng.choice(("event_id", "user_id", "item_id", "engaged_at"))]
        elif rng.random() < 0.03:
            value["item_id"] = None
        elif rng.random() < 0.05:
            del value["event_id"]
        sent += _with_retries(rng, ENGAGEMENTS, at, value, "event_id")
    return sent + _poison(rng, ENGAGEMENTS)


def _with_retries(rng: random.Random, topic: str, at: datetime, value: dict[str, Any], event_id: str) -> list[_Sent]:
    """The event, now and then sent again: as it was, with another payload, or with another time."""
    sent = [_send(rng, topic, at, json.dumps(value).encode())]
    if rng.random() < 0.12:
        again, again_at = dict(value), at
        change = rng.choice(("nothing", "nothing", "payload", "time"))
        if change == "payload":
            again["user_id"] = rng.randrange(4)
        if change == "time" and EVENT_TIME[topic] in again:
            again_at = at + rng.randrange(1, 90) * SECOND
            again[EVENT_TIME[topic]] = _iso(again_at)
        sent.append(_send(rng, topic, again_at, json.dumps(again).encode()))
    return sent


def _send(rng: random.Random, topic: str, at: datetime, value: bytes | None) -> _Sent:
    """Arrives at once, or as late as its stream allows, at any partition."""
    delay = rng.choice((0.0, rng.random(), 1.0)) * DISORDER[topic]
    return _Sent(topic, at, at + delay, value, rng.randrange(PARTITIONS[topic]))


def _poison(rng: random.Random, topic: str) -> list[_Sent]:
    """One record of every defect that one can have, keys readable where the defect leaves them so."""
    good: dict[str, Any] = {"user_id": 1, "item_id": 1, EVENT_TIME[topic]: None}
    good |= {"score": 0.5, "features": [1.0]} if topic == SERVED else {"action": "click", "event_id": None}
    payload = "score" if topic == SERVED else "event_id"
    sent = []
    for defect in rng.sample(range(12), k=6):
        at = START + rng.random() * SPAN
        value = {**good, EVENT_TIME[topic]: _iso(at), "user_id": rng.randrange(4)}
        text: bytes | None = json.dumps(value).encode()
        if defect == 0:
            text = None
        elif defect == 1:
            text = text[: len(text) // 2] if text else None
        elif defect == 2:
            text = rng.choice((b"", b"null", b"[1, 2]", b'"text"', b"7", b"not json", b"{} {}"))
        elif defect == 3:
            text = b'{"user_id": 1, "note": "\xff\xfe"}'
        elif defect == 4:
            ahead: dict[str, str | None] = {EVENT_TIME[topic]: "2099-01-01T00:00:00Z"}
            if topic == ENGAGEMENTS:  # ahead whatever it is, and a label unless it is certainly none
                ahead["action"] = rng.choice(("click", "view", None))
            text = json.dumps({**value, **ahead}).encode()
        elif defect == 5:
            text = json.dumps({**value, EVENT_TIME[topic]: None}).encode()
        elif defect == 6:
            del value[EVENT_TIME[topic]]
            text = json.dumps(value).encode()
        elif defect == 7:
            text = json.dumps({**value, EVENT_TIME[topic]: "yesterday"}).encode()
        elif defect == 8:
            text = json.dumps({**value, "user_id": rng.choice(("seven", 1.5, True, [1], {}))}).encode()
        elif defect == 9 and topic == SERVED:
            text = json.dumps({**value, payload: rng.choice(("high", [1]))}).encode()
        elif defect == 10 and topic == SERVED:
            text = json.dumps({**value, "features": rng.choice((["a"], "none", 1))}).encode()
        elif defect == 11 and topic == ENGAGEMENTS:
            text = json.dumps({**value, "item_id": None}).encode()
        sent.append(_send(rng, topic, at, text))
    twice = json.dumps({**good, EVENT_TIME[topic]: _iso(START), "note": {"n": 1}}).replace('"n"', '"n": 0, "n"')
    return [*sent, _send(random.Random(topic), topic, START, twice.encode())]


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
