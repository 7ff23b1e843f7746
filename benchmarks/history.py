"""Flat in history: the next interval, joined, checked and published after 1, 10, 100 and 1 000 published ones.

    .venv/bin/python benchmarks/history.py --rounds 2                    its data is made by the first run
    .venv/bin/python benchmarks/history.py --rounds 1 --variants 1 10    smaller: only histories of these lengths

Aim: at most 1.1 x the time after one interval, and as many bytes read. `maintained` is the longest history after
the maintenance job.

A history is small files and real commits: each minute of --rows rows is landed by a commit of its own into both
landing tables, with a clock observation of its own; then intervals are planned, joined, checked and published by the
product's own functions, each by a commit of its own to the training table, at most BLOCK of them in one run (so the
tables of plans, candidates, measures and verdicts have one commit per run, as after an outage that was caught up). Only
the landing commits are written by delta-rs instead of Spark, with Delta's default of a checkpoint every ten commits.

    after_1 ─ copy, grow ─▶ after_10 ─ copy, grow ─▶ after_100 ─ copy, grow ─▶ after_1000 ─ copy, maintain ─▶ maintained
       │ copy                  │ copy                    ┆ each pass works on a fresh copy of its history
       ▼                       ▼
    cold: the next interval; warm: the one after it
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from common.side_by_side import Steps, arguments, compare, work_twice
from common.tables import START, Shape, clicks, clock_row, nth, pipeline_of, served
from deltalake import CommitProperties, Transaction, write_deltalake
from publish import close, require, require_published
from pyspark.sql import DataFrame

from windrow.io.landing import batches
from windrow.io.registers import clocks, publications
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.plan.planning import plan_all
from windrow.jobs.publish import publish
from windrow.jobs.run import Context, leave
from windrow.jobs.spark import spark_for
from windrow.jobs.upkeep.maintain import RETENTION, maintain
from windrow.semantics.landing.batch import Batch
from windrow.semantics.plan import Plan

MINUTE = timedelta(minutes=1)
LENGTHS = ("1", "10", "100", "1000")
MAINTAINED = "maintained"
BLOCK = 100
"""Intervals published by one run while the history is made."""
AHEAD = 7
"""Minutes landed after the last published interval, so that two closed intervals are waiting."""
LONGEST = 1000


@dataclass(frozen=True)
class Arriving:
    """All records of one topic in order of arrival, and how they are cut into batches."""

    topic: str
    rows: pa.Table
    first: tuple[int, ...]
    """minute → its first offset; one more at the end"""
    out_of_orderness: timedelta

    def batch(self, minute: int, landed_at: datetime) -> tuple[Batch, pa.Table]:
        start, until = self.first[minute], self.first[minute + 1]
        batch = Batch(self.topic, self.topic, 0, minute + 1, landed_at, {0: (start, until, until)})
        size = until - start
        own = {
            "_batch": pa.array([batch.number] * size, pa.int64()),
            "_arrived_at": pa.array([landed_at] * size, pa.timestamp("us", "UTC")),
        }
        rows = self.rows.slice(start, size)
        for name, column in own.items():
            rows = rows.set_column(rows.column_names.index(name), name, column)
        return batch, rows


def shape_of(rows: int) -> Shape:
    minutes = LONGEST + AHEAD
    return Shape(rows * minutes, 4, span=minutes * MINUTE, minutes=1, after=1)


def world_of(home: Path, rows: int) -> Context:
    """The pipeline in its own home folder; its day is in the past even if this machine's clock is slow."""
    ctx = pipeline_of(str(home), shape_of(rows))
    return Context(ctx.pipeline, ctx.places, lambda: START + timedelta(days=20))


def arriving(ctx: Context, shape: Shape) -> list[Arriving]:
    spark = spark_for("benchmark data", ctx.places)
    made = {"served": served(spark, shape), "clicks": clicks(spark, shape)}
    return [_in_order(topic, frame, ctx.pipeline.out_of_orderness(topic), shape) for topic, frame in made.items()]


def _in_order(topic: str, frame: DataFrame, out_of_orderness: timedelta, shape: Shape) -> Arriving:
    rows = frame.toArrow().sort_by("_event_time")
    rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))
    rows = rows.set_column(rows.column_names.index("_offset"), "_offset", pa.array(range(rows.num_rows), pa.int64()))
    times = rows["_event_time"]
    minutes = shape.span // MINUTE
    first = tuple(
        pc.sum(pc.less(times, pa.scalar(START + minute * MINUTE, times.type))).as_py() or 0
        for minute in range(minutes + 1)
    )
    return Arriving(topic, rows, first, out_of_orderness)


def land(ctx: Context, topics: list[Arriving], minute: int) -> None:
    """One landing run: one commit per topic, then the clock."""
    landed_at = START + (minute + 1) * MINUTE
    clock = []
    for topic in topics:
        batch, rows = topic.batch(minute, landed_at)
        write_deltalake(
            ctx.home.landing(topic.topic),
            rows,
            mode="append",
            configuration={"delta.checkpointInterval": "10"},
            commit_properties=CommitProperties(
                custom_metadata={"userMetadata": batch.to_json()},
                app_transactions=[Transaction(batches.APP_ID, batch.number)],
            ),
        )
        clock.append(_clocked(topic, batch, pc.max(rows["_event_time"]).as_py()))
    clocks.record(ctx.home, minute, clock)


def _clocked(topic: Arriving, batch: Batch, newest: datetime) -> Mapping[str, Any]:
    row = clock_row(topic.topic, batch.ranges[0][1], newest)
    moved = {"batch": batch.number, "landed_at": batch.landed_at, "clock_at": newest - topic.out_of_orderness}
    return {**row, **moved}


def grow(ctx: Context, rows: int, topics: list[Arriving], length: int) -> None:
    """Land and publish until this many intervals are published."""
    while (there := len(publications.registered(ctx.home))) < length:
        take, steps = min(BLOCK, length - there), Steps(1)
        for minute in range(clocks.observe(ctx.home).number + 1, there + take + AHEAD):
            land(ctx, topics, minute)
        steps.done("landing")
        planned = plan_all(ctx, f"benchmark-{uuid.uuid4()}", most=take)
        require(len(planned) == take, f"{len(planned)} of {take} intervals are closed")
        make_candidates(ctx, planned)
        steps.done("join")
        check_side_by_side(ctx, rows, planned)
        steps.done("check")
        require(len(publish(ctx, planned)) == take, "not all were published")
        extend_after_publication(ctx)
        steps.done("publish")
        spent = ", ".join(f"{name} {cost.wall:.0f} s" for name, cost in steps.costs.items())
        print(f"history: {there + take} of {length} intervals are published ({spent})", flush=True)


def check_side_by_side(ctx: Context, rows: int, planned: tuple[Plan, ...]) -> None:
    """Judge the plans in two processes, because a judgement uses one core."""
    halves = [half for half in (planned[::2], planned[1::2]) if half]
    with ProcessPoolExecutor(len(halves), mp_context=get_context("spawn")) as pool:
        refused = [*pool.map(check_some, *zip(*[(ctx.places.home, rows, half) for half in halves], strict=True))]
    require(not any(refused), f"refused: {refused}")


def check_some(home: Path, rows: int, planned: tuple[Plan, ...]) -> dict[str, Any]:
    return check(world_of(home, rows), planned)


def make(base: Path, rows: int, wanted: list[str]) -> None:
    """Make the missing histories, each from the previous one; a kill leaves no half-made history."""
    topics: list[Arriving] = []
    before: Path | None = None
    for name in wanted:
        target = history(base, name, wanted)
        if not target.exists():
            partial = fresh(before, base / "partial")
            ctx = world_of(partial, rows)
            if name == MAINTAINED:
                print(f"history: maintained, {maintain(ctx, RETENTION)}", flush=True)
            else:
                topics = topics or arriving(ctx, shape_of(rows))
                grow(ctx, rows, topics, int(name))
            partial.rename(target)
        before = target


def history(base: Path, name: str, wanted: list[str]) -> Path:
    """Folder of a history; the maintained one is a copy of the longest."""
    return base / (f"maintained_{length_of(name, wanted)}" if name == MAINTAINED else f"after_{name}")


def length_of(name: str, wanted: list[str]) -> int:
    return max(int(other) for other in wanted if other != MAINTAINED) if name == MAINTAINED else int(name)


def fresh(source: Path | None, target: Path) -> Path:
    """Replace a home folder by a copy of another."""
    shutil.rmtree(target, ignore_errors=True)
    if source is None:
        target.mkdir(parents=True)
    else:
        shutil.copytree(source, target)
    return target


def one_more(home: Path, rows: int, length: int) -> None:
    """Measure the next interval cold, and the one after it warm."""
    ctx = world_of(home, rows)

    def once(number: int) -> Steps:
        steps = Steps(number)
        close(ctx, nth(ctx.pipeline, length + number)[0], steps)
        extend_after_publication(ctx)
        steps.done("late ledger")
        require_published(ctx, length + number, rows)
        return steps

    work_twice(once)


def files_of(base: Path, names: list[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Size of a history: data files, live or not, and log files of its large tables."""
    for name in names:
        tables = next((history(base, name, names) / "tables").iterdir())
        large = ("landing/served", "landing/clicks", "training")
        data = {table: sum(1 for _ in (tables / table).rglob("part-*.parquet")) for table in large}
        commits = {
            f"{table} commits": sum(1 for _ in (tables / table / "_delta_log").glob("*.json")) for table in large
        }
        yield name, {**data, **commits}


def main() -> None:
    options = arguments(__doc__ or "", (*LENGTHS, MAINTAINED), rows=200)
    base = Path(options.home).resolve() / f"history_{options.rows}"
    lengths = sorted({int(v) for v in options.variants if v != MAINTAINED})
    require(bool(lengths) and lengths[-1] <= LONGEST, f"--variants needs lengths up to {LONGEST}")
    wanted = [*map(str, lengths), *([MAINTAINED] if MAINTAINED in options.variants else [])]
    if options.work == "make":
        make(base, options.rows, wanted)
        leave(0)
    if options.work:
        one_more(Path(options.out), options.rows, length_of(options.work, wanted))
        leave(0)
    sizes = ["--home", options.home, "--rows", str(options.rows), "--variants", *wanted]
    subprocess.run([sys.executable, __file__, "--work", "make", *sizes], check=True)
    scratch = base / "run"

    def command(variant: str) -> list[str]:
        """Called just before the worker starts, which then works on a fresh copy."""
        fresh(history(base, variant, wanted), scratch)
        return [sys.executable, __file__, "--work", variant, "--out", str(scratch), *sizes]

    about = {"rows an interval": options.rows, "aim": "at most 1.1 x after one", "files": dict(files_of(base, wanted))}
    compare("history", wanted, command, rounds=options.rounds, about=about)
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
