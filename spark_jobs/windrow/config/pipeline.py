"""The pipeline file as frozen values: what one pipeline's rows mean, and nothing about where things live.

A `Pipeline` that exists is usable: every field has been read strictly and the parts fit together.

            l.t - before        l.t              l.t + after      + grace
    ─────────────┼───────────────┼────────────────────┼──────────────┼───────▶ event time
                 └── right rows of one left row ──────┘              └ W beyond this: closed
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from windrow import text
from windrow.config import checks
from windrow.config.column_types import parse_type
from windrow.config.problems import Inconsistent
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.intervals import micros

LONGEST_NAME = 64
MOST_COLUMNS = 2_000
NAME = re.compile(r"[a-z][a-z0-9_]*")
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        if not timedelta() <= value <= text.LONGEST:
            raise ValueError(f"{value} is out of range; 0s to {text.duration_text(text.LONGEST)}")
        return value
    if not isinstance(value, str):
        raise ValueError("must be a duration; write 30s, 10m or 1h30m")
    return text.parse_duration(value)


def _schedule(value: timedelta) -> timedelta:
    if not timedelta(seconds=1) <= value <= checks.DAY:
        raise ValueError(f"{text.duration_text(value)} cannot be a schedule; write 1s to 1d")
    return value


def _instant(value: object) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; instants are UTC")
        return text.in_range(value.astimezone(UTC))
    if not isinstance(value, str):
        raise ValueError("must be an instant; write 2026-11-01T00:00:00Z")
    return text.parse_instant(value)


def _name(value: str) -> str:
    """Safe as a folder, a DAG id, a column and a measure's name."""
    if not NAME.fullmatch(value) or len(value) > LONGEST_NAME:
        rule = f"a small letter, then small letters, digits and _, at most {LONGEST_NAME}"
        raise ValueError(f"{text.short(value)} cannot be a name; write {rule}, such as feed")
    return value


def _column(value: str) -> str:
    if value.startswith("_"):
        raise ValueError(f"{text.short(value)} starts with _, which is kept for Windrow's own columns; rename it")
    if not _COLUMN.fullmatch(value) or len(value) > 128:
        rule = "a letter, then letters, digits and _, at most 128"
        raise ValueError(f"{text.short(value)} cannot be a column; write {rule} (a type with a comma needs quotes)")
    return value


def _type(value: object) -> str:
    if value is None:
        raise ValueError('has no type; write one, and put a type with a comma in quotes: "decimal(10,2)"')
    if not isinstance(value, str):
        raise ValueError("must be a Spark type as text, such as bigint or struct<id:bigint>")
    return str(parse_type(value))


def _topic(value: str) -> str:
    if value in (".", "..") or not _TOPIC.fullmatch(value):
        rule = "1 to 249 letters, digits, dots, - and _"
        raise ValueError(f"{text.short(value)} cannot be a Kafka topic; write {rule}")
    if value.startswith("__"):
        raise ValueError(f"{value!r} is one of Kafka's own topics; name a topic of events")
    return value


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError("names a topic twice; remove one")
    return values


def _format(value: object) -> object:
    if isinstance(value, str) and value.lower() in ("avro", "protobuf"):
        raise ValueError(f"{value} comes later; only json can be read now")
    return value


def _expression(value: str) -> str:
    return value.strip()


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Name = Annotated[str, AfterValidator(_name)]
ColumnName = Annotated[str, AfterValidator(_column)]
ColumnDdl = Annotated[str, BeforeValidator(_type)]
Columns = Annotated[dict[ColumnName, ColumnDdl], Field(min_length=1, max_length=MOST_COLUMNS)]
Topic = Annotated[str, AfterValidator(_topic)]
Topics = Annotated[
    tuple[Topic, ...],
    BeforeValidator(_one_or_many),
    AfterValidator(_once),
    Field(min_length=1, max_length=100),
]
Expression = Annotated[str, AfterValidator(_expression)]


class Frozen(BaseModel):
    """A value: no unknown fields, no changes. A field that is written but empty counts as not written."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: one for name, one in value.items() if one is not None}
        return value


class Window(Frozen):
    """A right stream's join window around a left row's time, both ends in."""

    before: Duration = timedelta()
    after: Duration


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Idle(IdlePolicy):
    """What a partition without new records does to the clock (rule 6)."""

    mode: Literal["caught_up", "wait"] = "caught_up"
    after: Duration = timedelta(minutes=5)


class Stream(Frozen):
    """What left and right streams share: where records come from and how they are read."""

    name: Name
    topics: Topics = Field(alias="topic")
    format: Annotated[Literal["json"], BeforeValidator(_format)] = "json"
    columns: Columns
    key: Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
    event_time: str
    event_id: str | None = None
    out_of_orderness: Duration
    where: Expression | None = None


class LeftStream(Stream):
    """The served features: one record, one left row."""


class RightStream(Stream):
    """A stream joined to the left rows, as an array of structs named after it."""

    role: Literal["label", "feature"]
    silence: Literal["unknown", "negative"] = "unknown"
    window: Window
    join: Literal["left", "inner"] = "left"
    take: Literal["all", "first", "last"] = "all"


class Pipeline(Frozen):
    """One pipeline. Instants are aware UTC, durations `timedelta`, column types normalised Spark DDL."""

    name: Name
    start: Instant
    interval: Duration
    left: LeftStream
    right: Annotated[tuple[RightStream, ...], Field(min_length=1, max_length=32)]
    grace: Duration = timedelta()
    idle: Idle = Idle()
    max_skew: Duration = timedelta(minutes=10)
    labels: Annotated[dict[ColumnName, Expression], Field(max_length=200)] = {}
    expectations: Name = "training_rows"
    land_every: Annotated[Duration, AfterValidator(_schedule)] = timedelta(minutes=2)
    catch_up: Annotated[int, Field(ge=1, le=1_000)] = 24
    max_record_bytes: Annotated[int, Field(ge=1_024, le=256 * 1024 * 1024)] = 8 * 1024 * 1024

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        found = checks.findings(self)
        if found:
            raise Inconsistent(found)
        return self

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The left stream, then the right ones in the file's order."""
        return (self.left, *self.right)

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic once, sorted: each is landed and clocked once, however many streams read it."""
        return tuple(sorted({topic for stream in self.streams for topic in stream.topics}))

    @property
    def label_streams(self) -> tuple[RightStream, ...]:
        """The right streams that decide the label state."""
        return tuple(stream for stream in self.right if stream.role == "label")

    @property
    def after(self) -> timedelta:
        """The largest `after`: what closing waits for, besides the grace."""
        return max(stream.window.after for stream in self.right)

    @property
    def before(self) -> timedelta:
        """The largest `before`: how far back right rows are read."""
        return max(stream.window.before for stream in self.right)

    @property
    def idle_policy(self) -> IdlePolicy:
        """What the clock does about idle partitions."""
        return self.idle

    @property
    def suite(self) -> str:
        """Name of the expectation suite that judges this pipeline's candidates."""
        return self.expectations

    def streams_of(self, topic: str) -> tuple[Stream, ...]:
        """The streams that read a topic."""
        return tuple(stream for stream in self.streams if topic in stream.topics)

    def out_of_orderness(self, topic: str) -> timedelta:
        """How much older than the newest event of its partition an event of this topic may arrive."""
        return self._first(topic).out_of_orderness

    def event_time(self, topic: str) -> str:
        """The event time column of a topic: streams that share it agree on it."""
        return self._first(topic).event_time

    def topic_columns(self, topic: str) -> dict[str, str]:
        """Columns of the landing table of a topic: the union over the streams reading it, left first."""
        self._first(topic)
        return {name: kind for stream in self.streams_of(topic) for name, kind in stream.columns.items()}

    def _first(self, topic: str) -> Stream:
        for stream in self.streams_of(topic):
            return stream
        raise KeyError(f"no stream of pipeline {self.name} reads topic {topic!r}; it has {', '.join(self.topics)}")

    @property
    def config_hash(self) -> str:
        """sha256 over what gives rows their meaning: two files with one hash make the same rows.

        How often and how much at once (`land_every`, `catch_up`), who judges (`expectations`), the order in
        which streams, columns and topics are written, and spellings (`90s`, `1m30s`) make no difference.
        """
        meaning = self.model_dump(exclude={"land_every", "catch_up", "expectations"})
        for stream in (meaning["left"], *meaning["right"]):
            stream["topics"] = sorted(stream["topics"])
        meaning["right"] = sorted(meaning["right"], key=lambda stream: stream["name"])
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=_canonical)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _canonical(value: object) -> object:
    """Times as whole microseconds: no library's idea of how to write them is part of the hash."""
    if isinstance(value, datetime | timedelta):
        return micros(value)
    raise TypeError(f"{type(value)} has no canonical form")
