"""Rows of small tables as Python values."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

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
