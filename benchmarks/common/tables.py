"""Seeded landing tables, as a landing run would write them, without a broker: the same rows on every machine.

Everything is a hash of the row's number and the seed, so that data does not depend on how Spark cuts the work.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from common.pipelines import SERVED, pipeline_text
from windrow.columns import LANDING_TYPES
from windrow.config import Pipeline, load
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.landing import batches
from windrow.io.registers import clocks
from windrow.jobs.run import Context
from windrow.jobs.size import remember_size
from windrow.jobs.spark import spark_for
from windrow.places import Places
from windrow.text import instant_text

START = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
WIDE_FILE = 5_000
"""Rows of a landing file where each feature is a column."""


@dataclass(frozen=True)
class Shape:
    """How many rows there are, and how often a key is repeated."""

    rows: int
    rows_per_key: int
    features: int = 50
    labelled: float = 0.2
    span: timedelta = HOUR
    minutes: int = 60
    """length of an interval"""
    after: int = 30
    """minutes that a label may come after its row"""
    apart: bool = False
    """whether each feature is a column, instead of one array"""

    @property
    def name(self) -> str:
        hours, window = self.span / HOUR, f"_w{self.after}" if self.after != 30 else ""
        span = f"_h{hours:g}".replace(".", "p") if hours != 1 else ""
        features = f"{self.features}{'c' if self.apart else ''}"
        return f"b{self.rows}_{self.rows_per_key}_{features}_{self.minutes}{span}{window}"

    @property
    def feature_columns(self) -> dict[str, str]:
        """Name → type."""
        if not self.apart:
            return {"features": "array<float>"}
        return {f"f{n:04d}": "float" for n in range(1, self.features + 1)}


def world(home: str, shape: Shape) -> Context:
    """The pipeline of a shape; the first caller makes its landing tables and its clock."""
    ctx = pipeline_of(home, shape)
    if clocks.observe(ctx.home).number < 0:
        _land(spark_for("benchmark data", ctx.places, ctx.pipeline), ctx, shape)
    return ctx


def pipeline_of(home: str, shape: Shape) -> Context:
    """The pipeline of a shape in a home folder, without landed rows; its size is recorded for Spark's drivers."""
    folder = Path(home).resolve()
    pipelines = folder / "pipelines"
    pipelines.mkdir(parents=True, exist_ok=True)
    places = replace(
        Places.from_env({**os.environ, "WINDROW_HOME": str(folder)}), pipelines=(pipelines,), spark_master="local[*]"
    )
    file = pipelines / f"{shape.name}.yaml"
    text = pipeline_text(
        shape.name,
        instant_text(START),
        f"{shape.minutes}m",
        f"{shape.after}m",
        served={**SERVED, **shape.feature_columns},
        more="idle: {mode: wait}\n",
    )
    file.write_text(text)
    pipeline = load(file, places.expectations)
    remember_size(Home(pipeline, places), round(shape.rows * (pipeline.interval / shape.span)))
    return Context(pipeline, places)


def forget(ctx: Context) -> None:
    """Delete everything except landed rows and clock: plans, candidates, publications, reports."""
    for table in Path(ctx.home.table(Table.CLOCK)).parent.iterdir():
        if table.name not in ("landing", "clock"):
            shutil.rmtree(table)
    shutil.rmtree(ctx.home.reports, ignore_errors=True)


def rows_in(path: str) -> int:
    """Number of rows of a Delta table according to its log; 0 if there is no table."""
    table = tables.opened(path)
    return 0 if table is None else sum(pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist())


def _land(spark: SparkSession, ctx: Context, shape: Shape) -> None:
    print(f"making {shape.rows:,} served rows in {ctx.places.home} (once) …", file=sys.stderr)
    for topic, rows in (("served", served(spark, shape)), ("clicks", clicks(spark, shape))):
        path = ctx.home.landing(topic)
        shutil.rmtree(path, ignore_errors=True)
        landed = rows.write.format("delta").mode("append").option("txnAppId", batches.APP_ID).option("txnVersion", "1")
        landed.save(path)
    now = START + shape.span + 4 * HOUR
    until = {"served": shape.rows, "clicks": int(shape.rows * shape.labelled)}
    clocks.record(ctx.home, 0, [clock_row(topic, until[topic], now) for topic in ctx.pipeline.topics])


def served(spark: SparkSession, shape: Shape) -> DataFrame:
    """Left rows in landing columns."""
    # Parquet's writer holds a dictionary per column until a file or a row group ends
    files = -(-shape.rows // WIDE_FILE) if shape.apart else None
    rows = spark.range(0, shape.rows, 1, files)
    user, item = _key(F.col("id"), shape)
    return _landed(
        rows.select(
            "id",
            F.col("id").cast("string").alias("request_id"),
            user.alias("user_id"),
            item.alias("item_id"),
            _served_at(F.col("id"), shape).alias("served_at"),
            *_features(F.col("id"), shape),
        ),
        "served",
        "served_at",
    )


def clicks(spark: SparkSession, shape: Shape) -> DataFrame:
    """Label rows in landing columns: one for every n-th served row, minutes later."""
    every = round(1 / shape.labelled)
    rows = spark.range(int(shape.rows * shape.labelled))
    row = F.col("id") * every
    user, item = _key(row, shape)
    delay = (_unit(row, F.lit(-1)) * (shape.after * 50_000_000)).cast("bigint")
    at = F.timestamp_micros(F.unix_micros(_served_at(row, shape)) + delay)
    return _landed(
        rows.select(
            "id",
            F.concat(F.lit("c"), F.col("id")).alias("event_id"),
            user.alias("user_id"),
            item.alias("item_id"),
            at.alias("engaged_at"),
        ),
        "clicks",
        "engaged_at",
    )


def _landed(rows: DataFrame, topic: str, event_time: str) -> DataFrame:
    meta = {name: F.lit(None).cast(kind) for name, kind in LANDING_TYPES.items()} | {
        "_event_time": F.col(event_time),
        "_topic": F.lit(topic),
        "_epoch": F.lit(0),
        "_partition": F.lit(0),
        "_offset": F.col("id"),
        "_batch": F.lit(1).cast("bigint"),
        "_arrived_at": F.col(event_time),
        "_record_at": F.col(event_time),
    }
    payload = [c for c in rows.columns if c != "id"]
    return rows.select(*[meta[name].alias(name) for name in LANDING_TYPES], *payload)


def clock_row(topic: str, until: int, now: datetime) -> dict[str, object]:
    """The clock of a partition that has landed everything up to an offset, at an instant."""
    counts = {"read": until, "landed": until, "quarantined": 0, "skipped": 0, "unexplained": 0, "before_start": 0}
    place = {"topic": topic, "topic_id": topic, "epoch": 0, "partition": 0, "batch": 1, "gap": None}
    clock = {"next_offset": until, "end_offset": until, "newest_at": now, "clock_at": now, "idle": False}
    return {**place, **clock, **counts, "landed_at": now}


def _key(row: Column, shape: Shape) -> tuple[Column, Column]:
    key = F.pmod(F.xxhash64(row, F.lit("key")), F.lit(max(1, shape.rows // shape.rows_per_key)))
    return key, F.pmod(F.xxhash64(key, F.lit("item")), F.lit(10_000))


def _served_at(row: Column, shape: Shape) -> Column:
    """Event times in order of the offset, evenly over the span."""
    micros = shape.span // timedelta(microseconds=1)
    begin = int(START.timestamp() * 1_000_000)
    return F.timestamp_micros(F.lit(begin) + (row * (micros / shape.rows)).cast("bigint"))


def _features(row: Column, shape: Shape) -> list[Column]:
    if shape.apart:
        return [_unit(row, F.lit(n)).cast("float").alias(name) for n, name in enumerate(shape.feature_columns, 1)]
    numbers = F.sequence(F.lit(1), F.lit(shape.features))
    return [F.transform(numbers, lambda n: _unit(row, n).cast("float")).alias("features")]


def _unit(row: Column, n: Column) -> Column:
    """A pseudo-random number in [0, 1) for a row and a position."""
    return F.pmod(F.xxhash64(row, n), F.lit(1_000_003)) / 1_000_003


def only(pipeline: Pipeline) -> tuple[datetime, datetime]:
    """The first interval."""
    return pipeline.start, pipeline.start + pipeline.interval


def nth(pipeline: Pipeline, number: int) -> tuple[datetime, datetime]:
    """The interval with this number, from 0."""
    start = pipeline.start + number * pipeline.interval
    return start, start + pipeline.interval
