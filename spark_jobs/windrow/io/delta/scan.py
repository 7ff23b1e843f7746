"""Rows of a Delta table from the files that can hold them: delta-rs reads the log, Spark reads the files.

    alternatives of conditions ─▶ statistics in the log (`lookup`) ─▶ file names ─▶ one DataFrame over these files

The result holds every wanted row and usually others too: callers apply their own filters. Delta's own scan asks the
log with a Spark query each time, which for a small interval is most of the work. Delta's own scan
is used where files alone do not give the rows (deletion vectors, mapped columns), or where they are too many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from windrow.columns import FILE, ROW
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Condition, Lookup

MOST_FILES = 1000
"""Up to this many files are named one by one."""
_OF_PATTERNS = re.compile(r"[{}\[\]*?\\]")
"""Spark's Parquet reader takes a path with one of these characters as a pattern, unless a backslash precedes it."""


def rows(
    spark: SparkSession,
    path: str,
    *either: Sequence[Condition],
    with_place: bool = False,
    version: int | None = None,
) -> DataFrame | None:
    """Return rows of one version, from all files that can meet every condition of one of the alternatives.

    Args:
        path: location of the table.
        either: the alternatives; each is a sequence of conditions that a file must all meet.
        with_place: whether the rows get `PLACE_TYPES`; Delta's own scan does not know them.
        version: one that the log still has; None for the newest.
    Returns:
        the table's columns, or None where there is no table.
    """
    table = lookup.opened(path, version)
    if table is None:
        return None
    paths = _paths(table, either)
    if len(paths) > MOST_FILES or not table.is_plain:
        reader = spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(path)
    if not paths:
        schema = spark_schema(table.table)
        return nothing(spark, _placed(schema) if with_place else schema)
    found = rows_of(spark, path, table.table, paths)
    return found.select("*", *_place()) if with_place else found


def rows_of(spark: SparkSession, path: str, table: DeltaTable, files: Collection[str]) -> DataFrame:
    """Return all rows of some files of a table.

    Args:
        table: the version that the files are of.
        files: their paths, relative to the table; at least one.
    """
    return rows_of_files(spark, path, spark_schema(table), files)


def rows_of_files(spark: SparkSession, path: str, schema: StructType, files: Collection[str]) -> DataFrame:
    """Return all rows of some files that lie with a table, whether or not a version of it still names them.

    Args:
        path: location of the table.
        schema: its columns; one that a file lacks is null there.
        files: their paths, relative to the table; at least one.
    """
    named = [_OF_PATTERNS.sub(r"\\\g<0>", f"{path}/{file}") for file in sorted(files)]
    return spark.read.schema(schema).option("basePath", path).parquet(*named)


def can_hold(path: str, *either: Sequence[Condition]) -> bool:
    """Return whether any file can meet every condition of one of the alternatives; only the log is read.

    Args:
        path: location of the table; one that is not there holds nothing.
        either: alternatives, each a list of conditions of one file.
    """
    table = lookup.opened(path)
    return table is not None and bool(_paths(table, either))


def _place() -> list[Column]:
    return [F.col("_metadata.file_name").alias(FILE), F.col("_metadata.row_index").alias(ROW)]


def _placed(schema: StructType) -> StructType:
    return StructType([*schema.fields, StructField(FILE, StringType()), StructField(ROW, LongType())])


def _paths(table: Lookup, either: Sequence[Sequence[Condition]]) -> set[str]:
    return {file for conditions in either for file in table.paths(conditions)}


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty DataFrame, in a form that the optimizer recognises: it drops joins with it from the plan."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(1).where(F.lit(False)).select(*columns)


def spark_schema(table: DeltaTable) -> StructType:
    """Return the schema of a table as a Spark schema; no session is needed."""
    return schema_of(table.schema().to_json())


def schema_of(columns: str) -> StructType:
    """Return a schema that is Delta's JSON as a Spark schema; no session is needed."""
    return StructType.fromJson(json.loads(columns))
