"""What the reference join takes: records as they landed, and what gives them their meaning. Frozen values.

Nothing here is read from a pipeline file: an independent check builds these by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.semantics.intervals import utc

Predicate = Callable[[Mapping[str, Any]], bool | None]
"""`where` over a record's columns. None (unknown, as in SQL) leaves a landed record out, like False; a
quarantined one, of which some columns may be absent, is left out by False alone."""

ZERO = timedelta(0)


@dataclass(frozen=True, order=True)
class RowId:
    """The identity of a row. Never its key and time."""

    topic: str
    epoch: int
    partition: int
    offset: int


@dataclass(frozen=True)
class Record:
    """A landed record.

    event_at: the *trusted* event time; None where it is absent, unreadable or ahead of its record.
    record_at: when it was logged; no event of this record happened more than `max_skew` after it.
    quarantined: the reason, or None. `values` of a quarantined record are those columns that could be read.
    """

    row_id: RowId
    batch: int
    event_at: datetime | None
    values: Mapping[str, Any]
    record_at: datetime | None = None
    quarantined: str | None = None

    def __post_init__(self) -> None:
        for name in ("event_at", "record_at"):
            at = getattr(self, name)
            if at is not None:
                object.__setattr__(self, name, utc(at))

    @property
    def order(self) -> tuple[datetime, RowId]:
        """Row order, everywhere that something is sorted."""
        if self.event_at is None:
            raise ValueError(f"{self.row_id} is not filtered and has no event time: landing quarantines it")
        return (self.event_at, self.row_id)


@dataclass(frozen=True)
class Left:
    """The served side."""

    name: str
    topics: tuple[str, ...]
    key: tuple[str, ...]
    event_id: str | None = None
    where: Predicate | None = None


@dataclass(frozen=True)
class Right:
    """A right stream. Its key columns stand for the left's, position by position."""

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


@dataclass(frozen=True)
class Gap:
    """Offsets of a topic that are gone for good: between these event times (both in) nobody knows."""

    topic: str
    start_at: datetime | None = None
    end_at: datetime | None = None


@dataclass(frozen=True)
class JoinSpec:
    """What gives rows their meaning, and how far the label side had come at the pins.

    event_clocks: by topic, of every partition with an event: newest trusted event time landed by the pin,
    minus out-of-orderness (see `event_clocks`). A topic that is missing here has shown nothing.
    forced: a person closed the interval before its time.
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

    def __post_init__(self) -> None:
        for r in self.right:
            if len(r.key) != len(self.left.key):
                raise ValueError(f"key of {r.name} {r.key} does not pair with that of the left {self.left.key}")
            if r.before < ZERO or r.after < ZERO:
                raise ValueError(f"window of {r.name} is not negative: before {r.before}, after {r.after}")

    @property
    def after(self) -> timedelta:
        """The largest, which the close predicate takes."""
        return max((r.after for r in self.right), default=ZERO)

    @property
    def labels(self) -> tuple[Right, ...]:
        return tuple(r for r in self.right if r.role == "label")
