"""Rows from chosen files are those that Delta's own scan gives, for any files and any conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from windrow.io.delta import lookup, scan, tables
from windrow.io.delta.lookup import Has, Range

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 1, tzinfo=UTC)
SCHEMA = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("n", pa.int64()), ("bad", pa.string())])


START_US = 1_793_491_200_000_000
EVERY = [(START_US + n, n, None) for n in (1, 2, 3)]


def instant(micros: int) -> datetime:
    return START + timedelta(microseconds=micros)


ROWS = st.tuples(
    st.one_of(st.none(), st.integers(0, 5_000)), st.integers(0, 9), st.one_of(st.none(), st.just("wrong_type"))
)
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=6)


def written(path: Path, files: list[list[tuple[int | None, int, str | None]]]) -> str:
    for rows in files:
        cells = [{"at": None if at is None else instant(at), "n": n, "bad": bad} for at, n, bad in rows]
        write_deltalake(path, pa.Table.from_pylist(cells, SCHEMA), mode="append")
    return str(path)


def rows_of(frame: Any) -> list[Any]:
    return sorted((tuple(row) for row in frame.select(F.unix_micros("at"), "n", "bad").collect()), key=repr)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["plain", "a b é", "{c}"]),
    FILES,
    st.integers(0, 5_000),
    st.integers(0, 5_000),
    st.integers(0, 9),
)
def test_what_is_asked_for_is_found_whatever_lies_in_which_file(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, folder: str, files: Any, one: int, other: int, most: int
) -> None:
    path = written(tmp_path_factory.mktemp("t") / folder, files)
    lo, hi = instant(min(one, other)), instant(max(one, other))
    inside = F.col("at").between(F.lit(lo), F.lit(hi)) & (F.col("n") <= most)
    doubtful = F.col("bad").isNotNull() & F.col("at").isNull() & (F.col("n") <= most)
    every = spark.read.format("delta").load(path)
    found = scan.rows(spark, path, (Range("at", lo, hi), Range("n", most=most)))
    assert rows_of(found.where(inside)) == rows_of(every.where(inside))
    either = ((Range("at", lo, hi), Range("n", most=most)), (Has("bad", value=True), Has("at")))
    both = scan.rows(spark, path, *either).where(inside | doubtful)
    assert rows_of(both) == rows_of(every.where(inside | doubtful))


def test_files_that_cannot_hold_a_row_are_not_read(spark: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "t", [[(second * 1_000_000, 1, None)] for second in range(10)])
    found = scan.rows(spark, path, (Range("at", instant(3_000_000), instant(5_000_000)),))
    assert len(found.inputFiles()) == 3
    nothing = scan.rows(spark, path, (Has("bad", value=True),))
    assert (nothing.inputFiles(), nothing.columns, nothing.count()) == ([], SCHEMA.names, 0)
    assert scan.rows(spark, str(tmp_path / "none"), ()) is None


def test_rows_of_an_earlier_version_come_from_the_files_that_it_had(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t", [[(1, 1, None)], [(2, 2, None)], [(3, 3, None)]])
    asked = (Range("n", 2, 3),)
    DeltaTable(path).optimize.compact()
    named, newest = scan.rows(spark, path, asked, version=1), scan.rows(spark, path, asked)
    assert [len(found.inputFiles()) for found in (named, newest)] == [1, 1]
    assert [rows_of(found) for found in (named, newest)] == [[(START_US + 2, 2, None)], EVERY]
    monkeypatch.setattr(scan, "MOST_FILES", 0)  # left to Delta
    assert rows_of(scan.rows(spark, path, asked, version=2)) == EVERY


def with_a_new_column(path: Path) -> str:
    """A table of one row in each of three files; only the third file has the column `new`."""
    found = written(path, [[(1, 1, None)], [(2, 2, None)]])
    more = {"at": instant(3), "n": 3, "bad": None, "new": "x"}
    rows = pa.Table.from_pylist([more], SCHEMA.append(pa.field("new", pa.string())))
    write_deltalake(found, rows, mode="append", schema_mode="merge")
    return found


@pytest.mark.parametrize("folder", ["t", "{a} team"])
def test_files_that_no_version_names_any_more_are_read_whatever_their_folder_is_called(
    spark: Any, tmp_path: Path, folder: str
) -> None:
    path = with_a_new_column(tmp_path / folder)
    table = tables.at(path)
    files = lookup.Lookup(table, tables.data_files(table)).paths([Range("n", 2, 3)])
    columns = table.schema().to_json()
    DeltaTable(path).optimize.compact()
    found = scan.rows_of_files(spark, path, scan.schema_of(columns), files)
    assert rows_of(found) == [(START_US + 2, 2, None), (START_US + 3, 3, None)]
    assert [row["new"] for row in found.orderBy("n").collect()] == [None, "x"]


def test_the_log_says_whether_any_file_can_hold_a_row(tmp_path: Path) -> None:
    path, none = written(tmp_path / "t", [[(1, 1, None)], [(2, 2, None)]]), str(tmp_path / "none")
    bad, second = (Has("bad", value=True),), (Range("n", 2, 2),)
    assert [scan.can_hold(path, *either) for either in ([bad], [second], [bad, second])] == [False, True, True]
    assert not scan.can_hold(none, second)


def test_a_column_that_joined_later_is_null_in_older_files(spark: Any, tmp_path: Path) -> None:
    path = with_a_new_column(tmp_path / "t")
    found = scan.rows(spark, path, (Range("n", 0, 9),)).orderBy("n").select("n", "new").collect()
    assert [tuple(row) for row in found] == [(1, None), (2, None), (3, "x")]


def test_a_table_with_deletion_vectors_and_one_of_too_many_files_are_left_to_delta(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    spark.range(10).withColumnRenamed("id", "n").coalesce(1).write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).save(path)
    spark.sql(f"delete from delta.`{path}` where n = 4")
    assert DeltaTable(path).protocol().min_reader_version == 3
    assert scan.rows(spark, path, (Range("n", 4, 4),)).where("n = 4").count() == 0

    monkeypatch.setattr(scan, "MOST_FILES", 2)
    many = written(tmp_path / "many", [[(n, n, None)] for n in range(4)])
    assert scan.rows(spark, many, (Range("n", 1, 3),)).where("n >= 1").count() == 3
