"""Values that differ from run to run: they are literals in all but the code that Spark generates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from support.small_pipeline import PIPELINE, event, made
from support.world import World
from windrow.semantics.intervals import micros
from windrow.transforms.given import given

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Ten rows, a minute apart, in a Parquet file."""
    path = str(tmp_path_factory.mktemp("given") / "rows")
    at = F.timestamp_micros(F.lit(micros(START)) + F.col("id") * 60_000_000)
    spark.range(0, 10, 1, 1).select("id", at.alias("at")).write.parquet(path)
    return spark.read.parquet(path)


@contextmanager
def classes_made(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Yield how many classes Spark has generated and compiled since."""
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = compiled.getCount()
    yield lambda: compiled.getCount() - before


def forget_classes(spark: SparkSession) -> None:
    """Empty Spark's cache of generated classes, which holds those of earlier tests. It is private, so by reflection."""
    jvm: Any = spark._jvm
    generator = jvm.org.apache.spark.util.Utils.classForName(
        "org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$", True, False
    )
    field = generator.getDeclaredField("cache")
    field.setAccessible(True)
    field.get(None).invalidateAll()


def asked(rows: DataFrame, number: int, value: Callable[..., Column]) -> DataFrame:
    """A query about what comes from a minute on; `value` makes its constants."""
    since = START + timedelta(minutes=number)
    apart = F.unix_micros("at") - value(micros(since))
    return rows.where((F.col("at") >= value(since)) & (F.col("id") >= value(number))).select(
        "id", apart.alias("apart"), value(since).alias("since"), (value(since) + F.lit(timedelta(hours=1))).alias("on")
    )


def test_rows_are_those_of_literals(rows: DataFrame) -> None:
    for number in range(10):
        expected = asked(rows, number, F.lit)
        found = asked(rows, number, given)
        assert found.schema.simpleString() == expected.schema.simpleString()
        assert found.collect() == expected.collect()


def test_types_and_null_are_kept(rows: DataFrame) -> None:
    one = rows.limit(1).select(given(7, "int").alias("i"), given(2**40).alias("b"), given(None).alias("t"))
    assert one.schema.simpleString() == "struct<i:int,b:bigint,t:timestamp>"
    assert [tuple(row) for row in one.collect()] == [(7, 2**40, None)]
    ends = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    # `lit` takes instants before 1582 as of another calendar; ours are those that tables hold
    found = rows.limit(1).select(*[F.unix_micros(given(at)) for at in ends]).collect()
    assert [tuple(row) for row in found] == [(micros(ends[0]), micros(ends[1]))]


def test_files_are_filtered_by_them(rows: DataFrame) -> None:
    plans = [asked(rows, 3, value)._jdf.queryExecution().executedPlan().toString() for value in (given, F.lit)]
    pushed = [plan.split("PushedFilters: [")[1].split("], ReadSchema")[0] for plan in plans]
    assert sorted(pushed[0].split(", ")) == sorted(pushed[1].split(", "))
    assert "GreaterThanOrEqual(at,2026-11-01" in pushed[0]


@pytest.mark.usefixtures("compiled")
def test_rows_are_those_of_literals_when_compiled(rows: DataFrame) -> None:
    test_rows_are_those_of_literals(rows)


@pytest.mark.usefixtures("compiled")
def test_the_same_query_about_other_values_makes_no_class(rows: DataFrame, spark: SparkSession) -> None:
    with classes_made(spark) as with_literals:
        for number in range(20, 23):  # no other test asks about these
            asked(rows, number, F.lit).collect()
    with classes_made(spark) as at_first:
        asked(rows, 20, given).withColumn("more", F.lit(1)).collect()
    with classes_made(spark) as then:
        for number in range(21, 23):
            asked(rows, number, given).withColumn("more", F.lit(1)).collect()
    assert with_literals() > at_first() > 0
    assert then() == 0


@pytest.mark.kafka
@pytest.mark.usefixtures("compiled")
def test_the_next_landing_and_the_next_interval_run_in_the_code_of_the_last(world: World, spark: Any) -> None:
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    forget_classes(spark)
    counts = []
    for minute in range(5):
        seconds = 60 * minute
        served = [event("served", 0, seconds + n, key=n, name=f"s{minute}.{n}") for n in range(50)]
        likes = [event("likes", 0, seconds + n, key=n, name=f"l{minute}.{n}") for n in range(1, 50, 5)]
        later = [event(topic, 0, seconds + 300, key=-1, name=f"e{minute}") for topic in ("served", "likes")]
        world.produce([*served, *likes, *later])
        with classes_made(spark) as found:
            world.land(ctx)
            assert world.train(ctx, run=f"r{minute}")[0].published
        counts.append(found())
    assert counts[0] > 50
    # another number of files or partitions may be another number in a small part of the code
    assert max(counts[2:]) <= 2
