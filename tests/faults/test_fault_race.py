"""Turns spare writers work; commits alone keep rows: no row is lost or twice where every turn is broken.

Writers of both engines append to one table. Their clocks jump by an hour, they are stopped for longer than a lease
while they hold it, they are killed, and one has a copy that calls itself by the same names on another machine. The way
to the store loses the first answer to every conditional write: to each commit, and to each renewal of the lease.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path

import psutil
import pytest

from support.broken.lossy import Lossy
from support.broken.race import LENGTH, SCHEMA, Writer
from windrow.io.delta import tables
from windrow.places import Places
from windrow.platform.servers.store import Store

ROUNDS = int(os.environ.get("WINDROW_ROUNDS", "0"))
"""`make faults` has two Spark writers among them, and thousands of commits, in tables of 150 or more each."""
pytestmark = pytest.mark.timeout(3000 if ROUNDS else 600)
IN_A_TABLE = {"spark": 15, "delta-rs": 60} if ROUNDS else {"delta-rs": 10}
"""Commits of a writer of each engine in a store, whose list is slow; the slowest engine first."""
IN_A_FOLDER = {"spark": 45, "delta-rs": 300} if ROUNDS else IN_A_TABLE
"""So many that they last until a writer of each engine has been stopped and killed."""
ACTS = ("stopped", "killed")
PATIENCE = 300.0 if ROUNDS else 60.0


@pytest.fixture
def lossy(store: Store, places: Places, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossy | None]:
    """A way to the store on which the first answer to every conditional write is lost; None for a folder."""
    if not places.are_in_store:
        yield None
        return
    with Lossy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.mark.both_roots(long=True)
@pytest.mark.parametrize("first", range(0, ROUNDS or 1, 2 * sum(IN_A_TABLE.values())))
def test_no_row_is_lost_or_twice_where_every_turn_is_broken(
    places: Places, lossy: Lossy | None, tmp_path: Path, first: int
) -> None:
    table = places.table("feed", "race")
    tables.append_next(table, SCHEMA, [], app_id="first")
    writers = made_writers(places, table, tmp_path)
    done = raced(writers)

    rows = Counter((row["writer"], row["n"]) for row in tables.read(table))
    names = {writer.name: writer.rounds for writer in writers}
    assert rows == {(name, n): 1 for name, rounds in names.items() for n in range(rounds)}
    for writer in writers:
        told = [int(line[1]) for line in writer.journal if line[0] == "made"]
        assert {(writer.name, n) for n in told} <= set(rows)
    for what in ACTS:
        assert {engine for act, engine in done if act == what} == {writer.engine for writer in writers}, done
    assert overlaps(writers) > 0, "the turns were kept: this race has shown nothing"
    if lossy is not None:
        assert lossy.lost > len(rows)


def made_writers(places: Places, table: str, folder: Path) -> list[Writer]:
    """Two writers with each engine, of which the first has a copy; engines alternate."""
    writers = [
        Writer(f"{engine} {n}", engine, folder / f"{engine}-{n}", places, table, rounds)
        for n in (1, 2)
        for engine, rounds in (IN_A_TABLE if places.are_in_store else IN_A_FOLDER).items()
    ]
    copies = [replace(one, machine=folder / f"copy-{one.machine.name}") for one in writers if one.name.endswith("1")]
    return [*writers, *copies]


def raced(writers: list[Writer]) -> list[tuple[str, str]]:
    """Let the writers write, and stop and kill each in its turn; return what was done, and to which engine."""
    running: dict[Writer, psutil.Process] = {}
    done: list[tuple[str, str]] = []
    commits, engines = 2 * sum(IN_A_TABLE.values()), len(IN_A_TABLE)
    try:
        for engine in IN_A_TABLE:  # the fast ones would have ended before the slow ones have begun
            for one, process in running.items():
                until(lambda one=one, process=process: one.has_tried or has_ended(process), f"a commit of {one.name}")
            running |= {one: one.started() for one in writers if one.engine == engine}
        each_engine = [writers[n : n + engines] for n in range(0, len(writers), engines)]
        for act, writer in cycle((act, one) for some in each_engine for act in ACTS for one in some):
            until(lambda one=writer: one.is_at_work or has_ended(running[one]), f"a turn of {writer.name}")
            if has_ended(running[writer]):
                break
            if act == "killed":
                each(running[writer], psutil.Process.kill)
                running[writer] = writer.started()
            else:
                slept(running[writer], lambda one=writer: made(set(writers) - {one}))
            done.append((act, writer.engine))
            enough = made(writers) + commits // 20
            until(lambda n=enough: made(writers) >= n or any(map(has_ended, running.values())), "more commits")
        for writer, process in running.items():
            until(lambda one=process: has_ended(one), f"the end of {writer.name}", 5 * PATIENCE)
    finally:
        for process in running.values():
            each(process, psutil.Process.kill)
    return done


def made(writers: Iterable[Writer]) -> int:
    """Return the number of commits that they were told of."""
    return sum(writer.made for writer in writers)


def slept(process: psutil.Process, made_by_others: Callable[[], int]) -> None:
    """Stop a writer for longer than a lease, and until another writer has committed."""
    each(process, psutil.Process.suspend)
    before, began = made_by_others(), time.monotonic()
    try:
        with suppress(TimeoutError):  # the others have ended
            until(
                lambda: made_by_others() > before and time.monotonic() - began > 1.5 * LENGTH.total_seconds(),
                "a commit of another writer", 30.0,
            )  # fmt: skip
    finally:
        each(process, psutil.Process.resume)


def each(process: psutil.Process, act: Callable[[psutil.Process], None]) -> None:
    """Do something to a process and its children, a JVM for example."""
    with suppress(psutil.NoSuchProcess):
        for one in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                act(one)


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def until(is_so: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: it did not become true in time.
    """
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)


def overlaps(writers: list[Writer]) -> int:
    """Return how often two writers were in a turn at the same time, as far as each knew."""
    turns: list[tuple[float, float]] = []
    for writer in writers:
        starts = [float(line[1]) for line in writer.journal if line[0] == "holds"]
        ends = [float(line[1]) for line in writer.journal if line[0] == "gives"]
        # a killed turn has no end: the next turn of its writer ends it
        turns += [(start, min((end for end in ends if end > start), default=start)) for start in starts]
    turns.sort()
    return sum(after[0] < before[1] for before, after in pairwise(turns))
