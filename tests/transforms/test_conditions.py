"""Conditions over lists of conditions; doctests of the module show what they say."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from windrow.config.fields import MOST_COLUMNS
from windrow.transforms.conditions import all_of, any_of

pytestmark = pytest.mark.spark


def test_spark_takes_a_condition_for_each_of_as_many_columns_as_a_pipeline_file_may_name(spark: Any) -> None:
    rows, numbers = spark.range(2), range(1, MOST_COLUMNS + 1)
    found = rows.select(
        any_of(F.col("id") == F.lit(n) for n in numbers), all_of(F.col("id") < F.lit(n) for n in numbers)
    )
    assert [tuple(row) for row in found.collect()] == [(False, True), (True, False)]
