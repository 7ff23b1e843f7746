"""Landing a backlog of JSON records from a real broker into a new table, against a bare Spark job.

    from_json   Kafka → `from_json` to the same columns → Delta: what the aim is measured by
    raw         Kafka → Delta, the bytes as they are: the limit
    ours        jobs.land: the batch planned, every record decoded or quarantined, counted, the clock moved

One topic of eight partitions, filled once and kept in the folder with its broker; every pass makes a table of its own.
The broker's own CPU is in no figure: it does the same for all.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from common import traffic
from common.side_by_side import arguments, compare, work_twice
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.jobs.land import land, totals
from windrow.jobs.run import Context, leave
from windrow.jobs.spark import LARGE, spark_for
from windrow.places import Places
from windrow.platform import jars
from windrow.simulate.producer import create_topics

VARIANTS = ("from_json", "raw", "ours")
PARTITIONS = 8
CLICK_PARTITIONS = 2
_META = ("topic", "partition", "offset", "timestamp")


def from_json(spark: SparkSession, places: Places, name: str) -> str:
    schema = ", ".join(f"{column} {kind}" for column, kind in traffic.SERVED.items())
    row = F.from_json(F.col("value").cast("string"), schema).alias("row")
    return _append(_records(spark, places, name).select(*_META, row).select(*_META, "row.*"), places)


def raw(spark: SparkSession, places: Places, name: str) -> str:
    return _append(_records(spark, places, name).select(*_META, "value"), places)


def ours(_spark: SparkSession, places: Places, name: str) -> str:
    pipeline = traffic.pipeline(places, name)
    *_, last = land(Context(pipeline, places))
    print(f"landed {totals(last.after)}")
    return places.landing(name, f"{name}.served")


def _records(spark: SparkSession, places: Places, name: str) -> DataFrame:
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", places.kafka)
        .option("subscribe", f"{name}.served")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
    )


def _append(rows: DataFrame, places: Places) -> str:
    path = str(places.home / "table")
    rows.write.format("delta").mode("append").save(path)
    return path


def check(path: str, rows: int) -> None:
    """Check that the table has every record once, with its event time."""
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pydict()
    found = sum(files["num_records"])
    unread = sum(sum(files.get(f"null_count.{c}", [])) for c in ("_event_time", "served_at"))
    if (found, unread) != (rows, 0):
        sys.exit(f"{path} holds {found} rows of {rows}, {unread} event times were not read")


def work(options: object, variant: str, kafka: str) -> None:
    """A worker: two passes, each into its own home; the result is checked after the time is taken."""
    rows, out = options.rows, Path(options.out)  # type: ignore[attr-defined]
    shutil.rmtree(out, ignore_errors=True)
    known = replace(Places.from_env({**os.environ, "WINDROW_HOME": str(out)}), kafka=kafka)
    os.environ |= jars.environment(known, large=rows >= LARGE)  # as a pipeline of that size would have it
    spark, tables = spark_for(f"benchmark landing {variant}", known), []
    one: Callable[[SparkSession, Places, str], str] = globals()[variant]
    work_twice(lambda number: tables.append(one(spark, replace(known, home=out / str(number)), _name(rows))))
    for path in tables:
        check(path, rows)
    shutil.rmtree(out)


def _name(rows: int) -> str:
    return f"landing_{rows}"


def main() -> None:
    options = arguments(__doc__ or "", VARIANTS, rows=5_000_000)
    if options.work:
        variant, _, kafka = options.work.partition("@")
        work(options, variant, kafka)
        leave(0)
    home = Path(options.home).resolve() / "landing"
    name = _name(options.rows)
    with traffic.broker(home) as places:
        create_topics(places.kafka, {f"{name}.clicks": CLICK_PARTITIONS})
        traffic.fill(places.kafka, f"{name}.served", options.rows, PARTITIONS)

        def command(variant: str) -> list[str]:
            sizes = ["--rows", str(options.rows), "--home", options.home]
            return [
                sys.executable, __file__, "--work", f"{variant}@{places.kafka}", "--out", str(home / "out"), *sizes
            ]  # fmt: skip

        size = len(traffic.Records().served(options.rows // 2, int(traffic.START.timestamp() * 1_000_000)))
        about = {"records": options.rows, "bytes a record": size, "partitions": PARTITIONS}
        compare("landing", options.variants, command, rounds=options.rounds, about=about)


if __name__ == "__main__":
    main()
