"""Writers of one table that take turns as jobs do, and whose turns are worth nothing: clocks jump, and holders die.

A writer is a process: it takes the lock and the lease of the table, appends some rows, one per commit, and gives both
back. Its copy is a process of another machine that calls itself by the same names. What a writer is told of its
commits, it writes into a journal.
"""

from __future__ import annotations

import faulthandler
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from multiprocessing import get_context
from pathlib import Path

import psutil
import pyarrow as pa

from windrow.io.delta import appending, leases, locks, tables
from windrow.io.delta.locks import held
from windrow.jobs.spark import spark_for
from windrow.outcomes import AnotherWriter
from windrow.places import Lock, Places

PROCESSES = get_context("spawn")
SCHEMA = pa.schema([("writer", pa.string()), ("n", pa.int64())])
LENGTH = timedelta(seconds=2)
"""of a lease, so that pauses longer than one take seconds"""
TURN = 5
"""commits in one turn"""
_TRIED = {"made", "beaten"}
"""words of the journal after a try of a commit"""
STUCK_S = 600
"""of a turn and the wait for it, after which a writer says where it is and ends"""
JUMPS = [timedelta(), timedelta(seconds=5), timedelta(seconds=-5), timedelta(hours=1), timedelta(hours=-1)]


@dataclass(frozen=True)
class Writer:
    """One writer of the race."""

    name: str
    """app id of its commits; a copy has its original's"""
    engine: str
    """`spark` or `delta-rs`"""
    machine: Path
    """folder for lock files and the journal, which no other writer has"""
    places: Places
    table: str
    rounds: int

    def started(self) -> psutil.Process:
        """Start its process, which goes on where an earlier one of this writer ended."""
        self.machine.mkdir(exist_ok=True)
        process = PROCESSES.Process(target=_write, args=(self,), daemon=True)
        process.start()
        assert process.pid
        return psutil.Process(process.pid)

    @property
    def journal(self) -> list[list[str]]:
        """Lines of words, of all its processes: `starts`, `holds SECONDS`, `made N`, `beaten N`, `gives SECONDS`."""
        file = self.machine / "journal"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def made(self) -> int:
        """Number of commits that it was told of."""
        return sum(line[0] == "made" for line in self.journal)

    @property
    def has_tried(self) -> bool:
        """Whether its process has tried a commit."""
        return bool(_TRIED & set(self._words()))

    @property
    def is_at_work(self) -> bool:
        """Whether it is in a turn now, as far as it knows, and its process has tried a commit before."""
        words = self._words()
        return bool(_TRIED & set(words)) and words[-1] != "gives"

    def _words(self) -> list[str]:
        """Return the first words of the lines that its newest process has written into the journal."""
        words = [line[0] for line in self.journal]
        return words[len(words) - words[::-1].index("starts") :] if "starts" in words else []


def _write(writer: Writer) -> None:
    os.chdir(writer.machine)
    leases.LENGTH, leases.RENEWAL = LENGTH, LENGTH / 5
    leases.datetime = _Jumping  # type: ignore[misc,assignment]
    locks._identity = str  # by which a copy could be told from its original
    append = _appender(writer)
    lock = Lock(Path("race.lock"), writer.places.lock("feed", "race").lease)  # relative: a copy's has the same name
    with open("journal", "a", buffering=1) as journal:
        journal.write("starts\n")
        while (first := tables.version_of(writer.table, writer.name) + 1) < writer.rounds:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            _Jumping.jump = random.choice(JUMPS)
            with held(lock):
                journal.write(f"holds {time.monotonic()}\n")
                for n in range(first, min(first + TURN, writer.rounds)):
                    try:
                        append(n)
                    except AnotherWriter:  # its copy was faster
                        journal.write(f"beaten {n}\n")
                        break
                    journal.write(f"made {n}\n")
                journal.write(f"gives {time.monotonic()}\n")


def _appender(writer: Writer) -> Callable[[int], None]:
    """Return a function that appends the row of a round in one commit."""

    def by_delta_rs(n: int) -> None:
        row = {"writer": writer.name, "n": n}
        tables.append_once(writer.table, SCHEMA, [row], app_id=writer.name, version=n)

    if writer.engine == "delta-rs":
        return by_delta_rs
    spark = spark_for("race", replace(writer.places, spark_master="local[1]"))

    def by_spark(n: int) -> None:
        rows = spark.range(n, n + 1).selectExpr(f"'{writer.name}' as writer", "id as n")
        appending.append(rows, writer.table, tables.at(writer.table), app_id=writer.name, version=n, message="{}")

    return by_spark


class _Jumping(datetime):
    """The clock of a process, with an error that is another one in each turn."""

    jump = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.jump
