"""Airflow's SQLite file under several writers: a savepoint that reads first can still write."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from windrow.platform.sqlite import CONNECT_ARGS


def opened(file: Path, **more: Any) -> sqlite3.Connection:
    return sqlite3.connect(file, **{**CONNECT_ARGS, **more})


def test_nobody_writes_between_what_a_savepoint_reads_and_what_it_writes(tmp_path: Path) -> None:
    mine, impatient = opened(tmp_path / "a.db"), opened(tmp_path / "a.db", timeout=0)
    mine.execute("PRAGMA journal_mode=WAL")
    mine.execute("CREATE TABLE t (n INTEGER)")
    mine.execute("SAVEPOINT s")
    assert mine.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        impatient.execute("INSERT INTO t VALUES (2)")  # one with patience waits here
    mine.execute("INSERT INTO t VALUES (1)")
    mine.execute("RELEASE s")
    mine.commit()
    impatient.execute("INSERT INTO t VALUES (2)")
    impatient.commit()
    assert mine.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (2,)]


def test_what_a_savepoint_took_back_is_not_written(tmp_path: Path) -> None:
    mine = opened(tmp_path / "a.db")
    mine.execute("CREATE TABLE t (n INTEGER)")
    mine.execute("SAVEPOINT s")
    mine.execute("INSERT INTO t VALUES (1)")
    mine.execute("ROLLBACK TO s")
    mine.execute("RELEASE s")
    mine.execute("INSERT INTO t VALUES (2)")
    mine.commit()
    assert opened(tmp_path / "a.db").execute("SELECT n FROM t").fetchall() == [(2,)]
