"""Derived labels of cut rows: the `labels:` of a pipeline file, computed by Polars where that gives what Spark gives.

    size(clicks) > 0                                         clicks.list.len() > 0
    exists(clicks, e -> e.action = 'buy' and e.price > 3)    true if any is; else null if any is null; else false

Only expressions whose every part is listed here are computed: counts, conditions on labels, comparisons, logic and
choices. Anything else is None, and the caller leaves the column out: a column with a value that Spark would not give is
worse than none. NULL follows SQL's three values throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import polars as pl
from polars.exceptions import PolarsError
from sqlglot import exp, parse_one

Names = Callable[[str], pl.Expr | None]
"""A name as a column sees it; None where it has no such name."""


class _NotListed(Exception):
    """A part of an expression that is not computed here."""


def derived(text: str, schema: pl.Schema) -> pl.Expr | None:
    """Return a label expression for Polars; None where it is not computed here.

    Args:
        text: Spark SQL.
        schema: the columns that it sees.
    """
    columns = {name.lower(): pl.col(name) for name in schema}
    try:
        made = _made(parse_one(text, dialect="spark"), lambda name: columns.get(name.lower()))
        pl.DataFrame(schema=schema).select(made)  # types that Spark would convert and Polars does not
    except (_NotListed, PolarsError):
        return None
    return made


_COMPARED: Mapping[type[exp.Expr], Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    exp.EQ: pl.Expr.eq,
    exp.NEQ: pl.Expr.ne,
    exp.GT: pl.Expr.gt,
    exp.GTE: pl.Expr.ge,
    exp.LT: pl.Expr.lt,
    exp.LTE: pl.Expr.le,
    exp.NullSafeEQ: pl.Expr.eq_missing,
    exp.And: pl.Expr.and_,
    exp.Or: pl.Expr.or_,
}
_NUMBERS = {"INT": pl.Int32, "BIGINT": pl.Int64, "DOUBLE": pl.Float64, "FLOAT": pl.Float32}
_PREDICATES = (*_COMPARED, exp.Not, exp.Exists, exp.In, exp.Is, exp.Between)


def _made(node: exp.Expr, names: Names) -> pl.Expr:
    """The expression of a node.

    Raises:
        _NotListed: it, or a part of it, is not computed here.
    """
    if type(node) in _COMPARED:
        return _COMPARED[type(node)](_made(node.this, names), _made(node.expression, names))
    made = _MAKERS.get(type(node))
    if made is None:
        raise _NotListed(type(node).__name__)
    return made(node, names)


def _name(node: exp.Expr, names: Names) -> pl.Expr:
    """A column, or a field of a lambda's variable."""
    # the parser reads `e.action` as a column of a table `e`, also where `e` is a lambda's variable or a struct
    path = [part.name for part in node.find_all(exp.Identifier)]
    found = names(node.name) if len(path) == 1 else names(".".join([node.args["table"].name, node.name]))
    if found is None:
        raise _NotListed(node.sql())
    return found


def _field(node: exp.Expr, names: Names) -> pl.Expr:
    if not isinstance(node.this, exp.Identifier) or not isinstance(node.expression, exp.Identifier):
        raise _NotListed(node.sql())
    found = names(f"{node.this.name}.{node.expression.name}")
    if found is None:
        raise _NotListed(node.sql())
    return found


def _literal(node: exp.Expr, names: Names) -> pl.Expr:
    if node.is_string:
        return pl.lit(node.this)
    return pl.lit(int(node.this) if node.is_int else float(node.this))


def _count(node: exp.Expr, names: Names) -> pl.Expr:
    if isinstance(node, exp.Anonymous) and (node.name.lower() != "cardinality" or len(node.expressions) != 1):
        raise _NotListed(node.sql())
    of: exp.Expr = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    return _made(of, names).list.len().cast(pl.Int32)


def _of_elements(node: exp.Expr) -> pl.Expr:
    """The body of a lambda over the elements of an array; it may name fields of its one variable, and nothing else."""
    function = node.expression
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1:
        raise _NotListed(node.sql())
    variable = function.expressions[0].name.lower()

    def names(name: str) -> pl.Expr | None:
        of, _, field = name.lower().partition(".")
        return pl.element().struct.field(name.partition(".")[2]) if field and of == variable else None

    return _made(function.this, names)


def _exists(node: exp.Expr, names: Names) -> pl.Expr:
    found = _made(node.this, names).list.eval(_of_elements(node))
    # `any` passes over nulls; a null makes Spark's answer null unless another element is true
    doubtful = found.list.eval(pl.element().is_null()).list.any()
    return pl.when(found.list.any()).then(True).when(doubtful).then(None).otherwise(found.list.len() < 0)


def _filter(node: exp.Expr, names: Names) -> pl.Expr:
    return _made(node.this, names).list.filter(_of_elements(node))


def _case(node: exp.Expr, names: Names) -> pl.Expr:
    if node.this is not None:
        raise _NotListed(node.sql())
    default: exp.Expr | None = node.args.get("default")
    chosen = pl.lit(None) if default is None else _made(default, names)
    # from the last branch outwards, so that the first condition that is true decides, as in SQL
    for branch in reversed(node.args["ifs"]):
        chosen = pl.when(_made(branch.this, names)).then(_made(branch.args["true"], names)).otherwise(chosen)
    return chosen


def _if(node: exp.Expr, names: Names) -> pl.Expr:
    other = node.args.get("false")
    chosen = pl.when(_made(node.this, names)).then(_made(node.args["true"], names))
    return chosen.otherwise(_made(other, names) if other is not None else pl.lit(None))


def _in(node: exp.Expr, names: Names) -> pl.Expr:
    if not node.expressions or not all(isinstance(one, exp.Literal) for one in node.expressions):
        raise _NotListed(node.sql())
    column = _made(node.this, names)
    return reduce(pl.Expr.or_, (column == _literal(one, names) for one in node.expressions))


def _between(node: exp.Expr, names: Names) -> pl.Expr:
    column = _made(node.this, names)
    return (column >= _made(node.args["low"], names)) & (column <= _made(node.args["high"], names))


def _is(node: exp.Expr, names: Names) -> pl.Expr:
    if not isinstance(node.expression, exp.Null):
        raise _NotListed(node.sql())
    return _made(node.this, names).is_null()


def _cast(node: exp.Expr, names: Names) -> pl.Expr:
    """Return a count or a condition cast to a number; such a cast neither fails nor rounds."""
    of: exp.Expr = node.this.unnest()
    to = node.args["to"].sql().upper()
    if to not in _NUMBERS or not isinstance(of, (exp.ArraySize, *_PREDICATES)):
        raise _NotListed(node.sql())
    return _made(of, names).cast(_NUMBERS[to])


_MAKERS: Mapping[type[exp.Expr], Callable[[exp.Expr, Names], pl.Expr]] = {
    exp.Paren: lambda node, names: _made(node.this, names),
    exp.Column: _name,
    exp.Dot: _field,
    exp.Literal: _literal,
    exp.Boolean: lambda node, names: pl.lit(bool(node.this)),
    exp.Null: lambda node, names: pl.lit(None),
    exp.Not: lambda node, names: ~_made(node.this, names),
    exp.ArraySize: _count,
    exp.Anonymous: _count,
    exp.Exists: _exists,
    exp.ArrayFilter: _filter,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: lambda node, names: pl.coalesce(_made(one, names) for one in (node.this, *node.expressions)),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
