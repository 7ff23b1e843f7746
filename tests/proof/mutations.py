"""Deliberate breaks as mutations of a function's syntax tree, so that its prose, formatting and neighbours may change.

    "semantics.match:matches"  ──▶  -before <= … <= after  ──▶  flip(LtE, Lt, "after")  ──▶  -before <= … < after

Where several places would do, words choose: names, or constants as `repr` writes them, that all stand in what is
changed. Not exactly one place is an error. New code is given as text, because it is nowhere in the source.

cosmic-ray and mutmut are not used: both make every mutant of a module and name it by a running number, and few of these
breaks are among their operators, which put in no value of our choice and take no condition away.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from threading import Lock
from types import CodeType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2] / "spark_jobs/windrow"
EDIT = "edit the break in tests/proof"
Change = Callable[[], None]
_ONE_TREE = Lock()
"""Python 3.11 counts the depth of all trees in one place: two that are made at a time fail now and then."""


class BreakOutdated(Exception):
    """The function of a break, or the one place in it, is not in the source any more. Edit the list."""


@dataclass(frozen=True)
class Mutation:
    """`changes` yields a change for every place in a function where it could be made."""

    changes: Callable[..., Iterator[Change]]
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        shown = (a.__name__ if isinstance(a, type) else repr(a) for a in self.arguments)
        return f"{self.changes.__name__}({', '.join(shown)})"


@dataclass(frozen=True)
class Break:
    """`where` (`module:function` or `module:Class.method`, under windrow) is mutated; one of `noticed_by` must fail."""

    name: str
    where: str
    what: Mutation
    noticed_by: tuple[str, ...]

    @property
    def file(self) -> str:
        """The module's file under spark_jobs/windrow."""
        return self.where.partition(":")[0].replace(".", "/") + ".py"

    @property
    def function(self) -> str:
        """The function's qualified name."""
        return self.where.partition(":")[2]


def mutated(one: Break, source: str) -> str:
    """The source of the break's module with the break in it, without comments.

    Raises:
        BreakOutdated: the function is not there, the mutation has not exactly one place in it, or changes nothing.
    """
    with _ONE_TREE:
        return _mutated(one, source)


def _mutated(one: Break, source: str) -> str:
    tree = ast.parse(source)
    before = ast.unparse(tree)
    changes = list(one.what.changes(_function(tree, one), *one.what.arguments))
    if len(changes) != 1:
        raise BreakOutdated(f"{one.name}: {one.what} finds {len(changes)} places in {one.where}, not one; {EDIT}")
    changes[0]()
    after = ast.unparse(tree)
    if after == before:
        raise BreakOutdated(f"{one.name}: {one.what} changes nothing in {one.where}; {EDIT}")
    return after


def mutated_code(one: Break) -> CodeType:
    """The code object of the break's function with the break in it. Raises BreakOutdated as `mutated` does."""
    path = PACKAGE / one.file
    codes = [compile(mutated(one, path.read_text()), str(path), "exec")]
    for code in codes:
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return next(code for code in codes if code.co_qualname == one.function)


def _function(tree: ast.Module, one: Break) -> ast.FunctionDef:
    inside: Any = tree
    for name in one.function.split("."):
        inside = next((node for node in getattr(inside, "body", ()) if getattr(node, "name", None) == name), None)
    if not isinstance(inside, ast.FunctionDef):
        raise BreakOutdated(f"{one.name}: there is no function {one.where}; {EDIT}")
    return inside


# ---- the kinds of mutation


def kind(changes: Callable[..., Iterator[Change]]) -> Callable[..., Mutation]:
    """A function that takes a mutation's arguments, from a generator of its changes."""
    return wraps(changes)(lambda *arguments: Mutation(changes, arguments))


@kind
def flip(function: ast.FunctionDef, old: type[ast.cmpop], new: type[ast.cmpop], *words: str) -> Iterator[Change]:
    """A comparison has another operator; the words stand on its two sides."""
    for place in _places(function, old):
        compare, n = place.parent, place.index
        if _name_all([compare.left, *compare.comparators][n : n + 2], words):
            yield partial(place.put, new())


@kind
def becomes(function: ast.FunctionDef, old: str, new: str, *words: str) -> Iterator[Change]:
    """A name, dotted or not, or a constant where it is read becomes an expression; the words stand around it."""
    for place in _places(function, (ast.Name, ast.Attribute, ast.Constant)):
        is_read = isinstance(getattr(place.node, "ctx", ast.Load()), ast.Load)
        if is_read and ast.unparse(place.node) == old and _name_all([place.parent], words):
            yield partial(place.put, _expression(new))


@kind
def returns(function: ast.FunctionDef, new: str, *words: str) -> Iterator[Change]:
    """A `return` returns another expression."""
    for place in _places(function, ast.Return):
        if _name_all([place.node], words):
            yield partial(place.put, ast.Return(_expression(new)))


@kind
def assigned(function: ast.FunctionDef, name: str, new: str) -> Iterator[Change]:
    """A name is assigned another expression."""
    for place in _places(function, ast.Assign):
        if [ast.unparse(target) for target in place.node.targets] == [name]:
            yield partial(setattr, place.node, "value", _expression(new))


@kind
def condition(function: ast.FunctionDef, new: str, *words: str) -> Iterator[Change]:
    """An `if` statement asks for something else."""
    for place in _places(function, ast.If):
        if _name_all([place.node.test], words):
            yield partial(setattr, place.node, "test", _expression(new))


def never(*words: str) -> Mutation:
    """An `if` statement is never so."""
    return condition("False", *words)


@kind
def drop_condition(function: ast.FunctionDef, *words: str) -> Iterator[Change]:
    """One of the conditions that `and`, `&` or the `if` of a comprehension put together is always true."""
    for place in _places(function, ast.expr):
        of_columns = _is_and(place.parent, ast.BitAnd)
        is_part = of_columns or _is_and(place.parent, ast.And) or place.field == "ifs"
        is_whole = _is_and(place.node, (ast.BitAnd, ast.And))
        if is_part and not is_whole and _name_all([place.node], words):
            true = _expression("F.lit(True)" if of_columns else "True")
            yield partial(place.put, true)


@kind
def argument(function: ast.FunctionDef, call: str, which: int | str, new: str, *words: str) -> Iterator[Change]:
    """A call has another argument, by its position from 1 or its name; the words stand in the call's arguments."""
    for place in _places(function, ast.Call):
        node = place.node
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        is_there = isinstance(which, str) or which <= len(node.args)
        if called == call and is_there and _name_all([*node.args, *node.keywords], words):
            yield partial(_set_argument, node, which, _expression(new))


@kind
def statement(function: ast.FunctionDef, new: str, *words: str) -> Iterator[Change]:
    """A statement without a body of its own becomes another one."""
    for place in _places(function, ast.stmt):
        if not hasattr(place.node, "body") and _name_all([place.node], words):
            yield partial(place.put, ast.parse(new).body[0])


@dataclass(frozen=True)
class _Place:
    """A node, and the field of its parent that it stands in; `index` where the field is a list."""

    node: Any
    parent: Any
    field: str
    index: int | None

    def put(self, new: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


def _places(function: ast.FunctionDef, of: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[_Place]:
    """All nodes of some types in the body of a function."""
    for parent in (inside for child in function.body for inside in ast.walk(child)):
        for field, value in ast.iter_fields(parent):
            found = enumerate(value) if isinstance(value, list) else [(None, value)]
            yield from (_Place(node, parent, field, n) for n, node in found if isinstance(node, of))
    yield from (_Place(node, function, "body", n) for n, node in enumerate(function.body) if isinstance(node, of))


def _name_all(nodes: list[Any], words: tuple[str, ...]) -> bool:
    """Whether each word is a name, an attribute or a constant in one of the nodes."""
    found: set[str] = set()
    for node in (inside for one in nodes for inside in ast.walk(one)):
        found |= {getattr(node, "id", ""), getattr(node, "attr", "")}
        found |= {repr(node.value)} if isinstance(node, ast.Constant) else set()
    return found.issuperset(words)


def _is_and(node: ast.AST, operator: type[ast.AST] | tuple[type[ast.AST], ...]) -> bool:
    return isinstance(getattr(node, "op", None), operator)


def _set_argument(call: ast.Call, which: int | str, new: ast.expr) -> None:
    if isinstance(which, int):
        call.args[which - 1] = new
    else:
        call.keywords = [k for k in call.keywords if k.arg != which] + [ast.keyword(which, new)]


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
