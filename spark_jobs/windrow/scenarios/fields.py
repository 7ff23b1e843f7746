"""Typed fields of a YAML tree. Every problem is noted with its line, and reading goes on with a harmless value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from windrow.config.problems import Location, near_miss
from windrow.config.yaml_file import Document, Tree
from windrow.scenarios.notation import Times

T = TypeVar("T")


class Fields:
    """Reads the fields of a document. `here` and `where` are locations in it."""

    def __init__(self, document: Document, times: Times) -> None:
        self.document, self.times = document, times

    def note(self, where: Location, message: str) -> None:
        """Note a problem."""
        self.document.problems.append(self.document.problem(where, message))

    def known(self, tree: Mapping[str, Tree], fields: Iterable[str], where: Location) -> None:
        """Note every field of a mapping that is not one of `fields`."""
        fields = tuple(fields)
        for name in tree:
            if name not in fields:
                self.note((*where, name), f"is an unknown field; {near_miss(name, fields, 'fields are')}")

    def checked(self, where: Location, make: Callable[[], T]) -> T | None:
        """Call `make`; where it raises ValueError, note the message and return None."""
        try:
            return make()
        except (ValueError, OverflowError) as wrong:
            self.note(where, str(wrong))
            return None

    def text(
        self, tree: Mapping[str, Tree], name: str, here: Location, default: str, make: Callable[[str], T], otherwise: T
    ) -> T:
        """A field read by `make`: of the text `default` where it is missing, `otherwise` where it is wrong."""
        value = self.checked((*here, name), lambda: make(str(tree.get(name) or default)))
        return otherwise if value is None else value

    def length(self, tree: Mapping[str, Tree], name: str, here: Location, default: str) -> timedelta:
        """A field with a duration."""
        return self.text(tree, name, here, default, self.times.length, timedelta(0))

    def one_of(self, tree: Mapping[str, Tree], name: str, here: Location, choices: tuple[str, ...]) -> Any:
        """A field with one of several words, the first by default."""
        value = str(tree.get(name) or choices[0])
        if value not in choices:
            self.note((*here, name), f"{value!r} is not {' or '.join(choices)}")
            return choices[0]
        return value

    def mapping(self, tree: Tree, where: Location) -> dict[str, Tree]:
        """The tree as a mapping; empty where it is missing or something else."""
        if tree is None or isinstance(tree, dict):
            return tree or {}
        self.note(where, "must be a mapping of fields")
        return {}

    def sequence(self, tree: Tree, where: Location) -> list[Tree]:
        """The tree as a list; empty where it is missing or something else."""
        if tree is None or isinstance(tree, list):
            return tree or []
        self.note(where, "must be a list")
        return []

    def texts(self, tree: Tree, where: Location) -> list[str]:
        """The tree as a list of texts; a single text counts as a list of one."""
        items = [tree] if isinstance(tree, str) else self.sequence(tree, where)
        return [str(item) for item in items]
