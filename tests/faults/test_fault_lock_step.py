"""Two processes that commit to one table in lock-step: every commit that was acknowledged is in the table."""

from __future__ import annotations

import json
import os
from multiprocessing import get_context
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.lock_step import SCHEMA, commit_each_round, commit_file, spark_commit
from windrow.io.delta import tables
from windrow.io.delta.locks import held

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROUNDS = int(os.environ.get("WINDROW_ROUNDS", "100"))
"""`make faults` runs thousands."""


def test_no_version_is_won_twice_by_two_processes_in_lock_step(spark: SparkSession, tmp_path: Path) -> None:
    table, lock = tmp_path / "table", tmp_path / "table.lock"
    tables.append_once(str(table), SCHEMA, [{"round": -1}])
    commit = spark_commit(spark, table)
    processes = get_context("spawn")
    together = processes.Barrier(2)
    other = processes.Process(target=commit_each_round, args=(table, lock, ROUNDS, together))
    other.start()
    won: dict[int, int] = {}
    try:
        for n in range(ROUNDS):
            together.wait(60)
            with held(lock):
                won[commit(n)] = n
        other.join(60)
    finally:
        other.kill()
    assert other.exitcode == 0

    assert sorted(won.values()) == list(range(ROUNDS))  # no version was given twice to the same writer
    kept = {version: _message(commit_file(table, version)) for version in won}
    assert kept == {version: str(n) for version, n in won.items()}  # nor to the other one after it
    rows = tables.read(str(table))
    assert sorted(row["round"] for row in rows) == list(range(-1, ROUNDS))


def _message(commit: Path) -> str | None:
    return next(
        json.loads(line)["commitInfo"].get("userMetadata")
        for line in commit.read_text().splitlines()
        if "commitInfo" in line
    )
