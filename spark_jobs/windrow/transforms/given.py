"""Values that differ from run to run, kept out of the code that Spark generates.

Spark writes a number or an instant into the Java code of a query, so that the same query about the next interval is a
class of its own: Java compiles it again, and runs it slowly until then. A given value stands beside the code, and the
class of an earlier run is found again. In all else it is a literal, also where files are filtered by it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from windrow.semantics.intervals import micros


def given(value: datetime | int | None, kind: str = "bigint") -> Column:
    """Return a value that differs from run to run as a column.

    Args:
        value: an aware instant, or None for a null one; or a whole number.
        kind: type of a number, `int` or `bigint`.

    >>> from windrow.semantics.intervals import EPOCH
    >>> spark.range(3).where(F.col("id") >= given(1)).select("id", given(EPOCH).alias("at")).show()
    +---+-------------------+
    | id|                 at|
    +---+-------------------+
    |  1|1970-01-01 00:00:00|
    |  2|1970-01-01 00:00:00|
    +---+-------------------+
    <BLANKLINE>
    """
    if value is None:
        return F.lit(None).cast("timestamp")
    jvm: Any = SparkContext._jvm
    types = jvm.org.apache.spark.sql.types.DataTypes
    if isinstance(value, datetime):
        return ClassicColumn(jvm.windrow.Given.of(micros(value), types.TimestampType))
    return ClassicColumn(jvm.windrow.Given.of(value, types.IntegerType if kind == "int" else types.LongType))
