"""Landing commits: rows and offsets of a batch in one commit, which is the record of what has landed.

A batch with undelivered offsets has a second commit without rows, its account: it says what these offsets are, as the
broker showed it then. Later the broker may have deleted them.

The batch number is the transaction version of the landing table, so a batch is committed once or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import (
    BATCH,
    EPOCH,
    ERASED,
    LANDING_META,
    LANDING_TYPES,
    QUARANTINED,
    RECONSIDERED,
    ROW_ID,
    UNREADABLE_VALUES,
)
from windrow.home import Home
from windrow.io import origins
from windrow.io.delta import appending, lookup, scan, tables
from windrow.io.delta.lookup import Has, Lookup, Range
from windrow.io.landing import joined
from windrow.outcomes import NeedsPerson
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing import spread
from windrow.semantics.landing.batch import Batch
from windrow.semantics.landing.held import NOTHING_HELD, Held, lacks
from windrow.semantics.landing.undelivered import Account, Committed
from windrow.transforms.given import given

APP_ID = "windrow.landing"
ACCOUNT_APP_ID = "windrow.account"
ERASURE = "erasure"
"""Kind of a commit that emptied rows of erased keys (rule 22); it is no batch."""


class CommitsLost(NeedsPerson):
    """A landing table lacks batches that the clock counts on. A retry does not help: a person must look."""


def append(rows: DataFrame, home: Home, batch: Batch, last_look: Callable[[], None] | None = None) -> None:
    """Append a batch in one Delta commit that carries its offsets.

    Args:
        rows: landing rows of the batch (`transforms.decode`).
        home: of the pipeline; the topic's landing table is created if missing.
        last_look: fails where keys were erased since they were read (`erasures.watch`).

    Raises:
        WriteSkipped: another writer has committed a batch of this number.
    """
    path = home.landing(batch.topic)
    if (present := tables.opened(path)) is not None:
        tables.keep_statistics(present, LANDING_META)
        joined.keep(present, [name for name in rows.columns if not name.startswith("_")], batch.number)
        origins.keep(present, home.pipeline, batch.topic)
    properties = {tables.STATISTICS: ",".join(LANDING_META)}
    table = appending.prepare(path, rows.schema, properties=properties)
    appending.append(
        rows.coalesce(spread.tasks(batch.size, rows.sparkSession.sparkContext.defaultParallelism)),
        path,
        table,
        app_id=APP_ID,
        version=batch.number,
        message=batch.to_json(),
        statistics=LANDING_META,
        last_look=last_look,
    )
    # the commit is the record, so it is read back
    written = committed(path, batch.number)
    if written is None or written.batch != batch:
        raise tables.WriteSkipped(
            f"{path}: batch {batch.number} in the table is not the one this run wrote; another writer was "
            "faster. Run again: it will go on from what is there."
        )
    if present is None and home.pipeline.origins(batch.topic) and (made := tables.opened(path)) is not None:
        origins.keep(made, home.pipeline, batch.topic)


def committed(path: str, number: int) -> Committed | None:
    """Return the landing commit with this batch number, and its account; None if it is not in the log.

    Args:
        path: location of the landing table.
        number: of the batch.
    """
    table, account = tables.opened(path), None
    for commit, fields in _messages(table) if table is not None else ():
        if fields["windrow"] == "account":
            account = Account.from_fields(fields) if fields["batch"] == number else account
        elif fields["number"] <= number:
            return (
                Committed(Batch.from_json(commit.message), commit.rows, account) if fields["number"] == number else None
            )
    return None


def committed_up_to(table: DeltaTable, number: int) -> Iterator[Committed]:
    """Yield the landing commits up to a batch number, newest first, as far as the log goes back."""
    accounts: dict[int, Account] = {}
    for commit, fields in _messages(table):
        if fields["windrow"] == "account":
            accounts[fields["batch"]] = Account.from_fields(fields)
        elif fields["number"] <= number:
            yield Committed(Batch.from_json(commit.message), commit.rows, accounts.get(fields["number"]))


def rows_held(table: Lookup, epoch: int, batch: int) -> int:
    """Return how many rows of an epoch a landing table holds up to a batch, without reconsidered ones.

    The log tells it of a file without other rows. Of the others three columns are read.
    """
    total, others = 0, []
    for file in table.files.to_pylist():
        least, most = file.get(f"min.{EPOCH}"), file.get(f"max.{EPOCH}")
        first, last = file.get(f"min.{BATCH}"), file.get(f"max.{BATCH}")
        if None in (least, most, first, last):
            others.append(file["path"])
        elif least <= epoch <= most and first <= batch:
            if least == most and last <= batch:
                plain = file.get(f"null_count.{RECONSIDERED}")
                total += file["num_records"] if plain is None else plain  # a file from before the column was added
            else:
                others.append(file["path"])
    wanted = (pc.field(EPOCH) == epoch) & (pc.field(BATCH) <= batch)
    if RECONSIDERED in table.schema.names:
        wanted = wanted & pc.field(RECONSIDERED).is_null()
    read = table.read_files(others, [BATCH], wanted)
    return total + sum(rows.num_rows for rows in read.values())


def _messages(table: DeltaTable) -> Iterator[tuple[tables.Commit, dict[str, Any]]]:
    """Yield the commits of batches and accounts with their messages, newest first."""
    for commit in tables.commits_of(table):
        fields = json.loads(commit.message)
        if fields["windrow"] != ERASURE:
            yield commit, fields


def append_account(path: str, account: Account) -> None:
    """Record the account of a committed batch, in a commit without rows. The caller holds the landing lock.

    Args:
        path: location of the landing table, which has the batch.
        account: what the undelivered offsets of the batch are.
    """
    table = tables.opened(path)
    assert table is not None, "a committed batch has a table"
    message = account.to_json()
    tables.commit_files(path, table, [], identity=message, message=message, transaction=(ACCOUNT_APP_ID, account.batch))


def erasure_message() -> str:
    """Return the message of a commit that empties rows of erased keys: no batch, and the ledger looks at everything."""
    return json.dumps({"windrow": ERASURE})


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


def held(path: str) -> Held:
    """Return what a landing table holds, from its log alone.

    The transaction version alone would miss an emptied commit, because a checksum file that Spark has written repeats
    it. It counts where the log has no landing commit any more.

    Raises:
        TableDamaged: a commit was emptied or cut.
    """
    table = tables.opened(path)
    if table is None:
        return NOTHING_HELD
    newest = next((commit for commit, fields in _messages(table) if fields["windrow"] == "landing"), None)
    if newest is None:
        return Held(max(0, table.transaction_version(APP_ID) or 0))
    last = Batch.from_json(newest.message)
    return Held(last.number, last.topic_id, {p: until for p, (_, until, _) in last.ranges.items()})


def refuse_lost(home: Home, clock: Sequence[ClockRow]) -> None:
    """Fail where a landing table is behind the clock. Only its log is read.

    Args:
        clock: rows of an observation that is not newer than the tables.

    Raises:
        CommitsLost: names the table and what it lacks.
    """
    for topic in home.pipeline.topics:
        path, known = home.landing(topic), [row for row in clock if row["topic"] == topic]
        present = held(path)
        if known and (lack := lacks(present, known)):
            replay = (
                f"; or let `windrow land {home.pipeline.name} --replay-lost --reason '…'` land the lost batches again, "
                "as far as Kafka still has their records"
            )
            raise CommitsLost(
                f"{path} {lack}: commits of its _delta_log were lost, or it was restored from an older copy. Nothing "
                "was landed or published. Restore the folder with its _delta_log from a backup"
                f"{replay if present.batch < known[0]['batch'] else ''}."
            )


def rows_of(spark: SparkSession, path: str, number: int) -> DataFrame:
    """Return the landing rows of a committed batch.

    Args:
        path: location of the landing table, which has the batch.

    Returns:
        One row per record, in no order; columns of newer releases are null where the table lacks them.
    """
    rows = scan.rows(spark, path, (Range(BATCH, number, number),))
    assert rows is not None, "a committed batch has a table"
    return _with_newer_columns(rows).where(F.col(BATCH) == given(number))


def size_of(path: str, number: int) -> int:
    """Return the bytes of the data files that hold rows of a committed batch, as the log tells them.

    Args:
        path: location of the landing table.
        number: of the batch. Where compaction has joined it with others, it has a share of the file by batches.
    """
    table = lookup.opened(path)
    if table is None:
        return 0
    files = table.files_with([Range(BATCH, number, number)])
    return sum(file["size_bytes"] // _batches_in(file) for file in files.to_pylist())


def _batches_in(file: Mapping[str, Any]) -> int:
    first, last = file.get(f"min.{BATCH}"), file.get(f"max.{BATCH}")
    return 1 if first is None or last is None else int(last - first + 1)


def quarantined(spark: SparkSession, path: str, batch: Batch) -> DataFrame | None:
    """Return the quarantined rows of a topic for which no reconsidered row stands; None if there can be none.

    Args:
        batch: rows landed before it, of its epoch, are returned.
    """
    bad = scan.rows(spark, path, (Has(QUARANTINED, value=True), Range(BATCH, most=batch.number - 1)))
    if bad is None:
        return None
    bad = _with_newer_columns(bad)
    bad = bad.where(
        (F.col(QUARANTINED) != ERASED) & (F.col(EPOCH) == given(batch.epoch)) & (F.col(BATCH) < given(batch.number))
    )
    again = reconsidered(spark, path, batch.number - 1)
    return bad if again is None else bad.join(again, on=list(ROW_ID), how="left_anti")


def without_replaced(rows: DataFrame, again: DataFrame) -> DataFrame:
    """Return landing rows without those that a reconsidered row stands for.

    The row that stands for a quarantined one has its id, and may be unreadable for one stream of several: it stays.

    Args:
        again: what `reconsidered` returns.
    """
    stands = again.withColumn("_stands", F.lit(True))
    kept = rows.join(stands, on=list(ROW_ID), how="left").where(
        F.col(RECONSIDERED).isNotNull() | F.col("_stands").isNull()
    )
    return kept.select(*rows.columns)


def reconsidered(spark: SparkSession, path: str, pin: int) -> DataFrame | None:
    """Return the row ids of the reconsidered rows up to a batch; None where no file can hold one, as the log shows.

    A quarantined row with one of these ids does not count any more.

    Args:
        path: location of the landing table.
        pin: last batch that counts.

    Returns:
        The columns of the row id, one row per reconsidered record.
    """
    files = (Has(RECONSIDERED, value=True), Range(BATCH, most=pin))
    if not scan.can_hold(path, files):
        return None
    rows = scan.rows(spark, path, files)
    assert rows is not None, "a file of the table can hold some"
    return rows.where(F.col(RECONSIDERED).isNotNull() & (F.col(BATCH) <= given(pin))).select(*ROW_ID)


def _with_newer_columns(rows: DataFrame) -> DataFrame:
    """Return the rows with the columns that a table of an earlier version lacks."""
    missing = [name for name in (UNREADABLE_VALUES, RECONSIDERED) if name not in rows.columns]
    for name in missing:
        rows = rows.withColumn(name, F.lit(None).cast(LANDING_TYPES[name]))
    return rows
