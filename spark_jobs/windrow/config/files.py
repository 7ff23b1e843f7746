"""Pipeline files: read strictly, found by name.

Reading a file returns a complete `Pipeline` or raises `PipelineInvalid` with every problem.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from windrow.config.fields import NAME
from windrow.config.messages import UNKNOWN_FIELD, problems_of
from windrow.config.pipeline import Pipeline
from windrow.config.problems import (
    Inconsistent,
    Location,
    PipelineInvalid,
    PipelineUnknown,
    Problem,
    near_miss,
)
from windrow.config.warnings import warnings_of
from windrow.config.yaml_file import Document, Tree, read_document, read_text
from windrow.places import PROJECT, Folders, folders_of
from windrow.text import short

_SUFFIXES = (".yaml", ".yml")
_NAME_LINE = re.compile(r"^name:[ \t]+([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)


def load(path: Path | str, expectations: Folders | None = None) -> Pipeline:
    """Load a pipeline file.

    Args:
        expectations: folder or folders of the expectation suites; default: the project's own.

    Raises:
        PipelineInvalid: with every problem of the file.
    """
    return check(path, expectations)[0]


def check(path: Path | str, expectations: Folders | None = None) -> tuple[Pipeline, list[Problem]]:
    """Load a pipeline file as `load` does, and return its warnings too (see `warnings`)."""
    path = Path(path)
    return _checked(read_document(read_text(path), path), expectations)


def refusal(path: Path | str, findings: Iterable[tuple[Location, str]]) -> PipelineInvalid:
    """The error for a file whose problems only Spark could find: the findings, each with its line."""
    path = Path(path)
    document = read_document(read_text(path), path)
    return PipelineInvalid(path, [document.problem(where, message) for where, message in findings])


def parse(content: str, path: Path | str = "pipeline.yaml", expectations: Folders | None = None) -> Pipeline:
    """Load a pipeline from text, as `load` does from a file; `path` is only for messages."""
    return _checked(read_document(content, Path(path)), expectations)[0]


def discover(folders: Iterable[Path | str]) -> dict[str, Path]:
    """The pipeline files in these folders, by pipeline name; a missing folder counts as empty.

    A file that cannot be read is listed by its file name, so that it does not hide the others; loading it raises.

    Raises:
        PipelineInvalid: two files have the same name.
    """
    paths: dict[str, Path] = {}
    lines: dict[str, int] = {}
    for path in _files(folders):
        name, line = _name_in(path)
        if name in paths:
            message = f"{short(name)} is also the name in {paths[name]}:{lines[name]}; rename one of them"
            raise PipelineInvalid(path, [Problem(line, "name", message)])
        paths[name], lines[name] = path, line
    return paths


def find(name: str, folders: Iterable[Path | str], expectations: Folders | None = None) -> Pipeline:
    """Load the pipeline of this name.

    Raises:
        PipelineUnknown: no file has the name; the message lists the known ones.
        PipelineInvalid: its file cannot be used.
    """
    places = tuple(Path(folder) for folder in folders)
    return _named(name, discover(places), places, expectations)


class Finder:
    """Finds pipelines as `find` does, again and again: files are read only after one of them, or a suite, has changed.

    A process that looks at all pipelines every few seconds would read each file once per pipeline otherwise.
    """

    def __init__(self) -> None:
        self._stamps: frozenset[tuple[str, int, int]] | None = None
        self._known: dict[str, Path] = {}
        self._twice: PipelineInvalid | None = None
        self._found: dict[str, Pipeline] = {}

    def look_again(self, folders: Iterable[Path | str], expectations: Folders | None = None) -> None:
        """Forget what was read if a file has come, gone or changed in one of these folders."""
        self._folders, self._expectations = tuple(Path(folder) for folder in folders), expectations
        stamps = frozenset(_stamps((*self._folders, *folders_of(expectations or ()))))
        if stamps != self._stamps:
            self._known, self._twice, self._found = {}, None, {}
            try:
                self._known = discover(self._folders)
            except PipelineInvalid as twice:
                self._twice = twice
            self._stamps = stamps

    def find(self, name: str) -> Pipeline:
        """Return the pipeline of this name, as `find` does, in the folders that were last looked at."""
        if self._twice:
            raise self._twice
        if name not in self._found:
            self._found[name] = _named(name, self._known, self._folders, self._expectations)
        return self._found[name]


def _stamps(folders: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    """Name, time of change and size of every file in these folders."""
    for folder in folders:
        for entry in os.scandir(folder) if folder.is_dir() else ():
            with suppress(OSError):  # it is being replaced
                there = entry.stat()
                yield entry.path, there.st_mtime_ns, there.st_size


def _named(name: str, known: Mapping[str, Path], places: Sequence[Path], expectations: Folders | None) -> Pipeline:
    if name not in known:
        once = {folder.resolve(): folder for folder in reversed(places)}  # a folder may be named twice, or linked
        there = [folder for folder in places if folder is once[folder.resolve()]]
        looked = ", ".join(str(folder) if folder.is_dir() else f"{folder} (no such folder)" for folder in there)
        hint = near_miss(name, known, "pipelines are")
        message = f"there is no pipeline {short(name)}; {hint} (looked in {looked})"
        raise PipelineUnknown(None, [Problem(0, "", message)])
    return load(known[name], expectations)


def _files(folders: Iterable[Path | str]) -> Iterator[Path]:
    """YAML files in these folders, each once, even if a folder is named twice or linked."""
    seen: set[Path] = set()
    for folder in folders:
        for path in sorted(Path(folder).glob("*")) if Path(folder).is_dir() else ():
            if path.suffix in _SUFFIXES and path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _name_in(path: Path) -> tuple[str, int]:
    """The pipeline's name in a file and its line; the file's own name if it cannot be read.

    A file that is called what it says in a line of its own is not parsed. Every job looks at all files, so a hundred
    pipelines would otherwise parse a hundred files for each task of each.
    """
    try:
        text = read_text(path)
        if (line := _NAME_LINE.search(text)) and line[1] == path.stem:
            return path.stem, text.count("\n", 0, line.start()) + 1
        document = read_document(text, path)
    except PipelineInvalid:
        return path.stem, 1
    name = document.tree.get("name")
    return name if isinstance(name, str) else path.stem, document.line(("name",))


def _checked(document: Document, expectations: Folders | None) -> tuple[Pipeline, list[Problem]]:
    problems = list(document.problems)
    pipeline: Pipeline | None = None
    tree = document.tree
    for _ in range(2):  # pydantic stops at unknown fields: a second try without them finds the other problems
        try:
            pipeline = Pipeline.model_validate(tree, by_alias=True, by_name=False)
        except Inconsistent as wrong:
            problems += (document.problem(where, message) for where, message in wrong.findings)
        except ValidationError as wrong:
            problems += problems_of(wrong, document)
            unknown = [error["loc"] for error in wrong.errors() if error["type"] in UNKNOWN_FIELD]
            if len(unknown) == wrong.error_count():
                tree = without(tree, unknown)
                continue
        break
    suites = folders_of(expectations if expectations is not None else PROJECT / "expectations")
    problems += _suite_problems(document, suites)
    if problems or pipeline is None:
        raise PipelineInvalid(document.path, list(dict.fromkeys(problems)))
    warnings = [document.problem(where, message) for where, message in warnings_of(pipeline)]
    if document.path.stem != pipeline.name:
        message = f"the file is called {document.path.name}; {pipeline.name}.yaml is where people look for it"
        warnings.append(document.problem(("name",), message))
    return pipeline, warnings


def without(tree: dict[str, Tree], unknown: Iterable[Location]) -> dict[str, Tree]:
    """The tree without the fields at these locations."""
    rest = copy.deepcopy(tree)
    for *around, last in unknown:
        node: Any = rest
        for part in around:
            node = node[part]
        node.pop(last, None)
    return rest


def _suite_problems(document: Document, folders: Sequence[Path]) -> Iterator[Problem]:
    """The suite must exist before the first candidate has to be judged."""
    name = document.tree.get("expectations") or Pipeline.model_fields["expectations"].default
    if not isinstance(name, str) or not NAME.fullmatch(name):
        return  # the field's own check reports what cannot be a name
    there = [path.stem for folder in folders for path in folder.glob("*.yaml")]
    if name in there:
        return
    looked = ", ".join(map(str, folders))
    message = f"there is no suite {short(name)} in {looked}; {near_miss(name, there, 'suites are')}"
    yield document.problem(("expectations",), message)
