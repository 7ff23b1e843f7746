"""Suite files: the expectations of a pipeline, as reviewed source in expectations/NAME.yaml.

Loaded completely or refused with every problem, each with its line and what would be right. Loading is
light: the names of Great Expectations' types are read from its folder, the package is not imported.

    description: What this suite is for.
    extends: training_rows                  # optional: its entries come first
    expectations:
      - type: expect_column_max_to_be_between
        kwargs: {column: duplicate_row_ids, min_value: 0, max_value: 0}
        severity: critical                  # critical | warning | info
        notes: What it protects, and what to do when it fails.

The column is the name of a measure, or a pattern such as `null_rate.*` that stands for every measure it
matches. A measure that is absent is an error of the gate; only a pattern may say `may_be_absent: true`.
`where: rows >= 100` judges an entry only where another measure is so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from windrow.config.problems import Location, PipelineInvalid, Problem, near_miss
from windrow.config.yaml_file import Document, read_document, read_text

LANDING = "landing_rows"
"""Judged for every pipeline, whatever suite it names."""

TRAINING = "training_rows"
"""Judged where a pipeline names no suite of its own."""

SEVERITIES = ("critical", "warning", "info")

_SUITE_FIELDS = ("description", "extends", "expectations")
_ENTRY_FIELDS = ("type", "kwargs", "where", "severity", "notes", "may_be_absent")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_WHERE = re.compile(r"(\S+) *(>=|<=|==|>|<) *(-?\d+(?:\.\d+)?)")
_GATE_DECIDES = "the gate decides this; leave it out"
_NO_KWARGS = {
    **dict.fromkeys(("result_format", "catch_exceptions", "batch_id", "meta"), _GATE_DECIDES),
    **dict.fromkeys(("severity", "notes"), "this stands beside kwargs, not in them"),
    **dict.fromkeys(("row_condition", "condition_parser"), "write `where: rows >= 100` beside kwargs"),
}


class SuiteInvalid(ValueError):
    """A suite file that cannot be used. `str()` is one line for each problem; a retry never helps."""

    def __init__(self, path: Path | str, problems: Sequence[Problem]) -> None:
        self.path = Path(path)
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(problem.at(path) for problem in self.problems))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.path, self.problems)


@dataclass(frozen=True)
class Where:
    """The condition under which an entry is judged: another measure against a number."""

    measure: str
    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.measure} {self.operator} {self.value:g}"


@dataclass(frozen=True)
class Expectation:
    """One entry of a suite file: a Great Expectations type about one measure, or a pattern of measures."""

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
        return any(mark in self.column for mark in "*?[")

    def columns(self, measures: Mapping[str, float | None]) -> tuple[str, ...]:
        """The measures this entry is about; a named one also where it is absent: the gate must see it."""
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


def suites_for(folder: Path, name: str) -> tuple[Suite, ...]:
    """What judges a pipeline: the landing suite always, and the suite that the pipeline names."""
    return tuple(load(folder, one) for one in dict.fromkeys((LANDING, name)))


def available(folder: Path) -> list[str]:
    """Names of the suites in a folder."""
    return sorted(path.stem for path in Path(folder).glob("*.yaml"))


def load(folder: Path, name: str) -> Suite:
    """The suite of expectations/NAME.yaml.

    Raises SuiteInvalid with every problem of the file, also where there is no such file.
    """
    return _load(Path(folder), name, ())


def _load(folder: Path, name: str, seen: tuple[str, ...]) -> Suite:
    path = folder / f"{name}.yaml"
    if not _NAME.fullmatch(name):
        wrong_name = f"{name[:100]!r} is no suite name: letters, digits, - and _"
        raise SuiteInvalid(folder, [Problem(0, "", wrong_name)])
    if not path.is_file():
        hint = near_miss(name, available(folder), "the suites here are")
        raise SuiteInvalid(path, [Problem(0, "", f"there is no suite {name!r}; {hint}")])
    try:
        document = read_document(read_text(path), path, first="expectations", typed=True)
    except PipelineInvalid as wrong:
        raise SuiteInvalid(path, wrong.problems) from None
    reader = _Reader(document)
    fields = reader.mapping(document.tree, (), _SUITE_FIELDS, required=("expectations",))
    inherited: tuple[Expectation, ...] = ()
    if "extends" in fields:
        inherited = reader.inherited(str(fields["extends"]), folder, (*seen, name))
    own = tuple(reader.entries(fields.get("expectations")))
    if document.problems:
        raise SuiteInvalid(path, document.problems)
    return Suite(name, path, str(fields.get("description", "")), inherited + own)


class _Reader:
    """Reads a file's tree, collecting every problem with its line in the document."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def wrong(self, where: Location, message: str) -> None:
        self.document.problems.append(self.document.problem(where, message))

    def mapping(self, tree: object, where: Location, known: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
        """A mapping's values by key; unknown and missing keys are problems."""
        if not isinstance(tree, dict):
            self.wrong(where, f"this is not a mapping; it has the fields {', '.join(required)}")
            return {}
        for name in tree:
            if known and name not in known:
                self.wrong((*where, name), f"unknown field; {near_miss(name, known)}")
        for name in required:
            if name not in tree:
                self.wrong(where, f"{name!r} is missing")
        return tree

    def inherited(self, name: str, folder: Path, seen: tuple[str, ...]) -> tuple[Expectation, ...]:
        if name in seen:
            self.wrong(("extends",), f"{' extends '.join((*seen, name))}: a circle; leave one out")
            return ()
        try:
            return _load(folder, name, seen).expectations
        except SuiteInvalid as other:
            self.wrong(("extends",), f"{name!r} cannot be used: {other.problems[0].at(other.path)}")
            return ()

    def entries(self, items: object) -> Iterator[Expectation]:
        if "expectations" not in self.document.tree:
            return
        if not isinstance(items, list) or not items:
            self.wrong(("expectations",), "at least one expectation; a suite without one passes all")
            return
        for number, item in enumerate(items):
            before = len(self.document.problems)
            entry = self.entry(item, ("expectations", number))
            if entry is not None and len(self.document.problems) == before:
                yield entry

    def entry(self, tree: object, where: Location) -> Expectation | None:
        required = ("type", "kwargs", "severity", "notes")
        parts = self.mapping(tree, where, _ENTRY_FIELDS, required)
        if any(name not in parts for name in required):
            return None
        kwargs = self.kwargs(parts["kwargs"], (*where, "kwargs"))
        column = kwargs.pop("column", "")
        type_, severity, notes = (parts[name] for name in ("type", "severity", "notes"))
        if type_ not in known_types():
            self.wrong((*where, "type"), _unknown_type(str(type_)))
        if severity not in SEVERITIES:
            known = f"{str(severity)[:100]!r} is not one of {', '.join(SEVERITIES)}"
            self.wrong((*where, "severity"), known)
        if not isinstance(notes, str) or not notes.strip():
            self.wrong((*where, "notes"), "say what it protects, and what to do when it fails")
        absent = parts.get("may_be_absent", False)
        entry = Expectation(
            str(type_),
            str(column),
            MappingProxyType(kwargs),
            str(severity),
            " ".join(str(notes).split()),
            self.document.path,
            self.document.line(where),
            self.where(str(parts["where"]), (*where, "where")) if "where" in parts else None,
            bool(absent),
        )
        if not isinstance(absent, bool) or (absent and not entry.is_pattern):
            self.wrong(
                (*where, "may_be_absent"),
                "true or false, and true only where the column is a pattern: a named measure must be there",
            )
        return entry

    def where(self, text: str, where: Location) -> Where | None:
        found = _WHERE.fullmatch(text.strip())
        if found is None:
            self.wrong(where, f"{text[:100]!r} is not a condition; write a measure and a number: rows >= 100")
            return None
        return Where(found[1], found[2], float(found[3]))

    def kwargs(self, tree: object, where: Location) -> dict[str, Any]:
        values = dict(self.mapping(tree, where, (), ("column",)))
        for name, instead in _NO_KWARGS.items():
            if name in values:
                self.wrong((*where, name), instead)
        if "column" in values and (not isinstance(values["column"], str) or not values["column"]):
            self.wrong((*where, "column"), "the name of a measure, or a pattern: null_rate.*")
        return values


@cache
def known_types() -> frozenset[str]:
    """Great Expectations' types about one column, read from its folder: importing it takes seconds."""
    spec = find_spec("great_expectations")
    places = (spec.submodule_search_locations or ()) if spec else ()
    names = {path.stem for place in places for path in Path(place).glob("expectations/core/expect_column_*.py")}
    return frozenset(name for name in names if not name.startswith("expect_column_pair_"))


def _unknown_type(name: str) -> str:
    if re.fullmatch(r"(Expect|expect)\w*", name) and any(letter.isupper() for letter in name):
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        if snake in known_types():
            return f"write {name!r} in snake case: {snake}"
    if name.startswith(("expect_table_", "expect_column_pair_", "expect_multicolumn_", "expect_compound_")):
        return f"{name!r} is not about one measure; use a type that has a column"
    return f"{name[:100]!r} is no expectation about a column; {near_miss(name, known_types())}"
