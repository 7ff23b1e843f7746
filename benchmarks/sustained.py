"""The highest rate at which what is published keeps up: live traffic, rising step by step, through a real broker.

    .venv/bin/python benchmarks/sustained.py                                             half an hour: two rounds
    .venv/bin/python benchmarks/sustained.py --rounds 1 --rates 200 400 --minutes 1      small

Landing and training are two lanes of jobs in one warm engine, started by the words of Airflow's tasks: one lands every
few seconds; the other waits until the window of an interval has closed, asking as the sensor does, and then joins,
checks and publishes it, and others that have closed by then, and extends the late ledger. The producer and the broker
are processes of their own, all on this machine.

The delay of an interval is the time from its close (its end, plus window, plus grace, on the wall clock, which is the
event clock here) to the end of the job that publishes it; it holds the seconds that the watermark stays behind the
newest event. A rate keeps up where every interval of its step is published with all its rows, and within the length of
an interval. Each round is a process, a broker and tables of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from common import paced, traffic
from common.side_by_side import commit, keep, machine, spent
from publish import environment

from windrow.io.registers import publications
from windrow.jobs.run import Context, leave
from windrow.platform import engine, jobs_side
from windrow.platform.servers.engine import Engine
from windrow.semantics.close import closes_at
from windrow.semantics.intervals import Interval
from windrow.simulate.producer import create_topics
from windrow.text import instant_text
from windrow_airflow.window import look

NAME = "sustained"
PATIENCE = timedelta(minutes=5)
"""How long to wait for the backlog after the last step."""


@dataclass
class Seen:
    """What the lanes did."""

    published: dict[datetime, dict[str, Any]] = field(default_factory=dict)
    """by interval start: rows, and delay in seconds"""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    """each job: its name, when it ended, its seconds, CPU of all processes so far"""
    broken: list[str] = field(default_factory=list)
    """why a lane has stopped"""


def run(ctx: Context, until: float, every: float, seen: Seen) -> None:
    """Land and train in two lanes until all intervals that end by `until` are published, or patience is over."""
    stop = threading.Event()
    lanes = [
        threading.Thread(target=_lane, args=(seen, stop, land, ctx, every)),
        threading.Thread(target=_lane, args=(seen, stop, train, ctx, until)),
    ]
    for lane in lanes:
        lane.start()
    lanes[1].join(until + PATIENCE.total_seconds() - time.time())
    stop.set()
    for lane in lanes:
        lane.join()


def _lane(seen: Seen, stop: threading.Event, work: Callable[..., None], *arguments: Any) -> None:
    try:
        work(*arguments, seen, stop)
    except Exception as error:
        seen.broken.append(f"{type(error).__name__}: {error}")
        stop.set()


def land(ctx: Context, every: float, seen: Seen, stop: threading.Event) -> None:
    """Land every few seconds."""
    while not stop.is_set():
        began = time.monotonic()
        job(ctx, seen, "land")
        stop.wait(max(0.0, began + every - time.monotonic()))


def train(ctx: Context, until: float, seen: Seen, stop: threading.Event) -> None:
    """Publish one interval after the other, as soon as its window has closed."""
    interval = Interval(ctx.pipeline.start, ctx.pipeline.start + ctx.pipeline.interval)
    environ = {**os.environ, "WINDROW_HOME": str(ctx.places.home)}
    while interval.end.timestamp() <= until and not stop.is_set():
        window = look(NAME, interval, environ)
        if window.published is not None:
            interval = Interval(interval.end, interval.end + ctx.pipeline.interval)
        elif window.is_closed:
            run_key, at = ["--run", f"{NAME}__{len(seen.jobs)}"], ["--interval", instant_text(interval.start)]
            job(ctx, seen, "join", *run_key, *at)
            job(ctx, seen, "check", *run_key, *at)
            job(ctx, seen, "publish", *run_key)
            note(ctx, seen)
        else:
            stop.wait(0.25)


def job(ctx: Context, seen: Seen, name: str, *words: str) -> None:
    """Run a job in the engine.

    Raises:
        RuntimeError: it failed.
    """
    began = time.time()
    given = engine.start(ctx.places, (name, NAME, *words), _environment(ctx), ctx.places.spark_master)
    output = given.output.read()
    if code := given.wait():
        raise RuntimeError(f"{name} ended with {code}:\n{output[-4000:]}")
    now = time.time()
    seen.jobs.append({"job": name, "at": now, "seconds": now - began, "cpu": spent().cpu})


def _environment(ctx: Context) -> dict[str, str]:
    return {**environment(ctx), "WINDROW_KAFKA": ctx.places.kafka}


def note(ctx: Context, seen: Seen) -> None:
    """Note what is published by now, with its delay up to now: its job has ended, and the late ledger is extended."""
    for start, row in publications.standing(publications.registered(ctx.home)).items():
        if start not in seen.published:
            due = closes_at(Interval(start, row["interval_end"]), ctx.pipeline.after, ctx.pipeline.grace)
            delay = (datetime.now(UTC) - due).total_seconds()
            seen.published[start] = {"rows": row["rows"], "delay": delay}
            print(f"  {start:%H:%M}: {row['rows']:,} rows, {delay:.1f} s after its close", flush=True)


def figures(step: paced.Step, seen: Seen, interval: timedelta) -> dict[str, Any]:
    """One step: counts, delays in seconds, and whether it keeps up."""
    begin, end = (datetime.fromtimestamp(at, UTC) for at in (step.begins, step.ends))
    wanted = [begin + n * interval for n in range((end - begin) // interval)]
    found = [seen.published[start] for start in wanted if start in seen.published]
    delays = [one["delay"] for one in found]
    jobs = [one for one in seen.jobs if step.begins <= one["at"] < step.ends]
    published = sum(one["rows"] for one in found)
    return {
        "rate": step.rate,
        "produced": step.rows,
        "published": published,
        "intervals": f"{len(found)} of {len(wanted)}",
        "delay_median": round(statistics.median(delays), 1) if delays else None,
        "delay_worst": round(max(delays), 1) if delays else None,
        **{f"{name}_median": _median(jobs, name) for name in ("land", "join", "check", "publish")},
        "cores_busy": _busy(jobs),
        "keeps_up": published == step.rows and max(delays, default=0.0) <= interval.total_seconds(),
    }


def _median(jobs: Sequence[Mapping[str, Any]], name: str) -> float | None:
    found = [one["seconds"] for one in jobs if one["job"] == name]
    return round(statistics.median(found), 1) if found else None


def _busy(jobs: Sequence[Mapping[str, Any]]) -> float | None:
    """CPU-seconds per second of this process and its descendants: engine, jobs, broker and producer."""
    if len(jobs) < 2:
        return None
    return round((jobs[-1]["cpu"] - jobs[0]["cpu"]) / (jobs[-1]["at"] - jobs[0]["at"]), 2)


def table(steps: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one line per step."""
    names = list(steps[0])
    lines = [f"| {' | '.join(name.replace('_', ' ') for name in names)} |", "| --- " * len(names) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(str(step[name]) for name in names)} |" for step in steps)])


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One round on its own broker and in its own folder; returns the figures of its steps."""
    home = Path(options.home).resolve() / NAME
    shutil.rmtree(home, ignore_errors=True)
    with traffic.broker(home) as places:
        create_topics(places.kafka, {f"{NAME}.{side}": many for side, many in paced.PARTITIONS.items()})
        begins = (int(time.time()) // 60 + 2) * 60.0  # the engine is up by then
        steps = paced.rising(options.rates, begins, options.minutes * 60, warm_up=180)
        pipeline = traffic.pipeline(places, NAME, datetime.fromtimestamp(begins, UTC), interval=options.interval)
        ctx = Context(pipeline, places)
        warm = Engine(places)
        warm.stop()  # one that a killed run left
        warm.start(jobs_side.here(places), _environment(ctx))
        warm.wait()
        apart, seen = multiprocessing.get_context("spawn"), Seen()
        stop = apart.Event()
        producer = apart.Process(target=paced.produce, args=(places.kafka, NAME, steps, stop), daemon=True)
        producer.start()
        try:
            run(ctx, steps[-2].ends, options.every, seen)
        finally:
            stop.set()
            producer.join(30)
            warm.stop()
        judged = [figures(step, seen, ctx.pipeline.interval) for step in steps[1:-1]]
        if seen.broken:
            sys.exit(f"a lane has stopped, so there are no figures: {seen.broken[0]}")
    return judged


def report(options: argparse.Namespace, rounds: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The stored result: every step of every round, and the highest rate that kept up in all rounds."""
    kept = [max((step["rate"] for step in steps if step["keeps_up"]), default=0) for steps in rounds]
    return {
        "name": NAME,
        "about": {
            "minutes a step": options.minutes,
            "seconds between landings": options.every,
            "interval": options.interval,
        },
        "machine": machine(),
        "commit": commit(),
        "rounds": len(rounds),
        "steps": [{"round": number, **step} for number, steps in enumerate(rounds, 1) for step in steps],
        "keeps_up_at": min(kept),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rising = [16_000, 20_000, 24_000, 32_000, 40_000]
    parser.add_argument("--rates", type=int, nargs="+", default=rising, help="rows a second")
    parser.add_argument("--minutes", type=int, default=2, help="length of a step (default 2)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between landings (default 3)")
    parser.add_argument("--interval", default="1m", help="length of an interval, as in a pipeline file (default 1m)")
    parser.add_argument("--rounds", type=int, default=2, help="repeats (default 2)")
    parser.add_argument("--home", default=".windrow/benchmarks", help="folder for data")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        Path(options.work).write_text(json.dumps(measure(options)))
        leave(0)
    rounds, figures_of = [], Path(options.home).resolve() / f"{NAME}.round.json"
    for number in range(1, options.rounds + 1):
        print(f"{NAME}: round {number} of {options.rounds} …", flush=True)
        subprocess.run([sys.executable, *sys.argv, "--work", str(figures_of)], check=True)
        rounds.append(json.loads(figures_of.read_text()))
    figures_of.unlink()
    result = report(options, rounds)
    keep(result)
    print(table(result["steps"]))
    print(f"highest rate that keeps up in every round: {result['keeps_up_at']} rows a second")


if __name__ == "__main__":
    main()
