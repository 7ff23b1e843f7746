"""A published and a rebuilt row are compared column by column, whatever types the columns have."""

from __future__ import annotations

from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from support.small_pipeline import PIPELINE, at
from windrow.config import Pipeline, load
from windrow.io.delta.session import frame_of
from windrow.places import Places
from windrow.transforms.content import row_hashes
from windrow.transforms.ledger.columns import DDL
from windrow.transforms.reconcile import DIFFERENT, ONLY_PUBLISHED, ONLY_REBUILT, differences, in_question

pytestmark = pytest.mark.spark

COLUMNS = {
    "id": "string",
    "k": "bigint",
    "t": "timestamp",
    "name": "string",
    "f": "float",
    "d": "double",
    "n": "decimal(10,2)",
    "b": "binary",
    "a": "array<int>",
    "af": "array<float>",
    "s": "struct<x:int,y:int>",
    "m": "map<string,double>",
}
USUAL: dict[str, Any] = {
    "id": "an id", "k": 1, "t": at(10), "name": "x", "f": 1.5, "d": 2.5, "n": Decimal("3.25"), "b": b"\x00",
    "a": [1], "af": [0.5], "s": {"x": 1, "y": 2}, "m": {"x": 1.0},
}  # fmt: skip
ORDER = "_event_time timestamp, _topic string, _epoch int, _partition int, _offset bigint"
LIKE = "_event_time:timestamp,_topic:string,_epoch:int,_partition:int,_offset:bigint,_arrived_at:timestamp"
TYPES = (
    ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    + f", likes array<struct<{LIKE},id:string,k:bigint,t:timestamp>>, liked boolean, label_state string, "
    f"label_reason string, {ORDER}, _interval timestamp"
)
CASES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, []),
    ({"f": nan, "d": nan, "af": [nan]}, {"f": nan, "d": nan, "af": [nan]}, []),
    ({"f": -0.0, "d": -0.0, "af": [-0.0]}, {"f": 0.0, "d": 0.0, "af": [0.0]}, []),
    ({"f": nan}, {"f": None}, ["f"]),
    ({"d": 0.1 + 0.2}, {"d": 0.3}, ["d"]),
    ({"n": Decimal("3.25")}, {"n": Decimal("3.26")}, ["n"]),
    ({"b": b""}, {"b": None}, ["b"]),
    ({"t": at(10)}, {"t": at(10.000001)}, ["t"]),
    ({"id": None, "name": "an id"}, {"id": "an id", "name": None}, ["id", "name"]),
    ({"k": None, "name": ""}, {"k": None, "name": None}, ["name"]),
    ({"a": [1, None]}, {"a": [None, 1]}, ["a"]),
    ({"a": [1, None]}, {"a": [1]}, ["a"]),
    ({"a": []}, {"a": None}, ["a"]),
    ({"af": [nan, 1.0]}, {"af": [nan, 2.0]}, ["af"]),
    ({"s": {"x": None, "y": 1}}, {"s": {"x": 1, "y": None}}, ["s"]),
    ({"s": {"x": None, "y": None}}, {"s": None}, ["s"]),
    ({"m": {"x": 1.0}}, {"m": {"x": 2.0}}, ["m"]),
    ({"m": {"x": None}}, {"m": {}}, ["m"]),
    ({"likes": ["0", None]}, {"likes": ["0", "1"]}, ["likes"]),
    ({"likes": ["0"], "liked": True}, {"likes": [], "liked": None}, ["liked", "likes"]),
    ({"label_reason": None}, {"label_reason": "gap"}, ["label_reason"]),
    ({"_interval": at(0)}, {"_interval": at(60)}, ["_interval"]),
]


@pytest.fixture
def pipeline(tmp_path: Path, session_places: Places) -> Pipeline:
    columns = ", ".join(f'{name}: "{kind}"' for name, kind in COLUMNS.items())
    file = tmp_path / "small.yaml"
    file.write_text(PIPELINE.replace("{t}", "t").replace("{id: string, k: bigint, t: timestamp}", f"{{{columns}}}", 1))
    return load(file, session_places.expectations)


def _rows(spark: Any, arrived: float, changes: dict[int, dict[str, Any]]) -> DataFrame:
    """Usual rows with changes, by offset; of a like only its id is given."""
    order = {"_event_time": at(20), "_topic": "likes", "_epoch": 0, "_partition": 0, "_arrived_at": at(arrived)}
    usual = {**USUAL, "likes": [], "liked": False, "label_state": "negative", "label_reason": None}
    usual |= {"_event_time": at(10), "_topic": "served", "_epoch": 0, "_partition": 0}
    rows = []
    for offset, change in changes.items():
        row = {**usual, "_offset": offset, "_interval": at(0), **change}
        likes = enumerate(row["likes"])
        row["likes"] = [{**order, "_offset": n, "id": name, "k": 1, "t": at(20)} for n, name in likes]
        rows.append(list(row.values()))
    return frame_of(spark, rows, TYPES)


def test_columns_that_differ_are_named_and_equal_rows_are_passed_over(spark: Any, pipeline: Pipeline) -> None:
    only = len(CASES)
    old = {n: case[0] for n, case in enumerate(CASES)} | {only: {}}
    new = {n: case[1] for n, case in enumerate(CASES)} | {only + 1: {}}
    published, rebuilt, ledger = _rows(spark, 30, old), _rows(spark, 40, new), frame_of(spark, [], DDL)

    ids = in_question(row_hashes(published, pipeline), ledger, row_hashes(rebuilt, pipeline))
    assert 0 not in {row["_id"]["_offset"] for row in ids.collect()}
    found = differences(published, ledger, rebuilt, ids, pipeline).collect()
    expected = {n: names for n, (_, _, names) in enumerate(CASES) if names}
    expected |= {only: [ONLY_PUBLISHED], only + 1: [ONLY_REBUILT]}
    assert {row["_id"]["_offset"]: sorted(row[DIFFERENT]) for row in found} == expected
