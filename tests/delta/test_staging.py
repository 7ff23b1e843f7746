"""Staged files enter a table with true statistics, and leave it by name where they hold one interval only."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema

from windrow.io.delta import staging
from windrow.io.delta.files import DataFile
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
TEN = timedelta(minutes=10)
COLUMNS = ["_interval", "_event_time", "user_id", "name", "score", "missing"]
TYPES = {"_interval": "timestamp", "_event_time": "timestamp", "user_id": "bigint", "name": "string", "score": "double"}


def table(tmp_path: Path) -> str:
    kinds = {"bigint": "long"}
    fields = [Field(name, kinds.get(kind, kind)) for name, kind in TYPES.items()] + [Field("_date", "date")]
    DeltaTable.create(tmp_path / "training", Schema(fields), partition_by=["_date"])
    return str(tmp_path / "training")


def staged(tmp_path: Path, number: int, start: datetime, names: list[str | None]) -> staging.Staged:
    rows = {
        "_interval": [start] * len(names),
        "_event_time": [start + timedelta(microseconds=1500 * n + 1) for n in range(len(names))],
        "user_id": [None, *range(len(names) - 1)],
        "name": names,
        "score": [0.5] * len(names),
    }
    instant = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        zip(TYPES, (instant, instant, pa.int64(), pa.string(), pa.float64()), strict=True)  # type: ignore[arg-type]
    )
    file = tmp_path / f"{number}.parquet"
    pq.write_table(pa.Table.from_pydict(rows, schema), file)
    plan = Plan("p", f"run {number}", Interval(start, start + TEN), {}, "hash")
    return staging.Staged(plan, number, (DataFile.read(str(file)),), TYPES)


def add(path: str, files: staging.Staged, gone: list[object] | None = None) -> dict[str, object]:
    known = DeltaTable(path)
    coming = staging.additions(path, files, COLUMNS)
    known.create_write_transaction([*coming, *(gone or [])], "append", known.schema(), ["_date"])  # type: ignore[list-item]
    found: dict[str, object] = json.loads(coming[0].stats)
    return found


def test_statistics_are_bounds_that_no_reader_can_miss_a_row_by(tmp_path: Path) -> None:
    path = table(tmp_path)
    known = add(path, staged(tmp_path, 1, NOON, ["b", None, "a", "x" * 33]))
    assert known["numRecords"] == 4
    assert known["nullCount"] == {"_interval": 0, "_event_time": 0, "user_id": 1, "name": 1, "score": 0}
    assert known["minValues"] == {
        "_interval": "2026-11-01T12:00:00.000Z", "_event_time": "2026-11-01T12:00:00.000Z", "user_id": 0, "name": "a",
    }  # fmt: skip
    # the newest is at 4 501 µs: the bound is the millisecond above; that of a long text is its beginning and more
    assert known["maxValues"] == {
        "_interval": "2026-11-01T12:00:00.000Z", "_event_time": "2026-11-01T12:00:00.005Z", "user_id": 2,
        "name": "x" * 32 + "\U0010ffff",
    }  # fmt: skip
    newest = NOON + timedelta(microseconds=4501)
    assert DeltaTable(path).to_pyarrow_table(filters=[("_event_time", ">=", newest)]).num_rows == 1
    assert DeltaTable(path).to_pyarrow_table(filters=[("name", "=", "x" * 33)]).num_rows == 1


def test_a_file_of_one_interval_leaves_by_name_and_a_compacted_one_must_be_rewritten(tmp_path: Path) -> None:
    path = table(tmp_path)
    add(path, staged(tmp_path, 1, NOON, ["a", "b"]))
    add(path, staged(tmp_path, 2, NOON + TEN, ["c"]))
    first, second = Interval(NOON, NOON + TEN), Interval(NOON + TEN, NOON + 2 * TEN)
    gone = staging.removals(DeltaTable(path), first, NOON)
    assert gone is not None
    assert len(gone) == 1
    add(path, staged(tmp_path, 3, NOON, ["d", "e", "f"]), gone)  # type: ignore[arg-type]
    assert sorted(DeltaTable(path).to_pyarrow_table()["name"].to_pylist()) == ["c", "d", "e", "f"]
    DeltaTable(path).optimize.compact()
    assert [staging.removals(DeltaTable(path), one, NOON) for one in (first, second)] == [None, None]
    assert staging.removals(DeltaTable(path), Interval(NOON + 2 * TEN, NOON + 3 * TEN), NOON) == []


def test_files_with_other_columns_do_not_join_a_table_as_it_is(tmp_path: Path) -> None:
    known = DeltaTable(table(tmp_path))
    assert staging.fits(known, {"user_id": "bigint", "name": "string"})
    assert not staging.fits(known, {"user_id": "bigint", "new": "string"})
    assert not staging.fits(known, {"user_id": "string"})


def test_what_a_killed_process_staged_is_removed_a_day_after_its_last_write(tmp_path: Path) -> None:
    root, day = str(tmp_path / "staging"), 24 * 3600
    for name, ages in {"old": (day + 60, 2 * day), "slow": (3 * day, day - 60), "live": (0,)}.items():
        for n, age in enumerate(ages):
            file = tmp_path / "staging" / name / f"_place={n}" / "part.parquet"
            file.parent.mkdir(parents=True)
            file.write_bytes(b"rows")
            os.utime(file, (time.time() - age,) * 2)
    staging.remove_abandoned(root)
    staging.remove_abandoned(f"{root} that is not there")
    assert sorted(path.name for path in Path(root).iterdir()) == ["live", "slow"]


def test_processes_of_two_machines_with_one_pid_stage_in_folders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for host in ("worker-0", "worker-1"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        found |= {staging.own_folder("root", purpose) for purpose in ("erase", "compact")}
    assert len(found) == 4
    assert found == {f"root/{what}-worker-{n}-{os.getpid()}" for what in ("erase", "compact") for n in (0, 1)}
