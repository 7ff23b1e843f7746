"""Values that the JSON reader would change without a word: they are as unreadable as those of a wrong type."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from support.small_pipeline import PIPELINE
from windrow.config import parse
from windrow.semantics.landing.batch import Batch
from windrow.transforms.decode import decode

pytestmark = pytest.mark.spark

FILE = PIPELINE.replace("{id: string, k: bigint, t: timestamp}", '{k: bigint, t: timestamp, v: "TYPE"}', 1)
NOW = datetime(2026, 11, 1, tzinfo=UTC)
CASES: list[tuple[str, str, Any]] = [
    ("tinyint", "127", 127),
    ("tinyint", "-128", -128),
    ("tinyint", "128", "wrong_type"),
    ("tinyint", "200", "wrong_type"),
    ("array<tinyint>", "[1, null, -3]", [1, None, -3]),
    ("array<tinyint>", "[1, 200]", "wrong_type"),
    ("map<string,tinyint>", '{"a": 255}', "wrong_type"),
    ("struct<a:tinyint,b:string>", '{"a": 5, "b": "x"}', (5, "x")),
    ("struct<a:tinyint,b:string>", '{"a": 130, "b": "x"}', "wrong_type"),
    ("decimal(5,2)", "1.5", Decimal("1.50")),
    ("decimal(5,2)", "-999.99", Decimal("-999.99")),
    ("decimal(5,2)", "1.500", Decimal("1.50")),
    ("decimal(5,2)", "1.555", "wrong_type"),
    ("decimal(5,2)", "999.999", "wrong_type"),
    ("decimal(5,2)", "1000", "wrong_type"),
    ("decimal(5,0)", "12.5", "wrong_type"),
    ("double", "1e999", "not_finite"),
    ("array<double>", "[1.0, -1e999]", "not_finite"),
    ("array<array<double>>", "[[1.0], [2.0, 1e999]]", "not_finite"),
    ("array<array<double>>", "[[1.0], null, [null, 2.0]]", [[1.0], None, [None, 2.0]]),
    ("struct<a:double,b:string>", '{"a": 1e999, "b": "Infinity"}', "not_finite"),
    ("struct<a:double,b:string>", '{"a": 1.5, "b": "Infinity"}', (1.5, "Infinity")),
    ("struct<a:struct<b:array<float>>>", '{"a": {"b": [1e39]}}', "not_finite"),
    ("map<string,double>", '{"a": 1e999}', "not_finite"),
    ("map<string,double>", '{"a": 2.5}', {"a": 2.5}),
]


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in CASES}))
def test_a_value_is_read_as_it_is_or_not_at_all(spark: Any, kind: str) -> None:
    mine = [(text, expected) for of, text, expected in CASES if of == kind]
    records = spark.createDataFrame(
        [
            (None, f'{{"k": 1, "t": "2026-11-01T00:00:01Z", "v": {text}}}'.encode(), "t.served", 0, n, NOW, 0)
            for n, (text, _) in enumerate(mine)
        ],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int",
    )
    batch = Batch("t.served", "id", 0, 1, NOW, {0: (0, len(mine), len(mine))})
    rows = (
        decode(records, parse(FILE.replace("{t}", "t").replace("TYPE", kind), "values.yaml"), batch)
        .orderBy("_offset")
        .collect()
    )
    for row, (text, expected) in zip(rows, mine, strict=True):
        if expected in ("wrong_type", "not_finite"):
            assert (row["_quarantined"], json.loads(row["_unreadable"])) == (expected, {"v": expected}), text
            continue
        assert (row["_quarantined"], row["v"]) == (None, expected), text
