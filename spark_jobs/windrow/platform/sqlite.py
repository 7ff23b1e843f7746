"""How Airflow's processes share the one SQLite file: patiently, and with short writes.

A write waits for the others' instead of failing ("database is locked"), and does not wait for the disk at every
commit: with a write-ahead log a power cut can cost the last commits of Airflow's own state, never the file. What
Windrow has published does not depend on it.

Waiting alone is not enough for a transaction that reads first: SQLite refuses its write at once if another was
committed in between (SQLITE_BUSY_SNAPSHOT, https://sqlite.org/rescode.html#busy_snapshot). Airflow creates backfills
that way, in a savepoint: here a savepoint that opens a transaction takes the write lock before it reads.
"""

from __future__ import annotations

import sqlite3
from typing import Any


class Cursor(sqlite3.Cursor):
    """A cursor whose savepoints never start a transaction that cannot write."""

    def execute(self, sql: str, *parameters: Any) -> Cursor:
        if not self.connection.in_transaction and sql.lstrip()[:9].upper() == "SAVEPOINT":
            super().execute("BEGIN IMMEDIATE")
        super().execute(sql, *parameters)
        return self


class Connection(sqlite3.Connection):
    """A connection that commits without waiting for the disk."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute("PRAGMA synchronous=NORMAL").close()

    def cursor(self, factory: Any = Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, *parameters: Any) -> Any:
        return self.cursor().execute(sql, *parameters)


CONNECT_ARGS = {"timeout": 60, "factory": Connection}
"""`timeout` in seconds."""
