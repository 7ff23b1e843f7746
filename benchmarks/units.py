"""What a row and an interval cost: CPU, bytes, requests, commits and files, with tables in a folder and in a store.

    .venv/bin/python benchmarks/units.py                                         all variants, three rounds
    .venv/bin/python benchmarks/units.py --rows 100000 --variants folder-1       small
    .venv/bin/python benchmarks/units.py --daily --variants folder-2 store-2     the daily DAGs too

Two pipelines of an hour each: `big` has --rows served rows and a fifth as many clicks, `small` has --small. Each step
is a process of its own, as Airflow starts it:

    land     one landing of both topics             train    join, check and publish of the hour, and the late ledger

With --daily, the work of the daily DAGs follows, for which the hour is the day. Results are kept apart.

    reconcile   the hour is joined once more, and compared; the day's summary; the data card
    lag         lag impact with its usual scenarios
    maintain    compaction of landing and training tables into files of half a million rows, vacuum; the small hour has
                nothing to merge, so what starting it costs is in the figure for a row

The cost of `small` is that of an interval however few rows it has; the difference to `big`, divided by the difference
in rows, is that of a row. `big` is known as a large pipeline, so its drivers use the optimising compiler. Variants:
`folder-1` and `folder-2` (Spark with one and with two cores), `shuffled-2` (nothing is broadcast: rows and labels of an
interval are shuffled, as those of a large one are), `store-2` (S3Proxy, which runs beside and whose own CPU is in no
figure), `cluster-2` (the same store, and a Spark master with two workers of one core each, whose CPU is in the
figures; the peak of memory has their two daemons in it, and no payload comes from files there, as on no cluster that
is cold). Requests are counted between the clients and the store. `benchmarks/scale.py` computes from these results
what a pipeline needs at a rate.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from common import traffic
from common.counted import Counted
from common.pipelines import pipeline_text
from common.side_by_side import commit, keep, machine, peak, spent
from pyspark.sql import SparkSession

from windrow.config import load
from windrow.files import write_whole
from windrow.io.delta import store
from windrow.io.registers import publications
from windrow.jobs.audit.reconcile import check, reconcile_range
from windrow.jobs.lag.arguments import LagOptions
from windrow.jobs.lag.impact import analyse
from windrow.jobs.land import land, totals
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.run import Context, leave
from windrow.jobs.summarise import summarise
from windrow.jobs.train import train_all
from windrow.jobs.upkeep.card import card
from windrow.jobs.upkeep.maintain import maintain
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.processes import free_port
from windrow.platform.servers.spark_cluster import SparkCluster
from windrow.platform.servers.store import Store
from windrow.semantics.intervals import DAY
from windrow.semantics.maintenance import RETENTION, ROWS_PER_FILE
from windrow.simulate.producer import create_topics

VARIANTS = ("folder-1", "folder-2", "shuffled-2", "store-2", "cluster-2")
SIZES, STEPS, DAILY = ("big", "small"), ("land", "train"), ("reconcile", "lag", "maintain")
PARTITIONS, CLICK_PARTITIONS, CLICKED = 4, 2, 5
HOUR = timedelta(hours=1)
NO_BROADCAST = "spark.sql.autoBroadcastJoinThreshold -1\nspark.sql.adaptive.autoBroadcastJoinThreshold -1\n"
_MARK = "UNITS "


def produce(kafka: str, prefix: str, rows: int) -> None:
    """An hour of served rows, a click a minute after every fifth, and records that close the hour's windows."""
    served, clicks = f"{prefix}.served", f"{prefix}.clicks"
    create_topics(kafka, {served: PARTITIONS, clicks: CLICK_PARTITIONS})
    if sum(traffic.ends(kafka, served, PARTITIONS).values()) == rows + PARTITIONS:
        return
    records, producer = traffic.Records(), traffic.sender(kafka)
    begin, step = int(traffic.START.timestamp() * 1_000_000), HOUR / timedelta(microseconds=1) / rows
    for number in range(rows):
        at = begin + int(number * step)
        traffic.send(producer, served, number % PARTITIONS, records.served(number, at), at)
        if number % CLICKED == 0:
            later = at + 60_000_000
            traffic.send(producer, clicks, number % CLICK_PARTITIONS, records.click(number, later), later)
    closed = begin + 2 * int(HOUR / timedelta(microseconds=1))
    for partition in range(PARTITIONS):
        traffic.send(producer, served, partition, records.served(rows + partition, closed), closed)
    for partition in range(CLICK_PARTITIONS):
        traffic.send(producer, clicks, partition, records.click(rows + partition, closed), closed)
    producer.flush()


def pipelines(home: Path, rows: Mapping[str, int]) -> None:
    """Write the pipeline files of both sizes."""
    (home / "pipelines").mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        text = pipeline_text(
            size,
            f"{traffic.START:%Y-%m-%dT%H:%M:%SZ}",
            "1h",
            "10m",
            topics=f"units-{rows[size]}.",
            served=traffic.SERVED,
            more="idle: {mode: wait}\n",  # otherwise each later interval up to now is closed, and empty
        )
        (home / "pipelines" / f"{size}.yaml").write_text(text)


def work(step: str, size: str, rows: int, beside: Sequence[int]) -> None:
    """In a process of its own: do the step, and print what it cost; `beside`: pids of Spark's workers."""
    workers = [psutil.Process(pid) for pid in beside]
    before = spent(workers) - spent()
    places = Places.from_env(os.environ)
    ctx = Context(load(places.home / "pipelines" / f"{size}.yaml", places.expectations), places)
    _STEPS[step](ctx, rows)
    cost = spent(workers) - before
    figures = {"wall": cost.wall, "cpu": cost.cpu, "read": cost.read, "peak": peak(workers), "shuffled": _shuffled()}
    print(_MARK + json.dumps(figures), flush=True)


def _land(ctx: Context, rows: int) -> None:
    *_, landed = land(ctx)
    print(f"landed {totals(landed.after)} of {rows} rows and their clicks")  # training compares the number


def _train(ctx: Context, rows: int) -> None:
    done = list(train_all(ctx, "units"))
    extend_after_publication(ctx)
    published = [row["rows"] for row in publications.registered(ctx.home)]
    if published != [rows] or any(one.blocked for one in done):
        sys.exit(f"published {published}, not {rows} rows: {[one.blocked for one in done]}")


def _reconcile(ctx: Context, rows: int) -> None:
    done = reconcile_range(ctx, traffic.START, traffic.START + HOUR)
    check(ctx, done)
    if sum(row["rows"] for row in done.of("equal")) != rows:
        sys.exit(f"compared {done.intervals}, not {rows} rows")
    summarise(ctx, traffic.START.date())
    card(ctx)


def _lag(ctx: Context, rows: int) -> None:
    found = analyse(ctx, LagOptions()).findings.rows
    if found != rows:
        sys.exit(f"analysed {found} rows, not {rows}")


def _maintain(ctx: Context, rows: int) -> None:
    tomorrow = replace(ctx, now=lambda: datetime.now(UTC) + DAY)  # files of hours that are over are merged
    merged = maintain(tomorrow, RETENTION)["fewer_files"]
    if rows > ROWS_PER_FILE // 2 and not merged["landing/" + ctx.pipeline.left.topics[0]]:
        sys.exit(f"nothing was merged of {rows} rows: {merged}")


_STEPS = {"land": _land, "train": _train, "reconcile": _reconcile, "lag": _lag, "maintain": _maintain}


def _shuffled() -> int:
    """Bytes that Spark's tasks have shuffled."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return 0
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)  # type: ignore[union-attr]
    return sum(executors.apply(n).totalShuffleWrite() for n in range(executors.size()))


def stored(location: str) -> dict[str, int]:
    """What is stored below the tables of a pipeline: commits, data files, and bytes of both."""
    if not store.may_exist(location):
        return {"commits": 0, "files": 0, "bytes": 0}
    found = store.listed(location)
    return {
        "commits": sum("/_delta_log/" in f"/{one.name}" and one.name.endswith(".json") for one in found),
        "files": sum("/_delta_log/" not in f"/{one.name}" and one.name.endswith(".parquet") for one in found),
        "bytes": sum(one.size for one in found),
    }


@dataclass(frozen=True)
class Around:
    """What the processes of a variant find: variables, the counter of their requests, and Spark's workers."""

    variables: dict[str, str]
    counted: Counted | None = None
    workers: list[int] = field(default_factory=list)


@contextmanager
def around(variant: str, home: Path) -> Iterator[Around]:
    """Start what a variant needs."""
    kind, cores = variant.split("-")
    with tables("store" if kind in ("store", "cluster") else "folder", home) as (variables, counted):
        if kind == "cluster":
            with cluster(home, variables) as (known, workers):
                yield Around({**variables, **known}, counted, workers)
            return
        master = {"WINDROW_SPARK_MASTER": f"local[{cores}]"}
        if kind == "shuffled":
            settings = home / "settings.conf"
            write_whole(settings, NO_BROADCAST, private=True)
            master["WINDROW_SPARK_SECRETS"] = str(settings)
        yield Around({**variables, **master}, counted)


@contextmanager
def cluster(home: Path, variables: Mapping[str, str]) -> Iterator[tuple[dict[str, str], list[int]]]:
    """Start a Spark master and two workers, of which a driver gets a core each.

    Args:
        variables: by which executors find the store.
    Returns:
        variables for drivers, and the workers' pids.
    """
    master = f"spark://127.0.0.1:{free_port()}"
    places = replace(Places.from_env({**os.environ, "WINDROW_HOME": str(home)}), spark_master=master)
    spark = SparkCluster(places, variables)
    spark.start()
    try:
        workers = [one.process() for name, one in spark.processes.items() if "worker" in name]
        known = {"WINDROW_SPARK_MASTER": master, "WINDROW_SPARK_SECRETS": str(spark.secrets)}
        yield known, [one.pid for one in workers if one]
    finally:
        spark.stop()


@contextmanager
def tables(variant: str, home: Path) -> Iterator[tuple[dict[str, str], Counted | None]]:
    """Where a variant has its tables: variables for its processes, and the counter of its requests."""
    if variant.startswith("folder"):
        yield {}, None
        return
    places = replace(Places.from_env({**os.environ, "WINDROW_HOME": str(home)}), store=f"127.0.0.1:{free_port()}")
    jars.ensure(places, also=("store", "s3"))
    server = Store(places)
    server.start()
    known = server.environment()
    try:
        with Counted(known["AWS_ENDPOINT_URL"]) as counted:
            yield {**known, "AWS_ENDPOINT_URL": counted.url, "WINDROW_TABLES": server.url}, counted
    finally:
        server.stop()


def measured(
    variant: str, kafka: str, home: Path, rows: Mapping[str, int], steps: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The steps of a variant, each in a fresh process: `<size> <step>` → its figures."""
    shutil.rmtree(home, ignore_errors=True)
    pipelines(home, rows)
    found = {}
    with around(variant, home) as parts:
        counted, before = parts.counted, dict(os.environ)
        environ = {**before, **parts.variables, "WINDROW_HOME": str(home), "WINDROW_KAFKA": kafka}
        os.environ.update(parts.variables)  # `stored` looks at the store too
        places = Places.from_env(environ)
        mark = places.large("big")  # as the run of the hour before has left it
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        for size in SIZES:
            for step in steps:
                print(f"{variant}: {step} of {size} …", flush=True)
                location = places.table(size, "")
                earlier = stored(location)
                if counted is not None:
                    counted.taken()
                command = [sys.executable, __file__, "--work", step, "--size", size, "--rows", str(rows[size])]
                figures = _figures([*command, "--beside", *map(str, parts.workers)], environ)
                figures["requests"] = {} if counted is None else counted.taken()
                after = stored(location)
                figures |= {name: after[name] - earlier[name] for name in after}
                found[f"{size} {step}"] = figures
        os.environ.clear()
        os.environ.update(before)
    return found


def _figures(command: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    marked = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not marked:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-4000:]}\nended with {done.returncode}; no figures")
    figures: dict[str, Any] = json.loads(marked[-1].removeprefix(_MARK))
    return figures


def units(
    rounds: list[dict[str, dict[str, Any]]], rows: Mapping[str, int], steps: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Medians of the rounds: for each step its cost `once` (that of `small`), and `row`, per served row beyond."""
    found: dict[str, dict[str, float]] = {}
    for step in steps:
        for name in ("cpu", "wall", "read", "shuffled", "bytes", "commits", "files"):
            small, big = (statistics.median(one[f"{size} {step}"][name] for one in rounds) for size in ("small", "big"))
            per_row = (big - small) / (rows["big"] - rows["small"])
            found.setdefault(step, {}).update({f"{name} once": small, f"{name} row": per_row})
        for kind in sorted({kind for one in rounds for size in SIZES for kind in one[f"{size} {step}"]["requests"]}):
            small, big = (
                statistics.median(one[f"{size} {step}"]["requests"].get(kind, 0) for one in rounds)
                for size in ("small", "big")
            )
            found[step].update({f"{kind} requests once": small, f"{kind} requests big": big})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant runs (default 3)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="served rows of the large hour (default 1 000 000)")
    parser.add_argument("--small", type=int, default=10_000, help="served rows of the small hour (default 10 000)")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--daily", action="store_true", help="also the work of the daily DAGs")
    parser.add_argument("--home", default=".windrow/benchmarks/units", help="folder for data, made once")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--size", help=argparse.SUPPRESS)
    parser.add_argument("--beside", nargs="*", type=int, default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.size, options.rows, options.beside)
        leave(0)
    steps = (*STEPS, *DAILY) if options.daily else STEPS
    rows, home = {"big": options.rows, "small": options.small}, Path(options.home).absolute()
    passes: dict[str, list[dict[str, dict[str, Any]]]] = {variant: [] for variant in options.variants}
    with traffic.broker(home / "broker") as places:
        for size in SIZES:
            print(f"producing {rows[size]:,} rows, unless they are there …", flush=True)
            produce(places.kafka, f"units-{rows[size]}", rows[size])
        for _ in range(options.rounds):
            for variant in options.variants:
                passes[variant].append(measured(variant, places.kafka, home / "tables", rows, steps))
    found = {variant: units(rounds, rows, steps) for variant, rounds in passes.items()}
    name = "units_daily" if options.daily else "units"
    keep({"name": name, "about": rows, "machine": machine(), "commit": commit(), "rounds": options.rounds,
          "measured": passes, "units": found})  # fmt: skip
    for variant, costs in found.items():
        for step, figures in costs.items():
            for name, value in figures.items():
                print(f"{variant:10} {step:9} {name:24} {value:,.9g}")


if __name__ == "__main__":
    main()
