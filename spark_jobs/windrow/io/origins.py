"""What of a record each column of a landing table was taken from: a table keeps the origins that it was landed with.

    pipeline file    user_id            user_id            $header.user_id
    batch            1                  2                  refused
    property                            {}

A row does not say where its columns came from. Under two origins one column would hold two things, and a join would
pair them. The record is a table property: it stands there from the second batch on, and from the first one on where a
column is no field of the value. A table of an earlier release gets it with its next batch. Spark is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from deltalake import DeltaTable

from windrow.columns import RAW_ENVELOPE
from windrow.config import Pipeline
from windrow.config.origins import Origin
from windrow.io.delta import tables

PROPERTY = "windrow.origins"
"""Table property: column → origin as a pipeline file writes it, as JSON. A column that is not in it is of the value."""
VALUE = "value"
"""What people are shown for a field of the value."""


class Moved(NamedTuple):
    """A column that the pipeline file takes from another part of the record than the rows of its table."""

    column: str
    was: str
    now: str


def moved(table: DeltaTable, pipeline: Pipeline, topic: str) -> Iterator[Moved]:
    """Yield the columns of a landing table whose origin the pipeline file changes; none that are new to the table."""
    recorded = _recorded(table)
    was = {name.lower(): origin for name, origin in (recorded or {}).items()}
    present = {field.name.lower() for field in table.schema().fields}
    now = _written(pipeline, topic)
    for name in pipeline.topic_columns(topic):
        before, after = was.get(name.lower(), VALUE), now.get(name, VALUE)
        if name.lower() not in present or before == after:
            continue
        if recorded is not None or _is_certain(after, present):
            yield Moved(name, before, after)


def keep(table: DeltaTable, pipeline: Pipeline, topic: str) -> None:
    """Record the origins of the next batch, or of the last one. The caller holds the lock.

    A column that the pipeline file lacks keeps its origin: its rows are still there.
    """
    recorded = _recorded(table)
    known = {**(recorded or {}), **_written(pipeline, topic)}
    if known != recorded:
        tables.set_properties(table, {PROPERTY: json.dumps(known)})


def _recorded(table: DeltaTable) -> dict[str, str] | None:
    text = table.metadata().configuration.get(PROPERTY)
    return None if text is None else {str(name): str(origin) for name, origin in json.loads(text).items()}


def _written(pipeline: Pipeline, topic: str) -> dict[str, str]:
    return {name: _text(origin) for name, origin in pipeline.origins(topic).items()}


def _text(origin: Origin) -> str:
    return f"${origin.part}.{origin.name}"


def _is_certain(now: str, present: set[str]) -> bool:
    """Whether the rows of a table without a record cannot have been landed with an origin.

    Columns of keys and headers come with a column of their own, so without that all others are of the value, or of the
    record's timestamp.
    """
    return now.startswith(("$key.", "$header.")) and RAW_ENVELOPE not in present
