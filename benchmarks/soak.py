"""Traffic and faults for minutes or hours; at the end every published row is compared with an independent truth.

    .venv/bin/python benchmarks/soak.py --minutes 60          an hour
    .venv/bin/python benchmarks/soak.py --minutes 60 --airflow --interval 60    an hour of Airflow's own DAGs
    .venv/bin/python benchmarks/soak.py --minutes 3 --seed 7  what the tests run, with other faults

    producer ─▶ broker ─▶ land ─▶ join ─▶ check ─▶ publish      rebuild, maintenance, late: beside them
       ▲          ▲         ▲       ▲       ▲         ▲            ▲
       └──────────┴─────────┴───────┴───────┴─────────┴────────────┴──── nemesis: kills, freezes, full disk, clock

All are real processes, with the commands and options of the DAGs. The last `END_S` seconds are without faults: the
producer stops, one event behind all others on every partition closes the last windows, and what is missing is landed
and published. Then the truth is computed from what a plain consumer reads in the topics (`soaking/truth.py`):

1. every acknowledged record is in its topic, and each offset is landed exactly once;
2. rows that differ, because their labels came late, are named by the late ledger;
3. after a rebuild of exactly what the ledger names, every column of every row is as it must be, no row is missing or
   there twice, and the ledger is empty;
4. nobody who read in the meantime saw a part of an interval, and no job asked for a person.

Exit code 1 and the evidence otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sustained
from common import traffic
from common.side_by_side import commit, machine
from confluent_kafka import Producer
from soaking import producer, truth
from soaking.faults import Disk, Nemesis
from soaking.scheduler import Scheduled
from soaking.work import Jobs, Journal, Lanes

from windrow.config import load
from windrow.io.registers import clocks, publications
from windrow.jobs.run import Context
from windrow.outcomes import ExitCode
from windrow.platform.servers.broker import Broker
from windrow.simulate.producer import create_topics

NAME = "soak"
END_S = 90
"""Seconds at the end without traffic and faults."""
WINDOW_S, GRACE_S, OUT_OF_ORDERNESS_S = 10, 1, 2
PIPELINE = """\
name: {name}
start: {start:%Y-%m-%dT%H:%M:%SZ}
interval: {interval}s
left:
  name: served
  topic: {name}.served
  columns: {{request_id: string, user_id: bigint, item_id: bigint, served_at: timestamp, features: "array<float>"}}
  key: [user_id, item_id]
  event_time: served_at
  event_id: request_id
  out_of_orderness: {out_of_orderness}s
right:
  - name: clicks
    role: label
    topic: {name}.engagements
    where: "action = 'click'"
    columns: {{event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp}}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: {out_of_orderness}s
    window: {{before: 0s, after: {window}s}}
grace: {grace}s
idle: {{mode: caught_up, after: 5s}}
max_skew: 10m
catch_up: 100
land_every: 5s
labels: {{clicked: "size(clicks) > 0"}}
"""


class Producing:
    """The producer's process; a killed one is followed by another."""

    def __init__(self, kafka: str, file: Path, seed: int, rate: float) -> None:
        self._kafka, self.file, self._seed, self._rate = kafka, file, seed, rate
        self.lives = 0
        self._start()

    def _start(self) -> None:
        self.lives += 1
        words = (self._kafka, NAME, self._seed, self.lives, self._rate, WINDOW_S, self.file)
        self._process = subprocess.Popen([sys.executable, str(producer.__file__), *map(str, words)])

    def kill(self) -> None:
        """Kill it, and start another."""
        self._process.kill()
        self._process.wait()
        with self.file.open("a") as notes:
            notes.write("\n" if _is_cut(self.file) else "")
        self._start()

    def stop(self) -> None:
        """Let it send what it has, and end."""
        self._process.send_signal(signal.SIGTERM)
        just_begun = -signal.SIGTERM  # it had no handler yet, and has sent nothing
        if self._process.wait(360) not in (0, just_begun):
            raise SystemExit(f"the producer ended with {self._process.returncode}")


def _is_cut(file: Path) -> bool:
    text = file.read_bytes()
    return bool(text) and not text.endswith(b"\n")


@dataclass
class Soak:
    """One run: its places, processes and records."""

    ctx: Context
    rules: truth.Rules
    folder: Path
    journal: Journal
    jobs: Jobs
    broker: Broker

    def under_faults(
        self, options: argparse.Namespace, seconds: float, disk: Disk, reader: truth.Whole
    ) -> tuple[Path, int]:
        """Traffic, work and faults side by side, until the time is over and there were as many faults as wanted.

        Returns the producer's notes and the number of rebuilds.
        """
        seed, more = options.seed, []
        work: Lanes | Scheduled = Lanes(self.jobs, seed)
        if options.airflow:
            work = Scheduled(self.ctx, seed, self.journal)
            more = [work.kill_scheduler, work.freeze_scheduler]
        work.start()
        until = time.monotonic() + seconds
        producing = Producing(self.ctx.places.kafka, self.folder / "acknowledged", seed, options.rate)
        nemesis = Nemesis(seed, self.journal, work, self.broker, disk, producing.kill, more)
        nemesis.start()
        try:
            while time.monotonic() < until or sum(self.journal.faults.values()) < options.faults:
                time.sleep(2)
                try:
                    reader.read()
                except Exception as failure:
                    self.journal.alarms.append(f"a reader failed: {failure!r}")
        finally:
            try:
                nemesis.stop()
                disk.free()
                self.broker.start()
                self.journal.say("no more faults; the producer stops")
                producing.stop()
            finally:
                work.stop()  # a lane that goes on keeps this process for ever
        return producing.file, work.rebuilds

    def finish(self) -> None:
        """Close the last windows, and publish what is missing."""
        until = datetime.now(UTC) + self.ctx.pipeline.interval + timedelta(seconds=3 * WINDOW_S)
        sender = Producer({"bootstrap.servers": self.ctx.places.kafka, "acks": "all", "log_level": 2})
        stamp = producer.text(int(until.timestamp() * 1_000_000))
        for side, many in producer.PARTITIONS.items():
            event = {truth.IDENTITY[side]: "last", truth.EVENT_TIME[side]: stamp, "user_id": -1, "item_id": -1}
            for partition in range(many):
                own = {truth.IDENTITY[side]: f"last-{partition}", "action": "click", "features": [0.0]}
                sender.produce(f"{NAME}.{side}", json.dumps({**event, **own}).encode(), partition=partition)
        if sender.flush(60):
            raise SystemExit("the last events were not acknowledged")
        self.must("land")
        if self.must("train") == ExitCode.BLOCKED:
            frontier = clocks.observe(self.ctx.home).frontier(self.ctx.pipeline)
            rows = publications.registered(self.ctx.home)
            self.override(
                hole.start for hole in publications.holes(self.ctx.pipeline, publications.starts_of(rows), frontier)
            )
        self.must("late")

    def override(self, starts: Iterable[datetime]) -> None:
        """Publish blocked intervals: an outage of the labels looks like a fall of their rate, and a person decides."""
        for at in starts:
            self.must("override", "--interval", f"{at:%Y-%m-%dT%H:%M:%SZ}", "--reason", "soak", "--who", "soak")

    def must(self, job: str, *arguments: str) -> int:
        """Run a job that has to succeed now, or to be blocked by the gate; returns its exit code."""
        code, log = self.jobs.run(job, *arguments)
        if code not in (ExitCode.DONE, ExitCode.NOTHING_TO_DO, ExitCode.BLOCKED):
            self.journal.alarms.append(f"without faults, {job} ended with {code}: {log.read_text()[-3000:]}")
        return code

    def table(self, name: str) -> str:
        """Path of a table."""
        return self.ctx.places.table(NAME, name)

    def register(self) -> list[dict[str, Any]]:
        """Every publication, by number."""
        columns = ("number", "interval", "rows", "run", "verdict")
        return sorted(truth.rows_of(self.table("publications"), columns), key=lambda row: row["number"])

    def ledger(self) -> dict[datetime, int]:
        """What a rebuild would change, as `windrow late` says: number of lines by interval."""
        _, log = self.jobs.run("late", "--json", tool="windrow")
        text = log.read_text()
        found = json.loads(text[text.index("{") :])
        return {datetime.fromisoformat(one["interval"]): one["lines"] for one in found["intervals"] if one["lines"]}

    def judge(self, notes: Path, reader: truth.Whole) -> tuple[dict[str, int], list[str]]:
        """Compare everything; returns the counts and what is wrong."""
        wrong: list[str] = []
        topics = {
            side: truth.contents(self.ctx.places.kafka, f"{NAME}.{side}", many)
            for side, many in producer.PARTITIONS.items()
        }
        named = {f"{NAME}.{side}": records for side, records in topics.items()}
        with notes.open() as acknowledged:
            lost, in_doubt = truth.unacknowledged(acknowledged, named)
        wrong += lost
        sides = {side: truth.judged(side, records) for side, records in topics.items()}
        for side, records in topics.items():
            wrong += truth.landed(self.table(f"landing/{NAME}.{side}"), records, sides[side])
        want = truth.expected(NAME, self.rules, sides["served"], sides["engagements"])

        before = truth.compare(want.rows, truth.published(self.table("training")))
        lines = self.ledger()
        unexplained = {
            where
            for where in before.lost | set(before.wrong)
            if self.rules.interval_of(sides["served"].read[where]["served_at"]) not in lines
        }
        wrong += [f"not in the ledger: {sorted(unexplained)[:10]}"] if unexplained else []
        self.journal.say(
            f"{len(want.rows):,} rows; {len(before.all):,} of them would change, {sum(lines.values()):,} lines of the "
            f"ledger name them, in {len(lines)} of {len(want.intervals)} intervals: these are rebuilt"
        )
        if lines:
            bounds = min(lines), max(lines) + self.rules.interval
            begin, end = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in bounds)
            if self.must("rebuild", "--from", begin, "--to", end, "--reason", "soak") == ExitCode.BLOCKED:
                self.override(sorted(self.ledger().keys() & lines.keys()))
            self.must("late")
        after = truth.compare(want.rows, truth.published(self.table("training")))
        wrong += after.lines() if after.all else []
        wrong += [f"the ledger still has lines: {left}"] if lines and (left := self.ledger()) else []
        register = self.register()
        there = {row["interval"] for row in register}
        wrong += [f"never published: {at}" for at in want.intervals if at not in there]
        if [row["number"] for row in register] != list(range(1, len(register) + 1)):
            wrong.append("the numbers of the register have holes")
        wrong += reader.broken(register)
        wrong += self.journal.alarms
        return {
            "records": sum(map(len, topics.values())),
            "sent in doubt": in_doubt - sum(producer.PARTITIONS.values()),
            "quarantined": sum(len(side.unreadable) for side in sides.values()),
            "producer retries": want.duplicates,
            "rows compared": len(want.rows),
            **{f"rows {state}": many for state, many in sorted(want.states.items())},
            "rows lost": len(after.lost),
            "rows twice or extra": len(after.twice | after.extra),
            "rows wrong": len(after.wrong),
            "intervals": len(want.intervals),
            "publications": len(register),
            "overridden": sum(row["verdict"] == "overridden" for row in register),
            "late ledger lines": sum(lines.values()),
            "intervals rebuilt for them": len(lines),
            "rows not named by the ledger": len(unexplained),
            "readings of whole intervals": reader.readings,
        }, wrong


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run it; returns the result with what is `wrong`."""
    begins = time.monotonic()
    folder = Path(options.home).resolve() / NAME
    disk = Disk(folder / "home" / "tables", options.disk)
    disk.unmount()
    home = folder / "home"
    shutil.rmtree(folder, ignore_errors=True)
    home.mkdir(parents=True)
    journal = Journal(folder / "journal")
    if why := disk.mount():
        journal.say(f"without a full disk: a small file system cannot be mounted here ({why})")
    with removed(disk, folder), traffic.broker(home) as places:
        create_topics(places.kafka, {f"{NAME}.{side}": many for side, many in producer.PARTITIONS.items()})
        now, length = datetime.now(UTC), timedelta(seconds=options.interval)
        rules = truth.Rules(
            start=truth.start_of(now, length),
            interval=length,
            after=timedelta(seconds=WINDOW_S),
            grace=timedelta(seconds=GRACE_S),
            out_of_orderness=timedelta(seconds=OUT_OF_ORDERNESS_S),
        )
        file = home / "pipelines" / f"{NAME}.yaml"
        file.write_text(
            PIPELINE.format(
                name=NAME,
                start=rules.start,
                interval=options.interval,
                window=WINDOW_S,
                grace=GRACE_S,
                out_of_orderness=OUT_OF_ORDERNESS_S,
            )
        )
        ctx = Context(load(file, places.expectations), places)
        run = Soak(ctx, rules, folder, journal, Jobs(ctx, folder, journal), Broker(places))
        reader = truth.Whole(lambda: run.table("training"))
        seconds = max(60.0, options.minutes * 60 - END_S - (time.monotonic() - begins))
        notes, rebuilds = run.under_faults(options, seconds, disk, reader)
        run.finish()
        counts, wrong = run.judge(notes, reader)
        if wrong:
            shutil.copytree(folder / "home" / "tables", folder / "tables", dirs_exist_ok=True)
    return {
        "name": NAME,
        "about": {
            "minutes": options.minutes,
            "by": "Airflow" if options.airflow else "processes",
            "seed": options.seed,
            "faults": sum(journal.faults.values()),
            **counts,
            "rebuilds under faults": rebuilds,
        },
        "machine": machine(),
        "commit": commit(),
        "rounds": 1,
        "steps": [{"fault": kind, "survived": many} for kind, many in sorted(journal.faults.items())],
        "ends": dict(sorted(journal.ends.items())),
        "wrong": wrong,
    }


@contextmanager
def removed(disk: Disk, folder: Path) -> Iterator[None]:
    """Unmount the small file system at the end."""
    try:
        yield
    finally:
        disk.unmount()


def main() -> None:
    """Read the options, run, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="length of all (default 60)")
    parser.add_argument("--faults", type=int, default=0, help="go on until there were as many (default 0)")
    parser.add_argument("--seed", type=int, default=1, help="of faults and traffic (default 1)")
    parser.add_argument("--rate", type=float, default=60, help="served rows a second (default 60)")
    parser.add_argument("--interval", type=int, default=15, help="seconds (default 15)")
    parser.add_argument("--airflow", action="store_true", help="let Airflow run the DAGs, and kill its scheduler too")
    parser.add_argument("--disk", type=int, default=2048, help="MiB of memory for the tables' disk (default 2048)")
    parser.add_argument("--home", default=".windrow/benchmarks", help="folder for data")
    parser.add_argument("--result", help="file for the result (default: soak.json among the other results)")
    options = parser.parse_args()
    result = soak(options)
    target = Path(options.result) if options.result else Path(__file__).parent / "results" / f"{NAME}.json"
    target.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(f"{name:32} {value}" for name, value in result["about"].items()))
    print(sustained.table(result["steps"]))
    for line in result["wrong"]:
        print(f"WRONG {line}")
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
