"""Suites and their entries as frozen values; `suites` reads them from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from windrow.config.problems import Problem


class SuiteInvalid(ValueError):
    """A suite file that cannot be used: one line per problem. An edit helps, a retry does not."""

    def __init__(self, path: Path | str, problems: Sequence[Problem]) -> None:
        self.path = Path(path)
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(problem.at(path) for problem in self.problems))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.path, self.problems)


@dataclass(frozen=True)
class Where:
    """Condition under which an entry is judged: another measure compared with a number."""

    measure: str
    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.measure} {self.operator} {self.value:g}"


@dataclass(frozen=True)
class Expectation:
    """One entry of a suite file: a type of Great Expectations about one measure, or about a pattern of measures."""

    type: str
    column: str
    kwargs: Mapping[str, Any]
    severity: str
    notes: str
    path: Path
    line: int
    where: Where | None = None
    may_be_absent: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether the column is a pattern: the entry is about every measure that it matches."""
        return any(mark in self.column for mark in "*?[")

    def columns(self, measures: Mapping[str, float | None]) -> tuple[str, ...]:
        """Names of the measures that the entry is about; a missing one is named too, so that the gate reports it."""
        if not self.is_pattern:
            return (self.column,)
        found = tuple(sorted(name for name in measures if fnmatchcase(name, self.column)))
        return found or (() if self.may_be_absent else (self.column,))


@dataclass(frozen=True)
class Suite:
    """A checked suite file."""

    name: str
    path: Path
    description: str
    expectations: tuple[Expectation, ...]
