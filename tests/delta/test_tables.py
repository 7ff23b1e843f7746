"""Small tables: their rows as Python values, and the files that they consist of."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from windrow.io.delta import tables
from windrow.semantics.intervals import EARLIEST, LATEST


def test_rows_are_those_that_arrow_makes() -> None:
    instants = [datetime(2026, 11, 1, 9, 30, 0, 1, UTC), None, datetime(1969, 12, 31, tzinfo=UTC), EARLIEST, LATEST]
    columns = {
        "at": pa.array(instants, pa.timestamp("us", "UTC")),
        "coarse": pa.array([*instants[1:4], None, None], pa.timestamp("ms", "UTC")),
        "local": pa.array([at and at.replace(tzinfo=None) for at in instants], pa.timestamp("us")),
        "day": pa.array([at and at.date() for at in instants], pa.date32()),
        "n": pa.array([1, None, 3, 4, 5], pa.int64()),
        "text": pa.array(["a", None, "", "é", "b"]),
        "list": pa.array([[instants[0]], [], None, [None], []], pa.list_(pa.timestamp("us", "UTC"))),
    }
    rows = pa.concat_tables([pa.table(columns), pa.table(columns).slice(2)])
    found = tables.dicts(rows)
    assert found == rows.to_pylist()
    assert [row["at"] for row in found[:5]] == instants
    assert {at.utcoffset() for row in found if (at := row["at"])} == {UTC.utcoffset(None)}
    assert tables.dicts(rows.slice(length=0)) == []


@pytest.mark.parametrize("was", [None, tables.CHECKPOINTS])
def test_small_files_of_a_register_are_merged_and_a_large_one_stays(
    was: dict[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MERGED", 20_000)
    path, schema = str(tmp_path / "register"), pa.schema({"n": pa.int64()})
    if was is not None:  # made by an earlier release
        tables.create_if_missing(path, schema, was)
    tables.append_once(path, schema, [{"n": -n} for n in range(10_000)], app_id="app", version=1)
    [large] = tables.at(path).file_uris()
    most = len(tables.at(path).file_uris())
    for n in range(2, 60):
        tables.append_once(path, schema, [{"n": n}], app_id="app", version=n)
        most = max(most, len(tables.at(path).file_uris()))
    assert most <= 2 + tables.COMPACT_EVERY
    assert large in tables.at(path).file_uris()
    assert sorted(row["n"] for row in tables.read(path)) == [*range(-9_999, 1), *range(2, 60)]
    assert tables.at(path).metadata().configuration == tables.REGISTER
