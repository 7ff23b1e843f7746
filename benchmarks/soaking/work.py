"""The pipeline's jobs as processes, in three lanes side by side, each started again whatever becomes of it.

    landing    land --for …                                   over and over
    training   join → check → publish of the next interval    a step that fails is tried again under the same run key
    care       rebuild, maintenance, late                     in turn

The commands and options are those of the DAGs. A lane takes its own decisions from its own seeded random numbers.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from windrow.io.delta import crash_points
from windrow.io.registers import clocks, publications
from windrow.jobs.run import Context
from windrow.outcomes import ExitCode
from windrow.places import PROJECT
from windrow.platform import jars

JOB = Path(__file__).with_name("job.py")
TRIES = 4
"""of a step under one run key"""
POINT_SHARE = 0.15
"""Share of processes that kill themselves at a named point."""
CLOCK_SHARE = 0.25
"""Share of landing processes whose clock is off."""
BACK_S, AHEAD_S = 480, 15
"""How far at most. Further back than `max_skew`, records would count as ahead of their time."""
FINAL = (
    ExitCode.DONE,
    ExitCode.NOTHING_TO_DO,
    ExitCode.STILL_OPEN,
    ExitCode.BLOCKED,
    ExitCode.ANOTHER_WRITER,
)
"""Codes after which a task is not tried again under its run key."""
ALARMS = (ExitCode.BAD_INPUT, ExitCode.NEEDS_PERSON)
"""Codes that ask for a person: a fault may delay work, and is never a reason for one of these."""


@dataclass
class Journal:
    """What happened, as lines on the screen and in a file."""

    file: Path
    begins: float = field(default_factory=time.monotonic)
    faults: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        line = f"{time.monotonic() - self.begins:7.1f}  {text}"
        print(line, flush=True)
        with self.file.open("a") as lines:
            lines.write(line + "\n")

    def fault(self, kind: str, what: str = "") -> None:
        """Count a fault of the nemesis."""
        self.faults[kind] += 1
        self.say(f"FAULT {kind}{f': {what}' if what else ''}")


class Jobs:
    """Starts jobs as processes, and knows the running ones."""

    def __init__(self, ctx: Context, folder: Path, journal: Journal) -> None:
        self.ctx, self.journal = ctx, journal
        self._folder = folder / "jobs"
        self._folder.mkdir(parents=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._many = 0
        self._lock = threading.Lock()
        self.harmed: set[int] = set()
        """process ids that the nemesis has killed"""

    def process(self, job: str) -> psutil.Process | None:
        """The running process of a job."""
        started = self._running.get(job)
        with suppress(psutil.Error):
            if started is not None and started.poll() is None:
                return psutil.Process(started.pid)
        return None

    def run(self, job: str, *arguments: str, clock: int = 0, tool: str = "", **environ: str) -> tuple[int, Path]:
        """Run a job to its end; returns the exit code (negative: the signal) and the file of its output.

        Args:
            clock: seconds by which its clock is off.
            tool: "windrow" for the command of that name, where a job has it too.
            environ: further variables of its environment.
        """
        places = self.ctx.places
        with self._lock:
            self._many += 1
            log = self._folder / f"{self._many:04d}.{job}.log"
        env = {
            **os.environ,
            **jars.environment(places),
            "WINDROW_HOME": str(places.home),
            "WINDROW_KAFKA": places.kafka,
            "WINDROW_SPARK_MASTER": places.spark_master,
            "WINDROW_PIPELINES": "",
            "WINDROW_DEBUG": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "spark_jobs"), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "SOAK_CLOCK": str(clock),
            "SOAK_TOOL": tool,
            **environ,
        }
        if clock and job == "land":
            self.journal.fault("move the clock", f"{job} runs {clock:+d} s off")
        command = [sys.executable, str(JOB), job, self.ctx.pipeline.name, *arguments]
        with log.open("wb") as output:
            started = subprocess.Popen(
                command, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running[job] = started
            code = started.wait()
        point = environ.get("CRASH_AT")
        if code == -9 and point and started.pid not in self.harmed:
            self.journal.fault(f"kill {job}", f"at {point}")
        self.journal.ends[f"{job} {code}"] += 1
        name = ExitCode(code).name if code in list(ExitCode) else str(code)
        self.journal.say(f"{job} {' '.join(arguments)}: {name}  ({log.name})")
        if code in ALARMS and job != "override":  # which another run may have made needless
            self.journal.alarms.append(f"{job} ended with {code}: {log}\n{log.read_text(errors='replace')[-2500:]}")
        return code, log


class Lanes:
    """The three lanes, as threads."""

    def __init__(self, jobs: Jobs, seed: int) -> None:
        self._jobs, self._ctx, self._seed = jobs, jobs.ctx, seed
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._steady, args=(lane,)) for lane in (self._landing, self._training, self._care)
        ]
        self.rebuilds = 0
        self.harmed, self.process = jobs.harmed, jobs.process

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the processes that run end, and start no others."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _steady(self, lane: Callable[[random.Random], None]) -> None:
        rng = random.Random(f"{self._seed}/{lane.__name__}")
        while not self._stop.is_set():
            lane(rng)

    def _point(self, rng: random.Random, job: str) -> dict[str, str]:
        """By chance, the variable that makes a process kill itself at a named point."""
        steps = {"rebuild": ("join", "check", "publish")}.get(job, (job,))
        points = [point for point in crash_points.POINTS if point.partition(".")[0] in steps]
        return {"CRASH_AT": rng.choice(points)} if rng.random() < POINT_SHARE else {}

    def _landing(self, rng: random.Random) -> None:
        off = rng.choice([-rng.randrange(BACK_S), rng.randrange(1, AHEAD_S)]) if rng.random() < CLOCK_SHARE else 0
        self._jobs.run("land", "--for", "30s", "--every", "2s", clock=off, **self._point(rng, "land"))

    def _training(self, rng: random.Random) -> None:
        at = self._due()
        if at is None:
            self._stop.wait(0.5)
            return
        run = ("--run", f"soak__{time.time_ns()}")
        own = ("--interval", f"{at:%Y-%m-%dT%H:%M:%SZ}")
        for job, arguments in (("join", (*own, "--mode", "publish")), ("check", own), ("publish", ())):
            code = self._step(rng, job, (*run, *arguments))
            if code == ExitCode.BLOCKED:  # an outage of the labels looks like a fall of their rate: a person decides
                self._jobs.run("override", *own, "--reason", "soak", "--who", "soak", **self._point(rng, "publish"))
            if code != ExitCode.DONE:
                return  # a new run plans what is missing

    def _step(self, rng: random.Random, job: str, arguments: Sequence[str]) -> int:
        """One task and its retries; returns the last exit code."""
        code = -1
        for _ in range(TRIES):
            if self._stop.is_set():
                break
            without = {"WINDROW_WITHOUT_SPARK": "1"} if job == "publish" else {}
            code, _log = self._jobs.run(job, *arguments, **without, **self._point(rng, job))
            if code == ExitCode.NEEDS_SPARK:
                code, _log = self._jobs.run(job, *arguments, **self._point(rng, job))
            if code in (*FINAL, *ALARMS):
                break
        return code

    def _due(self) -> datetime | None:
        """Start of the oldest closed interval that is not published; None while there is none, or nothing is read."""
        with suppress(Exception):  # a table that is just being made, or a full disk
            home, pipeline = self._ctx.home, self._ctx.pipeline
            frontier = clocks.observe(home).frontier(pipeline)
            missing = publications.holes(pipeline, publications.starts_of(publications.registered(home)), frontier)
            return missing[0].start if missing else None
        return None

    def _care(self, rng: random.Random) -> None:
        if not self._standing():
            self._stop.wait(1)
            return
        job = rng.choice(("rebuild", "rebuild", "maintenance", "late"))
        if job == "maintenance":
            # under a clock that is a day ahead, so that there are hours and days to compact
            self._jobs.run(job, "--retention", "7d", clock=26 * 3600)
        elif job == "late":
            self._jobs.run(job)
        else:
            self._rebuild(rng)
        self._stop.wait(rng.uniform(1, 8))

    def _standing(self) -> dict[datetime, Any]:
        """Publications by interval; none while they cannot be read."""
        with suppress(Exception):  # a full disk, or a table that is just being made
            return publications.standing(publications.registered(self._ctx.home))
        return {}

    def _rebuild(self, rng: random.Random) -> None:
        standing = self._standing()
        if not standing:
            return
        begin = rng.choice(sorted(standing))
        end = begin + rng.randrange(1, 4) * self._ctx.pipeline.interval
        bounds = [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (begin, min(end, max(standing) + self._ctx.pipeline.interval))]
        given = ("--from", bounds[0], "--to", bounds[1], "--reason", "soak", "--all")
        code, log = self._jobs.run("rebuild", *given, **self._point(rng, "rebuild"))
        for _ in range(2):
            key = log.read_text(errors="replace").partition("--resume ")[2].split()[:1]
            if code >= 0 or not key or self._stop.is_set():
                break
            code, _log = self._jobs.run("rebuild", "--resume", *key, **self._point(rng, "rebuild"))
        self.rebuilds += code == ExitCode.DONE
