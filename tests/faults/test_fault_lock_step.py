"""Two writers commit to one table at the same moment, round after round, without a lock: no commit is lost or doubled.

delta-rs   ──┐ round n        a folder: both link a file to the next version, and one link fails
             ├──▶ version v   a store: both PUT the key of the next version, and one PUT fails
Spark      ──┘                the loser looks at the log, and takes the version after it
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing import get_context

import pytest
from pyspark.sql import SparkSession

from support.broken.lock_step import PATIENCE, SCHEMA, commit_each_round, message, spark_commit
from support.broken.lossy import Lossy
from windrow.io.delta import appending, tables
from windrow.places import Places
from windrow.platform.servers.store import Store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROUNDS = int(os.environ.get("WINDROW_ROUNDS", "60"))
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


@pytest.fixture
def lossy(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossy]:
    """A way to the store on which the first answer to every commit is lost; delta-rs takes it."""
    (store.folder / "data" / "lossy").mkdir(exist_ok=True)
    with Lossy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


def test_a_commit_whose_answer_is_lost_is_found_and_not_made_again(lossy: Lossy, root: None) -> None:
    """The store has taken the commit, the writer gets an error, and the writer must say that it was made."""
    table = "s3://windrow/lost-answers/table"
    for n in range(5):
        tables.append_once(table, SCHEMA, [{"round": n}], app_id="app", version=n + 1)
        tables.append_next(table, SCHEMA, [{"round": 100 + n}], app_id="other")
    assert lossy.lost >= 10
    assert sorted(row["round"] for row in tables.read(table)) == [*range(5), *range(100, 105)]
    with pytest.raises(tables.WriteSkipped):
        tables.append_once(table, SCHEMA, [{"round": 7}], app_id="app", version=5)


def test_a_commit_by_spark_whose_answer_is_lost_is_made_once(spark: SparkSession, lossy: Lossy, root: None) -> None:
    bucket = "s3://lossy"
    conf = spark._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    conf.set("fs.s3a.bucket.lossy.endpoint", lossy.url)
    for n in range(3):
        rows = spark.range(n, n + 1).write.format("delta").mode("append")
        rows.option("txnAppId", "app").option("txnVersion", str(n + 1)).save(f"{bucket}/table")
    assert lossy.lost == 3
    appending.append(
        spark.range(3, 5), f"{bucket}/table", tables.at(f"{bucket}/table"), app_id="app", version=4, message="{}"
    )
    assert lossy.lost == 4
    assert sorted(row["id"] for row in spark.read.format("delta").load(f"{bucket}/table").collect()) == [0, 1, 2, 3, 4]
    assert tables.version_of(f"{bucket}/table", "app") == 4
