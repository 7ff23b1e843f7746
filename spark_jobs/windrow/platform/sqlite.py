"""SQLite connections that let several Airflow processes write to one file.

A write waits for other writers instead of failing with "database is locked", and a commit does not wait for the disk:
with a write-ahead log a power cut can lose the last commits of Airflow's state, but never damages the file. Windrow's
tables do not depend on it.

Waiting does not help a transaction that reads first: SQLite refuses its write if another transaction has committed in
between (SQLITE_BUSY_SNAPSHOT, https://sqlite.org/rescode.html#busy_snapshot). Airflow creates backfills that way, in a
savepoint. Therefore a savepoint that opens a transaction takes the write lock before it reads.
"""

from __future__ import annotations

import sqlite3
from typing import Any


class Cursor(sqlite3.Cursor):
    """A cursor whose savepoints take the write lock when they open a transaction."""

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
