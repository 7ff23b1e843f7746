"""What is counted by words of 64 offsets, beside the plain way of looking at each row id."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from windrow.io.delta.session import frame_of
from windrow.transforms.measure import repeated_row_ids

pytestmark = pytest.mark.spark

_ROW = "_plan string, _topic string, _epoch int, _partition int, _offset bigint"


def _rows() -> list[tuple[str, str | None, int, int, int | None]]:
    """Three plans: offsets near and far, in several partitions, epochs and topics; some come two or three times."""
    draws = random.Random(11)
    offsets = [0, 1, 62, 63, 64, 65, 127, 128, 2**31, 2**40 + 63, 2**62]
    rows = [
        (plan, topic, epoch, partition, offset)
        for plan in ("a", "b")
        for topic in ("served", "clicks", None)
        for epoch in (0, 1)
        for partition in (0, 7)
        for offset in [*offsets, *draws.sample(range(100_000), 200)]
        for _ in range(draws.choice([1, 1, 1, 1, 2, 3]) if plan == "a" else 1)
    ]
    rows += [("a", "served", 0, 0, None)] * 3 + [("c", "served", 0, 0, offset) for offset in offsets]
    draws.shuffle(rows)
    return rows


def test_each_row_but_one_of_an_id_is_repeated(spark: Any) -> None:
    rows = _rows()
    expected = {"a": 0, "b": 0, "c": 0}
    for (plan, *_), times in Counter(rows).items():
        expected[plan] += times - 1
    frame = frame_of(spark, rows, _ROW).repartition(5)
    found = {row["_plan"]: row["duplicate_row_ids"] for row in repeated_row_ids(frame).collect()}
    assert found == expected
    assert expected["a"] > 300
