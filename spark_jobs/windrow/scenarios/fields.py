"""A tree of YAML read field by field; every problem is noted with its line, and a harmless value goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from windrow.config.problems import Location, near_miss
from windrow.config.yaml_file import Document, Tree
from windrow.scenarios.notation import Times

T = TypeVar("T")


class Fields:
    """What a document says, in values of Python."""

    def __init__(self, document: Document, times: Times) -> None:
        self.document, self.times = document, times

    def note(self, where: Location, message: str) -> None:
        self.document.problems.append(self.document.problem(where, message))

    def known(self, tree: Mapping[str, Tree], fields: Iterable[str], where: Location) -> None:
        fields = tuple(fields)
        for name in tree:
            if name not in fields:
                self.note((*where, name), f"is no field; {near_miss(name, fields, 'fields are')}")

    def checked(self, where: Location, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except (ValueError, OverflowError) as wrong:
            self.note(where, str(wrong))
            return None

    def text(
        self, tree: Mapping[str, Tree], name: str, here: Location, default: str, make: Callable[[str], T], otherwise: T
    ) -> T:
        value = self.checked((*here, name), lambda: make(str(tree.get(name) or default)))
        return otherwise if value is None else value

    def length(self, tree: Mapping[str, Tree], name: str, here: Location, default: str) -> timedelta:
        return self.text(tree, name, here, default, self.times.length, timedelta(0))

    def one_of(self, tree: Mapping[str, Tree], name: str, here: Location, choices: tuple[str, ...]) -> Any:
        value = str(tree.get(name) or choices[0])
        if value not in choices:
            self.note((*here, name), f"{value!r} is not {' or '.join(choices)}")
            return choices[0]
        return value

    def mapping(self, tree: Tree, where: Location) -> dict[str, Tree]:
        if tree is None or isinstance(tree, dict):
            return tree or {}
        self.note(where, "must be a mapping of fields")
        return {}

    def sequence(self, tree: Tree, where: Location) -> list[Tree]:
        if tree is None or isinstance(tree, list):
            return tree or []
        self.note(where, "must be a list")
        return []

    def texts(self, tree: Tree, where: Location) -> list[str]:
        items = [tree] if isinstance(tree, str) else self.sequence(tree, where)
        return [str(item) for item in items]
