"""Maintenance in a process of its own, with a session of its own in a running Spark, again and again during a test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from windrow.config import load
from windrow.jobs.run import Context
from windrow.jobs.upkeep import maintain
from windrow.places import Places

PROCESSES = get_context("spawn")
WEEK = timedelta(days=7)
PATIENCE = 300
"""Seconds for a round: a session may start and files may be written beside two workers of the suite."""
FAILED = "maintenance failed: its trace is in the output of this test"


@contextmanager
def maintenance_that_never_rests(
    ctx: Context, now: datetime, joining: Mapping[str, str]
) -> Iterator[list[dict[str, Any]]]:
    """Maintain the tables of a pipeline while the body runs, under a clock that shows `now`.

    Args:
        joining: environment variables with which the process finds the Spark.
    Yields:
        What the rounds did: the first while the body runs, all of them when it has ended. The first is over before.
    """
    file = ctx.places.pipelines[0] / f"{ctx.pipeline.name}.yaml"
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_maintain, args=(ctx.places, file, now, dict(joining), there))
    process.start()
    there.close()
    done: list[dict[str, Any]] = []
    try:
        assert here.poll(PATIENCE), "the first round of maintenance has not ended"
        done += _received(here)
        assert done, FAILED
        yield done
        here.send("stop")
        process.join(PATIENCE)
        done += _received(here)
    finally:
        process.kill()
        process.join()
    assert process.exitcode == 0, FAILED


def _received(here: Connection) -> list[dict[str, Any]]:
    """Return what has been told so far."""
    received = []
    try:
        while here.poll():
            received.append(here.recv())
    except EOFError:
        pass  # all is said
    return received


def _maintain(places: Places, file: Path, now: datetime, joining: Mapping[str, str], told: Connection) -> None:
    """Maintain and tell what was done, until told to stop."""
    os.environ.update(joining)
    ctx = Context(load(file, places.expectations), places, now=lambda: now)
    while not told.poll():
        told.send(maintain.maintain(ctx, WEEK))
    told.recv()  # a connection with something unread is reset, and what was told last would be lost
