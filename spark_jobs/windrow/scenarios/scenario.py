"""A scenario as frozen values: rules, a history of steps, and expectations.

rules:    the content of a pipeline file, in small numbers
history:  land ──▶ publish ──▶ expect ──▶ land ──▶ …        steps in order, each a value of this module
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from windrow.scenarios.notation import Event, Row, Times
from windrow.semantics.erasure.keys import Mode
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
    """Produce events and land them as one batch, at host time `now_at` (default: when the newest event was logged).

    `unseen`: by partition, how many more records the broker holds than this batch reads (its lag). `refused`: the
    refusal that must happen.
    """

    events: tuple[Event, ...]
    now_at: datetime | None = None
    unseen: Mapping[PartitionId, int] = field(default_factory=dict)
    is_unanswered: bool = False
    is_killed: bool = False
    refused: str | None = None


@dataclass(frozen=True)
class Replay:
    """Land the offsets of a partition again, from one of its events on."""

    topic: str
    name: str


@dataclass(frozen=True)
class Reconsider:
    """Judge the quarantined records again, at host time `now_at`."""

    now_at: datetime


@dataclass(frozen=True)
class Erase:
    """Erase one key, given by its columns."""

    key: tuple[str, ...]
    mode: Mode = "delete"


@dataclass(frozen=True)
class Change:
    """Add partitions to a topic, or delete and re-create it (`partitions` is None)."""

    topic: str
    partitions: int | None = None


@dataclass(frozen=True)
class RecordPlans:
    """A run records its plans. Without `intervals`: of all that are closed and unpublished."""

    run: str
    intervals: tuple[datetime, datetime] | None = None


@dataclass(frozen=True)
class Publish:
    """Carry out a run's plans, making them first if it has none. `refused`: the refusal that must happen."""

    run: str | None = None
    intervals: tuple[datetime, datetime] | None = None
    is_drain: bool = False
    is_forced: bool = False
    refused: str | None = None


@dataclass(frozen=True)
class Expect:
    """What must be true at this point. None: not compared."""

    watermark: str | None = None
    frontier: str | None = None
    holder: str | None = None
    clocks: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[Row, ...] | None = None
    open: tuple[str, ...] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    late: tuple[str, ...] | None = None
    exceeded: tuple[str, ...] | None = None


Streams = tuple[tuple[str, tuple[str, ...]], ...]
"""(stream, its topics), the left stream first."""

Step = Land | Replay | Reconsider | Erase | Change | RecordPlans | Publish | Expect


@dataclass(frozen=True)
class Scenario:
    """One file. `lines`: the line of each step in it."""

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
        """All events, in the order in which they are produced."""
        return tuple(event for step in self.history if isinstance(step, Land) for event in step.events)
