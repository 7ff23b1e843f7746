"""A year behind: the next ten-minute interval, with a day, ten weeks and a year of published intervals in the tables.

    .venv/bin/python benchmarks/year.py                                      all pasts are made by the first run
    .venv/bin/python benchmarks/year.py --variants day ten_weeks             10 080 intervals behind instead of 52 560
    .venv/bin/python benchmarks/year.py --rounds 1 --variants day            smaller
    .venv/bin/python benchmarks/year.py --store 1                            the same tables in an object store
    .venv/bin/python benchmarks/year.py --work profile --out year            where the driver's time goes, once, warm

Aim: at most 1.1 x the cost with a day behind.

The past is simulated (`common.past`): every table has the log, and every register the rows, that as many intervals of
--rows rows leave behind, with hours and days compacted as maintenance compacts them. Its landed and published rows
were never made: their files are holes of the right size, and no correct reader opens one. The tables agree with each
other, and `require_intact` of the product says so before anything is measured. On top come real intervals, which the
product plans, joins, checks and publishes; only their landing commits are written by delta-rs instead of Spark. The
store is S3Proxy, which gets the tables as they are; its own CPU is in no figure, and requests to it are counted.

    |<----------- simulated ----------->|<--- real, published --->|<-- cold -->|<-- warm -->|
    logs and registers, no rows          rows                      measured

Steps of a pass: `landed` (the records of ten minutes, by delta-rs), `sensor` (what Airflow asks until the window
closes), `plan`, `session`, `join`, `check`, `publish`, `late ledger`, `health` (what `windrow health` reads).
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import os
import pstats
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from common import past
from common.past import TEN, Past, PastTopic, Story
from common.pipelines import SERVED, pipeline_text
from common.side_by_side import Steps, arguments, compare, work_twice
from common.tables import START, Shape, clicks, clock_row, served
from deltalake import CommitProperties, Transaction, write_deltalake
from publish import close, require
from units import tables as tables_of

from windrow.columns import LANDING_META
from windrow.config import load
from windrow.io.delta import tables
from windrow.io.landing import batches
from windrow.io.registers import clocks
from windrow.jobs.audit.intact import require_intact
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.run import Context, leave
from windrow.jobs.spark import spark_for
from windrow.jobs.upkeep import health
from windrow.places import Places
from windrow.platform.servers.store import BUCKET
from windrow.semantics.intervals import Interval
from windrow.semantics.landing.batch import Batch
from windrow.text import instant_text
from windrow_airflow.window import look

NAME = "ten_minutes"
DAYS = {"day": 1, "ten_weeks": 70, "year": 365}
SEED = "seed"
"""A home without a past; its tables are the patterns of the simulated ones."""
TRAFFIC = "traffic"
"""A home without tables, in which the real rows are made."""
REAL = 2
"""Intervals published by the product before anything is measured."""
PASSES = 2
ONE_IN = 5
"""A click for every so many rows."""


@dataclass(frozen=True)
class Traffic:
    """The real rows of one topic, in order of arrival."""

    topic: str
    rows: pa.Table

    @classmethod
    def read(cls, base: Path, topic: str) -> Traffic:
        """Read what `make_traffic` has written."""
        return cls(topic, pq.read_table(base / f"{topic}.parquet"))

    def of_interval(self, number: int) -> pa.Table:
        """Return the rows of a real interval, 0 for the first one."""
        times, begin = self.rows["_event_time"], START + number * TEN
        least, most = (pa.scalar(at, times.type) for at in (begin, begin + TEN))
        return self.rows.filter(pc.and_(pc.greater_equal(times, least), pc.less(times, most)))


def batch_of(ctx: Context, topic: str, rows: pa.Table, landed_at: datetime) -> tuple[Batch, pa.Table]:
    """Return the next landing batch of a topic with these rows, and its rows as they land."""
    known = clocks.observe(ctx.home).of_topic(topic)
    number, start = (known[0]["batch"] + 1, known[0]["next_offset"]) if known else (1, 0)
    until = start + rows.num_rows
    own = {
        "_offset": pa.array(range(start, until), pa.int64()),
        "_batch": pa.array([number] * rows.num_rows, pa.int64()),
        "_arrived_at": pa.array([landed_at] * rows.num_rows, pa.timestamp("us", "UTC")),
    }
    for name, column in own.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return Batch(topic, topic, 0, number, landed_at, {0: (start, until, until)}), rows


def world(home: Path, days: int) -> Context:
    """Return the pipeline in its own home folder; it starts `days` before the real rows."""
    folder = home / "pipelines"
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape_of(1)
    file = folder / f"{NAME}.yaml"
    columns = {**SERVED, **shape.feature_columns}
    begin = instant_text(START - timedelta(days=days))
    file.write_text(pipeline_text(NAME, begin, "10m", "5m", served=columns, more="idle: {mode: wait}\n"))
    places = Places(home=home, pipelines=(folder,), spark_master="local[*]", **_shared())
    return Context(load(file, places.expectations), places, lambda: START + timedelta(days=20))


def _shared() -> dict[str, Any]:
    known = Places.from_env(os.environ)
    return {"cache": known.cache, "tables": known.tables}


def shape_of(rows: int) -> Shape:
    """The real traffic: `rows` per interval, and one interval more than is published, which closes the last one."""
    intervals = REAL + PASSES + 1
    return Shape(rows * intervals, 4, labelled=1 / ONE_IN, span=intervals * TEN, minutes=10, after=5)


def make_traffic(base: Path, rows: int) -> None:
    """Write the real rows of both topics, in order of event time."""
    spark = spark_for("benchmark data", world(base / TRAFFIC, 0).places)
    shape = shape_of(rows)
    for topic, frame in {"served": served(spark, shape), "clicks": clicks(spark, shape)}.items():
        made = frame.toArrow().sort_by("_event_time")
        pq.write_table(
            made.cast(pa.schema([field.with_nullable(True) for field in made.schema])), base / f"{topic}.parquet"
        )


def land(ctx: Context, base: Path, number: int) -> None:
    """Land the real interval with this number: one commit per topic, then the clock."""
    end = START + (number + 1) * TEN
    _land(ctx, {topic: Traffic.read(base, topic).of_interval(number) for topic in ctx.pipeline.topics}, end)


def land_late(ctx: Context, base: Path, number: int) -> None:
    """Land a click of the first real interval, which is published, after the landing of another interval."""
    clicks_of = Traffic.read(base, "clicks").of_interval(0)
    click = clicks_of.slice(clicks_of.num_rows - 1)  # the window of an earlier one would reach into the simulated past
    event_id = pa.array([f"late {number}"])
    _land(ctx, {"clicks": click.set_column(click.column_names.index("event_id"), "event_id", event_id)}, _soon(number))


def _soon(number: int) -> datetime:
    return START + (number + 1) * TEN + timedelta(minutes=1)


def _land(ctx: Context, arrived: Mapping[str, pa.Table], landed_at: datetime) -> None:
    """Append the rows of some topics, and the clock of all."""
    seen = clocks.observe(ctx.home)
    clock = {row["topic"]: dict(row) for row in seen.rows}
    for topic, rows in arrived.items():
        batch, landed = batch_of(ctx, topic, rows, landed_at)
        write_deltalake(
            ctx.home.landing(topic),
            landed,
            mode="append",
            configuration={"delta.checkpointInterval": "10", tables.STATISTICS: ",".join(LANDING_META)},
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": batch.to_json()},
                app_transactions=[Transaction(batches.APP_ID, batch.number)],
            ),
        )
        newest = pc.max(landed["_event_time"]).as_py()
        if topic in clock:
            newest = max(newest, clock[topic]["newest_at"])
        moved = {"clock_at": newest - ctx.pipeline.out_of_orderness(topic), "landed_at": landed_at}
        clock[topic] = {**clock_row(topic, batch.ranges[0][1], newest), "batch": batch.number, **moved}
    clocks.record(ctx.home, seen.number + 1, clock.values())


def publish_next(ctx: Context, behind: Past, number: int, steps: Steps) -> None:
    """Plan, join, check and publish the real interval with this number, and extend the late ledger."""
    at = START + number * TEN
    row = close(ctx, at, steps)
    extend_after_publication(ctx)
    steps.done("late ledger")
    require(row["number"] == behind.intervals + number + 1, f"published as number {row['number']}")


def make(base: Path, rows: int, wanted: list[str]) -> None:
    """Make the missing homes; a kill leaves no half-made one."""
    base.mkdir(parents=True, exist_ok=True)
    if not (base / SEED).exists():
        make_traffic(base, rows)
        _make_home(base, SEED, rows, 0)
    for name in wanted:
        if not (base / name).exists():
            _make_home(base, name, rows, DAYS[name])


def _make_home(base: Path, name: str, rows: int, days: int) -> None:
    """Make a home with so many days behind, and real intervals on top."""
    partial, steps = base / "partial", Steps(1)
    shutil.rmtree(partial, ignore_errors=True)
    ctx, behind = world(partial, days), past_of(base, rows, days)
    if days:
        story = Story(ctx, world(base / SEED, 0).home, behind)
        past.write_landed(story)
    land(ctx, base, 0)
    if days:
        story.close_with(clocks.observe(ctx.home))
        past.write_published(story)
    steps.done("simulated")
    for number in range(REAL):
        land(ctx, base, number + 1)
        publish_next(ctx, behind, number, Steps(1))
    steps.done("published")
    require_intact(ctx.home)
    steps.done("verified")
    spent = ", ".join(f"{step} {cost.wall:.0f} s" for step, cost in steps.costs.items())
    print(f"year: {name} is made ({spent})", flush=True)
    partial.rename(base / name)


def past_of(base: Path, rows: int, days: int) -> Past:
    """Return the past before the first real row: clicks of the simulated intervals are as many as are usual."""
    ctx = world(base / TRAFFIC, 0)
    usual = {"served": rows, "clicks": Traffic.read(base, "clicks").rows.num_rows // (REAL + PASSES + 1)}
    topics = tuple(PastTopic(name, usual[name], ctx.pipeline.out_of_orderness(name)) for name in ctx.pipeline.topics)
    return Past(START - timedelta(days=days), days * past.OF_DAY, topics)


def fresh(source: Path, target: Path) -> None:
    """Replace a home by a copy of another; what no process ever changes is linked."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    file = Path(source)
    is_fixed = file.suffix == ".parquet" or (file.suffix == ".json" and file.parent.name == "_delta_log")
    (os.link if is_fixed else shutil.copy2)(source, target)


def one_more(base: Path, home: Path, rows: int, days: int) -> None:
    """Measure the next interval cold, and the one after it warm."""
    ctx, behind = world(home, days), past_of(base, rows, days)

    def once(number: int) -> Steps:
        steps = Steps(number)
        next_interval(ctx, base, behind, REAL + number, steps)
        return steps

    work_twice(once)


def next_interval(ctx: Context, base: Path, behind: Past, number: int, steps: Steps) -> None:
    """Land the records that close a real interval, ask for it as Airflow does, publish it, and look at the pipeline."""
    steps.done("imports")
    land(ctx, base, number + 1)
    steps.done("landed")
    at = START + number * TEN
    window = look(NAME, Interval(at, at + TEN), {**os.environ, "WINDROW_HOME": str(ctx.places.home)})
    require(window.is_closed and window.published is None, f"the sensor sees {window.describe(at)}")
    steps.done("sensor")
    publish_next(ctx, behind, number, steps)
    (found,) = health.look([NAME], ctx.places, at + 3 * TEN)
    require(not found.seen.broken and not found.seen.unpublished, f"health sees {found.reason}")
    steps.done("health")
    land_late(ctx, base, number + 1)
    steps.done("landed late")
    extend_after_publication(ctx)
    steps.done("late label")


def profile(base: Path, home: Path, rows: int, days: int) -> None:
    """Print where the driver spends the second interval, by step and by function; Spark's own work is waiting."""
    ctx, behind = world(home, days), past_of(base, rows, days)
    next_interval(ctx, base, behind, REAL, Steps(1))
    kept, steps = cProfile.Profile(), Steps(1)
    kept.runcall(next_interval, ctx, base, behind, REAL + 1, steps)
    for name, cost in steps.costs.items():
        print(f"{name:<12} {cost.wall:6.2f} s {cost.cpu:6.2f} CPU s {cost.read / 1e6:8.1f} MB")
    pstats.Stats(kept).sort_stats("cumulative").print_stats("windrow|deltalake|pyarrow", 60)


def give_tags(bucket: Path) -> None:
    """Give every file the attributes in which S3Proxy keeps the tag of an object: clients ask for it."""
    for file in bucket.rglob("*"):
        if file.is_file():
            tag = hashlib.md5(f"{file.relative_to(bucket)} {file.stat().st_size}".encode(), usedforsecurity=False)
            os.setxattr(file, "user.user.content-md5", tag.digest())
            os.setxattr(file, "user.user.storage-tier", b"STANDARD")


def measure(options: argparse.Namespace, base: Path, wanted: Sequence[str], sizes: Sequence[str]) -> None:
    """Compare the variants on fresh copies of their homes; print the requests of each run to a store."""
    scratch, stored = base / "run", base / "stored"
    with tables_of("store" if options.store else "folder", stored) as (variables, counted):
        os.environ.update(variables)
        ran: list[str] = []

        def take() -> None:
            if counted is not None:
                asked = counted.taken()
                print(f"{ran[-1]}: {sum(asked.values())} requests, {asked}" if ran else "the store answers", flush=True)

        def command(variant: str) -> list[str]:
            """Called just before the worker starts, which then works on a fresh copy."""
            take()
            fresh(base / variant, scratch)
            if counted is not None:
                bucket = stored / "platform" / "store" / "data" / BUCKET
                shutil.rmtree(bucket)
                (scratch / "tables").rename(bucket)
                give_tags(bucket)
            ran.append(variant)
            return [sys.executable, __file__, "--work", variant, *sizes]

        about = {"rows an interval": options.rows, "intervals": {name: DAYS[name] * past.OF_DAY for name in wanted}}
        about |= {"aim": "at most 1.1 x a day"}
        name = ("year" if "year" in wanted else f"year_{wanted[-1]}") + ("_store" if options.store else "")
        compare(name, wanted, command, rounds=options.rounds, about=about)
        take()
    shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    options = arguments(__doc__ or "", tuple(DAYS), rows=200, store=0)
    base = Path(options.home).resolve() / f"year_{options.rows}"
    wanted = [name for name in DAYS if name in options.variants]
    if options.work == "make":
        make(base, options.rows, wanted)
        leave(0)
    scratch = base / "run"
    if options.work == "profile":
        fresh(base / options.out, scratch)
        profile(base, scratch, options.rows, DAYS[options.out])
        leave(0)
    if options.work:
        one_more(base, scratch, options.rows, DAYS[options.work])
        leave(0)
    sizes = ["--home", options.home, "--rows", str(options.rows), "--variants", *wanted]
    subprocess.run([sys.executable, __file__, "--work", "make", *sizes], check=True)
    measure(options, base, wanted, sizes)


if __name__ == "__main__":
    main()
