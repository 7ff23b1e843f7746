"""What must have been published, computed from the topics alone, and what differs from it.

The rules of docs/SEMANTICS.md are written here once more, for this pipeline only, in plain loops: no module of Windrow
is used. Tables are read with delta-rs, as any analyst reads them.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

RowId = tuple[int, int]
"""Partition and offset; each topic was made once, so its epoch is 0."""
Row = tuple[Any, ...]
TYPES = {
    "served": {"request_id": str, "user_id": int, "item_id": int, "served_at": datetime, "features": list},
    "engagements": {"event_id": str, "user_id": int, "item_id": int, "action": str, "engaged_at": datetime},
}
IDENTITY = {"served": "request_id", "engagements": "event_id"}
EVENT_TIME = {"served": "served_at", "engagements": "engaged_at"}
FAR_AHEAD = datetime(2090, 1, 1, tzinfo=UTC)
"""An event time behind it is not trusted; all others are close to the wall clock."""
COLUMNS = (
    "request_id", "user_id", "item_id", "served_at", "features", "clicks", "clicked", "label_state", "label_reason",
    "_event_time", "_topic", "_epoch", "_partition", "_offset", "_interval", "_date",
)  # fmt: skip
"""Every column of the training table but the audit columns."""


@dataclass(frozen=True)
class Rules:
    """The pipeline file's rules of time."""

    start: datetime
    interval: timedelta
    after: timedelta
    grace: timedelta
    out_of_orderness: timedelta

    def interval_of(self, at: datetime) -> datetime:
        """Start of the interval of an instant."""
        return start_of(at, self.interval)


def start_of(at: datetime, interval: timedelta) -> datetime:
    """Start of the interval of an instant, on the grid of UTC."""
    return at - (at - datetime(2000, 1, 1, tzinfo=UTC)) % interval


class Record(NamedTuple):
    """A record as the topic holds it."""

    partition: int
    offset: int
    value: bytes | None


@dataclass
class Side:
    """A topic, judged record by record."""

    read: dict[RowId, dict[str, Any]] = field(default_factory=dict)
    unreadable: set[RowId] = field(default_factory=set)
    newest: dict[int, datetime] = field(default_factory=dict)
    """by partition: the newest trusted event time"""


def contents(kafka: str, topic: str, partitions: int) -> list[Record]:
    """Every record of a topic, read by a plain consumer."""
    settings = {"bootstrap.servers": kafka, "group.id": "truth", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": False})
    records: list[Record] = []
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        consumer.assign([TopicPartition(topic, partition, 0)])
        while end and (not records or records[-1].partition != partition or records[-1].offset < end - 1):
            for message in consumer.consume(1000, timeout=0.5):
                if message.error():
                    raise RuntimeError(f"{topic}: {message.error()}")
                records.append(Record(partition, message.offset(), message.value()))
    consumer.close()
    return records


def judged(side: str, records: Iterable[Record]) -> Side:
    """Tell readable records from those that must be quarantined."""
    found = Side()
    for record in records:
        body = _decoded(record.value, TYPES[side])
        at = body[EVENT_TIME[side]] if body else None
        is_keyless = body is not None and (body["user_id"] is None or body["item_id"] is None)
        if body is None or at is None or at > FAR_AHEAD or (is_keyless and side == "engagements"):
            found.unreadable.add((record.partition, record.offset))
            continue
        found.read[record.partition, record.offset] = body
        found.newest[record.partition] = max(at, found.newest.get(record.partition, at))
    return found


def _decoded(value: bytes | None, types: Mapping[str, type]) -> dict[str, Any] | None:
    """The declared columns of a record; None where it is not JSON, or a value has another type."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        body = json.loads((value or b"").decode(), parse_constant=refuse)
    except ValueError:
        return None
    row: dict[str, Any] = {}
    for name, kind in types.items():
        one = body.get(name)
        if kind is datetime and one is not None:
            one = datetime.fromisoformat(one)
        if one is not None and not isinstance(one, kind):
            return None
        row[name] = one
    return row


@dataclass(frozen=True)
class Expected:
    """What must be published: rows by row id, all intervals that must be there, and what stays open."""

    rows: dict[RowId, Row]
    intervals: tuple[datetime, ...]
    still_open: int
    states: Counter[str]
    duplicates: int


def expected(name: str, rules: Rules, served: Side, engagements: Side) -> Expected:
    """Join what the topics hold: every served row once, in its interval, with all clicks of its window."""
    watermark = min(min(side.newest.values()) for side in (served, engagements)) - rules.out_of_orderness
    frontier = watermark - rules.after - rules.grace
    ends = rules.interval_of(frontier)
    clicks: dict[tuple[int, int], list[tuple[datetime, RowId, dict[str, Any]]]] = defaultdict(list)
    for where, body in _events("engagements", engagements.read):
        if body["action"] == "click":
            clicks[body["user_id"], body["item_id"]].append((body["engaged_at"], where, body))
    for of_key in clicks.values():
        of_key.sort(key=lambda click: click[:2])
    rows: dict[RowId, Row] = {}
    still_open, events = 0, 0
    for where, body in _events("served", served.read):
        events += 1
        at = body["served_at"]
        if at >= ends:
            still_open += 1
        elif at >= rules.start:
            of_key = clicks[body["user_id"], body["item_id"]]
            rows[where] = _row(name, rules, where, body, _in_window(of_key, at, rules))
    many = (ends - rules.start) // rules.interval
    return Expected(
        rows,
        tuple(rules.start + n * rules.interval for n in range(many)),
        still_open,
        Counter(row[COLUMNS.index("label_state")] for row in rows.values()),
        len(served.read) - events,
    )


def _events(side: str, read: Mapping[RowId, dict[str, Any]]) -> Iterator[tuple[RowId, dict[str, Any]]]:
    """Each event once, under its smallest row id: the same id at the same time is a producer's retry."""
    seen = set()
    for where in sorted(read):
        body = read[where]
        event = body[IDENTITY[side]], body[EVENT_TIME[side]]
        if event not in seen:
            seen.add(event)
            yield where, body


def _in_window(of_key: list[Any], at: datetime, rules: Rules) -> list[Any]:
    first = bisect_left(of_key, at, key=lambda click: click[0])
    last = bisect_right(of_key, at + rules.after, key=lambda click: click[0])
    return of_key[first:last]


def _row(name: str, rules: Rules, where: RowId, body: dict[str, Any], clicks: list[Any]) -> Row:
    is_keyless = body["user_id"] is None or body["item_id"] is None
    state = "unknown" if is_keyless else "positive" if clicks else "negative"
    interval = rules.interval_of(body["served_at"])
    return (
        body["request_id"],
        body["user_id"],
        body["item_id"],
        body["served_at"],
        tuple(body["features"]),
        () if is_keyless else tuple(_click(f"{name}.engagements", at, place, click) for at, place, click in clicks),
        None if is_keyless else bool(clicks),
        state,
        "null_key" if is_keyless else None,
        body["served_at"],
        f"{name}.served",
        0,
        *where,
        interval,
        interval.date(),
    )


def _click(topic: str, at: datetime, place: RowId, body: Mapping[str, Any]) -> Row:
    return (at, topic, 0, *place, body["event_id"], body["user_id"], body["item_id"], body["action"], at)


_CLICK = ("_event_time", "_topic", "_epoch", "_partition", "_offset", "event_id", "user_id", "item_id", "action",
          "engaged_at")  # fmt: skip


def rows_of(path: str, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Rows of a Delta table, in batches; none where there is no table."""
    if DeltaTable.is_deltatable(path):
        for batch in DeltaTable(path).to_pyarrow_dataset().to_batches(columns=list(columns)):
            yield from batch.to_pylist()


def published(path: str) -> Iterator[tuple[RowId, Row]]:
    """Every row of the training table, in the form of `Expected.rows`."""
    for row in rows_of(path, COLUMNS):
        row["features"] = tuple(row["features"])
        row["clicks"] = tuple(tuple(click[name] for name in _CLICK) for click in row["clicks"])
        yield (row["_partition"], row["_offset"]), tuple(row[name] for name in COLUMNS)


@dataclass
class Difference:
    """Rows that are not as they must be, by row id."""

    lost: set[RowId] = field(default_factory=set)
    extra: set[RowId] = field(default_factory=set)
    twice: set[RowId] = field(default_factory=set)
    wrong: dict[RowId, list[str]] = field(default_factory=dict)
    """by row id: names of the columns, with what must be and what is there"""

    @property
    def all(self) -> set[RowId]:
        """Every row id of a difference."""
        return self.lost | self.extra | self.twice | set(self.wrong)

    def lines(self, most: int = 10) -> list[str]:
        """The first differences of each kind, for a person."""
        named = [f"{kind}: {sorted(getattr(self, kind))[:most]}" for kind in ("lost", "extra", "twice")]
        return [*named, *(f"wrong: {where} {what}" for where, what in sorted(self.wrong.items())[:most])]


def compare(want: Mapping[RowId, Row], found: Iterable[tuple[RowId, Row]]) -> Difference:
    """Compare every column of every row."""
    difference, seen = Difference(), set()
    for where, row in found:
        if where in seen:
            difference.twice.add(where)
        seen.add(where)
        if where not in want:
            difference.extra.add(where)
        elif row != want[where]:
            pairs = zip(COLUMNS, want[where], row, strict=True)
            difference.wrong[where] = [f"{name}: {one!r} is {other!r}" for name, one, other in pairs if one != other]
    difference.lost = set(want) - seen
    return difference


def landed(path: str, records: Iterable[Record], side: Side) -> list[str]:
    """What is wrong with a landing table: each offset once, and quarantined exactly where it must be."""
    found = Counter[RowId]()
    quarantined = set()
    for row in rows_of(path, ("_partition", "_offset", "_quarantined")):
        where = row["_partition"], row["_offset"]
        found[where] += 1
        if row["_quarantined"] is not None:
            quarantined.add(where)
    want = {(record.partition, record.offset) for record in records}
    checks: dict[str, set[RowId]] = {
        "not landed": want - set(found),
        "landed and not in the topic": set(found) - want,
        "landed twice": {where for where, many in found.items() if many > 1},
        "quarantined although it is readable": quarantined - side.unreadable,
        "landed as readable although it is not": side.unreadable - quarantined,
    }
    return [f"{Path(path).name}: {what}: {sorted(rows)[:10]}" for what, rows in checks.items() if rows]


def unacknowledged(lines: Iterable[str], topics: Mapping[str, list[Record]]) -> tuple[list[str], int]:
    """Records that the broker acknowledged and does not have, and how many it has without an acknowledgement."""
    there = {(topic, one.partition, one.offset): one.value for topic, records in topics.items() for one in records}
    lost = []
    for line in lines:
        if not line.endswith("\n"):
            continue  # cut by a kill: the record is in doubt
        topic, partition, offset, name = line.split()
        where = topic, int(partition), int(offset)
        value = there.pop(where, b"")
        is_poison = name.startswith("x")  # which may have no id, or no value
        if value != b"" if is_poison else value is not None and f'"{name}"'.encode() in value:
            continue
        lost.append(f"acknowledged and not in the topic: {line.strip()}")
    return lost, len(there)


class Whole:
    """Readings of the training table while everything goes on: an interval is there whole, of one publication."""

    def __init__(self, path: Callable[[], str]) -> None:
        self._path = path
        self.readings = 0
        self.seen: set[tuple[datetime, tuple[int, ...], int]] = set()
        """interval, its publications and its number of rows, as one reading showed them"""

    def read(self) -> None:
        """Read the table once."""
        counts: dict[datetime, Counter[int]] = defaultdict(Counter)
        for row in rows_of(self._path(), ("_interval", "_publication")):
            counts[row["_interval"]][row["_publication"]] += 1
        self.seen |= {(at, tuple(of), sum(of.values())) for at, of in counts.items()}
        self.readings += bool(counts)

    def broken(self, register: Iterable[Mapping[str, Any]]) -> list[str]:
        """Readings that no publication of the register explains."""
        rows = {(row["interval"], (row["number"],), row["rows"]) for row in register}
        return [f"a reader saw {at:%H:%M:%S} as {many} rows of publications {of}"
                for at, of, many in sorted(self.seen - rows)]  # fmt: skip
