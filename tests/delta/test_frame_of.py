"""Values of a process become a DataFrame without a Python worker, and stay the same values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import functions as F

from windrow.io.delta.session import frame_of

pytestmark = pytest.mark.spark


def test_instants_maps_and_nulls_arrive_as_they_are(spark: Any) -> None:
    at = datetime(2026, 11, 1, 2, 30, 0, 123456, tzinfo=timezone(timedelta(hours=-4)))
    rows = [(at, "a", {"t/0": at, "t/1": None}, {"t": 2**40}), (None, None, {}, None)]
    frame = frame_of(spark, rows, "`_at` timestamp, name string, clocks map<string,timestamp>, pins map<string,bigint>")
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    clocks = F.transform_values("clocks", lambda _, clock: F.unix_micros(clock))
    found = frame.select(F.unix_micros("_at"), "name", clocks, "pins").collect()
    assert [tuple(row) for row in found] == [
        (micros, "a", {"t/0": micros, "t/1": None}, {"t": 2**40}),
        (None, None, {}, None),
    ]


def test_no_python_worker_is_asked(spark: Any) -> None:
    for rows in ([(1,)], []):
        frame = frame_of(spark, rows, "n bigint")
        assert frame.count() == len(rows)
        assert "LocalRelation" in frame._jdf.queryExecution().optimizedPlan().toString()
