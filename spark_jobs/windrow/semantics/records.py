"""Input of the reference join: landed records, and the rules that give them their meaning. Frozen values.

Nothing here reads a pipeline file, so that a test can build the rules by hand, independently of `config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.columns import ERASED
from windrow.semantics.erasure.keys import Erased, columns_in
from windrow.semantics.intervals import utc
from windrow.semantics.match import Mark, key_of

Predicate = Callable[[Mapping[str, Any]], bool | None]
"""A `where` condition over a record's columns: True, False, or None (unknown, as in SQL).

None leaves a landed record out, as False does. A quarantined record may lack columns, so only False leaves it out."""

ZERO = timedelta(0)


@dataclass(frozen=True, order=True)
class RowId:
    """The identity of a row: where it was landed from, never its key and time."""

    topic: str
    epoch: int
    partition: int
    offset: int


@dataclass(frozen=True)
class Record:
    """A landed record.

    Args:
        event_at: the *trusted* event time; None if it is absent, unreadable or ahead of its record.
        record_at: Kafka's timestamp of the record; its event happened at most `max_skew` later.
        quarantined: the reason why no stream can read it, or None. It has only those `values` that could be read.
        unreadable: column → reason, for each value that is not of its column's type. Streams without such a column
            read the record all the same (`unreadable_for`).
        reconsidered: batch of the quarantined landing that this one stands for; None for what was landed from a topic.
    """

    row_id: RowId
    batch: int
    event_at: datetime | None
    values: Mapping[str, Any]
    record_at: datetime | None = None
    quarantined: str | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    reconsidered: int | None = None

    def __post_init__(self) -> None:
        for name in ("event_at", "record_at"):
            at = getattr(self, name)
            if at is not None:
                object.__setattr__(self, name, utc(at))

    @property
    def order(self) -> tuple[datetime, RowId]:
        """Sort key of row order: event time, then row id."""
        if self.event_at is None:
            raise ValueError(f"{self.row_id} is not filtered and has no event time: landing quarantines it")
        return (self.event_at, self.row_id)


@dataclass(frozen=True)
class Left:
    """The left stream: what was served. `columns`: those that it reads, None for all that a record has.

    `canary`: which of its records are canaries; None: none is (rule 23).
    """

    name: str
    topics: tuple[str, ...]
    key: tuple[str, ...]
    event_id: str | None = None
    where: Predicate | None = None
    columns: frozenset[str] | None = None
    canary: Mark | None = None


@dataclass(frozen=True)
class Right:
    """A right stream. Its key columns are compared with the left's, position by position.

    `columns`, `canary`: see `Left`.
    """

    name: str
    topics: tuple[str, ...]
    key: tuple[str, ...]
    after: timedelta
    before: timedelta = ZERO
    role: Literal["label", "feature"] = "label"
    event_id: str | None = None
    where: Predicate | None = None
    join: Literal["left", "inner"] = "left"
    take: Literal["all", "first", "last"] = "all"
    silence: Literal["unknown", "negative"] = "unknown"
    columns: frozenset[str] | None = None
    canary: Mark | None = None


@dataclass(frozen=True)
class Gap:
    """Lost offsets of a topic: their events may lie anywhere between these event times, both included.

    A bound of None means that nothing limits that side.
    """

    topic: str
    start_at: datetime | None = None
    end_at: datetime | None = None


@dataclass(frozen=True)
class JoinSpec:
    """The rules that give rows their meaning, and how far the label streams had come at the pins.

    Args:
        event_clocks: by topic, the event clock of every partition that has an event (`reference.event_clocks`); a
            topic without an event is missing.
        forced: whether the interval was published before it was closed, by a person or by a bound.
        erased: keys whose records are left out, whenever they landed (rule 22).
    """

    left: Left
    right: tuple[Right, ...]
    start: datetime
    interval: timedelta
    grace: timedelta = ZERO
    max_skew: timedelta = ZERO
    event_clocks: Mapping[str, tuple[datetime | None, ...]] = field(default_factory=dict)
    drained: bool = False
    forced: bool = False
    gaps: tuple[Gap, ...] = ()
    erased: tuple[Erased, ...] = ()

    def __post_init__(self) -> None:
        for r in self.right:
            if len(r.key) != len(self.left.key):
                raise ValueError(f"key of {r.name} {r.key} does not pair with that of the left {self.left.key}")
            if r.before < ZERO or r.after < ZERO:
                raise ValueError(f"window of {r.name} must not be negative: before {r.before}, after {r.after}")

    @property
    def after(self) -> timedelta:
        """The largest `after` of the right streams: what closing waits for, in addition to the grace."""
        return max((r.after for r in self.right), default=ZERO)

    @property
    def streams(self) -> tuple[Left | Right, ...]:
        """The left stream, then the right ones."""
        return (self.left, *self.right)

    @property
    def labels(self) -> tuple[Right, ...]:
        """The right streams that decide the label state."""
        return tuple(r for r in self.right if r.role == "label")


def is_canary(record: Record, stream: Left | Right) -> bool:
    """Whether a record that a stream can read is a canary to it (rule 23): its key alone decides."""
    return stream.canary is not None and stream.canary.holds(record.values)


def moves_no_clock(record: Record, streams: Iterable[Left | Right]) -> bool:
    """Whether a landed record is no evidence of how far its topic has come (rules 7 and 23).

    It is quarantined, or a canary to one of the streams that read its topic, whatever their `where`.
    """
    readers = (stream for stream in streams if record.row_id.topic in stream.topics)
    return bool(record.quarantined) or any(is_canary(record, stream) for stream in readers)


def event_of(
    stream: Left | Right, values: Mapping[str, Any], event_at: datetime | None
) -> tuple[Any, datetime | None] | None:
    """Identity of the event of a row: event id and event time; None where it has no event id (rule 11)."""
    event_id = values.get(stream.event_id) if stream.event_id else None
    return None if event_id is None else (event_id, event_at)


REASONS = ("wrong_type", "not_finite", "event_time_missing", "null_key")
"""Why one stream cannot read a record that another may read; of several reasons the first is recorded."""


def unreadable_for(record: Record, stream: Left | Right) -> str | None:
    """Why a stream cannot read a landed record (rule 12); None if it can, or if `where` leaves the record out.

    A `where` that is None leaves a record out, but not where a value of the stream's columns could not be read: that
    value may be the reason for the None.
    """
    if record.quarantined:
        return record.quarantined
    found = {why for name, why in record.unreadable.items() if stream.columns is None or name in stream.columns}
    chosen = True if stream.where is None else stream.where(record.values)
    if chosen is False or (chosen is None and not found):
        return None
    if record.event_at is None:
        found.add("event_time_missing")
    if isinstance(stream, Right) and stream.role == "label" and key_of(record.values, stream.key) is None:
        found.add("null_key")
    return min(found, key=REASONS.index, default=None)


def emptied(record: Record, spec: JoinSpec) -> Record:
    """Return a landed record as it is, or without payload where it has an erased key (rule 22).

    A quarantined record keeps its reason. With mode `null` a left record stays readable: it is a left row with a null
    in its key (rule 12).
    """
    topic = record.row_id.topic
    streams: tuple[Left | Right, ...] = (spec.left, *spec.right)
    for erased in spec.erased:
        for stream in streams:
            columns = columns_in(stream, spec.left, erased.columns) if topic in stream.topics else None
            if columns and erased.holds(record.values, columns):
                stays = erased.mode == "null" and topic in spec.left.topics
                reason = record.quarantined or (None if stays else ERASED)
                return replace(record, values={}, unreadable={}, quarantined=reason)
    return record


def emptied_all(records: Iterable[Record], spec: JoinSpec) -> list[Record]:
    """Return the records, each as `emptied` returns it."""
    return [emptied(record, spec) for record in records] if spec.erased else list(records)
