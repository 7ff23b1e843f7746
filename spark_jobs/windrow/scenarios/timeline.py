"""A scenario on a timeline, and expected above found rows, as text that fits a terminal.

           0                   50                  100
k@0        ├───────────────────window───────────────┤
  expected                                          │           positive, labels k@100
  found                                             ││          positive, labels k@100 k@101
                                                     ^
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.scenarios.notation import Row, Times

WIDTH = 64
MARGIN = 16


@dataclass(frozen=True)
class Axis:
    """Event times on `WIDTH` columns.

    On a linear scale if every two marks get columns of their own; else evenly by rank, so that 0 and 2099 can both be
    shown.
    """

    marks: tuple[datetime, ...]
    times: Times

    @classmethod
    def of(cls, instants: Iterable[datetime], times: Times) -> Axis:
        """An axis with a mark for each of these instants."""
        return cls(tuple(sorted(set(instants))), times)

    def column(self, at: datetime) -> int:
        """Column of an instant, from 0."""
        if len(self.marks) < 2:
            return 0
        span = self.marks[-1] - self.marks[0]
        if self._is_linear:
            return round((at - self.marks[0]) / span * (WIDTH - 1))
        below = sum(mark < at for mark in self.marks)
        return min(WIDTH - 1, round(below / (len(self.marks) - 1) * (WIDTH - 1)))

    @property
    def _is_linear(self) -> bool:
        """Whether every two marks are far enough apart for columns of their own on a linear scale."""
        gaps = [b - a for a, b in zip(self.marks, self.marks[1:], strict=False)]
        return min(gaps) / (self.marks[-1] - self.marks[0]) * (WIDTH - 1) >= 1

    def ruler(self) -> str:
        """The line with the times of the marks."""
        line = [" "] * (WIDTH + 12)
        free_from = 0
        for mark in self.marks:
            text, column = self.times.text_at(mark), self.column(mark)
            if column >= free_from:
                line[column : column + len(text)] = text
                free_from = column + len(text) + 1
        return _margin("") + "".join(line).rstrip()

    def draw(self, points: Mapping[datetime, str]) -> str:
        """A line with a character at each of these instants."""
        line = [" "] * WIDTH
        for at, mark in points.items():
            line[self.column(at)] = mark
        return "".join(line)

    def span(self, first: datetime, last: datetime, at: datetime) -> str:
        """A line with a window from `first` to `last` around an event `at`."""
        a, b = self.column(first), self.column(last)
        line = [" "] * WIDTH
        line[a : b + 1] = "─" * (b - a + 1)
        line[a], line[b] = "├", "┤"
        line[self.column(at)] = "●"
        return "".join(line)


@dataclass(frozen=True)
class Windows:
    """Event times and windows of a scenario, to draw its rows."""

    times: Times
    at: Mapping[tuple[str, str], datetime]
    """(stream, event) → event time"""
    window: Mapping[str, tuple[timedelta, timedelta]]
    """right stream → (before, after)"""
    left: str


def differences(expected: Sequence[Row], found: Sequence[Row], windows: Windows) -> list[str]:
    """Lines that show the differing rows, expected above found, on a timeline; equal rows are only counted."""
    wanted, got = {row.name: row for row in expected}, {row.name: row for row in found}
    names = list(dict.fromkeys([*wanted, *got]))
    lines = []
    differing = [name for name in names if wanted.get(name) != got.get(name)]
    for name in differing:
        lines += _row(name, wanted.get(name), got.get(name), windows)
    if len(names) > len(differing):
        lines.append(f"  ({len(names) - len(differing)} more rows as expected)")
    if not differing and [r.name for r in expected] != [r.name for r in found]:
        lines += [
            f"  expected order  {' '.join(r.name for r in expected)}",
            f"  found order     {' '.join(r.name for r in found)}",
        ]
    return lines


def _row(name: str, wanted: Row | None, got: Row | None, windows: Windows) -> list[str]:
    lines: list[str] = []
    streams = sorted({s for row in (wanted, got) if row for s, _ in row.matches}) or sorted(windows.window)[:1]
    left_at = windows.at[windows.left, name]
    for stream in streams:
        before, after = windows.window[stream]
        matches = [dict(row.matches).get(stream, ()) if row else () for row in (wanted, got)]
        both = {
            m: windows.at[stream, m] for m in dict.fromkeys([*matches[0], *matches[1]]) if (stream, m) in windows.at
        }
        axis = Axis.of([left_at - before, left_at, left_at + after, *both.values()], windows.times)
        lines += [
            axis.ruler(),
            _margin(f"{name} {stream}") + axis.span(left_at - before, left_at + after, left_at).rstrip(),
        ]
        for title, names, row in (("expected", matches[0], wanted), ("found", matches[1], got)):
            points = {both[m]: "◆" for m in names if m in both}
            lines.append(f"{_margin('  ' + title)}{axis.draw(points)}  {_row_text(row)}")
    return [*lines, ""]


def _row_text(row: Row | None) -> str:
    return "no such row" if row is None else str(row).partition(": ")[2]


def _margin(text: str) -> str:
    return text[:MARGIN].ljust(MARGIN)
