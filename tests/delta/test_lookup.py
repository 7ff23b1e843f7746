"""Which files a look-up opens: never one too few, tested just inside and just outside each bound of the statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from windrow.columns import BATCH, EPOCH, RECONSIDERED
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Condition, Has, Lookup, Range, equal
from windrow.io.landing import batches

AT = datetime(2026, 11, 1, tzinfo=UTC)
MILLISECOND, MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)
INSTANT = pa.timestamp("us", tz="UTC")


@pytest.fixture
def table(tmp_path: Path) -> Lookup:
    """Files a (1 to 3, no null), b (5 to 7, one null), c (nulls only) and d (without statistics)."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"n": [1]}))
    files = pa.table(
        {
            "path": ["a", "b", "c", "d"],
            "num_records": [3, 4, 2, None],
            "null_count.n": [0, 1, 2, None],
            "min.n": [1, 5, None, None],
            "max.n": [3, 7, None, None],
            "min.at": pa.array([AT, AT + 2 * MILLISECOND, None, None], INSTANT),
            "max.at": pa.array([AT, AT + 2 * MILLISECOND, None, None], INSTANT),
        }
    )
    return Lookup(DeltaTable(path), files)


@pytest.mark.parametrize(
    ("condition", "paths"),
    [
        (Range("n", 3, 4), "acd"),
        (Range("n", 4, 4), "cd"),
        (Range("n", 4, 5), "bcd"),
        (Range("n", 8), "cd"),
        (Range("n", None, 1), "acd"),
        (Range("n", None, 0), "cd"),
        (Range("other", 1, 1), "abcd"),
        (Has("n"), "bcd"),
        (Has("n", value=True), "abd"),
        (Has("other"), "abcd"),
    ],
)
def test_files_that_cannot_hold_the_row_stay_closed(table: Lookup, condition: Condition, paths: str) -> None:
    assert table.paths([condition]) == list(paths)


@pytest.mark.parametrize(
    ("by", "paths"),
    [(timedelta(0), "acd"), (MILLISECOND, "acd"), (MILLISECOND + MICROSECOND, "cd"), (2 * MILLISECOND, "bcd")],
)
def test_statistics_of_instants_are_cut_off_at_the_millisecond(table: Lookup, by: timedelta, paths: str) -> None:
    assert table.paths([Range("at", AT + by, AT + by)]) == list(paths)


def test_files_that_can_hold_the_row_come_with_what_the_log_says_of_them(table: Lookup) -> None:
    found = table.files_with([Range("n", 5), Has("n")])
    assert found.select(["path", "num_records", "max.n"]).to_pylist() == [
        {"path": "b", "num_records": 4, "max.n": 7},
        {"path": "c", "num_records": 2, "max.n": None},
        {"path": "d", "num_records": None, "max.n": None},
    ]
    assert table.files_with([Has("not there", value=True)]).num_rows == 0


def test_a_column_that_joined_later_is_null_in_older_files(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"n": [1, 2]}))
    write_deltalake(path, pa.table({"n": [2, 3], "x": ["y", "z"]}), mode="append", schema_mode="merge")
    found = lookup.opened(path)
    assert found is not None
    rows: list[dict[str, Any]] = found.read(["n", "x", "not there"], equal("n", 2), [Range("n", 2, 2)])
    assert sorted(rows, key=str) == [{"n": 2, "x": "y"}, {"n": 2, "x": None}]
    assert found.file_counts == {"opened": 2, "of": 2}
    assert lookup.opened(str(tmp_path / "none")) is None


def test_who_looks_several_times_in_a_step_sees_one_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"a": [1]}))
    with lookup.seen_once():
        first, missing = lookup.opened(path), lookup.opened(f"{path}2")
        write_deltalake(path, pa.table({"a": [2]}), mode="append")
        write_deltalake(f"{path}2", pa.table({"a": [2]}))
        assert lookup.opened(path) is first
        assert lookup.opened(f"{path}2") is missing is None
        assert (at := lookup.opened(path, 1)) is not None, "a version that is named is that one"
        assert at.table.version() == 1
    assert (again := lookup.opened(path)) is not None
    assert again.table.version() == 1
    assert lookup.opened(f"{path}2") is not None


@pytest.mark.parametrize(
    ("begin", "end", "rows"),
    [(0, 100, 700), (0, 50, 350), (90, 100, 70), (25, 75, 350), (200, 300, 200), (100, 200, 0)],
)
def test_rows_of_a_stretch_are_those_of_its_part_of_each_file(tmp_path: Path, begin: int, end: int, rows: int) -> None:
    """700 rows over the first 100 seconds, 200 at one instant later."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"at": pa.array([AT], INSTANT)}))
    bounds = {
        "min.at": pa.array([AT, AT + timedelta(seconds=250)], INSTANT),
        "max.at": pa.array([AT + timedelta(seconds=100), AT + timedelta(seconds=250)], INSTANT),
    }
    table = Lookup(
        DeltaTable(path),
        pa.table({"path": ["a", "b"], "num_records": [700, 200], "size_bytes": [7_000, 400], **bounds}),
    )
    span = Range("at", AT + timedelta(seconds=begin), AT + timedelta(seconds=end))
    estimate = table.within(span)
    assert estimate.rows == rows
    assert estimate.size == (10 * rows if begin < 200 else 2 * rows)


def test_rows_of_a_landing_table_are_counted_by_the_log_and_mixed_files_by_their_columns(tmp_path: Path) -> None:
    """Epoch 1 up to batch 4: two rows of batch 3, one of batch 4; the reconsidered one stands for a quarantined one."""
    path = str(tmp_path / "landing")

    def land(epoch: int, batch: int, *reconsidered: int | None) -> None:
        columns = {EPOCH: pa.int32(), BATCH: pa.int64()} | ({RECONSIDERED: pa.int64()} if batch > 2 else {})
        rows = [{EPOCH: epoch, BATCH: batch, RECONSIDERED: value} for value in reconsidered]
        write_deltalake(path, pa.Table.from_pylist(rows, pa.schema(columns)), mode="append", schema_mode="merge")

    def held() -> tuple[int, int]:
        table = lookup.opened(path)
        assert table is not None
        return batches.rows_held(table, 1, 4), len(table.opened)

    land(0, 1, None)
    land(0, 2, None, None)
    assert held() == (0, 0)
    land(1, 3, None, None)
    land(1, 4, None, 3)
    land(1, 5, None, None, None)
    assert held() == (3, 0)
    DeltaTable(path).optimize.compact()
    assert held() == (3, 1)
    DeltaTable(path).delete(f"{BATCH} = 3")
    assert held()[0] == 1
