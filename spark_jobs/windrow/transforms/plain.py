"""Which records are read the plain way, by a reader of our own in the JVM, and which the careful way, and why.

    record ─▶ plain beyond doubt? ─▶ its row, as the careful way would make it, bit for bit
                    └ no ─▶ Spark's JSON reader, and looks at what it may have changed (`decode`, `exact`, `names`)

Nothing is refused here: a doubt only costs time. `PlainRecords.java` says what is plain. All records are read the
careful way where a column has a type that it does not read (decimal, binary, map, struct, dates and times within
arrays), and where WINDROW_DECODE_CAREFULLY is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from windrow.config.column_types import ColumnType

PLAIN = "_plain"
"""Column with the row of a plain record; null for every other."""
_MOST_BYTES = 1 << 20
"""Longer records are read the careful way."""


def with_plain(records: DataFrame, types: Mapping[str, ColumnType], max_bytes: int) -> DataFrame:
    """Add `_plain` to records; they stay as they are if no record can be read the plain way.

    Args:
        records: with `_kafka_value`.
        types: declared columns that come from the value.
        max_bytes: longer records are too large.
    """
    reader = _jvm().windrow.PlainRecords
    if not types or not all(reader.reads(str(kind)) for kind in types.values()):
        return records
    return records.withColumn(PLAIN, read(F.col("_kafka_value"), types, max_bytes))


def read(value: Column, types: Mapping[str, ColumnType], max_bytes: int) -> Column:
    r"""Return the row of a record, a struct of the declared columns; null if the record is not plain beyond doubt.

    >>> texts = ['{"id": "r", "k": 7}', '{"k": 7}', '{"k": 7, "k": 8}', '{"k": "7"}', '{"id": "\\u0041"}']
    >>> rows = spark.createDataFrame([(text,) for text in texts], "text string")
    >>> types = {"id": ColumnType("string"), "k": ColumnType("bigint")}
    >>> plain = read(F.col("text").cast("binary"), types, 1000)
    >>> rows.select("text", plain.alias("plain")).show(truncate=False)
    +-------------------+---------+
    |text               |plain    |
    +-------------------+---------+
    |{"id": "r", "k": 7}|{r, 7}   |
    |{"k": 7}           |{NULL, 7}|
    |{"k": 7, "k": 8}   |NULL     |
    |{"k": "7"}         |NULL     |
    |{"id": "\u0041"}   |NULL     |
    +-------------------+---------+
    <BLANKLINE>
    """
    jvm = _jvm()
    reader = jvm.windrow.PlainRecords(list(types), [str(kind) for kind in types.values()], min(max_bytes, _MOST_BYTES))
    row = jvm.org.apache.spark.sql.types.StructType.fromDDL(", ".join(f"`{n}` {kind}" for n, kind in types.items()))
    # An expression that calls the reader, as Spark calls its own readers: a user-defined function would convert rows.
    sql, catalyst = jvm.org.apache.spark.sql, jvm.org.apache.spark.sql.catalyst.expressions
    constant = catalyst.Literal(reader, sql.types.ObjectType(reader.getClass()))
    given = jvm.PythonUtils.toSeq([sql.classic.ExpressionUtils.expression(value._jc)])
    kinds = jvm.PythonUtils.toSeq([sql.types.DataTypes.BinaryType])
    called = catalyst.objects.Invoke(constant, "read", row, given, kinds, True, True, True)
    return ClassicColumn(sql.classic.ExpressionUtils.column(called))


def is_careful(records: DataFrame) -> Column:
    """Whether a record is to be read the careful way; never null."""
    return F.col(PLAIN).isNull() if PLAIN in records.columns else F.lit(True)


def with_both(typed: DataFrame, types: Mapping[str, ColumnType]) -> DataFrame:
    """Fill the columns of records that were read the plain way; they are null until then.

    Args:
        typed: with the declared columns as they were read the careful way.
    """
    if PLAIN not in typed.columns:
        return typed
    return typed.withColumns({name: F.coalesce(F.col(PLAIN).getField(name), F.col(name)) for name in types})


def _jvm() -> Any:
    context = SparkContext._active_spark_context
    assert context is not None, "a DataFrame has a session"
    return context._jvm
