"""Landing commits: rows and offsets of a batch in one commit, which is the record of what has landed.

The batch number is the transaction version of the landing table, so a batch is committed once or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import BATCH
from windrow.home import Home
from windrow.io.delta import scan, tables
from windrow.io.delta.lookup import Range
from windrow.outcomes import NeedsPerson
from windrow.semantics.landing.batch import Batch

APP_ID = "windrow.landing"
RECORDS_PER_FILE = 250_000


class CommitsLost(NeedsPerson):
    """A landing table lacks batches that the clock or a plan counts on. A retry does not help: a person must look."""


class Committed(NamedTuple):
    """A batch as its commit records it."""

    batch: Batch
    rows: int | None
    """rows that Spark reported to have written; None where the commit does not record it"""


def append(rows: DataFrame, path: str, batch: Batch) -> None:
    """Append a batch in one Delta commit that carries its offsets.

    Args:
        rows: landing rows of the batch (`transforms.decode`).
        path: location of the topic's landing table; created if missing.

    Raises:
        WriteSkipped: another writer has committed a batch of this number.
    """
    (
        rows.coalesce(max(1, -(-batch.size // RECORDS_PER_FILE)))
        .write.format("delta")
        .mode("append")
        .option("mergeSchema", "true")
        .option("txnAppId", APP_ID)
        .option("txnVersion", str(batch.number))
        .option("userMetadata", batch.to_json())
        .save(path)
    )
    # Delta skips a commit of a known version without an error, so the commit is read back.
    written = committed(path, batch.number)
    if written is None or written.batch != batch:
        raise tables.WriteSkipped(
            f"{path}: batch {batch.number} in the table is not the one this run wrote; another writer was "
            "faster. Run again: it will go on from what is there."
        )


def committed(path: str, number: int) -> Committed | None:
    """Return the landing commit with this batch number; None if it is not in the log."""
    for commit in tables.commits(path):
        batch = Batch.from_json(commit.message)
        if batch.number <= number:
            return Committed(batch, commit.rows) if batch.number == number else None
    return None


def committed_after(path: str, number: int) -> Iterator[Committed]:
    """Yield the landing commits with a greater batch number, in order.

    Raises:
        RuntimeError: the table has a batch whose commit is no longer in the log.
    """
    for missing in range(number + 1, tables.version_of(path, APP_ID) + 1):
        commit = committed(path, missing)
        if commit is None:
            raise RuntimeError(
                f"{path}: batch {missing} is in the table but its commit is not in the log any more, "
                "so its offsets are unknown. Restore the table's _delta_log, or the clock table, from a backup."
            )
        yield commit


def refuse_lost(home: Home, newest: Mapping[str, int]) -> None:
    """Fail where a landing table is behind what is on record about it. Only its log is read.

    A label in a lost commit would look like one that never came, and its row like a negative.

    Args:
        newest: topic → batch that the table must hold, with all before it.

    Raises:
        CommitsLost: names the table and what it holds.
    """
    for topic, number in newest.items():
        path = home.landing(topic)
        present = _newest(path)
        if present < number:
            raise CommitsLost(
                f"{path} holds batches up to {present}, and batch {number} was landed: commits of its _delta_log were "
                "lost, or the table was restored from an older copy. Nothing was landed or published. Restore the "
                "folder with its _delta_log from a backup, then run again."
            )


def _newest(path: str) -> int:
    """Return the newest batch of the table by its last landing commit; 0 without a table.

    The transaction version alone would miss an emptied commit, because Delta's checksum files repeat it. It counts
    where the log has no landing commit any more.
    """
    last = next((Batch.from_json(commit.message).number for commit in tables.commits(path)), None)
    return max(0, tables.version_of(path, APP_ID)) if last is None else last


def rows_of(spark: SparkSession, path: str, number: int) -> DataFrame:
    """Return the landing rows of a committed batch."""
    rows = scan.rows(spark, path, (Range(BATCH, number, number),))
    assert rows is not None, "a committed batch has a table"
    return rows.where(F.col(BATCH) == number)
