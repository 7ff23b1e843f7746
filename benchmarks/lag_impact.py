"""Sixty lag scenarios over a day of events, compared with one bare scan of the same columns: a ratio, and the memory.

    .venv/bin/python benchmarks/lag_impact.py                     ten million events
    .venv/bin/python benchmarks/lag_impact.py --events 1000000    a tenth
    .venv/bin/python benchmarks/lag_impact.py --row-by-row        rows close one by one, not by interval

Made in a temporary folder by Spark itself, from hashes of row numbers: two topics of eight partitions, as landing
leaves them; events up to two seconds late, labels minutes after their row, some beyond every window, one partition
always half a minute behind. The scenarios: no lag, ten minutes on either side, an hour's pause of the label side
that is caught up at ten times the pace; five clocks; three choices of window and grace.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import LANDING_META, LANDING_TYPES
from windrow.config import Pipeline, load
from windrow.home import Home
from windrow.io.lag.landed import LandedRecords
from windrow.io.registers import clocks
from windrow.jobs.lag.scenarios import SimulatedRange, simulate_range
from windrow.jobs.spark import spark_for
from windrow.places import Places
from windrow.platform import jars
from windrow.semantics.lag.request import LagRequest
from windrow.semantics.lag.scenario import Lag, LagScenario, Policy

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
PARTITIONS, FILES = 8, 16
LABELLED = 0.3
PIPELINE = """\
name: lagged
start: 2026-11-01T00:00:00Z
interval: 10m
left:
  name: served
  topic: served
  columns: {user_id: bigint, item_id: bigint, at: timestamp}
  key: [user_id, item_id]
  event_time: at
  out_of_orderness: 30s
right:
  - name: clicks
    role: label
    topic: clicks
    columns: {user_id: bigint, item_id: bigint, at: timestamp}
    key: [user_id, item_id]
    event_time: at
    out_of_orderness: 1m
    window: {before: 0s, after: 30m}
grace: 1m
idle: {mode: wait}
labels: {clicked: "size(clicks) > 0"}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--row-by-row", action="store_true", help="rows close one by one, not with their interval")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Memory() as memory:
        places = Places.from_env({**os.environ, "WINDROW_HOME": home, "WINDROW_SPARK_MASTER": "local[2]"})
        pipeline = _pipeline(Path(home), places)
        spark = _spark(places, args.driver_memory)
        made = _timed(lambda: land(spark, Home(pipeline, places), args.events))
        scans = [_timed(lambda: scan(spark, Home(pipeline, places))) for _ in range(3)]
        found: list[SimulatedRange] = []
        tried = scenarios(None if args.row_by_row else pipeline.interval)
        analysed = _timed(lambda: found.append(simulate(spark, Home(pipeline, places), tried)))
        print(json.dumps(_result(found[0], min(scans), analysed, made, memory), indent=2))
        spark.stop()


def scenarios(interval: timedelta | None) -> tuple[LagScenario, ...]:
    lags = (
        None,
        Lag.constant("left", 10 * MINUTE),
        Lag.constant("right", 10 * MINUTE),
        Lag.pause("right", START + 8 * HOUR, START + 9 * HOUR, 10),
    )
    policies = (
        *(Policy(kind) for kind in ("slowest", "fastest_side", "newest_partition")),
        Policy("idle_timeout", MINUTE, 5 * MINUTE),
        Policy("wall", MINUTE),
    )
    settings = ({}, {"after": HOUR}, {"grace": 10 * MINUTE})
    return tuple(
        LagScenario(policy, lag, interval=interval, **changed)
        for lag in lags
        for policy in policies
        for changed in settings
    )


def simulate(spark: SparkSession, home: Home, tried: tuple[LagScenario, ...]) -> SimulatedRange:
    """All scenarios over all of the day but its last three hours."""
    seen = clocks.observe(home)
    request = LagRequest(START, START + DAY - 3 * HOUR, tried, (), (), 1.0)
    return simulate_range(LandedRecords(spark, home, seen.pins), seen.clocks, request)


def scan(spark: SparkSession, home: Home) -> None:
    """Every column that the analysis reads, decoded once and thrown away."""
    for topic in home.pipeline.topics:
        rows = spark.read.format("delta").load(home.landing(topic))
        narrow = rows.select(*LANDING_META, "user_id", "item_id")
        narrow.write.format("noop").mode("overwrite").save()


def land(spark: SparkSession, home: Home, events: int) -> None:
    """Landing tables and one observation of the clock."""
    labels = int(events * LABELLED)
    served = _served(spark, events - labels)
    for topic, rows in (("served", served), ("clicks", _clicks(spark, labels, events - labels))):
        _landed(rows, topic).write.format("delta").save(home.landing(topic))
    now = START + 2 * DAY
    rows = [_clock_row(topic, p, events, now) for topic in home.pipeline.topics for p in range(PARTITIONS)]
    clocks.record(home, 0, rows)


def _served(spark: SparkSession, count: int) -> DataFrame:
    row = F.col("id")
    late = _upto(row, "late", 2_000_000) + F.when(row % PARTITIONS == 3, 30_000_000).otherwise(0)
    return _of_key(spark.range(0, count, 1, FILES), row, count).select(
        "*", _micros(row, count).alias("t"), late.alias("late")
    )


def _clicks(spark: SparkSession, count: int, served: int) -> DataFrame:
    """Each some minutes after a served row, the more the fewer: up to three hours."""
    row = F.floor(F.col("id") * (served / count)).cast("bigint")
    delay = (-F.log(_upto(row, "delay", 1_000_000) / 1_000_000 + 0.00001) * 600_000_000).cast("bigint")
    rows = _of_key(spark.range(0, count, 1, FILES), row, served)
    return rows.select("*", (_micros(row, served) + delay).alias("t"), _upto(row, "came", 2_000_000).alias("late"))


def _of_key(rows: DataFrame, row: Column, served: int) -> DataFrame:
    user = F.pmod(F.xxhash64(row, F.lit("user")), F.lit(max(1, served // 20)))
    return rows.select("id", user.alias("user_id"), F.pmod(F.xxhash64(user, row % 5), F.lit(10_000)).alias("item_id"))


def _micros(row: Column, served: int) -> Column:
    return F.lit(int(START.timestamp()) * 1_000_000) + (row * (86_400_000_000 / served)).cast("bigint")


def _upto(row: Column, name: str, below: int) -> Column:
    return F.pmod(F.xxhash64(row, F.lit(name)), F.lit(below))


def _landed(rows: DataFrame, topic: str) -> DataFrame:
    logged = F.timestamp_millis(F.floor((F.col("t") + F.col("late")) / 1000).cast("bigint"))
    meta = {name: F.lit(None).cast(kind) for name, kind in LANDING_TYPES.items()} | {
        "_event_time": F.timestamp_micros("t"),
        "_topic": F.lit(topic),
        "_epoch": F.lit(0),
        "_partition": (F.col("id") % PARTITIONS).cast("int"),
        "_offset": F.floor(F.col("id") / PARTITIONS).cast("bigint"),
        "_batch": F.lit(1).cast("bigint"),
        "_arrived_at": logged,
        "_record_at": logged,
    }
    columns = [meta[name].alias(name) for name in LANDING_TYPES]
    return rows.select(*columns, "user_id", "item_id", F.timestamp_micros("t").alias("at"))


def _clock_row(topic: str, partition: int, events: int, now: datetime) -> dict[str, object]:
    place = {"topic": topic, "topic_id": topic, "epoch": 0, "partition": partition, "batch": 1, "gap": None}
    clock = {"next_offset": events, "end_offset": events, "newest_at": now, "clock_at": now, "idle": False}
    return {**place, **clock, "landed_at": now}


def _pipeline(home: Path, places: Places) -> Pipeline:
    file = home / "lagged.yaml"
    file.write_text(PIPELINE)
    return load(file, places.expectations)


def _spark(places: Places, memory: str) -> SparkSession:
    """With the optimising compiler: these are long loops."""
    jars.ensure(places)
    os.environ.update(jars.environment(places))
    options = ["--driver-memory", memory, "--driver-java-options", "-Duser.timezone=UTC"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(options)} {os.environ['PYSPARK_SUBMIT_ARGS']}"
    return spark_for("benchmark lag_impact", replace(places, spark_master="local[2]"))


def _timed(work):  # type: ignore[no-untyped-def]
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


@dataclass
class Memory:
    """Peak resident memory of this process and all below it, looked at every half second."""

    peak: int = 0
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Memory:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.5):
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total)


def _result(found: SimulatedRange, scanned: float, analysed: float, made: float, memory: Memory) -> dict[str, object]:
    lines = {
        f"{s.policy.kind}, {s.lag.kind + ' ' + s.lag.side if s.lag else 'no lag'}": o.recall
        for s, o in found.outcomes.items()
        if s.after is None and s.grace is None
    }
    return {
        "events": found.events,
        "scenarios": len(found.outcomes),
        "rows": next(iter(found.outcomes.values())).rows_total,
        "bare_scans": round(analysed / scanned, 1),
        "bare_scans_a_scenario": round(analysed / scanned / len(found.outcomes), 2),
        "peak_GiB": round(memory.peak / 2**30, 2),
        "recall": lines,
        "_seconds": {"scan": round(scanned, 2), "analysis": round(analysed, 1), "making": round(made, 1)},
    }


if __name__ == "__main__":
    main()
