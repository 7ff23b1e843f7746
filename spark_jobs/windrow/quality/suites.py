"""Suite files: the expectations of a pipeline, as reviewed source in expectations/NAME.yaml.

A file is loaded completely, or refused with every problem, its line and what would be right. Loading is fast: the
names of Great Expectations' types are listed from its folder, and the package is not imported.

    description: What this suite is for.
    extends: training_rows                  # optional: its entries come first; a suite of another folder may extend one
                                            # of its own name, whose place it takes
    expectations:
      - type: expect_column_max_to_be_between
        kwargs: {column: duplicate_row_ids, min_value: 0, max_value: 0}
        severity: critical                  # critical | warning | info
        notes: What it protects, and what to do when it fails.

The column is the name of a measure, or a pattern such as `null_rate.*` for every measure that it matches. An
absent measure is an error of the gate; only a pattern may have `may_be_absent: true`. With `where: rows >= 100` the
entry is judged only if that other measure fulfils the condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from windrow.config.problems import Location, PipelineInvalid, Problem, near_miss
from windrow.config.yaml_file import Document, read_document, read_text
from windrow.places import Folders, folders_of
from windrow.quality.expectations import Expectation, Suite, SuiteInvalid, Where

LANDING = "landing_rows"
"""Suite that judges every pipeline, in addition to the one that the pipeline names."""

SEVERITIES = ("critical", "warning", "info")

_SUITE_FIELDS = ("description", "extends", "expectations")
_ENTRY_FIELDS = ("type", "kwargs", "where", "severity", "notes", "may_be_absent")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_WHERE = re.compile(r"(\S+) *(>=|<=|==|>|<) *(-?\d+(?:\.\d+)?)")
_GATE_DECIDES = "the gate decides this; leave it out"
_NO_KWARGS = {
    **dict.fromkeys(("result_format", "catch_exceptions", "batch_id", "meta"), _GATE_DECIDES),
    **dict.fromkeys(("severity", "notes"), "this is a field of the entry, not one of kwargs"),
    **dict.fromkeys(("row_condition", "condition_parser"), "write it as a field of the entry: `where: rows >= 100`"),
}


def suites_for(folders: Folders, name: str) -> tuple[Suite, ...]:
    """Load the suites that judge a pipeline: the landing suite, and the one that the pipeline names.

    Args:
        folders: where suites are looked for; of two with the same name the first one counts.

    Raises:
        SuiteInvalid: with every problem of the first file that cannot be used.
    """
    return tuple(load(folders, one) for one in dict.fromkeys((LANDING, name)))


def available(folders: Folders) -> list[str]:
    """Return the names of the suites in some folders, sorted."""
    return sorted({path.stem for folder in folders_of(folders) for path in folder.glob("*.yaml")})


def load(folders: Folders, name: str) -> Suite:
    """Load the suite `name`.yaml of the first folder that has it.

    Raises:
        SuiteInvalid: with every problem of the file, or because there is no such file.
    """
    return _load(folders_of(folders), name, ())


def _load(folders: tuple[Path, ...], name: str, seen: tuple[Path, ...]) -> Suite:
    """Load a suite.

    Args:
        seen: files of the suites that lead here by `extends`, of which none can be meant.
    """
    if not _NAME.fullmatch(name):
        wrong_name = f"{name[:100]!r} is not a suite name; it has letters, digits, - and _"
        raise SuiteInvalid(folders[0], [Problem(0, "", wrong_name)])
    files = _files(folders, name)
    there = [file for file in files if file.is_file() and file not in seen]
    if not there:
        hint = near_miss(name, available(folders), "the suites here are")
        raise SuiteInvalid(files[-1], [Problem(0, "", f"there is no suite {name!r}; {hint}")])
    path = there[0]
    try:
        document = read_document(read_text(path), path, first="expectations", typed=True)
    except PipelineInvalid as wrong:
        raise SuiteInvalid(path, wrong.problems) from None
    reader = _Reader(document)
    fields = reader.mapping(document.tree, (), _SUITE_FIELDS, required=("expectations",))
    inherited: tuple[Expectation, ...] = ()
    if "extends" in fields:
        inherited = reader.inherited(str(fields["extends"]), folders, (*seen, path))
    own = tuple(reader.entries(fields.get("expectations")))
    if document.problems:
        raise SuiteInvalid(path, document.problems)
    return Suite(name, path, str(fields.get("description", "")), inherited + own)


def _files(folders: tuple[Path, ...], name: str) -> list[Path]:
    return [folder / f"{name}.yaml" for folder in folders]


class _Reader:
    """Reads a file's tree, collecting every problem with its line in the document."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def wrong(self, where: Location, message: str) -> None:
        """Collect a problem."""
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

    def inherited(self, name: str, folders: tuple[Path, ...], seen: tuple[Path, ...]) -> tuple[Expectation, ...]:
        """Entries of the suite that this one extends; `seen`: the files that lead here."""
        there = [file for file in _files(folders, name) if file.is_file()]
        if there and set(there) <= set(seen):
            names = " extends ".join([*(file.stem for file in seen), name])
            self.wrong(("extends",), f"{names}: these extend each other; remove one `extends`")
            return ()
        try:
            return _load(folders, name, seen).expectations
        except SuiteInvalid as other:
            self.wrong(("extends",), f"{name!r} cannot be used: {other.problems[0].at(other.path)}")
            return ()

    def entries(self, items: object) -> Iterator[Expectation]:
        """Entries without a problem."""
        if "expectations" not in self.document.tree:
            return
        if not isinstance(items, list) or not items:
            self.wrong(("expectations",), "give at least one expectation; a suite without any would pass everything")
            return
        for number, item in enumerate(items):
            before = len(self.document.problems)
            entry = self.entry(item, ("expectations", number))
            if entry is not None and len(self.document.problems) == before:
                yield entry

    def entry(self, tree: object, where: Location) -> Expectation | None:
        """One entry; None if a required field is missing."""
        required = ("type", "kwargs", "severity", "notes")
        parts = self.mapping(tree, where, _ENTRY_FIELDS, required)
        if any(name not in parts for name in required):
            return None
        kwargs = self.kwargs(parts["kwargs"], (*where, "kwargs"))
        column = kwargs.pop("column", "")
        type_, severity, notes = (parts[name] for name in ("type", "severity", "notes"))
        if str(type_) not in known_types():
            self.wrong((*where, "type"), _unknown_type(str(type_)))
        if severity not in SEVERITIES:
            known = f"{str(severity)[:100]!r} is not one of {', '.join(SEVERITIES)}"
            self.wrong((*where, "severity"), known)
        if not isinstance(notes, str) or not notes.strip():
            self.wrong((*where, "notes"), "write what it protects, and what to do when it fails")
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
                "true or false, and true only if the column is a pattern: a named measure must be there",
            )
        return entry

    def where(self, text: str, where: Location) -> Where | None:
        """The condition of an entry."""
        found = _WHERE.fullmatch(text.strip())
        if found is None:
            self.wrong(where, f"{text[:100]!r} is not a condition; write a measure and a number: rows >= 100")
            return None
        return Where(found[1], found[2], float(found[3]))

    def kwargs(self, tree: object, where: Location) -> dict[str, Any]:
        """The kwargs of an entry, including its column."""
        values = dict(self.mapping(tree, where, (), ("column",)))
        for name, instead in _NO_KWARGS.items():
            if name in values:
                self.wrong((*where, name), instead)
        if "column" in values and (not isinstance(values["column"], str) or not values["column"]):
            self.wrong((*where, "column"), "give the name of a measure, or a pattern: null_rate.*")
        return values


@cache
def known_types() -> frozenset[str]:
    """Great Expectations' types about one column, listed from its folder, because importing it takes seconds."""
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
    return f"{name[:100]!r} is not an expectation about a column; {near_miss(name, known_types())}"
