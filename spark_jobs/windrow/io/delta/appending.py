"""Rows that Spark appends to a table: Spark writes their files, and delta-rs commits them.

    rows ─▶ one Spark job ─▶ files in the folder of the table (NewFiles.java) ─▶ footers ─▶ one commit by delta-rs

An append is made once per app id and version, whoever else writes. Files that no commit names are seen by no reader,
and vacuum removes them. Delta's own append in Spark takes several times the CPU of a small one, most of it for small
queries about the log (`benchmarks/commits.py`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from windrow.io.delta import scan, store, tables
from windrow.io.delta.files import DataFile, add_action
from windrow.outcomes import BadInput


def append(
    rows: DataFrame,
    path: str,
    table: DeltaTable,
    *,
    app_id: str,
    version: int,
    message: str,
    statistics: Sequence[str] = (),
    by: str | None = None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Append rows in one commit, with the schema of the table.

    Args:
        table: what `prepare` has returned for rows like these; it is brought up to date.
        app_id: names the writer; it has versions of its own.
        version: number of this write, greater than those before.
        message: JSON text that the commit carries.
        statistics: columns whose bounds go into the log.
        by: the partition column, where the table has one.
        last_look: see `commit`.

    Raises:
        WriteSkipped: the version is not newer than the last one of the app id, or another writer was faster.
    """
    tables.require_new(table, path, app_id, version)
    commit(
        path,
        table,
        written(rows, path, table, by),
        app_id=app_id,
        version=version,
        message=message,
        statistics=statistics,
        by=by,
        last_look=last_look,
    )


def written(rows: DataFrame, path: str, table: DeltaTable, by: str | None = None) -> dict[str, str | None]:
    """Write rows as files in the folder of a table, which no commit names yet.

    Args:
        table: what `prepare` has returned for rows like these.

    Returns:
        Name of each file, relative to the table → value of the partition column `by`.

    Raises:
        RuntimeError: the session is not one of `windrow.io.delta.session`.
    """
    key = f"{os.getpid()}-{time.monotonic_ns()}"
    writer = _spelled(rows, table).write.mode("append").option("windrow.files", key)
    (writer.partitionBy(by) if by else writer).parquet(path)
    jvm: Any = rows.sparkSession._jvm
    names = jvm.windrow.NewFiles.take(key)
    if names is None:
        raise RuntimeError(f"Spark did not say which files it has written into {path}")
    return {str(name): str(name).split("/", 1)[0].removeprefix(f"{by}=") if by else None for name in names}


def commit(
    path: str,
    table: DeltaTable,
    names: Mapping[str, str | None],
    *,
    app_id: str,
    version: int,
    message: str,
    statistics: Sequence[str] = (),
    by: str | None = None,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Add files that are in the folder of a table already, in one commit; see `append`. One without rows is left out.

    Args:
        table: the table at some version; it is brought up to date.
        names: name relative to the table → value of the partition column `by`.
        last_look: fails where what the rows were made from has changed; asked after the table was brought up to date.
            The commit follows that version, or is refused.

    Raises:
        WriteSkipped: another writer was faster.
    """
    table.update_incremental()
    if last_look:
        last_look()

    places = {f"{path}/{name}": name for name in sorted(names)}

    def added(place: str) -> tuple[int, AddAction | None]:
        file, name = DataFile.read(place), places[place]
        return file.rows, add_action(path, name, file, statistics, names[name], by=by or "") if file.rows else None

    found = store.each(places, added)
    tables.commit_files(
        path,
        table,
        [action for _, action in found if action is not None],
        identity=" ".join([app_id, str(version), *sorted(names)]),
        partition_by=[by] if by else [],
        message=message,
        transaction=(app_id, version),
        rows=sum(rows for rows, _ in found),
        pinned=last_look is not None,
    )


def prepare(
    spark: SparkSession,
    path: str,
    schema: StructType,
    *,
    properties: Mapping[str, str] | None = None,
    by: str | None = None,
) -> DeltaTable:
    """Return a table with all columns of `schema`; it is created where it is missing, and rows that it has are kept.

    Args:
        properties: of a table that is created, beside `CHECKPOINTS`.
        by: its partition column.

    Raises:
        BadInput: a column has another type in the table.
        WriteSkipped: another writer was faster.
    """
    properties = {**tables.CHECKPOINTS, **(properties or {})}
    known = tables.create_if_missing(path, _nullable(schema), properties, by=by)
    tables.add_properties(known, {name: properties[name] for name in tables.REGISTER if name in properties})
    if _lacks(scan.spark_schema(known), schema, path):
        empty = spark.createDataFrame([], schema).write.format("delta").mode("append").option("mergeSchema", "true")
        (empty.partitionBy(by) if by else empty).save(path)
        known.update_incremental()
    return known


def _lacks(table: DataType, rows: DataType, where: str) -> bool:
    """Return whether rows have a field, at any depth, that the table has not.

    Args:
        where: names both in an error.

    Raises:
        BadInput: a field that both have is of another type.
    """
    if isinstance(table, StructType) and isinstance(rows, StructType):
        known = {field.name.lower(): field.dataType for field in table}
        there = [(known.get(field.name.lower()), field) for field in rows]
        return any(kind is None or _lacks(kind, field.dataType, f"{where}, {field.name}") for kind, field in there)
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        return _lacks(table.elementType, rows.elementType, where)
    if isinstance(table, MapType) and isinstance(rows, MapType):
        return _lacks(table.keyType, rows.keyType, where) or _lacks(table.valueType, rows.valueType, where)
    if table != rows:
        raise BadInput(f"{where}: rows have {rows.simpleString()}, and the table has {table.simpleString()}")
    return False


def _spelled(rows: DataFrame, table: DeltaTable) -> DataFrame:
    """Return rows with their columns spelled as in the table: Delta tells names apart without regard to case."""
    names = {field.name.lower(): field.name for field in scan.spark_schema(table)}
    other = {name: names[name.lower()] for name in rows.columns if names.get(name.lower(), name) != name}
    return rows.withColumnsRenamed(other) if other else rows


def _nullable(schema: StructType) -> Schema:
    """Return the schema with every column, element and value nullable, as Delta has them in Spark too."""

    def parts(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                name: True if name in ("nullable", "containsNull", "valueContainsNull") else parts(value)
                for name, value in node.items()
            }
        return [parts(one) for one in node] if isinstance(node, list) else node

    return Schema.from_json(json.dumps(parts(schema.jsonValue())))
