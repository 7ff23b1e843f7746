"""Columns of the pipeline file with another type or another origin than in the tables. Spark is not needed.

    pipeline file ─▶ columns of each landing table and of training ─┐
    newest schema and properties in the log of each table ──────────┴▶ table, column, was, is

A table keeps its types. Delta can widen a column (int to bigint), but only with a table feature that delta-rs, Polars
and pandas refuse to read; without it, the files would contradict the log. It keeps its origins too
(`io.origins`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from deltalake import DeltaTable

from windrow.config.checks import element_type
from windrow.config.column_types import ColumnType, differences, parse_type, type_of_schema
from windrow.home import Home, Table
from windrow.io import origins
from windrow.io.delta import tables
from windrow.outcomes import BadInput


class Change(NamedTuple):
    """One column, or field of a column, that would get another type or origin."""

    table: str
    column: str
    was: str
    now: str


class TypesChanged(BadInput):
    """The pipeline file gives a column of an existing table another type. An edit helps, a retry does not."""

    def __init__(self, name: str, changes: list[Change]) -> None:
        super().__init__(
            f"pipeline {name} gives columns other types than its tables have:\n{_listed(changes)}"
            "\nNothing was written. Put the old type back; where another one is needed, add a label that casts, "
            "or add the column under a new name, or give the pipeline a new name: it gets new tables and lands what "
            "Kafka still has. Types are not widened in place, because then only Spark could read the tables."
        )
        self.changes = changes


class OriginsChanged(BadInput):
    """The pipeline file takes a column from another part of the record than the landed rows. An edit helps."""

    def __init__(self, name: str, changes: list[Change]) -> None:
        super().__init__(
            f"pipeline {name} takes columns from another part of the record than its landed rows have them from:\n"
            f"{_listed(changes)}"
            "\nNothing was written. Put the old origin back; where another one is needed, add the column under a name "
            "that the table does not have, or give the pipeline a new name: it gets new tables and lands what Kafka "
            "still has. A row does not say where its columns came from, so keys and labels of two origins would be "
            "mixed for good."
        )
        self.changes = changes


def _listed(changes: list[Change]) -> str:
    """Return one line per change, in columns, below a line of titles."""
    rows = [("table", "column", "was", "is"), *changes]
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(f"  {line}" for line in lines)


def require_unchanged(home: Home) -> None:
    """Compare the pipeline file with its tables.

    Raises:
        TypesChanged: a column has another type; the message lists every such column.
        OriginsChanged: a column is taken from another part of the record; the message lists every such column.
        TableDamaged: the log of a table cannot be read.
    """
    pipeline = home.pipeline
    found: list[Change] = []
    elsewhere: list[Change] = []
    for topic in pipeline.topics:
        if (landed := tables.opened(home.landing(topic))) is not None:
            columns = {name: parse_type(kind) for name, kind in pipeline.topic_columns(topic).items()}
            found += _changes(f"landing/{topic}", landed, columns)
            elsewhere += (Change(f"landing/{topic}", *column) for column in origins.moved(landed, pipeline, topic))
    of_left = {name: parse_type(kind) for name, kind in pipeline.left.columns.items()}
    of_right = {stream.name: element_type(stream) for stream in pipeline.right}
    found += _changes("training", tables.opened(home.table(Table.TRAINING)), {**of_left, **of_right})
    if found:
        raise TypesChanged(pipeline.name, found)
    if elsewhere:
        raise OriginsChanged(pipeline.name, elsewhere)


def require_fitting(home: Home, schema: Mapping[str, Any]) -> None:
    """Compare joined rows, whose labels have the types that Spark gave them, with candidates and training.

    Args:
        schema: of the rows, as Spark has it in JSON.
    Raises:
        TypesChanged: a column has another type.
    """
    columns = {field["name"]: type_of_schema(field["type"]) for field in schema["fields"]}
    found = [
        change
        for table in (Table.TRAINING, Table.CANDIDATES)
        for change in _changes(str(table), tables.opened(home.table(table)), columns)
    ]
    if found:
        raise TypesChanged(home.pipeline.name, found)


def _changes(table: str, opened: DeltaTable | None, columns: Mapping[str, ColumnType]) -> Iterator[Change]:
    fields = [] if opened is None else json.loads(opened.schema().to_json())["fields"]
    known = {field["name"].lower(): type_of_schema(field["type"]) for field in fields}
    for name, kind in columns.items():
        if name.lower() in known:
            for column, was, now in differences(name, known[name.lower()], kind):
                yield Change(table, column, str(was), str(now))
