"""Conditions over a list of conditions; an empty list gives a condition too, never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether at least one condition holds; false for an empty list.

    >>> rows = spark.sql("select * from values (1, 1), (1, 9), (9, 9) as (a, b)")
    >>> rows.select("a", "b", any_of([F.col("a") > 5, F.col("b") > 5]).alias("any")).show()
    +---+---+-----+
    |  a|  b|  any|
    +---+---+-----+
    |  1|  1|false|
    |  1|  9| true|
    |  9|  9| true|
    +---+---+-----+
    <BLANKLINE>
    """
    return _joined(list(conditions), Column.__or__, F.lit(False))


def all_of(conditions: Iterable[Column]) -> Column:
    """Whether every condition holds; true for an empty list.

    >>> rows = spark.sql("select * from values (1, 1), (1, 9), (9, 9) as (a, b)")
    >>> rows.select("a", "b", all_of([F.col("a") > 5, F.col("b") > 5]).alias("all")).show()
    +---+---+-----+
    |  a|  b|  all|
    +---+---+-----+
    |  1|  1|false|
    |  1|  9|false|
    |  9|  9| true|
    +---+---+-----+
    <BLANKLINE>
    """
    return _joined(list(conditions), Column.__and__, F.lit(True))


def _joined(conditions: list[Column], by: Callable[[Column, Column], Column], of_none: Column) -> Column:
    """All conditions in one, as a balanced tree: a chain of 2 000 is deeper than the stacks of Spark."""
    if len(conditions) < 2:
        return conditions[0] if conditions else of_none
    middle = len(conditions) // 2
    return by(_joined(conditions[:middle], by, of_none), _joined(conditions[middle:], by, of_none))
