"""Landing a backlog of JSON records from a real broker into a new table, against a bare Spark job.

    from_json   Kafka → `from_json` to the same columns → Delta: what the aim is measured by
    raw         Kafka → Delta, the bytes as they are: the limit
    ours        jobs.land: the batch planned, every record decoded or quarantined, counted, the clock moved
    avro        jobs.land of the same events in Avro
    protobuf    jobs.land of the same events in Protobuf

One topic of eight partitions, filled once and kept in the folder with its broker; every pass makes a table of its own.
The broker's own CPU is in no figure: it does the same for all.
"""

from __future__ import annotations

import json
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

from windrow.io.registers import writer_schemas
from windrow.jobs.land import land, totals
from windrow.jobs.run import Context, leave
from windrow.jobs.size import LARGE
from windrow.jobs.spark import spark_for
from windrow.places import Places
from windrow.platform import jars
from windrow.simulate.producer import create_topics
from windrow.transforms.formats.schemas import AVRO, PROTOBUF, WriterSchema

VARIANTS = ("from_json", "raw", "ours", "avro", "protobuf")
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


def avro(_spark: SparkSession, places: Places, name: str) -> str:
    fields = [
        {"name": "request_id", "type": "string"},
        {"name": "user_id", "type": "long"},
        {"name": "item_id", "type": "long"},
        {"name": "served_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "features", "type": {"type": "array", "items": "float"}},
    ]
    return _framed(places, name, "avro", AVRO, json.dumps({"type": "record", "name": "Served", "fields": fields}))


def protobuf(_spark: SparkSession, places: Places, name: str) -> str:
    fields = "string request_id = 1; int64 user_id = 2; int64 item_id = 3; google.protobuf.Timestamp served_at = 4;"
    text = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; '
        f"message Served {{ {fields} repeated float features = 5; }}"
    )
    return _framed(places, name, "protobuf", PROTOBUF, text)


def _framed(places: Places, name: str, form: str, kind: str, schema: str) -> str:
    """Land a topic in a format; its schema is kept already, as it is after the first landing."""
    pipeline = traffic.pipeline(places, f"{name}_{form}", form=form)
    ctx = Context(pipeline, places)
    writer_schemas.keep(ctx.home, "default", [WriterSchema(1, kind, schema)], traffic.START)
    *_, last = land(ctx)
    print(f"landed {totals(last.after)}")
    return places.landing(pipeline.name, f"{pipeline.name}.served")


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
    os.environ |= jars.environment(
        known, options=jars.FOR_LARGE if rows >= LARGE else None
    )  # as a pipeline of that size would have it
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
        for form in {"avro", "protobuf"} & set(options.variants):
            create_topics(places.kafka, {f"{name}_{form}.clicks": CLICK_PARTITIONS})
            traffic.fill(places.kafka, f"{name}_{form}.served", options.rows, PARTITIONS, form)

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
