"""Conditions over a list of conditions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F


def any_of(conditions: Iterable[Column]) -> Column:
    """At least one holds; false for none."""
    return reduce(lambda a, b: a | b, conditions, F.lit(False))


def all_of(conditions: Iterable[Column]) -> Column:
    """Each holds; true for none."""
    return reduce(lambda a, b: a & b, conditions, F.lit(True))
