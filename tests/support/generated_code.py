"""How many classes Spark has generated and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def classes_made(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Yield how many classes have been made since, by this Java process."""
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = compiled.getCount()
    yield lambda: compiled.getCount() - before
