"""Many pipelines on one broker, one Airflow and one engine: what one installation on one machine carries.

    .venv/bin/python benchmarks/many.py                                  100 pipelines, half an hour
    .venv/bin/python benchmarks/many.py --pipelines 10 --minutes 12      small
    .venv/bin/python benchmarks/many.py --daily --minutes 40             with the daily work of each
    .venv/bin/python benchmarks/many.py --pipelines 30 --busy 24 --slots 2 --minutes 12     what a pool keeps off

All parts are real: Kafka with two topics for each pipeline, the project's DAGs in a real Airflow, its jobs in the warm
engine. Only the traffic is small, --rate rows a minute for each pipeline and a click for every second one, so what is
measured is what a pipeline costs by existing: scheduling, starting tasks, waiting sensors, planning, commits. What rows
cost is in the other benchmarks, and has to be added. At the end the rows of every published interval are compared with
what was sent.

With --daily, a run of each pipeline's lag analysis and of its maintenance is triggered too, evenly over the second
half: closer together than their schedule has them, which gives each kind an hour of its own. No hour is over yet, so
maintenance merges nothing; reconciliation, which looks at yesterday, is left out. What both cost is in
`benchmarks/units.py`.

With --busy, so many of the pipelines are another team's: they land every minute, in intervals of a minute, more than
Airflow's six places carry. What busy and other pipelines wait is then said apart, to be compared with and without
--slots, the size of a pool for the busy ones.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from common.pipelines import pipeline_text
from common.side_by_side import commit, keep, machine
from confluent_kafka import Producer

from windrow import platform
from windrow.config import find
from windrow.home import Home
from windrow.io.registers import publications
from windrow.places import PROJECT, Places
from windrow.platform import Airflow, Broker, Engine, jobs_side
from windrow.platform.processes import free_port
from windrow.platform.servers.airflow_api import AirflowDoesNotAnswer, AirflowRefused
from windrow.semantics.intervals import grid_around
from windrow.simulate.producer import create_topics
from windrow.text import instant_text, parse_duration

BUSY = "busy"
"""Name of the pool of the busy pipelines."""
OURS = "p___"
"""Pattern of the pipelines' names; those of the project itself stay paused."""
TASKS = ("land", "wait", "join", "check", "publish", "lag_impact", "maintenance")
DAILY = ("lag_impact", "maintenance")
ENDED = ("success", "skipped", "failed", "up_for_retry", "upstream_failed")
LAST = 3
"""Minutes at the end of a measurement in which no daily run begins, so that all of them end."""


@dataclass
class Traffic:
    """A row for every pipeline, again and again, and a click for every second row."""

    kafka: str
    names: list[str]
    rate: float
    """rows a minute of a pipeline"""
    sent: Counter[datetime] = field(default_factory=Counter)
    """rows of each pipeline, by whole minute"""

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._send, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _send(self, stop: threading.Event) -> None:
        producer, number = Producer({"bootstrap.servers": self.kafka}), 0
        while not stop.wait(60 / self.rate):
            now, number = datetime.now(UTC), number + 1
            for name in self.names:
                key = {"user_id": number, "item_id": 1}
                served = {"request_id": f"r{number}", **key, "served_at": instant_text(now)}
                producer.produce(f"{name}.served", json.dumps(served))
                if number % 2:
                    click = {"event_id": f"c{number}", **key, "engaged_at": instant_text(now)}
                    producer.produce(f"{name}.clicks", json.dumps(click))
            producer.flush(30)
            self.sent[now.replace(second=0, microsecond=0)] += 1


def home_of(options: argparse.Namespace) -> Path:
    """A fresh home with the pipeline files."""
    home = Path(options.home).absolute() / "many"
    shutil.rmtree(home, ignore_errors=True)
    (home / "pipelines").mkdir(parents=True)
    start, _ = grid_around(datetime.now(UTC), parse_duration(options.interval))  # no interval waits already
    for number in range(options.pipelines):
        name, is_busy = f"p{number:03}", number < options.busy
        interval, land_every = ("1m", "1m") if is_busy else (options.interval, options.land_every)
        pool = f"pool: {BUSY}\n" if is_busy and options.slots else ""
        text = pipeline_text(
            name,
            instant_text(start),
            interval,
            "1m",
            topics=f"{name}.",
            served_disorder="10s",
            clicks_disorder="10s",
            grace="0s",
            more=f"land_every: {land_every}\nidle: {{mode: caught_up, after: 30s}}\n{pool}",
        )
        (home / "pipelines" / f"{name}.yaml").write_text(text)
    return home


def parsing(airflow: Airflow) -> dict[str, float]:
    """Seconds of wall clock and CPU to start Airflow's code, and to make all DAGs once as the DAG processor does."""
    found = {}
    for name, program in (("import", "import windrow_airflow.factory"), ("parse", "import runpy; runpy.run_path(F)")):
        began, before = time.monotonic(), os.times()
        program = program.replace("F", repr(str(PROJECT / "dags" / "factory.py")))
        subprocess.run([sys.executable, "-c", program], env=airflow.environment(), check=True, capture_output=True)
        after = os.times()
        found[f"{name} wall"] = round(time.monotonic() - began, 2)
        found[f"{name} cpu"] = round(sum(after[2:4]) - sum(before[2:4]), 2)
    return found


def unpause(airflow: Airflow, kinds: tuple[str, ...], expected: int) -> None:
    """Wait until every DAG is there, and unpause the kinds."""
    while True:
        try:
            if airflow.api.get("/api/v2/dags", limit=1)["total_entries"] >= expected:
                break
        except (AirflowDoesNotAnswer, AirflowRefused):
            pass
        time.sleep(1)
    for kind in kinds:
        airflow.api.call("PATCH", f"/api/v2/dags?limit=100&dag_id_pattern={OURS}.{kind}", {"is_paused": False})


def pass_time(airflow: Airflow, options: argparse.Namespace, names: list[str]) -> None:
    """Let the time of the measurement pass; with --daily, trigger the daily runs in its second half."""
    if not options.daily:
        time.sleep(options.minutes * 60)
        return
    time.sleep(options.minutes * 30)
    for name in names:
        began = time.monotonic()
        for kind in DAILY:
            airflow.api.call("POST", f"/api/v2/dags/{name}.{kind}/dagRuns", {"logical_date": None})
        time.sleep(max(0, 60 * (options.minutes / 2 - LAST) / len(names) - (time.monotonic() - began)))
    time.sleep(60 * LAST)


def use(parts: dict[str, psutil.Process]) -> dict[str, tuple[float, float]]:
    """CPU seconds so far, ended children included, and MiB of memory that is not shared, of each part."""
    found = {}
    for name, leader in parts.items():
        cpu = memory = 0.0
        for one in (leader, *leader.children(recursive=True)):
            try:
                times = one.cpu_times()
                cpu += times.user + times.system + times.children_user + times.children_system
                memory += one.memory_full_info().uss
            except psutil.Error:
                continue
        found[name] = (cpu, memory / 2**20)
    return found


def tasks(database: Path, since: datetime) -> list[dict[str, Any]]:
    """The task instances that were scheduled since then."""
    query = (
        "select t.dag_id, t.task_id, t.state, t.scheduled_dttm, t.start_date, t.end_date, r.run_after "
        "from task_instance t join dag_run r on r.dag_id = t.dag_id and r.run_id = t.run_id "
        "where coalesce(t.scheduled_dttm, t.start_date) >= ? and t.dag_id like ?"
    )
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query, (f"{since:%Y-%m-%d %H:%M:%S}", f"{OURS}.%"))]


def _seconds(rows: list[dict[str, Any]], first: str, last: str) -> list[float]:
    both = [(row[first], row[last]) for row in rows if row[first] and row[last]]
    return [(datetime.fromisoformat(b) - datetime.fromisoformat(a)).total_seconds() for a, b in both]


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {"count": 0}
    return {
        "count": len(values),
        "median": round(statistics.median(values), 2),
        "p95": round(sorted(values)[int(0.95 * (len(values) - 1))], 2),
        "most": round(max(values), 2),
    }


def compared(places: Places, traffic: Traffic) -> dict[str, int]:
    """How many intervals are published, of how many pipelines, and how many of them have other rows than were sent."""
    rows = [
        (name, row)
        for name in traffic.names
        for row in publications.registered(Home(find(name, places.pipelines, places.expectations), places))
    ]
    wrong = sum(
        row["rows"] != sum(n for at, n in traffic.sent.items() if row["interval"] <= at < row["interval_end"])
        for _, row in rows
    )
    of = len({name for name, _ in rows})
    return {"intervals published": len(rows), "of pipelines": of, "with other rows than sent": wrong}


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run, and return the figures."""
    home = home_of(options)
    environ = {**os.environ, "WINDROW_HOME": str(home), "WINDROW_TABLES": "", "WINDROW_KAFKA_CLIENT": ""}
    environ |= {"WINDROW_AIRFLOW_PORT": str(free_port()), "WINDROW_KAFKA": f"127.0.0.1:{free_port()}"}
    os.environ.update(environ)
    places = replace(Places.from_env(environ), pipelines=(home / "pipelines",))
    names = [f"p{number:03}" for number in range(options.pipelines)]
    traffic = Traffic(places.kafka, names, options.rate)
    airflow, broker, warm = Airflow(places, environ), Broker(places), Engine(places)
    try:
        broker.start()
        create_topics(places.brokers, {f"{name}.{topic}": 1 for name in names for topic in ("served", "clicks")})
        warm.start(jobs_side.here(places), platform.engine_environment(places))
        airflow.start()
        warm.wait()
        found: dict[str, Any] = {"seconds to make all DAGs": parsing(airflow)}
        if options.slots:
            airflow.api.call("POST", "/api/v2/pools", {"name": BUSY, "slots": options.slots, "include_deferred": False})
        with traffic.running():
            unpause(airflow, ("land", "training", *(DAILY if options.daily else ())), 7 * options.pipelines)
            known = {**airflow.processes, "engine": warm.process, "kafka": broker.nodes[0].process}
            parts = {name: process for name, part in known.items() if (process := part.process())}
            began, before = datetime.now(UTC), use(parts)
            pass_time(airflow, options, names)
            after, rows = use(parts), tasks(airflow.folder / "airflow.db", began)
    finally:
        airflow.stop()
        warm.stop()
        broker.stop()
    daily = {
        kind: [sum(row["task_id"] == kind and row["state"] in of for row in rows) for of in (("success",), ENDED)]
        for kind in (DAILY if options.daily else ())
    }
    more = {"daily runs: succeeded, and ended": daily} if options.daily else {}
    return {**found, **figures(options, rows, before, after), **more, **compared(places, traffic), **runs_of(warm)}


def figures(
    options: argparse.Namespace,
    rows: list[dict[str, Any]],
    before: dict[str, tuple[float, float]],
    after: dict[str, tuple[float, float]],
) -> dict[str, Any]:
    """What the task instances and the use of the parts say."""
    done = [row for row in rows if row["state"] == "success"]
    found = {
        "tasks ended a minute": round(len(done) / options.minutes, 1),
        "tasks failed": sum(row["state"] in ("failed", "up_for_retry") for row in rows),
        **waits(rows),
        "deferred sensors at the end": sum(row["state"] == "deferred" for row in rows),
        "cores and MiB, by process": {
            name: [round((after[name][0] - before[name][0]) / (60 * options.minutes), 3), round(after[name][1])]
            for name in after
        },
    }
    if options.busy:
        busy = {f"p{number:03}" for number in range(options.busy)}
        found["busy pipelines"] = waits([row for row in rows if row["dag_id"].split(".")[0] in busy])
        found["other pipelines"] = waits([row for row in rows if row["dag_id"].split(".")[0] not in busy])
    return found


def waits(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many landings were due and are done, and what tasks wait and take."""
    done = [row for row in rows if row["state"] == "success"]
    published = [row for row in done if row["task_id"] == "publish"]
    by_task = {name: [row for row in done if row["task_id"] == name] for name in TASKS if name != "wait"}
    # the start of `wait` is the one before it was deferred
    return {
        "land: due, and ended": [sum(row["task_id"] == "land" for row in group) for group in (rows, done)],
        "seconds from due to started": {
            name: _spread(_seconds(of, "scheduled_dttm", "start_date")) for name, of in by_task.items()
        },
        "seconds that a task takes": {
            name: _spread(_seconds(of, "start_date", "end_date")) for name, of in by_task.items()
        },
        "seconds from a window's close to published": _spread(_seconds(published, "run_after", "end_date")),
    }


def runs_of(warm: Engine) -> dict[str, int]:
    """How many jobs the engine has run, and how often Java was started."""
    lines = warm.process.log.read_text().splitlines()
    return {
        "jobs in the engine": sum(" ended with " in line for line in lines),
        "starts of Java": sum(line == "the engine takes jobs" for line in lines),
    }


def main() -> None:
    """Read the options, run, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--minutes", type=float, default=30, help="length of the measurement (default 30)")
    parser.add_argument("--interval", default="10m", help="length of an interval (default 10m)")
    parser.add_argument("--land-every", default="10m", help="how often each pipeline lands (default 10m)")
    parser.add_argument("--rate", type=float, default=6, help="rows a minute of a pipeline (default 6)")
    parser.add_argument("--daily", action="store_true", help="also lag analysis and maintenance of each")
    parser.add_argument("--busy", type=int, default=0, help="how many of them are busy (default none)")
    parser.add_argument("--slots", type=int, default=0, help="size of a pool for the busy ones (default: no pool)")
    parser.add_argument("--home", default=".windrow/benchmarks", help="folder for data")
    options = parser.parse_args()
    if options.daily and options.busy:
        parser.error("--daily and --busy are two measurements")
    about = {name: value for name, value in vars(options).items() if name != "home"}
    found = measured(options)
    kind = "_daily" if options.daily else "" if not options.busy else "_pool" if options.slots else "_busy"
    keep({"name": f"many{kind}", "about": {**about, **found}, "machine": machine(), "commit": commit()})
    for what, value in {**about, **found}.items():
        print(f"{what:44} {value}")


if __name__ == "__main__":
    main()
