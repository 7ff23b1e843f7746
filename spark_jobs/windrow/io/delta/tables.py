"""Small Delta tables, read and written without a JVM (delta-rs).

A write names its app id and version; a second write of the same version is refused here, loudly, because
Delta itself would skip it in silence. Writers hold the table's lock (see `locks`), so reading the version
before the commit is not a race.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.types import StructType

from windrow.outcomes import AnotherWriter
from windrow.semantics.plan import Plan

Filter = tuple[str, str, Any]


COMPACT_EVERY = 50
"""Commits between two compactions: a table of one-row files is read slowly."""
_CHECKPOINTS = {"delta.checkpointInterval": "10"}
"""A table is opened often, and a log of single commits slowly."""


class WriteSkipped(AnotherWriter):
    """A commit of this app id and version is already in the table: the writer's view is outdated."""


def opened(path: str) -> DeltaTable | None:
    """The table, or None where there is none yet."""
    if not os.path.isdir(path):  # delta-rs would create the folder of a table that is only asked for
        return None
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def spark_schema(table: DeltaTable) -> StructType:
    """The table's schema in Spark's words."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def read(
    path: str, columns: Sequence[str] | None = None, filters: Sequence[Filter] | None = None
) -> list[dict[str, Any]]:
    """Rows of a small table as dicts, none where the table is missing."""
    table = opened(path)
    if table is None or any(part[1:] == ("in", []) for part in filters or ()):
        return []  # among none there is none, and Arrow does not know the type of an empty set
    return table.to_pyarrow_table(
        columns=list(columns) if columns else None, filters=list(filters) if filters else None
    ).to_pylist()


def of_plans(column: str, plans: Sequence[Plan]) -> list[Filter]:
    """Rows of some plans. The interval says in which files they can be, a plan's id does not."""
    return [(column, "in", [plan.id for plan in plans]), ("interval", "in", [plan.interval.start for plan in plans])]


def version_of(path: str, app_id: str) -> int:
    """Last committed transaction version of an app id, -1 where there is none."""
    table = opened(path)
    found = table.transaction_version(app_id) if table is not None else None
    return -1 if found is None else int(found)


class Commit(NamedTuple):
    """A commit that Windrow's Spark jobs made."""

    version: int
    message: str
    """The JSON text that it carries."""
    rows: int | None
    """Rows that its writer says it wrote."""


def commits(path: str) -> Iterator[Commit]:
    """Commits with a message, newest first; those of maintenance have none. The newest is cheap to reach."""
    table = opened(path)
    seen, step = 0, 8
    while table is not None:
        log = table.history(limit=step)
        for entry in log[seen:]:
            if message := entry.get("userMetadata"):
                rows = entry.get("operationMetrics", {}).get("numOutputRows")
                yield Commit(int(entry["version"]), message, None if rows is None else int(rows))
        if len(log) < step:
            return
        seen, step = step, step * 4


def append_once(
    path: str,
    schema: pa.Schema,
    rows: Iterable[Mapping[str, Any]],
    *,
    app_id: str | None = None,
    version: int | None = None,
) -> None:
    """Append rows in one commit; with an app id, exactly once per version.

    Raises:
        WriteSkipped: the version is not newer than the table's last one.
    """
    table = opened(path)
    transactions = None
    if app_id is not None and version is not None:
        last = table.transaction_version(app_id) if table is not None else None
        if last is not None and version <= last:
            raise WriteSkipped(
                f"{path}: version {version} of {app_id} is not newer than {last}; another writer was faster. "
                "Start the job again: it will see what is there."
            )
        transactions = [Transaction(app_id, version)]
    data = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    properties = CommitProperties(app_transactions=transactions)
    # a table of an older version gains the columns that it lacks
    write_deltalake(
        table or path,
        data,
        mode="append",
        schema_mode="merge",
        configuration=None if table else _CHECKPOINTS,
        commit_properties=properties,
    )
    written = table or DeltaTable(path)
    if written.version() % COMPACT_EVERY == 0:
        written.optimize.compact()
