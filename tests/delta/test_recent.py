"""Registers that are looked at again and again: the answer of reading all, and no read without a new version."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from windrow.config import load
from windrow.home import Home, Table
from windrow.io.delta import damage, tables
from windrow.io.registers import publications, recent
from windrow.places import PROJECT, Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import intervals_between, micros

PIPELINE = load(PROJECT / "dags" / "pipelines" / "feed.yaml")
START, LENGTH = PIPELINE.start, PIPELINE.interval


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(PIPELINE, Places.from_env({"WINDROW_HOME": str(tmp_path)}))


def publish(home: Home, *numbers: int) -> None:
    """One publication per number, of the interval with this number, in one commit."""
    rows: list[dict[str, Any]] = [
        {"number": n, "interval": START + n * LENGTH, "interval_end": START + (n + 1) * LENGTH} for n in numbers
    ]
    path, app = home.table(Table.PUBLICATIONS), publications.APP_ID
    tables.append_once(path, PUBLICATIONS, rows, app_id=app, version=max(0, tables.version_of(path, app)) + 1)


@given(
    published=st.sets(st.integers(-3, 40)),
    frontier=st.none() | st.integers(-2, 40),
    past=st.timedeltas(timedelta(), LENGTH - timedelta(microseconds=1)),
)
def test_the_intervals_without_a_publication_are_those_of_the_register(
    published: set[int], frontier: int | None, past: timedelta
) -> None:
    at = None if frontier is None else START + frontier * LENGTH + past
    rows = [{"number": n, "interval": START + n * LENGTH} for n in published]
    starts, known = publications.starts_of(rows), {row["interval"] for row in rows}
    closed = intervals_between(START, START if at is None else at, LENGTH)
    assert publications.holes(PIPELINE, starts, at) == [one for one in closed if one.start not in known]


def test_starts_and_newest_rows(home: Home) -> None:
    known = recent.Recent()
    assert recent.newest(recent.grid(home, known).starts) is None
    publish(home, 0, 1, 3)
    publish(home, 2)
    assert recent.newest(recent.grid(home, known).starts) == START + 3 * LENGTH
    rows = recent.rows_since(home, START + 2 * LENGTH, known)
    assert [row["number"] for row in rows] == [2, 3]
    assert "plan" not in rows[0]


def test_nothing_is_read_again_before_the_table_has_a_newer_version(home: Home) -> None:
    known, path, reads = recent.Recent(), home.table(Table.PUBLICATIONS), []

    def look() -> int:
        return known.of(path, "count", lambda: reads.append(1) or len(recent.grid(home, known).starts))

    assert (look(), look()) == (0, 0)  # there is no table to keep
    publish(home, 0)
    reads.clear()
    assert (look(), look(), len(reads)) == (1, 1, 1)
    publish(home, 1)
    assert (look(), len(reads)) == (1, 1)  # one look sees one version
    known.look_again(home.places)
    assert (look(), look(), len(reads)) == (2, 2, 2)


def test_a_data_file_is_read_once_and_every_row_is_seen(home: Home) -> None:
    known, path = recent.Recent(), home.table(Table.PUBLICATIONS)
    opened: list[set[str]] = []
    for n in range(6):
        publish(home, n)
        if n == 3:
            DeltaTable(path).optimize.compact()
        known.look_again(home.places)
        rows = recent.rows_since(home, START + LENGTH, known)
        assert [row["number"] for row in rows] == list(range(1, n + 1))
        found = known.lookup(path)
        assert found is not None
        opened.append(found.opened)
    assert [len(files) for files in opened] == [1] * 6  # the fourth is the compacted one


def test_a_lost_commit_is_not_passed_over_in_a_later_look(home: Home) -> None:
    known, path = recent.Recent(), home.table(Table.PUBLICATIONS)
    publish(home, 0)
    assert len(recent.grid(home, known).starts) == 1
    publish(home, 1)
    (Path(path) / "_delta_log" / f"{1:020}.json").write_text("")
    known.look_again(home.places)
    with pytest.raises(damage.TableDamaged, match="is empty"):
        recent.grid(home, known)


def test_few_values_are_kept(home: Home) -> None:
    publish(home, 0)
    known, path = recent.Recent(), home.table(Table.PUBLICATIONS)
    for n in range(3 * recent.MOST):
        assert known.of(path, n, lambda n=n: n) == n
    assert known.of(path, 0, lambda: "again") == "again"


def test_a_table_that_was_removed_and_made_again_is_read_anew(home: Home) -> None:
    known, path = recent.Recent(), Path(home.table(Table.PUBLICATIONS))
    for n in range(3):
        publish(home, n)
    assert len(recent.grid(home, known).starts) == 3
    shutil.rmtree(path)
    known.look_again(home.places)
    assert len(recent.grid(home, known).starts) == 0
    for n in range(5, 9):  # beyond the version that was read
        publish(home, n)
    known.look_again(home.places)
    first = recent.grid(home, known).starts
    assert first.min() == micros(START + 5 * LENGTH)
    assert len(first) == 4
