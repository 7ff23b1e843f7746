"""The join of one closed hour, landing files to candidate files, against a bare copy and the two obvious ways.

    copy      the same left rows, read and written: what no join can beat
    ours      the candidate's rows, joined and written as the join job does
    by_files  the same with WINDROW_PAYLOAD=files: payload goes past the JVM
    obvious   equi-join, filter on the window, group by the left row
    stream    Spark's own stream-stream left join with RocksDB state (pairs only: no list of labels, other order)

Two shapes: `hour` has --rows rows, four a key; `hot` has --hot rows, a thousand a key. 0 leaves a shape out. A row of
the hot shape holds about a hundred labels: with 2 M rows the result alone would be 200 M of them. Of that shape the
tasks are told as well: of the stage that takes most, how long the longest one is beside the median.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from pathlib import Path

from common.side_by_side import arguments, compare, tell, work_twice
from common.tables import Shape, nth, only, world
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import ROW_ID, ROW_ORDER
from windrow.io.registers import clocks
from windrow.io.training import inputs
from windrow.io.training.ways import VARIABLE, wants_files
from windrow.jobs.join import write_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.run import Context
from windrow.jobs.size import estimated
from windrow.jobs.spark import spark_for

VARIANTS = ("copy", "ours", "by_files", "obvious", "stream")
SHAPES = {"hour": 4, "hot": 1000}


def left_of(spark: SparkSession, ctx: Context, number: int = 0) -> DataFrame:
    begin, end = nth(ctx.pipeline, number)
    rows = spark.read.format("delta").load(ctx.home.landing("served"))
    return rows.where((F.col("_event_time") >= F.lit(begin)) & (F.col("_event_time") < F.lit(end)))


def copy(spark: SparkSession, ctx: Context, out: str) -> None:
    left_of(spark, ctx).drop("_raw", "_quarantined").write.format("delta").save(out)


def ours(spark: SparkSession, ctx: Context, out: str) -> None:
    planned = plan_interval(ctx, f"benchmark-{uuid.uuid4()}", only(ctx.pipeline)[0], "republish", 1)
    places = wants_files(0, 0, lambda: 1, is_warm=False, is_local=True)  # only where WINDROW_PAYLOAD says so
    read = inputs.read(spark, ctx.home, planned, clocks.observe(ctx.home), with_place=places)
    numbers = {plan.id: 1 for plan in planned}
    # one table for both passes: mostly the candidates table is there
    table = str(Path(out).with_name("candidates"))
    write_candidates(ctx, planned, read, numbers, estimated(ctx.home, planned).rows, table)
    inputs.release(read)


def by_files(spark: SparkSession, ctx: Context, out: str) -> None:
    os.environ[VARIABLE] = "files"
    ours(spark, ctx, out)


def obvious(spark: SparkSession, ctx: Context, out: str) -> None:
    left = left_of(spark, ctx).drop("_raw", "_quarantined").alias("l")
    right = spark.read.format("delta").load(ctx.home.landing("clicks")).alias("r")
    inside = (F.col("r._event_time") >= F.col("l._event_time")) & (
        F.col("r._event_time") <= F.col("l._event_time") + F.expr("interval 30 minutes")
    )
    same = (F.col("l.user_id") == F.col("r.user_id")) & (F.col("l.item_id") == F.col("r.item_id"))
    label = F.struct(*[f"r.{c}" for c in (*ROW_ORDER, "event_id", "user_id", "item_id", "engaged_at")])
    pairs = left.join(right, on=same & inside, how="left").select(
        "l.*", F.when(F.col("r._offset").isNotNull(), label).alias("label")
    )
    payload = [c for c in left.columns if c not in ROW_ID]
    grouped = pairs.groupBy(*ROW_ID).agg(
        *[F.first(c).alias(c) for c in payload], F.array_sort(F.collect_list("label")).alias("clicks")
    )
    grouped.withColumn("clicked", F.size("clicks") > 0).write.format("delta").save(out)


def stream(spark: SparkSession, ctx: Context, out: str) -> None:
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)

    def side(topic: str, name: str) -> DataFrame:
        rows = spark.readStream.format("delta").load(ctx.home.landing(topic))
        return rows.drop("_raw", "_quarantined").withWatermark("_event_time", "1 minute").alias(name)

    inside = F.expr("r._event_time >= l._event_time and r._event_time <= l._event_time + interval 30 minutes")
    same = F.expr("l.user_id = r.user_id and l.item_id = r.item_id")
    pairs = side("served", "l").join(side("clicks", "r"), on=same & inside, how="leftOuter")
    wanted = ["l.*", *[F.col(f"r.{c}").alias(f"r_{c}") for c in (*ROW_ORDER, "event_id", "engaged_at")]]
    query = (
        pairs.select(*wanted)
        .writeStream.format("delta")
        .option("checkpointLocation", f"{out}/_checkpoint")
        .trigger(availableNow=True)
        .start(out)
    )
    query.awaitTermination()


def tell_tasks(spark: SparkSession, what: str) -> None:
    """Print, of the stage with the most time in its tasks, how long the longest is beside the median."""
    context = spark.sparkContext
    store, gateway = context._jsc.sc().statusStore(), context._gateway
    quantiles = gateway.new_array(gateway.jvm.double, 2)
    quantiles[0], quantiles[1] = 0.5, 1.0
    found = store.stageList(
        None, False, False, gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
    )
    stages = [found.apply(number) for number in range(found.size())]
    most = max(stages, key=lambda stage: stage.executorRunTime())
    times = store.taskSummary(most.stageId(), most.attemptId(), quantiles).get().executorRunTime()
    median, longest = times.apply(0) / 1000, times.apply(1) / 1000
    tell(
        f"{what}: {most.numTasks()} tasks in the longest stage, median {median:.1f} s, longest {longest:.1f} s: "
        f"{longest / max(median, 0.001):.1f} x"
    )


def main() -> None:
    options = arguments(__doc__ or "", VARIANTS, rows=2_000_000, hot=200_000)
    sizes = {"hour": options.rows, "hot": options.hot}
    if options.work:
        shape, _, variant = options.work.partition("/")
        ctx = world(options.home, Shape(sizes[shape], SHAPES[shape]))
        spark = spark_for(f"benchmark {variant}", ctx.places, ctx.pipeline)

        def once(number: int) -> None:
            out = f"{options.out}/{number}"
            shutil.rmtree(out if number else options.out, ignore_errors=True)
            globals()[variant](spark, ctx, out)
            if shape == "hot":
                tell_tasks(spark, options.work)

        work_twice(once)
        return
    scratch = Path(options.home).resolve() / "out"
    given = ["--rows", str(options.rows), "--hot", str(options.hot), "--home", options.home]
    for shape, rows_per_key in SHAPES.items():
        if not sizes[shape]:
            continue
        world(options.home, Shape(sizes[shape], rows_per_key))
        mine = [v for v in options.variants if shape == "hour" or v != "stream"]

        def command(variant: str, shape: str = shape) -> list[str]:
            return [sys.executable, __file__, "--work", f"{shape}/{variant}", "--out", f"{scratch}/{variant}", *given]

        about = {"rows": sizes[shape], "rows a key": rows_per_key, "features": 50, "labelled": 0.2}
        compare(f"join_{shape}", mine, command, rounds=options.rounds, about=about)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
