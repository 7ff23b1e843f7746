"""Rows of a Delta table from the files that can hold them: its log is asked without Spark, Spark reads the files.

    either of some conditions ─▶ statistics in the log (`lookup`) ─▶ names of files ─▶ one DataFrame over them

Delta's own scan asks the log with a query of its own, each time; for a small interval that is most of the work. What
is read is a superset of the wanted rows: the caller's filters stand. Where files do not say all (deletion vectors,
mapped columns), are too many or cannot be named, Delta reads the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.io.delta import lookup, tables
from windrow.io.delta.lookup import Condition, Lookup

MOST_FILES = 1000
"""As many are named one by one."""
_PATTERN = frozenset("{}[]*?\\")
"""Spark's Parquet reader takes a name with one of these for a pattern."""


def rows(spark: SparkSession, path: str, *either: Sequence[Condition]) -> DataFrame | None:
    """Rows of all files of the newest version that meet every condition of one of `either`; None without a table."""
    table = lookup.opened(path)
    if table is None:
        return None
    paths = _paths(table, either)
    if len(paths) > MOST_FILES or not table.is_plain or _PATTERN & set(path):
        return spark.read.format("delta").load(path)
    schema = tables.spark_schema(table.table)
    if not paths:
        return nothing(spark, schema)
    read = spark.read.schema(schema).option("basePath", path)
    return read.parquet(*[f"{path}/{file}" for file in sorted(paths)])


def can_hold(path: str, *either: Sequence[Condition]) -> bool:
    """Whether any file could hold such a row, by the log alone; without a table none can."""
    table = lookup.opened(path)
    return table is not None and bool(_paths(table, either))


def _paths(table: Lookup, either: Sequence[Sequence[Condition]]) -> set[str]:
    return {file for conditions in either for file in table.paths(conditions)}


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, which the optimizer knows: what is joined with them is dropped from the plan."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(1).where(F.lit(False)).select(*columns)
