"""What an interval decides is looked up in one way for neighbouring intervals, and in another for scattered ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windrow.transforms.join import by_interval

pytestmark = pytest.mark.spark

FIRST = datetime(2026, 11, 1, 0, 59, 30, tzinfo=UTC)
LENGTH = timedelta(seconds=10)


@pytest.mark.parametrize("steps", [[0], [0, 1, 2, 5], [0, 3, 10**8]])
def test_a_row_gets_the_value_of_its_interval_and_no_other(spark: Any, steps: list[int]) -> None:
    from pyspark.sql import functions as F

    values = {FIRST + step * LENGTH: f"value {step}" for step in steps}
    asked = [*range(-2, 8), 10**8 - 1, 10**8, 10**8 + 1, -(10**9), 2**32]
    rows = spark.createDataFrame([(step,) for step in asked], "step bigint")
    interval = F.timestamp_micros(F.lit(int(FIRST.timestamp()) * 10**6) + F.col("step") * 10**7)
    found = rows.withColumn("_interval", interval).select("step", by_interval(values, LENGTH).alias("value")).collect()
    assert {row.step: row.value for row in found} == {step: values.get(at(step)) for step in asked}


def at(step: int) -> datetime | None:
    try:
        return FIRST + step * LENGTH
    except OverflowError:
        return None
