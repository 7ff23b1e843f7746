"""`where` and `labels` of a pipeline file as columns: where a row's values make one fail, it is NULL, and no job stops.

Spark stops a task at a time beyond the year 294247, a map with a NULL key and the like, also under `try_…` functions.
`TryEval`, on which these are built, gives NULL instead, but only where Spark evaluates inside of it: a part that occurs
twice would be computed once, before, and outside. In a lambda nothing is computed before.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F

_NEVER_FAILS = frozenset(
    {
        *("and", "or", "not", "in", "is", "between", "if", "coalesce", "ifnull", "nvl", "nullif"),
        *("isnull", "isnotnull", "equal_null", "size", "cardinality", "array_size", "array_contains"),
        *("exists", "filter", "forall", "lower", "upper", "lcase", "ucase", "length", "len", "trim"),
        *("contains", "startswith", "endswith", "abs"),
    }
)
"""Calls, and words before a bracket, that give a value for every row; what is made of them alone needs no guard."""
_CALL = re.compile(r"(\w+)`?\s*\(")
_MAY_FAIL = re.compile(r"::|\+|-(?!>)|\binterval\b", re.IGNORECASE)
"""Casts and the arithmetic of times; numbers never fail, but texts do not tell which is which."""


def value_of(text: str) -> Column:
    """Return the value of an expression, or NULL for a row on which it fails.

    Args:
        text: Spark SQL that `config.sql` and `io.expressions` have accepted.

    >>> rows = spark.sql("select * from values (0L, 'a'), (9223372036854775807L, null) as (seconds, name)")
    >>> at, named = "year(timestamp_seconds(seconds))", "map_keys(map(name, 1))"
    >>> rows.select("seconds", value_of(at).alias("year"), value_of(named).alias("names")).show()
    +-------------------+----+-----+
    |            seconds|year|names|
    +-------------------+----+-----+
    |                  0|1970|  [a]|
    |9223372036854775807|NULL| NULL|
    +-------------------+----+-----+
    <BLANKLINE>
    """
    if not may_fail(text):
        return F.expr(text)
    jvm: Any = SparkContext._jvm
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    alone = F.expr(f"get(transform(array(0), _once -> ({text}\n)), 0)")
    return Column(columns.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(columns.expression(alone._jc))))


def may_fail(text: str) -> bool:
    """Whether some row could make an expression fail; True where the text does not tell.

    >>> [may_fail(text) for text in ("size(clicks) > 0", "action in ('a', 'b')", "t + interval 1 day > s")]
    [False, False, True]
    """
    called = {name.lower() for name in _CALL.findall(text)}
    return bool(_MAY_FAIL.search(text)) or not called <= _NEVER_FAILS
