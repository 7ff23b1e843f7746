"""From window close to published: plan, join, check and publish of one interval, and where the time goes.

    .venv/bin/python benchmarks/publish.py --rounds 2            some minutes; its data is made by the first run
    .venv/bin/python benchmarks/publish.py --rounds 1 --rows 100000 --variants copy ours             `large`, smaller
    .venv/bin/python benchmarks/publish.py --rounds 1 --variants session ours tasks                  only `small`

    large   an hour of --rows rows        `ours` and, with payload from files, `by_files` against `copy`, which only
                                          reads and writes the same left rows. Aim: at most 2.2 x the copy
    small   an hour of --small rows       `ours`, `tasks` and `engine` against `session`: a bare Spark session with
                                          Delta, ready when it has written and read ten rows. Aims: at most 2.5 x its
                                          start; in an engine that has run ten intervals, under 4 s

`ours` is one process (what `windrow train` does). `tasks` is what Airflow's tasks start, three processes: join by
spark-submit, check and publish as plain Python, publish again by spark-submit if it needs Spark; its
publish extends the late ledger too. `engine` is the same three tasks in the warm engine, which is started before: cold
about its first interval, warm about its twelfth. All have the project's own Spark configuration and class-data archive,
so that `session` and `copy` start as fast as `ours`. The cold pass is about the first hour that has landed, the warm
pass about the second. The rows that each pass has written are counted, in the table and in the publications.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from common.side_by_side import Steps, arguments, compare, work_once, work_twice
from common.tables import HOUR, Shape, forget, nth, pipeline_of, rows_in, world
from join import left_of

from windrow.home import Table
from windrow.io.registers import publications
from windrow.io.training import ways
from windrow.jobs.check import check
from windrow.jobs.join import make_candidates
from windrow.jobs.plan.planning import plan_interval
from windrow.jobs.publish import publish
from windrow.jobs.run import Context, leave
from windrow.jobs.spark import spark_for
from windrow.outcomes import ExitCode
from windrow.platform import engine, jars, jobs_side
from windrow.platform.servers.engine import Engine
from windrow.quality.validation import preload
from windrow.semantics.plan import Plan
from windrow.text import instant_text

SIZES = {"large": ("copy", "ours", "by_files"), "small": ("session", "ours", "tasks", "engine")}
AIMS = {"large": "ours at most 2.2 x copy", "small": "ours at most 2.5 x session, engine warm under 4 s"}
INTERVALS, MANY = 2, 12
"""Hours that are landed: for large intervals, and for small ones, of which an engine runs many."""
SMALL = 100_000


def close(ctx: Context, at: datetime, steps: Steps) -> dict[str, Any]:
    """Plan, join, check and publish one interval in this process; returns its row of the publications."""
    steps.done("imports")
    planned = plan_interval(ctx, f"benchmark-{uuid.uuid4()}", at, "publish", along=1)
    steps.done("plan")
    rows = carry_out(ctx, planned, steps)
    require(len(rows) == 1, "nothing was published")
    return rows[0]


def carry_out(ctx: Context, planned: tuple[Plan, ...], steps: Steps) -> list[dict[str, Any]]:
    """Join, check and publish plans in this process; return the rows of the publications."""
    spark_for(f"join {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    steps.done("session")
    preload()
    make_candidates(ctx, planned)
    steps.done("join")
    refused = check(ctx, planned)
    require(not refused, f"refused: {refused}")
    steps.done("check")
    rows = publish(ctx, planned)
    steps.done("publish")
    return rows


def ours(ctx: Context, number: int, rows: int, _out: str) -> Steps:
    steps = Steps(number)
    close(ctx, nth(ctx.pipeline, number)[0], steps)
    require_published(ctx, number, rows)
    return steps


def by_files(ctx: Context, number: int, rows: int, out: str) -> Steps:
    os.environ[ways.VARIABLE] = "files"
    return ours(ctx, number, rows, out)


def tasks(ctx: Context, number: int, rows: int, _out: str) -> Steps:
    steps, run = Steps(number), ["--run", f"benchmark-{uuid.uuid4()}"]
    at = ["--interval", instant_text(nth(ctx.pipeline, number)[0])]
    steps.done("imports")
    started(ctx, submitted(ctx, "join", [*run, *at, "--along", "1"]))
    steps.done("join")
    started(ctx, plain(ctx, "check", [*run, *at]))
    steps.done("check")
    code = started(ctx, plain(ctx, "publish", run), WINDROW_WITHOUT_SPARK="1")
    steps.done("publish")
    if code == ExitCode.NEEDS_SPARK:
        started(ctx, submitted(ctx, "publish", run))
        steps.done("publish, with Spark")
    require_published(ctx, number, rows)
    return steps


def in_engine(ctx: Context, number: int, rows: int, _out: str) -> Steps:
    steps, run = Steps(1), ["--run", f"benchmark-{uuid.uuid4()}"]
    at = ["--interval", instant_text(nth(ctx.pipeline, number)[0])]
    for job, words in (("join", [*run, *at, "--along", "1"]), ("check", [*run, *at]), ("publish", run)):
        given = engine.start(ctx.places, (job, ctx.pipeline.name, *words), environment(ctx), ctx.places.spark_master)
        output = given.output.read()
        require(given.wait() == ExitCode.DONE, f"{job}: {output[-4000:]}")
        steps.done(job)
    require_published(ctx, number, rows)
    return steps


def twice_in_engine(ctx: Context, rows: int) -> None:
    """Start an engine, and measure its first interval and, after those between, the last one."""
    warm = Engine(ctx.places)

    def start() -> None:
        warm.stop()
        warm.start(jobs_side.here(ctx.places), environment(ctx))
        warm.wait()

    def those_between() -> None:
        for number in range(1, MANY - 1):
            in_engine(ctx, number, rows, "")

    try:
        work_twice(lambda number: in_engine(ctx, number * (MANY - 1), rows, ""), start, those_between)
    finally:
        warm.stop()


def submitted(ctx: Context, job: str, arguments: list[str]) -> list[str]:
    """The command of a task with Spark."""
    submit = [str(jars.spark_home() / "bin" / "spark-submit"), "--master", ctx.places.spark_master]
    given = ["--properties-file", str(ctx.places.spark_properties), "--name", f"{ctx.pipeline.name}.{job}"]
    return [*submit, *given, str(ctx.places.project / "spark_jobs" / "run_job.py"), job, ctx.pipeline.name, *arguments]


def plain(ctx: Context, job: str, arguments: list[str]) -> list[str]:
    """The command of a task without Spark."""
    watched = ctx.places.project / "plugins" / "windrow_airflow" / "watched_job.py"
    script = ctx.places.project / "spark_jobs" / "run_job.py"
    return [sys.executable, str(watched), str(script), job, ctx.pipeline.name, *arguments]


def started(ctx: Context, command: list[str], **more: str) -> int:
    """Run a task's command in a task's environment; returns its exit code."""
    done = subprocess.run(
        command, env={**environment(ctx), **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    is_expected = done.returncode == 0 or (bool(more) and done.returncode == ExitCode.NEEDS_SPARK)
    require(is_expected, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.returncode


def environment(ctx: Context) -> dict[str, str]:
    """A task's environment."""
    return {
        **os.environ,
        **jars.environment(ctx.places),
        "WINDROW_HOME": str(ctx.places.home),
        "WINDROW_PIPELINES": str(ctx.places.pipelines[0]),
        "WINDROW_TASK_PID": str(os.getpid()),
        "PYTHONPATH": str(ctx.places.project / "spark_jobs"),
    }


def copy(ctx: Context, number: int, rows: int, out: str) -> Steps:
    steps = Steps(number)
    steps.done("imports")
    spark = spark_for("benchmark copy", ctx.places, ctx.pipeline)
    steps.done("session")
    left_of(spark, ctx, number).drop("_raw", "_quarantined").write.format("delta").save(out)
    steps.done("copy")
    require(rows_in(out) == rows, f"{rows_in(out)} rows were copied, not {rows}")
    return steps


def session(ctx: Context, number: int, rows: int, out: str) -> Steps:
    steps = Steps(number)
    steps.done("imports")
    spark = spark_for("benchmark session", ctx.places, ctx.pipeline)
    steps.done("session")
    spark.range(10).write.format("delta").save(out)
    require(spark.read.format("delta").load(out).count() == 10, "the session does not read what it wrote")
    steps.done("write and read")
    return steps


def require_published(ctx: Context, number: int, rows: int) -> None:
    """Check that publication and training table have exactly the landed rows, with labels."""
    row = publications.published(ctx.home, nth(ctx.pipeline, number)[0])
    require(row is not None, f"interval {number} has no publication")
    assert row is not None
    counted = {name: row[name] for name in ("number", "rows", "positive", "negative", "unknown")}
    require(row["number"] == number + 1 and row["rows"] == rows and row["unknown"] == 0, f"published {counted}")
    require(0 < row["positive"] < rows, f"published {counted}")
    there = rows_in(ctx.home.table(Table.TRAINING))
    require(there == rows * (number + 1), f"the training table holds {there} rows")


def require(is_right: bool, otherwise: str) -> None:
    """End a worker whose result is wrong, so that it reports no figures."""
    if not is_right:
        sys.exit(f"not what was asked for: {otherwise}")


VARIANTS: dict[str, Callable[[Context, int, int, str], Steps]] = {
    "copy": copy,
    "session": session,
    "ours": ours,
    "by_files": by_files,
    "tasks": tasks,
    "engine": in_engine,
}


def shape_of(rows: int) -> Shape:
    """`rows` per hour, four rows per key and hour."""
    hours = MANY if rows < SMALL else INTERVALS
    return Shape(rows * hours, 4 * hours, span=hours * HOUR)


def work(home: str, out: str, rows: int, variant: str) -> None:
    """One worker process: make the data, or measure a variant."""
    if variant == "data":
        world(home, shape_of(rows))
        return
    ctx = pipeline_of(home, shape_of(rows))

    def once(number: int = 0) -> Steps:
        return VARIANTS[variant](ctx, number, rows, f"{out}/{number}")

    if variant == "engine":
        twice_in_engine(ctx, rows)
    elif variant in ("tasks", "session"):  # a second pass would start nothing, or the same again
        work_once(once)
    else:
        work_twice(once)


def measure(options: argparse.Namespace, size: str, rows: int) -> None:
    """Measure all chosen variants of one size in turn; nothing if the variant to compare with is not chosen."""
    chosen = [variant for variant in SIZES[size] if variant in options.variants]
    if SIZES[size][0] not in chosen:
        return
    scratch = Path(options.home).resolve() / "out"

    def command(variant: str) -> list[str]:
        """Called just before the worker starts: remove what the previous one left."""
        shutil.rmtree(scratch, ignore_errors=True)
        ctx = pipeline_of(options.home, shape_of(rows))
        if variant != "data":
            forget(ctx)
        named = ["--home", options.home, "--out", f"{scratch}/{variant}", "--rows", str(rows)]
        return [sys.executable, __file__, "--work", variant, *named]

    subprocess.run(command("data"), check=True)
    about = {"rows": rows, "features": 50, "labelled": 0.2, "aim": AIMS[size]}
    compare(f"publish_{size}", chosen, command, rounds=options.rounds, about=about)
    shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    options = arguments(__doc__ or "", tuple(VARIANTS), rows=2_000_000, small=10_000)
    if options.work:
        work(options.home, options.out, options.rows, options.work)
        leave(0)
    for size, rows in (("large", options.rows), ("small", options.small)):
        measure(options, size, rows)


if __name__ == "__main__":
    main()
