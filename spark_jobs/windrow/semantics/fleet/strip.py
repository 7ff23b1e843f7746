"""The newest intervals of a pipeline as a strip: one cell per interval, and what became of it.

    open   closed   hole   blocked   published   rebuilt   empty   warned   overridden
    `------ without a publication -'  `------------- with one, by its newest ---------'

Closed is a hole where a later interval has a publication: runs passed it by. Pure functions over register rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from windrow.semantics.close import is_closed
from windrow.semantics.intervals import Interval, interval_of, intervals_between, shifted

LENGTH = 48
"""Intervals of a strip."""


class CellState(Enum):
    """What became of an interval: its word for people, and its letter in a terminal."""

    OPEN = "open", "-"
    CLOSED = "closed", "c"
    HOLE = "hole", "H"
    BLOCKED = "blocked", "B"
    PUBLISHED = "published", "."
    REBUILT = "rebuilt", "r"
    EMPTY = "empty", "e"
    WARNED = "warned", "w"
    OVERRIDDEN = "overridden", "o"

    @property
    def word(self) -> str:
        """Word shown to people."""
        return self.value[0]

    @property
    def letter(self) -> str:
        """Letter of a strip in a terminal."""
        return self.value[1]


@dataclass(frozen=True)
class Cell:
    """One interval of a strip."""

    interval: Interval
    state: CellState
    row: Mapping[str, Any] | None = None
    """the register row of its standing publication"""

    @property
    def rows(self) -> int | None:
        """Published rows."""
        return self.row["rows"] if self.row else None

    @property
    def label_rate(self) -> float | None:
        """Positive of the rows whose label side was complete; None without such rows.

        A silent interval keeps its positives and has no negatives: over all decided rows its rate would be 1.
        """
        if not self.row:
            return None
        positive = self.row.get("positive_complete")
        if positive is None:  # of a release that did not count them
            positive = None if self.row["unknown"] else self.row["positive"]
        decided = None if positive is None else positive + self.row["negative"]
        return positive / decided if decided else None

    @property
    def unknown_rate(self) -> float | None:
        """Unknown of all rows."""
        return self.row["unknown"] / self.row["rows"] if self.row and self.row["rows"] else None


def shown(start: datetime, interval: timedelta, newest: datetime, length: int = LENGTH) -> list[Interval]:
    """Return the intervals of a strip, oldest first: up to the one that holds `newest`, none before `start`."""
    last = interval_of(max(newest, start), start, interval)
    first = max(start, shifted(last.end, -length * interval))
    return list(intervals_between(first, last.end, interval))


def cells(
    intervals: Sequence[Interval],
    standing: Mapping[datetime, Mapping[str, Any]],
    blocked: Container[datetime],
    frontier: datetime | None,
) -> list[Cell]:
    """Return the cells of a strip.

    Args:
        intervals: oldest first.
        standing: start → register row of the publication that stands.
        blocked: starts of intervals that a judgement keeps back.
        frontier: event time before which every window has closed.
    """
    last = max((one.start for one in intervals if one.start in standing), default=None)

    def state(one: Interval) -> CellState:
        if row := standing.get(one.start):
            return _published(row)
        if one.start in blocked:
            return CellState.BLOCKED
        if not is_closed(one, frontier):
            return CellState.OPEN
        return CellState.HOLE if last is not None and one.start < last else CellState.CLOSED

    return [Cell(one, state(one), standing.get(one.start)) for one in intervals]


def letters(strip: Sequence[Cell]) -> str:
    """Return a strip as one letter per interval, oldest first."""
    return "".join(cell.state.letter for cell in strip)


def _published(row: Mapping[str, Any]) -> CellState:
    by_verdict = {"overridden": CellState.OVERRIDDEN, "warned": CellState.WARNED, "empty": CellState.EMPTY}
    other = CellState.REBUILT if row["kind"] == "rebuild" else CellState.PUBLISHED
    return by_verdict.get(row["verdict"], other)
