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

import yaml

from windrow.config.problems import Problem, near_miss

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
    try:
        top = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        hint = near_miss(name, available(folder), "the suites here are")
        raise SuiteInvalid(path, [Problem(0, "", f"there is no suite {name!r}; {hint}")]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as wrong:
        raise SuiteInvalid(path, [_unreadable(wrong)]) from None
    reader = _Reader(path)
    fields = reader.mapping(top, "", _SUITE_FIELDS, required=("expectations",))
    inherited: tuple[Expectation, ...] = ()
    if "extends" in fields:
        inherited = reader.inherited(fields["extends"], folder, (*seen, name))
    own = tuple(reader.entries(fields.get("expectations")))
    if reader.problems:
        raise SuiteInvalid(path, reader.problems)
    description = reader.value(fields["description"]) if "description" in fields else ""
    return Suite(name, path, str(description), inherited + own)


class _Reader:
    """Walks a file's nodes, keeping every problem with its line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def wrong(self, node: yaml.Node | None, field: str, message: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 0
        self.problems.append(Problem(line, field, message))

    def value(self, node: yaml.Node) -> Any:
        """The node as plain Python values."""
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_document(node)
        finally:
            loader.dispose()

    def mapping(
        self, node: yaml.Node | None, field: str, known: Sequence[str], required: Sequence[str]
    ) -> dict[str, yaml.Node]:
        """A mapping's nodes by key; unknown, repeated and missing keys are problems."""
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, field, f"this is no mapping; it has the fields {', '.join(required)}")
            return {}
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            inside = f"{field}.{name}" if field else name
            if name in found:
                self.wrong(key, inside, "this field stands here twice; keep one")
            elif known and name not in known:
                self.wrong(key, inside, f"unknown field; {near_miss(name, known)}")
            found[name] = value
        for name in required:
            if name not in found:
                self.wrong(node, field, f"{name!r} is missing")
        return found

    def inherited(self, node: yaml.Node, folder: Path, seen: tuple[str, ...]) -> tuple[Expectation, ...]:
        name = str(self.value(node))
        if name in seen:
            self.wrong(node, "extends", f"{' extends '.join((*seen, name))}: a circle; leave one out")
            return ()
        try:
            return _load(folder, name, seen).expectations
        except SuiteInvalid as other:
            self.wrong(node, "extends", f"{name!r} cannot be used: {other.problems[0].at(other.path)}")
            return ()

    def entries(self, node: yaml.Node | None) -> Iterator[Expectation]:
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self.wrong(node, "expectations", "at least one expectation; a suite without one passes all")
            return
        for number, item in enumerate(node.value):
            before = len(self.problems)
            entry = self.entry(item, f"expectations[{number}]")
            if entry is not None and len(self.problems) == before:
                yield entry

    def entry(self, node: yaml.Node, field: str) -> Expectation | None:
        required = ("type", "kwargs", "severity", "notes")
        parts = self.mapping(node, field, _ENTRY_FIELDS, required)
        if any(name not in parts for name in required):
            return None
        kwargs = self.kwargs(parts["kwargs"], f"{field}.kwargs")
        column = kwargs.pop("column", "")
        type_, severity, notes = (self.value(parts[name]) for name in ("type", "severity", "notes"))
        if type_ not in known_types():
            self.wrong(parts["type"], f"{field}.type", _unknown_type(str(type_)))
        if severity not in SEVERITIES:
            known = f"{str(severity)[:100]!r} is not one of {', '.join(SEVERITIES)}"
            self.wrong(parts["severity"], f"{field}.severity", known)
        if not isinstance(notes, str) or not notes.strip():
            self.wrong(parts["notes"], f"{field}.notes", "say what it protects, and what to do when it fails")
        absent = self.value(parts["may_be_absent"]) if "may_be_absent" in parts else False
        entry = Expectation(
            str(type_),
            str(column),
            MappingProxyType(kwargs),
            str(severity),
            " ".join(str(notes).split()),
            self.path,
            node.start_mark.line + 1,
            self.where(parts["where"], f"{field}.where") if "where" in parts else None,
            bool(absent),
        )
        if not isinstance(absent, bool) or (absent and not entry.is_pattern):
            self.wrong(
                parts["may_be_absent"],
                f"{field}.may_be_absent",
                "true or false, and true only where the column is a pattern: a named measure must be there",
            )
        return entry

    def where(self, node: yaml.Node, field: str) -> Where | None:
        text = str(self.value(node))
        found = _WHERE.fullmatch(text.strip())
        if found is None:
            self.wrong(node, field, f"{text[:100]!r} is no condition; write a measure and a number: rows >= 100")
            return None
        return Where(found[1], found[2], float(found[3]))

    def kwargs(self, node: yaml.Node, field: str) -> dict[str, Any]:
        parts = self.mapping(node, field, (), ("column",))
        for name, instead in _NO_KWARGS.items():
            if name in parts:
                self.wrong(parts[name], f"{field}.{name}", instead)
        values = {name: self.value(value) for name, value in parts.items()}
        if "column" in values and (not isinstance(values["column"], str) or not values["column"]):
            self.wrong(parts["column"], f"{field}.column", "the name of a measure, or a pattern: null_rate.*")
        return values


def _unreadable(wrong: Exception) -> Problem:
    mark = getattr(wrong, "problem_mark", None)
    what = getattr(wrong, "problem", None) or str(wrong)
    return Problem(mark.line + 1 if mark else 0, "", f"this is no YAML: {what}")


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
