"""The fields of a pipeline file as frozen values: windows, streams, and the pipeline before its parts are compared.

        l.t - before        l.t              l.t + after      + grace
─────────────┼───────────────┼────────────────────┼──────────────┼───────▶ event time
             └── right rows of one left row ──────┘              └ W beyond this: closed
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from windrow.config.fields import (
    ColumnName,
    Columns,
    Duration,
    Expression,
    Instant,
    KeyRangeField,
    Name,
    Prose,
    Schedule,
    Topics,
    one_or_many,
)
from windrow.config.formats import Format, FormatField
from windrow.config.origins import KeyFormat, Origin, origin_of
from windrow.config.problems import Location
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.erasure.keys import Mode
from windrow.semantics.waiting import Bounds, Policy


class Frozen(BaseModel):
    """A frozen value that refuses unknown fields. A field that is written but empty counts as not written."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: one for name, one in value.items() if one is not None}
        return value


class Window(Frozen):
    """A right stream's join window around a left row's time; both ends belong to it."""

    before: Duration = timedelta()
    after: Duration


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Idle(IdlePolicy):
    """What a partition without new records does to the clock (rule 6)."""

    mode: Literal["caught_up", "wait"] = "caught_up"
    after: Duration = timedelta(minutes=5)


class Stream(Frozen):
    """What left and right streams share: where records come from and how they are read.

    Args:
        declared: type of each column, by its name with the prefix that says where it comes from (`origins`).
        key_format: what the keys of records are; None: no column comes from them.
    """

    name: Name
    topics: Topics = Field(alias="topic")
    format: FormatField = Format()
    key_format: KeyFormat | None = None
    declared: Columns = Field(alias="columns")
    key: Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
    event_time: str
    event_id: str | None = None
    out_of_orderness: Duration
    where: Expression | None = None
    compacted: Literal["refuse", "accept"] = "refuse"

    @cached_property
    def columns(self) -> dict[str, str]:
        """Type of each column, by its name in the tables."""
        return {origin_of(name).column: kind for name, kind in self.declared.items()}

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """Where columns come from that are no fields of the record's value, by name in the tables."""
        found = map(origin_of, self.declared)
        return {origin.column: origin for origin in found if origin.part != "value"}

    def written(self, column: str) -> str:
        """A column as the pipeline file names it, with its prefix."""
        if column in self.declared:
            return column
        return next((name for name in self.declared if origin_of(name).column == column), column)

    @property
    def sources(self) -> dict[str, str]:
        """The topics by their names in measures: `clicks` for the only topic of a stream, else `clicks.<topic>`."""
        if len(self.topics) == 1:
            return {self.name: self.topics[0]}
        return {f"{self.name}.{topic}": topic for topic in self.topics}


class LeftStream(Stream):
    """The served features: one record, one left row."""


class RightStream(Stream):
    """A stream joined to the left rows, as an array of structs named after it."""

    role: Literal["label", "feature"]
    silence: Literal["unknown", "negative"] = "unknown"
    window: Window
    join: Literal["left", "inner"] = "left"
    take: Literal["all", "first", "last"] = "all"


class Describe(Frozen):
    """What the training table means, for people, on the data card.

    Args:
        row: what one row is.
        columns: what a column means, by its name in the training table; of a right stream's column also
            `<stream>.<column>`.
    """

    row: Prose | None = None
    columns: Annotated[dict[str, Prose], Field(max_length=2_000)] = {}


class Canary(Frozen):
    """Pairs of a left row and a label that test the whole way to the training table (rule 23).

    Args:
        keys: key column of the left stream → values that only canaries have.
        every: how often Airflow sends a pair; None: it sends none.
        delays: how long after its left row each label of a pair is sent.
    """

    keys: Annotated[dict[ColumnName, KeyRangeField], Field(min_length=1, max_length=16)]
    every: Schedule | None = None
    delays: Annotated[tuple[Duration, ...], Field(min_length=1, max_length=16)] = (timedelta(seconds=1),)


class Drift(Frozen):
    """Which left columns are compared with earlier intervals, and with which.

    Args:
        columns: numeric and categorical left columns; None: found by their type, up to 50 of them; empty: none.
        reference: number of the publication that they are compared with; None: the last days.
    """

    columns: Annotated[tuple[str, ...], BeforeValidator(one_or_many), Field(max_length=50)] | None = None
    reference: Annotated[int, Field(ge=1)] | None = None


class Erase(Frozen):
    """By which left columns rows can be erased, and what becomes of the training rows of an erased key (rule 22).

    YAML reads the word null as nothing, so `mode: null` arrives here without a value.
    """

    by: Annotated[tuple[str, ...], BeforeValidator(one_or_many), Field(min_length=1, max_length=16)]
    mode: Mode = "delete"

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("mode", "delete") is None:
            return {**value, "mode": "null"}
        return value


class Waiting(Frozen):
    """How much may wait for the clock, and what happens beyond it (rule 24); None is no bound.

    Args:
        max_rows: landed rows of all topics.
        max_bytes: bytes of the landing tables that hold them.
        max_age: from the end of the oldest interval that waits to the newest landed left event.
    """

    max_rows: Annotated[int, Field(ge=1)] | None = None
    max_bytes: Annotated[int, Field(ge=1)] | None = None
    max_age: Duration | None = None
    policy: Policy = "wait"

    @property
    def bounds(self) -> Bounds:
        """The section as `semantics.waiting` takes it."""
        return Bounds(self.max_rows, self.max_bytes, self.max_age, self.policy)


class PipelineFields(Frozen):
    """Every field of a pipeline file, each valid by itself; `Pipeline` adds the check that they fit together."""

    name: Name
    start: Instant
    interval: Duration
    left: LeftStream
    right: Annotated[tuple[RightStream, ...], Field(min_length=1, max_length=32)]
    grace: Duration = timedelta()
    idle: Idle = Idle()
    max_skew: Duration = timedelta(minutes=10)
    labels: Annotated[dict[ColumnName, Expression], Field(max_length=200)] = {}
    canary: Canary | None = None
    erase: Erase | None = None
    drift: Drift | None = None
    waiting: Waiting = Waiting()
    describe: Describe | None = None
    license: Prose | None = None
    owner: Prose | None = None
    expectations: Name = "training_rows"
    land_every: Schedule = timedelta(minutes=2)
    catch_up: Annotated[int, Field(ge=1, le=1_000)] = 24
    pool: Name = "default_pool"
    max_labels_per_key: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1_000_000
    max_record_bytes: Annotated[int, Field(ge=1_024, le=256 * 1024 * 1024)] = 8 * 1024 * 1024

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The left stream, then the right ones in the file's order."""
        return (self.left, *self.right)

    @property
    def label_streams(self) -> tuple[RightStream, ...]:
        """The right streams that decide the label state."""
        return tuple(stream for stream in self.right if stream.role == "label")


def located(pipeline: PipelineFields) -> Iterator[tuple[Location, Stream]]:
    """The streams of a pipeline with their locations in the file, the left one first."""
    yield ("left",), pipeline.left
    for position, stream in enumerate(pipeline.right):
        yield ("right", position), stream
