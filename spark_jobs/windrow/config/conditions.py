"""Simple `where` conditions, evaluated for one row without Spark.

    action = 'click' and not is_bot      ─▶ a function of a row: True, False, or None (unknown, as in SQL)
    regexp_like(action, 'cl.*')          ─▶ None instead of a function: only Spark can evaluate it

Supported are comparisons of a column with values of its own kind (text, number, boolean), `in`, `between`,
`is null`, `and`, `or`, `not`. Whatever needs a cast, a function or a time is left to Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from windrow.semantics.records import Predicate

Row = Mapping[str, Any]

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_COMPARES: dict[type[exp.Expression], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


class _NeedsSpark(Exception):
    """Only Spark can evaluate the expression."""


class _Value(NamedTuple):
    """A part of a condition: its kind (`string`, `number`, `boolean`, `null` or `other …`), and its value for a row."""

    kind: str
    of: Callable[[Row], Any]


def predicate(text: str, columns: Mapping[str, str]) -> Predicate | None:
    """The condition as a function of a row, or None if only Spark can evaluate it.

    Args:
        columns: name → type as normalised Spark DDL.

    >>> is_click = predicate("action = 'click'", {"action": "string"})
    >>> [is_click({"action": a}) for a in ("click", "view", None)]
    [True, False, None]
    >>> predicate("lower(action) = 'click'", {"action": "string"}) is None
    True
    """
    try:
        root = sqlglot.parse_one(text, read="spark")
        value = _value(root, {name.lower(): (name, kind) for name, kind in columns.items()})
    except (SqlglotError, _NeedsSpark, RecursionError):
        return None
    return value.of if value.kind in ("boolean", "null") else None


def columns_in(text: str) -> set[str]:
    """Column names in a condition, in lower case; empty if it cannot be parsed."""
    try:
        return {column.name.lower() for column in sqlglot.parse_one(text, read="spark").find_all(exp.Column)}
    except (SqlglotError, RecursionError):
        return set()


def constants_in(text: str) -> tuple[str | int | float, ...]:
    """Texts and numbers that a condition compares with, each once; empty if it cannot be parsed.

    >>> constants_in("action in ('click', 'like') and price > 2.5")
    ('click', 'like', 2.5)
    """
    try:
        found = [node.this if node.is_string else _plain(node.this) for node in _literals(text)]
    except (SqlglotError, RecursionError, ValueError):
        return ()
    return tuple(dict.fromkeys(found))


def _literals(text: str) -> Iterator[Any]:
    return sqlglot.parse_one(text, read="spark").find_all(exp.Literal, bfs=False)


def _plain(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


def _value(node: Any, columns: Mapping[str, tuple[str, str]]) -> _Value:
    """Value of a node of the syntax tree.

    Args:
        columns: lower-case name → name and type.

    Raises:
        _NeedsSpark: the node is not supported here.
    """
    if isinstance(node, exp.Paren):
        return _value(node.this, columns)
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in columns:
        name, kind = columns[node.name.lower()]
        return _Value(_kind(kind), lambda row: row.get(name))
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Neg):
        return _constant(node)
    if isinstance(node, exp.And | exp.Or | exp.Not):
        return _logic(node, columns)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        inner = _value(node.this, columns)
        return _Value("boolean", lambda row: inner.of(row) is None)
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        return _any([_compared(exp.EQ, node.this, one, columns) for one in node.expressions])
    if isinstance(node, exp.Between):
        low = _compared(exp.GTE, node.this, node.args["low"], columns)
        return _all([low, _compared(exp.LTE, node.this, node.args["high"], columns)])
    if type(node) in _COMPARES:
        return _compared(type(node), node.this, node.expression, columns)
    raise _NeedsSpark


def _kind(ddl: str) -> str:
    if ddl in ("string", "boolean"):
        return ddl
    return "number" if ddl.startswith(_NUMBERS) else f"other {ddl}"


def _constant(node: Any) -> _Value:
    if isinstance(node, exp.Null):
        return _Value("null", lambda row: None)
    if isinstance(node, exp.Boolean):
        constant = bool(node.this)
        return _Value("boolean", lambda row: constant)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        negative = -_number(node.this.this)
        return _Value("number", lambda row: negative)
    if isinstance(node, exp.Literal):
        value: Any = node.this if node.is_string else _number(node.this)
        return _Value("string" if node.is_string else "number", lambda row: value)
    raise _NeedsSpark


def _number(text: str) -> Any:
    if text.isdigit():
        return int(text)
    if text.replace(".", "", 1).isdigit():
        return Decimal(text)
    raise _NeedsSpark


def _logic(node: Any, columns: Mapping[str, tuple[str, str]]) -> _Value:
    if isinstance(node, exp.Not):
        inner = _boolean(_value(node.this, columns))
        return _Value("boolean", lambda row: None if (truth := inner.of(row)) is None else not truth)
    parts = [_boolean(_value(part, columns)) for part in (node.this, node.expression)]
    return _all(parts) if isinstance(node, exp.And) else _any(parts)


def _boolean(value: _Value) -> _Value:
    if value.kind not in ("boolean", "null"):
        raise _NeedsSpark
    return value


def _all(parts: list[_Value]) -> _Value:
    """SQL's `and`: false if any part is, else unknown if any part is."""

    def evaluate(row: Row) -> bool | None:
        truths = [part.of(row) for part in parts]
        return False if False in truths else None if None in truths else True

    return _Value("boolean", evaluate)


def _any(parts: list[_Value]) -> _Value:
    """SQL's `or`: true if any part is, else unknown if any part is."""

    def evaluate(row: Row) -> bool | None:
        truths = [part.of(row) for part in parts]
        return True if True in truths else None if None in truths else False

    return _Value("boolean", evaluate)


def _compared(how: type[exp.Expression], one: Any, other: Any, columns: Mapping[str, tuple[str, str]]) -> _Value:
    """Comparison of two values of one kind; Spark would cast values of different kinds, which is left to Spark."""
    left, right = _value(one, columns), _value(other, columns)
    kinds = {left.kind, right.kind} - {"null"}
    if len(kinds) > 1 or kinds - {"string", "number", "boolean"}:
        raise _NeedsSpark
    compare = _COMPARES[how]

    def evaluate(row: Row) -> bool | None:
        a, b = left.of(row), right.of(row)
        if a is None or b is None:
            return None
        if isinstance(a, float) or isinstance(b, float):  # as Spark does: a decimal meets a double as a double
            a, b = float(a), float(b)
        return compare(a, b)

    return _Value("boolean", evaluate)
