"""The pipeline under a real Airflow: its own DAGs land, train, rebuild and compact, and its scheduler is killed too.

Airflow needs some minutes of two cores before the first interval is published, so this form is for an hour; in five
minutes `work.Lanes` meets ten times as many faults. A failed run is not tried again by hand: the next one takes its
intervals along, and what is missing at the end is published by the command.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import psutil
from soaking.work import Journal

from windrow.io.registers import publications
from windrow.jobs.run import Context
from windrow.platform.conditions import DidNotStart
from windrow.platform.processes import free_port
from windrow.platform.servers.airflow import Airflow
from windrow.platform.servers.airflow_api import AirflowDoesNotAnswer, AirflowRefused

KINDS = ("land", "training", "rebuild", "maintenance")
ASKS = "a person must look"
"""What a task's log says after exit code 70."""


class Scheduled:
    """Airflow with the DAGs of one pipeline, and a thread that sends the forms of rebuild and maintenance."""

    def __init__(self, ctx: Context, seed: int, journal: Journal) -> None:
        self._ctx, self._seed, self._journal = ctx, seed, journal
        places = replace(ctx.places, spark_master="local[2]")
        self._airflow = Airflow(places, {**os.environ, "WINDROW_AIRFLOW_PORT": str(free_port())})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._care)
        self.harmed: set[int] = set()
        self.rebuilds = 0

    def start(self) -> None:
        """Start Airflow, and let its DAGs run."""
        self._journal.say("Airflow starts")
        try:
            self._airflow.start()
            self._unpause()
        except BaseException:
            self._airflow.stop()
            raise
        self._journal.say("Airflow is up")
        self._thread.start()

    def _unpause(self) -> None:
        """Let the DAGs run, once they have been read."""
        api, wanted = self._airflow.api, {self._dag(kind) for kind in KINDS}
        until = time.monotonic() + 300
        while not wanted <= {dag["dag_id"] for dag in api.dags()}:
            if time.monotonic() > until:
                raise SystemExit(f"the DAGs of the pipeline are not there: {api.import_errors()}")
            time.sleep(1)
        for dag in wanted:
            api.unpause(dag)

    def stop(self) -> None:
        """Stop Airflow, and count how its runs ended."""
        self._stop.set()
        self._thread.join()
        with suppress(AirflowDoesNotAnswer, AirflowRefused, DidNotStart):
            self._airflow.start()
            api = self._airflow.api
            for kind in KINDS:
                runs = api.dag_runs(self._dag(kind))
                self._journal.ends.update(Counter(f"{kind} run {run['state']}" for run in runs))
                self.rebuilds += sum(run["state"] == "success" for run in runs) if kind == "rebuild" else 0
        self._airflow.stop()
        for log in sorted((self._airflow.folder / "logs").rglob("*.log")):
            if log.is_file() and ASKS in (text := log.read_text(errors="replace")):
                self._journal.alarms.append(f"{log}: {text[-2500:]}")

    def process(self, job: str) -> psutil.Process | None:
        """The topmost process of a running job."""
        with suppress(psutil.Error):
            return next(self._processes(job), None)
        return None

    def _processes(self, job: str) -> Iterator[psutil.Process]:
        home = str(self._ctx.places.home)
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                script = next((n for n, word in enumerate(words) if word.endswith("/run_job.py")), len(words))
                is_job = words[script + 1 : script + 3] == [job, self._ctx.pipeline.name]
                if is_job and process.environ().get("WINDROW_HOME") == home:
                    yield process

    def kill_scheduler(self, rng: random.Random) -> None:
        """Kill the scheduler, alone or with all of its tasks, and start it again."""
        scheduler = self._airflow.processes["scheduler"]
        is_alone = rng.random() < 0.5
        tree = [found for found in [scheduler.process()] if found] if is_alone else list(scheduler.tree())
        if not tree:
            return
        self._journal.fault("kill the scheduler", "alone" if is_alone else "with its tasks")
        for process in tree:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(tree, timeout=20)
        self._patiently(self._airflow.start)

    def freeze_scheduler(self, rng: random.Random) -> None:
        """Freeze the scheduler for some seconds."""
        frozen, lasting = self._airflow.processes["scheduler"].process(), rng.uniform(5, 30)
        if frozen is None:
            return
        self._journal.fault("freeze the scheduler", f"{lasting:.0f} s")
        frozen.suspend()
        self._stop.wait(lasting)
        frozen.resume()

    def _care(self) -> None:
        rng = random.Random(f"{self._seed}/care")
        while not self._stop.wait(rng.uniform(20, 60)):
            if rng.random() < 0.3:
                self._patiently(lambda: self._airflow.api.trigger(self._dag("maintenance"), {"retention": "7d"}))
                continue
            standing: dict[datetime, Any] = {}
            with suppress(Exception):  # a full disk, or a table that is just being made
                standing = publications.standing(publications.registered(self._ctx.home))
            if standing:
                begin = rng.choice(sorted(standing))
                end = min(
                    begin + rng.randrange(1, 4) * self._ctx.pipeline.interval,
                    max(standing) + self._ctx.pipeline.interval,
                )
                form = {
                    "from": begin.isoformat(),
                    "to": end.isoformat(),
                    "reason": "soak",
                    "dry_run": False,
                    "all": True,
                }
                self._patiently(lambda form=form: self._airflow.api.trigger(self._dag("rebuild"), form))

    def _patiently(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (AirflowDoesNotAnswer, AirflowRefused, DidNotStart) as problem:
            self._journal.say(f"Airflow: {str(problem)[:300]}")

    def _dag(self, kind: str) -> str:
        return f"{self._ctx.pipeline.name}.{kind}"
