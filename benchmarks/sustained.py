"""The highest rate at which what is published keeps up: live traffic, rising step by step, through a real broker.

    .venv/bin/python benchmarks/sustained.py                                             half an hour: two rounds
    .venv/bin/python benchmarks/sustained.py --rounds 1 --rates 200 400 --minutes 1      small

One long process with a warm Spark lands every few seconds and, when an interval of a minute has closed, joins,
checks and publishes it and extends the late ledger, as `windrow land` and `windrow train` do. The producer and
the broker are processes of their own, all on this machine.

The delay of an interval is the time from its close (its end, plus window, plus grace, on the wall clock, which
is the event clock here) to the moment when its publication is visible and registered; it holds the seconds that the
watermark stays behind the newest event. A rate keeps up where every interval of its step is published with all its
rows, and within the length of an interval. Each round is a process, a broker and tables of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from common import paced, traffic
from common.side_by_side import commit, keep, machine, spent

from windrow.jobs.land import land
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.run import Context, leave
from windrow.jobs.spark import spark_for
from windrow.jobs.train import train_all
from windrow.semantics.close import closes_at
from windrow.semantics.intervals import Interval
from windrow.simulate.producer import create_topics

NAME = "sustained"
PATIENCE = timedelta(minutes=5)
"""How long to wait for the backlog after the last step."""


@dataclass
class Seen:
    """Observations of the loop."""

    published: dict[datetime, dict[str, Any]] = field(default_factory=dict)
    """by interval start: rows, and delay in seconds"""
    blocked: list[str] = field(default_factory=list)
    rounds: list[dict[str, float]] = field(default_factory=list)
    """each turn of the loop: when it ended, seconds of landing and of training, age of the watermark, CPU so far"""


def run(ctx: Context, until: float, every: float, seen: Seen) -> None:
    """Land and train in turn until every interval that ends at or before `until` is published, or patience is over."""
    last = datetime.fromtimestamp(until, UTC) - ctx.pipeline.interval
    while last not in seen.published and time.time() < until + PATIENCE.total_seconds():
        began = time.time()
        *_, (_, clock) = land(ctx)
        landed = time.time()
        _train(ctx, f"{NAME}__{len(seen.rounds)}", seen)
        now = time.time()
        age = now - clock.watermark.timestamp() if clock.watermark else 0.0
        spans = {"landing": landed - began, "training": now - landed, "watermark_age": age - (now - landed)}
        seen.rounds.append({"at": now, **spans, "cpu": spent().cpu})
        time.sleep(max(0.0, began + every - time.time()))


def _train(ctx: Context, key: str, seen: Seen) -> None:
    before = len(seen.published)

    def note(row: Mapping[str, Any]) -> None:
        interval = Interval(row["interval"], row["interval_end"])
        due = closes_at(interval, ctx.pipeline.after, ctx.pipeline.grace)
        delay = (datetime.now(UTC) - due).total_seconds()
        seen.published[interval.start] = {"rows": row["rows"], "delay": delay}
        print(f"  {interval.start:%H:%M}: {row['rows']:,} rows, {delay:.1f} s after its close", flush=True)

    for done in train_all(ctx, key, each=note):
        seen.blocked += [refusal.why for refusal in done.blocked.values()]
    if len(seen.published) > before:
        extend_after_publication(ctx)


def figures(step: paced.Step, seen: Seen, interval: timedelta) -> dict[str, Any]:
    """One step: counts, delays in seconds, and whether it keeps up."""
    begin, end = (datetime.fromtimestamp(at, UTC) for at in (step.begins, step.ends))
    wanted = [begin + n * interval for n in range((end - begin) // interval)]
    found = [seen.published[start] for start in wanted if start in seen.published]
    delays = [one["delay"] for one in found]
    turns = [turn for turn in seen.rounds if step.begins <= turn["at"] < step.ends]
    published = sum(one["rows"] for one in found)
    return {
        "rate": step.rate,
        "produced": step.rows,
        "published": published,
        "intervals": f"{len(found)} of {len(wanted)}",
        "delay_median": round(statistics.median(delays), 1) if delays else None,
        "delay_worst": round(max(delays), 1) if delays else None,
        "landing_median": _median(turns, "landing"),
        "watermark_age_worst": round(max((turn["watermark_age"] for turn in turns), default=0.0), 1),
        "training_worst": round(max((turn["training"] for turn in turns), default=0.0), 1),
        "cores_busy": _busy(turns),
        "keeps_up": published == step.rows and max(delays, default=0.0) <= interval.total_seconds(),
    }


def _median(turns: Sequence[Mapping[str, float]], name: str) -> float | None:
    return round(statistics.median(turn[name] for turn in turns), 1) if turns else None


def _busy(turns: Sequence[Mapping[str, float]]) -> float | None:
    """CPU-seconds per second of this process and its descendants, including broker and producer."""
    if len(turns) < 2:
        return None
    return round((turns[-1]["cpu"] - turns[0]["cpu"]) / (turns[-1]["at"] - turns[0]["at"]), 2)


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
        spark_for(NAME, places)
        begins = (int(time.time()) // 60 + 1) * 60.0
        steps = paced.rising(options.rates, begins, options.minutes * 60, warm_up=180)
        ctx = Context(traffic.pipeline(places, NAME, datetime.fromtimestamp(begins, UTC)), places)
        apart, seen = multiprocessing.get_context("spawn"), Seen()
        stop = apart.Event()
        producer = apart.Process(target=paced.produce, args=(places.kafka, NAME, steps, stop), daemon=True)
        producer.start()
        try:
            run(ctx, steps[-2].ends, options.every, seen)
        finally:
            stop.set()
            producer.join(30)
        judged = [figures(step, seen, ctx.pipeline.interval) for step in steps[1:-1]]
        if seen.blocked:
            sys.exit(f"intervals were blocked, so there are no figures: {seen.blocked[0]}")
    return judged


def report(options: argparse.Namespace, rounds: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The stored result: every step of every round, and the highest rate that kept up in all rounds."""
    kept = [max((step["rate"] for step in steps if step["keeps_up"]), default=0) for steps in rounds]
    return {
        "name": NAME,
        "about": {"minutes a step": options.minutes, "seconds between landings": options.every, "interval": "1m"},
        "machine": machine(),
        "commit": commit(),
        "rounds": len(rounds),
        "steps": [{"round": number, **step} for number, steps in enumerate(rounds, 1) for step in steps],
        "keeps_up_at": min(kept),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rising = [8_000, 12_000, 16_000, 20_000, 24_000]
    parser.add_argument("--rates", type=int, nargs="+", default=rising, help="rows a second")
    parser.add_argument("--minutes", type=int, default=2, help="length of a step (default 2)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between landings (default 3)")
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
