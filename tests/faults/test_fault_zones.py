"""Processes in other time zones, over a leap day and three changes of summer time: the same tables, to the bit.

2028-02-29     03-01          03-12 07:00Z       03-26 01:00Z        04-01 15:00Z
leap day       after it       New York +1 h      Berlin +1 h         Lord Howe −30 min
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from support.broken.faults import joining
from support.world import ORDER, World
from windrow.places import PROJECT, Places
from windrow.platform import jars

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DAY, HOUR, MICROSECOND = timedelta(days=1), timedelta(hours=1), timedelta(microseconds=1)
PIPELINE = """\
name: zones
start: 2028-02-28T00:00:00Z
interval: 24h
left:
  name: served
  topic: {t}.served
  columns: {k: bigint, t: timestamp, day: date}
  key: [k]
  event_time: t
  out_of_orderness: 1h
right:
  - name: likes
    role: label
    topic: {t}.likes
    columns: {k: bigint, t: timestamp}
    key: [k]
    event_time: t
    out_of_orderness: 1h
    window: {before: 0s, after: 24h}
idle: {mode: wait}
catch_up: 100
labels:
  on_day: "cast(t as date)"
  at_hour: "hour(t)"
  midnight: "date_trunc('day', t)"
  as_text: "cast(t as string)"
  since: "datediff(likes[0].t, t)"
"""
ZONES = ("Australia/Lord_Howe",)
"""Of the other process. This one is in New York, and so is the environment of the JVM that both of them use."""
NOT_IN_NEW_YORK = datetime(2028, 3, 12, 2, 30, tzinfo=UTC)
"""A time of day that New York leaves out; written without a zone, it is UTC."""
NOW = datetime(2028, 4, 5, tzinfo=UTC)
TURNS = [
    datetime(2028, 2, 29, tzinfo=UTC),
    datetime(2028, 3, 1, tzinfo=UTC),
    datetime(2028, 3, 12, 7, tzinfo=UTC),
    datetime(2028, 3, 26, 1, tzinfo=UTC),
    datetime(2028, 4, 1, 15, tzinfo=UTC),
]
AROUND = [-DAY, -HOUR, -MICROSECOND, timedelta(0), HOUR / 2, HOUR, 2 * HOUR]
SERVED = sorted({NOT_IN_NEW_YORK, *(turn + step for turn in TURNS for step in AROUND)})
LABELS = (timedelta(0), DAY, DAY + MICROSECOND)
"""After each row: two of three are in the window, with both ends."""
WITHOUT_ZONE = 1
SPELLINGS = (
    lambda at: at.isoformat().replace("+00:00", "Z"),
    lambda at: at.replace(tzinfo=None).isoformat(" "),  # without a zone: UTC, also at a time that a zone leaves out
    lambda at: at.astimezone(timezone(timedelta(hours=10, minutes=30))).isoformat(),
    lambda at: at.astimezone(timezone(-timedelta(hours=5))).isoformat(),
)
RUN = f"""
from dataclasses import replace
from datetime import UTC, datetime
from windrow.jobs import land, train
from windrow.jobs.run import context, leave
ctx = replace(context("zones"), now=lambda: datetime.fromisoformat("{NOW.isoformat()}"))
list(land.land(ctx))
list(train.train_all(ctx, "zones"))
leave(0)
"""


def test_rows_are_the_same_to_the_bit_in_every_process_time_zone(
    world: World, spark: SparkSession, tmp_path: Path
) -> None:
    assert os.environ["TZ"] == "America/New_York"  # this process
    ctx = world.pipeline(PIPELINE, now=NOW)
    world.topics({"served": 1, "likes": 1})
    world.produce(_events())
    homes = {zone: replace(world.places, home=tmp_path / zone) for zone in ZONES}
    with ThreadPoolExecutor(len(homes)) as pool:
        away = [pool.submit(_run, places, TZ=zone, **joining(spark)) for zone, places in homes.items()]
        world.land(ctx)
        world.train(ctx, run="zones")
        for one in away:
            done = one.result()
            assert done.returncode == 0, done.stderr[-3000:]

    rows = world.training(ctx)
    assert [row["t"] for row in rows] == SERVED
    for n, (row, at) in enumerate(zip(rows, SERVED, strict=True)):
        found = [label["t"] for label in row["likes"]]
        assert found == [at, at + DAY], n
        assert (row["_interval"], row["day"]) == (datetime(at.year, at.month, at.day, tzinfo=UTC), at.date())
        derived = (row["on_day"], row["at_hour"], row["midnight"], row["as_text"][:19], row["since"])
        assert derived == (at.date(), at.hour, row["_interval"], f"{at:%Y-%m-%d %H:%M:%S}", 0)
    for name in ("training", "clock", f"landing/{world.name}.served", f"landing/{world.name}.likes"):
        here = _table(world.places, name)
        for zone, places in homes.items():
            assert _table(places, name).equals(here), (name, zone)


def _events() -> list[Any]:
    def record(topic: str, n: int, key: int, at: datetime, **more: Any) -> Any:
        spelling = WITHOUT_ZONE if at == NOT_IN_NEW_YORK else n % len(SPELLINGS)
        value = {"k": key, "t": SPELLINGS[spelling](at), **more}
        return (topic, 0, json.dumps(value).encode(), at)

    served = [record("served", n, n, at, day=at.date().isoformat()) for n, at in enumerate(SERVED)]
    likes = sorted((at + after, n) for n, at in enumerate(SERVED) for after in LABELS)
    labels = [record("likes", n, key, at) for n, (at, key) in enumerate(likes)]
    end = [record(topic, 0, -1, NOW - HOUR) for topic in ("served", "likes")]
    return [*served, *labels, *end]


def _run(places: Places, **environ: str) -> subprocess.CompletedProcess[str]:
    path = [str(PROJECT / "spark_jobs"), *filter(None, [environ.pop("PYTHONPATH", None)])]
    env = {
        **os.environ,
        **jars.environment(places),
        "WINDROW_HOME": str(places.home),
        "WINDROW_KAFKA": places.kafka,
        "WINDROW_PIPELINES": str(places.pipelines[0]),
        "WINDROW_SPARK_MASTER": "local[2]",
        "PYTHONPATH": os.pathsep.join(path),
        **environ,
    }
    return subprocess.run([sys.executable, "-c", RUN], env=env, capture_output=True, text=True, timeout=600)


def _table(places: Places, name: str) -> pa.Table:
    """Return a table in a fixed order, with all columns, the audit columns too."""
    rows = DeltaTable(places.table("zones", name)).to_pyarrow_table()
    order = ORDER if set(ORDER) <= set(rows.column_names) else ("observation", "topic", "partition")
    return rows.sort_by([(column, "ascending") for column in order]).combine_chunks()
