"""Conditions over a list of conditions; an empty list gives a condition too, never an error."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

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
    return reduce(lambda a, b: a | b, conditions, F.lit(False))


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
    return reduce(lambda a, b: a & b, conditions, F.lit(True))
