"""The tables that benchmarks make are landing tables: the jobs take them. Otherwise no benchmark would run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windrow.jobs.train import train_all
from windrow.places import PROJECT

pytestmark = pytest.mark.spark


def test_rows_of_the_benchmarks_are_published(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "benchmarks"))
    from common import tables

    ctx = tables.world(str(tmp_path), tables.Shape(rows=200, rows_per_key=2, features=2))
    published = [row for one in train_all(ctx, "test") for row in one.published]
    assert sum(row["rows"] for row in published) == 200
    assert sum(row["positive"] for row in published) >= 40


def test_events_of_the_lag_benchmark_are_landing_rows(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from windrow.columns import LANDING_TYPES

    monkeypatch.syspath_prepend(str(PROJECT / "benchmarks"))
    import lag_impact

    types = dict(lag_impact._landed(lag_impact._served(spark, 10), "served").dtypes)
    assert {name: types.get(name) for name in LANDING_TYPES} == LANDING_TYPES
