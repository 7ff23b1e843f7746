"""A scenario: rules, what happens one after another, and what must then be true. Frozen values.

rules:    what the pipeline file would say, in small numbers
history:  land ──▶ publish ──▶ expect ──▶ land ──▶ …        one step after another, each a value of this module
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from windrow.scenarios.notation import Event, Row, Times
from windrow.semantics.paper.landings import PartitionId, Rules


@dataclass(frozen=True)
class Where:
    """`column = value`: which records of its topic a stream reads."""

    column: str
    value: str

    def __call__(self, values: Mapping[str, object]) -> bool | None:
        found = values.get(self.column)
        return None if found is None else found == self.value


@dataclass(frozen=True)
class Land:
    """Events are produced and landed as one batch, at host time `now_at` (or when the newest event was logged).

    `unseen`: by partition, how many records the broker holds beyond what this batch takes: its lag.
    """

    events: tuple[Event, ...]
    now_at: datetime | None = None
    unseen: Mapping[PartitionId, int] = field(default_factory=dict)
    is_unanswered: bool = False
    is_killed: bool = False


@dataclass(frozen=True)
class Replay:
    """The offsets of a partition are landed again from one of its events on."""

    topic: str
    name: str


@dataclass(frozen=True)
class Change:
    """A topic gets more partitions, or is deleted and made again (`partitions` is None)."""

    topic: str
    partitions: int | None = None


@dataclass(frozen=True)
class RecordPlans:
    """A run records its plans; None of intervals: all that are closed and unpublished."""

    run: str
    intervals: tuple[datetime, datetime] | None = None


@dataclass(frozen=True)
class Publish:
    """A run's plans are carried out; a run without plans makes them first. `refused`: why that must be refused."""

    run: str | None = None
    intervals: tuple[datetime, datetime] | None = None
    is_drain: bool = False
    is_forced: bool = False
    refused: str | None = None


@dataclass(frozen=True)
class Expect:
    """What must be true here. None: not looked at."""

    watermark: str | None = None
    frontier: str | None = None
    holder: str | None = None
    clocks: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[Row, ...] | None = None
    open: tuple[str, ...] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    late: tuple[str, ...] | None = None


Streams = tuple[tuple[str, tuple[str, ...]], ...]
"""(stream, its topics), the left one first"""

Step = Land | Replay | Change | RecordPlans | Publish | Expect


@dataclass(frozen=True)
class Scenario:
    """One file. `lines`: where each step stands in it."""

    path: Path
    title: str
    about: str
    times: Times
    rules: Rules
    key: tuple[str, ...]
    streams: Streams
    history: tuple[Step, ...]
    lines: tuple[int, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for step in self.history if isinstance(step, Land) for event in step.events)
