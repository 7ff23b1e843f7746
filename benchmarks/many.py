"""Many pipelines on one Airflow: what scheduling costs by itself, with jobs that do next to nothing.

    .venv/bin/python benchmarks/many.py                                  100 pipelines, a quarter of an hour
    .venv/bin/python benchmarks/many.py --pipelines 10 --minutes 5       small

A real Airflow with the project's DAGs runs `land` and `training` of every pipeline. Instead of a job a small script
runs (`many_job.py`): landing moves the pipeline's clock to the present, so that windows close; the other jobs say that
they are done. So what is measured is Airflow's own: parsing, scheduling, starting tasks, waiting sensors, memory. The
cost of the jobs is in the other benchmarks, and has to be added.
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
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from common.pipelines import pipeline_text
from common.side_by_side import RESULTS, commit, machine

from windrow.places import PROJECT, Places
from windrow.platform.processes import free_port
from windrow.platform.servers.airflow import Airflow
from windrow.platform.servers.airflow_api import AirflowDoesNotAnswer, AirflowRefused
from windrow.semantics.intervals import grid_around
from windrow.text import parse_duration

OURS = "p___"
"""Pattern of the pipelines' names; those of the project itself stay paused."""
SUBMIT = """#!/bin/sh
while [ "${{1#--}}" != "$1" ]; do shift 2; done
exec {python} "$@"
"""
PYTHON = """#!/bin/sh
if [ "$*" = "-m windrow.platform where" ]; then cat {side}; else exec {python} "$@"; fi
"""


def home_of(options: argparse.Namespace) -> Path:
    """A fresh home with the pipeline files, and with stand-ins for the jobs' Python and spark-submit."""
    home = Path(options.home).absolute() / "many"
    shutil.rmtree(home, ignore_errors=True)
    (home / "pipelines").mkdir(parents=True)
    start, _ = grid_around(datetime.now(UTC), parse_duration(options.interval))  # no interval waits already
    for number in range(options.pipelines):
        name = f"p{number:03}"
        text = pipeline_text(
            name,
            f"{start:%Y-%m-%dT%H:%M:%SZ}",
            options.interval,
            "1m",
            topics=f"{name}.",
            served_disorder="10s",
            clicks_disorder="10s",
            grace="0s",
            more=f"land_every: {options.land_every}\n",
        )
        (home / "pipelines" / f"{name}.yaml").write_text(text)
    side = {
        "python": sys.executable,
        "script": str(Path(__file__).with_name("many_job.py")),
        "spark_home": str(home / "spark"),
        "properties": str(home / "spark" / "none.conf"),
        "no_conf": str(home / "spark"),
    }
    _executable(home / "spark" / "bin" / "spark-submit", SUBMIT.format(python=sys.executable))
    (home / "side.json").write_text(json.dumps(side) + "\n")
    _executable(home / "python", PYTHON.format(side=home / "side.json", python=sys.executable))
    return home


def _executable(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def parsing(airflow: Airflow) -> dict[str, float]:
    """Seconds of wall clock and CPU to start Airflow's code, and to make all DAGs once as the DAG processor does."""
    found = {}
    for name, program in (("import", "import windrow_airflow.factory"), ("parse", "import runpy; runpy.run_path(F)")):
        began, before = time.monotonic(), os.times()
        program = program.replace("F", repr(str(PROJECT / "dags" / "factory.py")))
        subprocess.run([sys.executable, "-c", program], env=airflow.environment(), check=True, capture_output=True)
        after = os.times()
        found[f"{name} wall"] = time.monotonic() - began
        found[f"{name} cpu"] = sum(after[2:4]) - sum(before[2:4])
    return found


def unpause(airflow: Airflow, kinds: tuple[str, ...], expected: int) -> float:
    """Wait until every DAG is there, and unpause the kinds; returns the seconds that it took."""
    began = time.monotonic()
    while True:
        try:
            total = airflow.api.get("/api/v2/dags", limit=1)["total_entries"]
        except (AirflowDoesNotAnswer, AirflowRefused):
            total = 0
        if total >= expected:
            break
        time.sleep(1)
    seconds = time.monotonic() - began
    for kind in kinds:
        airflow.api.call("PATCH", f"/api/v2/dags?limit=100&dag_id_pattern={OURS}.{kind}", {"is_paused": False})
    return seconds


def use(airflow: Airflow) -> dict[str, tuple[float, float]]:
    """CPU seconds so far and MiB of memory of each component, its tasks' processes left out."""
    found = {}
    for name, process in airflow.processes.items():
        leader = process.process()
        if leader is not None:
            family = [
                leader,
                *[one for one in leader.children(recursive=True) if "run_job" not in " ".join(_words(one))],
            ]
            times = [one.cpu_times() for one in family if one.is_running()]
            memory = sum(one.memory_info().rss for one in family if one.is_running())
            cpu = sum(one.user + one.system + one.children_user + one.children_system for one in times)
            found[name] = (cpu, memory / 2**20)
    return found


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


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


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run, and return the figures."""
    home = home_of(options)
    environ = {**os.environ, "WINDROW_AIRFLOW_PORT": str(free_port()), "WINDROW_PYTHON": str(home / "python")}
    places = replace(Places.from_env(environ), home=home, pipelines=(home / "pipelines",), tables=None)
    airflow = Airflow(places, environ)
    try:
        airflow.start()
        found: dict[str, Any] = {"seconds to make all DAGs": {k: round(v, 2) for k, v in parsing(airflow).items()}}
        found["seconds until all DAGs are known"] = round(
            unpause(airflow, ("land", "training"), 7 * options.pipelines), 1
        )
        began, before = datetime.now(UTC), use(airflow)
        time.sleep(options.minutes * 60)
        after, rows = use(airflow), tasks(airflow.folder / "airflow.db", began)
    finally:
        airflow.stop()
    span = options.minutes * 60
    due = [row for row in rows if row["task_id"] == "land"]
    found["land: due, and ended"] = [len(due), sum(row["state"] == "success" for row in due)]
    done = [row for row in rows if row["task_id"] == "publish" and row["state"] == "success"]
    found["intervals published"] = len(done)
    found["tasks ended a minute"] = round(sum(row["state"] == "success" for row in rows) / options.minutes, 1)
    found["seconds from due to started, by task"] = {
        name: _spread(_seconds([row for row in rows if row["task_id"] == name], "scheduled_dttm", "start_date"))
        for name in ("land", "wait", "join", "check", "publish")
    }
    found["seconds from the window's close to published"] = _spread(_seconds(done, "run_after", "end_date"))
    found["deferred sensors at the end"] = sum(row["state"] == "deferred" for row in rows)
    found["cores and MiB, by process"] = {
        name: [round((after[name][0] - before[name][0]) / span, 3), round(after[name][1])] for name in after
    }
    return {
        "name": "many",
        "about": {"pipelines": options.pipelines, "interval": options.interval, "land_every": options.land_every,
                  "minutes": options.minutes, **found},
        "machine": machine(),
        "commit": commit(),
    }  # fmt: skip


def main() -> None:
    """Read the options, run, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--minutes", type=float, default=15, help="length of the measurement (default 15)")
    parser.add_argument("--interval", default="10m", help="length of an interval (default 10m)")
    parser.add_argument("--land-every", default="10m", help="how often each pipeline lands (default 10m)")
    parser.add_argument("--home", default=".windrow/benchmarks", help="folder for data")
    options = parser.parse_args()
    result = measured(options)
    (RESULTS / "many.json").write_text(json.dumps(result, indent=1) + "\n")
    for name, value in result["about"].items():
        print(f"{name:44} {value}")


if __name__ == "__main__":
    main()
