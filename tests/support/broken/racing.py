"""Writers whose leases protect nothing: clocks an hour apart, pauses longer than a lease, and a copied holder.

Each is a process that takes the lock of the table as the product does, commits some times, and gives the lock back.
Its leases last a second, its clock is wrong by `skew`, and two of them have one name and one lock file.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from support.broken.lock_step import SCHEMA, spark_commit
from windrow.io.delta import leases, locks, tables
from windrow.places import Lock, Places

LEASE = timedelta(seconds=1)
IN_ONE_HOLD = 10
"""Commits of a writer while it believes to be alone."""


@dataclass(frozen=True)
class Racer:
    """One writer of a race.

    Args:
        host: what it calls itself; two of them are a holder and its copy.
        skew: how far its clock is ahead.
        first: number of its first row or message; it makes `many`.
    """

    host: str
    skew: timedelta
    first: int
    many: int


@dataclass(frozen=True)
class Course:
    """What all writers of a race share."""

    table: str
    lease: str
    environ: Mapping[str, str]


Span = tuple[float, float]
"""When a writer held the lock, in seconds of the machine's clock."""


def by_delta_rs(racer: Racer, course: Course, folder: Path, done: Queue[Any]) -> None:
    """Append a row in each commit; puts the spans in which it held the lock."""
    os.environ.update(course.environ)

    def commit(n: int) -> None:
        while True:
            try:
                tables.append_next(course.table, SCHEMA, [{"round": n}], app_id="race")
                return
            except tables.WriteSkipped:  # others were faster twenty times: a job would be started again
                continue

    done.put(_run(racer, course, folder, commit))


def by_spark(racer: Racer, course: Course, folder: Path, places: Places, done: Queue[Any]) -> None:
    """Commit a message each time, with the log store of a Spark of its own; puts spans and version → message."""
    os.environ.update(course.environ)
    from windrow.jobs.spark import spark_for

    won: dict[int, int] = {}
    commit_one = spark_commit(spark_for("race", places), course.table)

    def commit(n: int) -> None:
        won[commit_one(n)] = n

    spans = _run(racer, course, folder, commit)
    done.put((spans, won))


def _run(racer: Racer, course: Course, folder: Path, commit: Callable[[int], None]) -> list[Span]:
    folder.mkdir(parents=True)
    os.chdir(folder)  # a lock file of the same name, on "another machine"
    socket.gethostname = lambda: racer.host
    leases.LENGTH, leases.RENEWAL = LEASE, LEASE / 4
    leases.datetime = _ahead_by(racer.skew)  # type: ignore[attr-defined]
    lock, spans = Lock(Path("race.lock"), course.lease), []
    for begin in range(racer.first, racer.first + racer.many, IN_ONE_HOLD):
        with locks.held(lock):
            since = time.monotonic()
            for n in range(begin, min(begin + IN_ONE_HOLD, racer.first + racer.many)):
                commit(n)
            spans.append((since, time.monotonic()))
    return spans


def _ahead_by(skew: timedelta) -> type[datetime]:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz or UTC) + skew

    return Ahead


def overlaps(spans: list[list[Span]]) -> int:
    """How often one writer held the lock while another held it too."""
    pairs = (
        (one, other) for n, mine in enumerate(spans) for theirs in spans[n + 1 :] for one in mine for other in theirs
    )
    return sum(one[0] < other[1] and other[0] < one[1] for one, other in pairs)
