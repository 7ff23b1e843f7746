"""What a row and its columns mean, as description and column comments of the training table, for every reader.

They say what the pipeline file says now, also of rows that an older file made.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltalake import DeltaTable
from pyspark.sql.types import StructField

from windrow.config import Pipeline
from windrow.io.delta import tables
from windrow.meaning import meaning_of, meaning_of_row

_COMMENT = "comment"
"""Key in a field's metadata that Spark and other readers show."""


def with_comments(pipeline: Pipeline, fields: Iterable[StructField]) -> list[StructField]:
    """Return fields of a new table with their comments."""

    def commented(field: StructField) -> StructField:
        text = meaning_of(pipeline, field.name)
        metadata = {**field.metadata, _COMMENT: text} if text else field.metadata
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return [commented(field) for field in fields]


def keep(pipeline: Pipeline, table: DeltaTable) -> None:
    """Write what has changed, one commit without rows for each change; usually there is none.

    The caller holds the table's lock: such a commit would make another writer's fail.
    """
    about = meaning_of_row(pipeline)
    tables.ensure(
        table,
        lambda: table.metadata().description == about,
        lambda: table.alter.set_table_description(about),
    )
    for field in table.schema().fields:
        if field.metadata.get(_COMMENT, "") != (text := meaning_of(pipeline, field.name)):
            _keep_comment(table, field.name, text)


def _keep_comment(table: DeltaTable, column: str, text: str) -> None:
    def is_so() -> bool:
        return any(field.metadata.get(_COMMENT, "") == text for field in table.schema().fields if field.name == column)

    tables.ensure(table, is_so, lambda: table.alter.set_column_metadata(column, {_COMMENT: text}))
