"""Pipeline files, read strictly.

Reading a file returns a complete `Pipeline` or raises `PipelineInvalid` with every problem.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from windrow.config.fields import NAME
from windrow.config.messages import UNKNOWN_FIELD, problems_of
from windrow.config.pipeline import Pipeline
from windrow.config.problems import Inconsistent, Location, PipelineInvalid, Problem, near_miss
from windrow.config.warnings import warnings_of
from windrow.config.yaml_file import Document, Tree, read_document, read_text
from windrow.places import PROJECT, Folders, folders_of
from windrow.text import short


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
