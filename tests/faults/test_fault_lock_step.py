"""Two writers commit to one table at the same moment, round after round, without a lock: no commit is lost or doubled.

delta-rs   ──┐ round n        a folder: both link a file to the next version, and one link fails
             ├──▶ version v   a store: both PUT the key of the next version, and one PUT fails
Spark      ──┘                the loser looks at the log, and takes the version after it
"""

from __future__ import annotations

import os
from multiprocessing import get_context

import pytest
from pyspark.sql import SparkSession

from support.broken.lock_step import PATIENCE, SCHEMA, commit_each_round, message, spark_commit
from windrow.io.delta import tables
from windrow.places import Places

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROUNDS = int(os.environ.get("WINDROW_ROUNDS", "30"))
"""`make faults` runs thousands, in several tables: the suite's store lists the whole log for each commit."""
IN_A_TABLE = 500


@pytest.mark.both_roots
@pytest.mark.parametrize("first", range(0, ROUNDS, IN_A_TABLE))
def test_no_version_is_won_twice_by_two_processes_in_lock_step(spark: SparkSession, places: Places, first: int) -> None:
    rounds = min(IN_A_TABLE, ROUNDS - first)
    table = places.table("feed", "race")
    tables.append_next(table, SCHEMA, [{"round": -1}], app_id="first")
    commit = spark_commit(spark, table)
    processes = get_context("spawn")
    together = processes.Barrier(2)
    other = processes.Process(target=commit_each_round, args=(table, rounds, together))
    other.start()
    won: dict[int, int] = {}
    try:
        for n in range(rounds):
            together.wait(PATIENCE)
            won[commit(n)] = n
        other.join(PATIENCE)
    finally:
        other.kill()
    assert other.exitcode == 0

    assert sorted(won.values()) == list(range(rounds))  # no version was given twice to the same writer
    assert {version: message(table, version) for version in won} == {version: str(n) for version, n in won.items()}
    rows = tables.read(table)  # nor to the other one after it
    assert sorted(row["round"] for row in rows) == list(range(-1, rounds))
