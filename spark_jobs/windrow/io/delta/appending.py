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
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

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
    actions, rows = additions(path, names, statistics, by)
    tables.commit_files(
        path,
        table,
        actions,
        identity=" ".join([app_id, str(version), *sorted(names)]),
        partition_by=[by] if by else [],
        message=message,
        transaction=(app_id, version),
        rows=rows,
        pinned=last_look is not None,
    )


def additions(
    path: str, names: Mapping[str, str | None], statistics: Sequence[str] = (), by: str | None = None
) -> tuple[list[AddAction], int]:
    """Return the log entries that add files in the folder of a table, and how many rows these have.

    Args:
        names: name relative to the table → value of the partition column `by`; one without rows is left out.
        statistics: columns whose bounds go into the log.
    """
    places = {f"{path}/{name}": name for name in sorted(names)}

    def added(place: str) -> tuple[int, AddAction | None]:
        file, name = DataFile.read(place), places[place]
        return file.rows, add_action(path, name, file, statistics, names[name], by=by or "") if file.rows else None

    found = store.each(places, added)
    return [action for _, action in found if action is not None], sum(rows for rows, _ in found)


def prepare(
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
    grow(known, schema, path)
    return known


def grow(table: DeltaTable, schema: StructType, path: str) -> None:
    """Give a table the fields of a schema that it lacks, at any depth, in one commit without rows; usually none.

    Args:
        table: shows the commit afterwards.
        path: its location, for errors.

    Raises:
        BadInput: a column has another type in the table.
        WriteSkipped: another writer was faster.
    """
    known = scan.spark_schema(table)
    lacking = [field for field in schema if _lacks(known, StructType([field]), path)]
    if lacking:
        fields = _nullable(StructType([_as_in(known, field) for field in lacking])).fields
        tables.ensure(
            table,
            lambda: not _lacks(scan.spark_schema(table), schema, path),
            lambda: table.alter.add_columns(fields),
        )


def _as_in(table: StructType, field: StructField) -> StructField:
    """Return a field with its names spelled as in the table, which tells names apart without regard to case."""
    known = {there.name.lower(): there for there in table}
    there = known.get(field.name.lower())
    return field if there is None else StructField(there.name, _type_as_in(there.dataType, field.dataType))


def _type_as_in(table: DataType, rows: DataType) -> DataType:
    if isinstance(table, StructType) and isinstance(rows, StructType):
        return StructType([_as_in(table, field) for field in rows])
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        return ArrayType(_type_as_in(table.elementType, rows.elementType))
    if isinstance(table, MapType) and isinstance(rows, MapType):
        return MapType(rows.keyType, _type_as_in(table.valueType, rows.valueType))
    return rows


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
