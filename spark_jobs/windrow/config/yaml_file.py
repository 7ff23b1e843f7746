"""A YAML file as values, lists and mappings, with the line of every value: for pipelines, suites and scenarios.

Scalars stay the text that was written: `no` is not read as a boolean, `1:30` not as a number. Only an empty value is
None. A suite's arguments need types, so its values are read as YAML types them (`typed`).
Duplicate keys, several documents, recursion and alias bombs are refused with their line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from windrow.config.problems import Location, PipelineInvalid, Problem, field_text
from windrow.text import short

LARGEST = 1_000_000
"""A pipeline file has at most this many bytes."""
_MOST_NODES = 50_000
_DEEPEST = 40
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

Tree = str | None | list["Tree"] | dict[str, "Tree"]
"""Content of a YAML file; with `typed`, scalars of other types too."""


@dataclass
class Document:
    """The content of a file; `lines` maps each location to the line on which it starts."""

    path: Path
    tree: dict[str, Tree] = field(default_factory=dict)
    lines: dict[Location, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, where: Location) -> int:
        """Line of a location, or of the innermost location around it that exists."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def problem(self, where: Location, message: str) -> Problem:
        """A problem at this location, with its line."""
        return Problem(self.line(where), field_text(where), message)


def read_text(path: Path) -> str:
    """Read a file of at most `LARGEST` bytes of UTF-8.

    Raises:
        PipelineInvalid: it is missing, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise PipelineInvalid(path, [Problem(0, "", "there is no such file")]) from None
    except OSError as wrong:
        reason = wrong.strerror or str(wrong)
        raise PipelineInvalid(path, [Problem(0, "", f"cannot be read: {reason}; give a YAML file")]) from None
    if len(raw) > LARGEST:
        raise _too_large(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = raw[: wrong.start].count(b"\n") + 1
        raise PipelineInvalid(path, [Problem(line, "", "is not UTF-8; save it as UTF-8")]) from None


def read_document(content: str, path: Path, *, first: str = "name", typed: bool = False) -> Document:
    """Parse YAML text.

    Args:
        path: only for messages.
        first: the field that such a file begins with, for messages.
        typed: whether scalars become numbers and booleans, as YAML types them, instead of text.

    Raises:
        PipelineInvalid: the text is not a YAML mapping. Smaller problems are collected in `Document.problems`.
    """
    if len(content) > LARGEST:
        raise _too_large(path)
    try:
        root = yaml.compose(content, Loader=_Loader)
    except _TooDeep as wrong:
        raise PipelineInvalid(path, [Problem(wrong.line, "", "is nested too deeply")]) from None
    except yaml.YAMLError as wrong:
        raise PipelineInvalid(path, [_syntax_problem(wrong)]) from None
    except ValueError as wrong:
        raise PipelineInvalid(path, [Problem(0, "", f"is not valid YAML: {wrong}")]) from None
    if not isinstance(root, yaml.MappingNode):
        message = f"must be a mapping of fields; it starts with `{first}: …`"
        raise PipelineInvalid(path, [Problem(0, "", "is empty; " + message if root is None else message)])
    document = Document(path)
    _Walk(document, typed).mapping(root, (), ())
    return document


def _too_large(path: Path) -> PipelineInvalid:
    return PipelineInvalid(path, [Problem(0, "", f"is larger than {LARGEST} bytes; such a file has a few kilobytes")])


class _TooDeep(Exception):
    """The YAML is nested deeper than `_DEEPEST`, at this line."""

    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(line)


class _Loader(yaml.SafeLoader):
    """Raises at a nesting depth far below Python's recursion limit."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _TooDeep(self.line + 1)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _syntax_problem(wrong: yaml.YAMLError) -> Problem:
    mark = getattr(wrong, "problem_mark", None) or getattr(wrong, "context_mark", None)
    reason = getattr(wrong, "problem", None) or getattr(wrong, "reason", None) or str(wrong).splitlines()[0]
    if "expected a single document" in str(wrong):
        return Problem(mark.line + 1 if mark else 0, "", "a second document starts; one file is one pipeline")
    if "'\\t'" in str(reason):
        reason = "a tab; indent with spaces"
    hint = "put text with : # , { } [ ] in quotes"
    return Problem(mark.line + 1 if mark else 0, "", f"is not valid YAML: {reason}; {hint}")


class _Walk:
    """Fills a document with the tree, lines and problems of YAML nodes."""

    def __init__(self, document: Document, typed: bool) -> None:
        self.document = document
        self.typed = typed
        self.nodes = 0

    def value(self, node: yaml.Node, where: Location, above: tuple[int, ...]) -> Tree:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > _MOST_NODES or len(above) > _DEEPEST:
            message = "is nested too deeply or repeats too much (aliases); such a file has a few hundred values"
            raise PipelineInvalid(self.document.path, [Problem(line, field_text(where[:4]), message)])
        if id(node) in above:
            message = "contains itself (an alias of its own anchor); write it out"
            raise PipelineInvalid(self.document.path, [Problem(line, field_text(where[:4]), message)])
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, where, (*above, id(node)))
        if isinstance(node, yaml.SequenceNode):
            return self.sequence(node, where, (*above, id(node)))
        if node.tag == "tag:yaml.org,2002:null":
            return None
        if self.typed:
            typed: Tree = yaml.SafeLoader("").construct_object(node)
            return typed
        self.text(str(node.value), line, where)
        return str(node.value)

    def mapping(self, node: yaml.MappingNode, where: Location, above: tuple[int, ...]) -> dict[str, Tree]:
        tree: dict[str, Tree] = self.document.tree if not where else {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(line, where, "a field's name must be text; put text with { } [ ] in quotes")
                continue
            name = str(key_node.value)
            here = (*where, name)
            self.text(name, line, here)
            if name == "<<":
                self.problem(line, where, "merge keys (<<) are not read; write the fields out")
            elif name in tree:
                first = self.document.lines[here]
                self.problem(line, here, f"is there twice; the first is on line {first}, remove one")
            else:
                self.document.lines[here] = line
                tree[name] = self.value(value_node, here, above)
        return tree

    def sequence(self, node: yaml.SequenceNode, where: Location, above: tuple[int, ...]) -> list[Tree]:
        tree: list[Tree] = []
        for position, item in enumerate(node.value):
            here = (*where, position)
            self.document.lines[here] = item.start_mark.line + 1
            tree.append(self.value(item, here, above))
        return tree

    def text(self, text: str, line: int, where: Location) -> None:
        if "{{" in text or "{%" in text:
            message = f"{short(text)} is a template; templates are not filled in here, write the value itself"
            self.problem(line, where, message)
        elif _CONTROL.search(text):
            self.problem(line, where, f"{short(text)} holds a control character; remove it")

    def problem(self, line: int, where: Location, message: str) -> None:
        self.document.problems.append(Problem(line, short_field(where), message))


def short_field(where: Location) -> str:
    """A field's name for a message, cut after 100 characters."""
    text = field_text(where)
    return text if len(text) <= 100 else text[:100] + "…"
