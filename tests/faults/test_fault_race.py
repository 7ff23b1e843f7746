"""Four writers of one table in a store, with leases that protect nothing and answers that are lost: no commit is.

delta-rs, an hour ahead  ──┐
delta-rs                 ──┤   locks of several machines, each lease a second long       a proxy that loses
Spark, an hour behind    ──┼─▶ any writer is stopped for longer than a lease        ───▶ the first answer      ──▶ store
Spark, a copy of another ──┘   two call themselves by one name                           to every commit
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.broken.lock_step import PATIENCE, SCHEMA, message
from support.broken.lossy import Lossy
from support.broken.racing import LEASE, Course, Racer, by_delta_rs, by_spark, overlaps
from windrow.io.delta import tables
from windrow.places import Places
from windrow.platform.servers.store import Store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]

COMMITS = int(os.environ.get("WINDROW_ROUNDS", "60"))
"""Of each of the four writers; `make faults` runs thousands, in several tables."""
IN_A_TABLE = 250
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("first", range(0, COMMITS, IN_A_TABLE))
def test_no_commit_is_lost_or_doubled_where_leases_protect_nothing(
    store: Store, session_places: Places, tmp_path: Path, first: int
) -> None:
    many = min(IN_A_TABLE, COMMITS - first)
    (store.folder / "data" / "race").mkdir(exist_ok=True)
    table = f"s3://race/{tmp_path.name}/table"
    tables.append_next(table, SCHEMA, [{"round": -1}], app_id="first")
    racers = [
        Racer(host, skew, number * many, many)
        for number, (host, skew) in enumerate([("a", HOUR), ("b", timedelta(0)), ("c", -HOUR), ("b", timedelta(0))])
    ]
    processes = get_context("spawn")
    with Lossy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        course = Course(table, f"s3://race/{tmp_path.name}/lease", {"AWS_ENDPOINT_URL": proxy.url})
        answers = [processes.Queue() for _ in racers]
        running: list[BaseProcess] = [
            processes.Process(target=by_delta_rs, args=(racer, course, tmp_path / str(n), answers[n]))
            if n < 2
            else processes.Process(target=by_spark, args=(racer, course, tmp_path / str(n), session_places, answers[n]))
            for n, racer in enumerate(racers)
        ]
        try:
            for one in running:
                one.start()
            _pause_in_turn(running, answers)
            *spans, (third, by_c), (fourth, by_b) = [answer.get(timeout=PATIENCE) for answer in answers]
            for one in running:
                one.join(PATIENCE)
        finally:
            for one in running:
                _end(one)
        lost = proxy.lost
    assert [one.exitcode for one in running] == [0, 0, 0, 0]

    assert overlaps([*spans, third, fourth]) > 0  # leases have protected nothing
    assert lost >= 4 * many  # each commit's answer, and those of checkpoints' markers
    rows = Counter(row["round"] for row in tables.read(table))
    assert rows == Counter([-1, *range(2 * many)])
    assert sorted([*by_c.values(), *by_b.values()]) == list(range(2 * many, 4 * many))
    won = {**by_c, **by_b}
    assert len(won) == 2 * many  # no version was given to both
    assert {version: message(table, version) for version in won} == {version: str(n) for version, n in won.items()}


def _pause_in_turn(running: Sequence[BaseProcess], answers: Sequence[Any]) -> None:
    """Stop one writer after the other, with its Java, for longer than a lease lasts, until all have answered."""
    for one, answer in itertools.cycle(zip(running, answers, strict=True)):
        if not any(other.is_alive() for other in running) or all(not other.empty() for other in answers):
            return
        if one.is_alive() and answer.empty():
            with suppress(psutil.Error):
                _signal(one, signal.SIGSTOP)
                time.sleep(2 * LEASE.total_seconds())
                _signal(one, signal.SIGCONT)
        time.sleep(LEASE.total_seconds())


def _signal(one: BaseProcess, number: signal.Signals) -> None:
    assert one.pid is not None
    tree = psutil.Process(one.pid)
    for process in (tree, *tree.children(recursive=True)):
        process.send_signal(number)


def _end(one: BaseProcess) -> None:
    if one.pid is not None:
        with suppress(psutil.Error):
            tree = psutil.Process(one.pid)
            for process in (*tree.children(recursive=True), tree):
                process.kill()
