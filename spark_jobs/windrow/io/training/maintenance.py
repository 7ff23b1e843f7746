"""Maintenance of tables: compaction and vacuum change the files, and no row, publication or batch.

    files of a piece ─▶ read ─▶ the same rows, in row order, in few files ─▶ one commit that replaces the files and
                                                                              declares that no data changed

Such a commit carries no message, so code that looks for publications or landing batches in the history of a table
skips it. The table's lock is held for one piece at a time. Nothing is committed if the new files do not hold as many
rows as the old ones. A reader that began before keeps its files, because vacuum leaves them for the retention, and what
a snapshot keeps for good. Which files form a piece is decided in `semantics.maintenance`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import SparkSession

from windrow.columns import (
    ARRIVED_AT,
    BATCH,
    DATE,
    EVENT_TIME,
    INTERVAL,
    LANDING_META,
    PLAN,
    ROW_ORDER,
    TRAINING_STATISTICS,
)
from windrow.home import Home, Table
from windrow.io.delta import crash_points, files, store, tables
from windrow.io.delta.files import DataFile
from windrow.io.delta.locks import held
from windrow.io.delta.staging import files_in, own_folder
from windrow.io.registers import plans, snapshots
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.maintenance import HOUR, RETENTION, LandingFile, Piece, TrainingFile, require_safe
from windrow.semantics.plan import Plan
from windrow.text import counted


def landing_files(home: Home, topic: str) -> list[LandingFile]:
    """Return the data files of a landing table; those without statistics are left out."""
    files = _statistics(home.landing(topic), "path", "num_records", f"min.{BATCH}", f"max.{BATCH}", f"max.{ARRIVED_AT}")
    return [LandingFile(*values) for values in files if None not in values]


def training_files(home: Home) -> list[TrainingFile]:
    """Return the data files of the training table.

    Returns:
        One per file; bounds that the log does not have are None.
    """
    files = _statistics(home.table(Table.TRAINING), "path", "num_records", f"partition.{DATE}", f"min.{INTERVAL}")
    return [TrainingFile(*values) for values in files]


def _statistics(path: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of the data files of a table, one tuple per file; a column that the log lacks is None."""
    table = tables.opened(path)
    if table is None:
        return []
    files = tables.data_files(table)
    known = [name for name in columns if name in files.column_names]
    return [tuple(map(file.get, columns)) for file in files.select(known).to_pylist()]


def compact(
    spark: SparkSession, home: Home, path: str, lock: Table, piece: Piece, host_now: Callable[[], datetime]
) -> int:
    """Rewrite a piece of the table at `path`: the same rows, in row order, in as many files as they need.

    Args:
        path: location of the table.
        lock: the table whose writers' lock is taken.
        host_now: clock of this host, by which vacuum counts the retention of the replaced files.
    Returns:
        how many files fewer the table has; 0 where another process was faster.
    Raises:
        BalanceBroken: the new files would not hold as many rows as the old ones. Nothing was committed.
    """
    with held(home.lock(lock)):
        table = tables.opened(path)
        sizes = {} if table is None else _sizes(table, piece)
        if table is None or piece.paths != sizes.keys():  # another process was faster; the next run looks again
            return 0
        folder = own_folder(home.places.staging(home.pipeline.name), "compact")
        try:
            _stage(spark, path, piece, folder)
            added = _additions(path, piece, files_in(folder))
            _require_all_rows(path, piece, added)
            _commit(path, table, piece, added, sizes, host_now())
        finally:
            store.remove_all(folder)
    return len(piece.paths) - len(added)


def _sizes(table: DeltaTable, piece: Piece) -> dict[str, int]:
    """Return path → bytes of the data files that have rows of the piece; a file without statistics has none.

    Arrow chooses the files: a table of a year has thousands, each with dozens of statistics, and this is asked for each
    piece.
    """
    files = tables.data_files(table)
    if piece.batches is None:
        wanted = pc.field(f"partition.{DATE}") == pa.scalar(piece.day)
    elif {f"min.{BATCH}", f"max.{BATCH}"} <= set(files.column_names):
        first, last = piece.batches
        wanted = (pc.field(f"min.{BATCH}") <= last) & (pc.field(f"max.{BATCH}") >= first)
    else:
        return {}
    of_piece = files.filter(wanted)
    return dict(zip(of_piece["path"].to_pylist(), of_piece["size_bytes"].to_pylist(), strict=True))


def _condition(piece: Piece) -> str:
    """Return the SQL condition that selects exactly the rows of the piece."""
    if piece.batches is None:
        return f"{DATE} = DATE'{piece.day}'"
    first, last = piece.batches
    return f"{BATCH} >= {first} AND {BATCH} <= {last}"


def _stage(spark: SparkSession, path: str, piece: Piece, folder: str) -> None:
    """Write the rows of the piece to new files in `folder`, without the partition column, as the table has them."""
    rows = spark.read.format("delta").load(path).where(_condition(piece))
    few = rows.coalesce(1) if piece.wanted == 1 else rows.repartitionByRange(piece.wanted, EVENT_TIME)
    ordered = few.sortWithinPartitions(*ROW_ORDER)
    (ordered.drop(DATE) if piece.day else ordered).write.mode("overwrite").parquet(folder)


def _additions(path: str, piece: Piece, staged: Sequence[DataFile]) -> list[AddAction]:
    """Give the new files names in the folder of the table and return the log entries that add them."""
    columns = TRAINING_STATISTICS if piece.day else LANDING_META
    day = str(piece.day) if piece.day else None
    within = f"{DATE}={day}/" if day else ""
    names = {file.path: f"{within}part-compact-{file.name}" for file in staged}
    store.each(names, lambda file: store.copy(file, f"{path}/{names[file]}"))
    return [files.add_action(path, names[file.path], file, columns, day, data_change=False) for file in staged]


def _require_all_rows(path: str, piece: Piece, added: Sequence[AddAction]) -> None:
    found = sum(json.loads(action.stats)["numRecords"] for action in added)
    if found != piece.rows:
        raise BalanceBroken(
            f"{path}: compaction of {_condition(piece)} would bring {counted(found, 'row')} for {piece.rows}. "
            "Nothing was changed; a file of this table has no statistics, or holds rows of other batches. "
            "Report this if it stays."
        )


def _commit(
    path: str,
    table: DeltaTable,
    piece: Piece,
    added: Sequence[AddAction],
    removed: Mapping[str, int],
    now: datetime,
) -> None:
    """Replace the files in one commit; `removed`: path → bytes.

    It takes the version after the one that `table` was opened at, or fails. The lock keeps Windrow's own writers out
    between reading and committing.
    """
    day = str(piece.day) if piece.day else None
    gone = [files.remove_action(name, size, day, now, data_change=False) for name, size in removed.items()]
    tables.commit_files(
        path,
        table,
        [*added, *gone],
        identity=" ".join(sorted(action.path for action in added)),
        partition_by=[DATE] if day else (),
    )


def waiting_plans(home: Home) -> list[Plan]:
    """Return the plans whose candidates are in the table.

    Returns:
        In no order; plans that are not on record are left out.
    """
    table = tables.opened(home.table(Table.CANDIDATES))
    ids = {entry[PLAN] for entry in table.partitions()} if table is not None else set()
    return plans.of_ids(home, ids)


def kept_for(retention: timedelta) -> dict[str, str]:
    """Return the property by which the log of the training table remembers when each file left it.

    Where the log forgets that, a vacuum of all files that the log does not know goes by the date of the file instead.
    """
    return {"delta.deletedFileRetentionDuration": f"interval {max(retention, RETENTION) // HOUR} hours"}


def vacuum(home: Home, retention: timedelta) -> dict[str, int]:
    """Delete the files that no version of the last `retention` needs, and no snapshot; returns how many, by table.

    Raises:
        RetentionUnsafe: the retention is too short.
    """
    require_safe(retention)
    landing = [(f"landing/{topic}", home.landing(topic), Table.LANDING) for topic in home.pipeline.topics]
    others = [(str(table), home.table(table), table) for table in Table if table is not Table.LANDING]
    deleted = {}
    for name, path, lock in (*landing, *others):
        with held(home.lock(lock)):
            # under the lock, so that nothing is published and no snapshot taken between this look and the deletion
            if (table := tables.opened(path)) is not None:
                deleted[name] = _vacuum(path, table, retention, home if name == "training" else None)
    return deleted


def _vacuum(path: str, table: DeltaTable, retention: timedelta, of: Home | None) -> int:
    """Delete the dead files of a table that no snapshot keeps; return how many these are.

    Args:
        of: home whose snapshots keep files of this table; None where none do.
    """
    hours = int(retention / HOUR)
    if of is not None:
        tables.set_properties(table, kept_for(retention))
        dead = table.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True)
        spared = {file for named in snapshots.paths(of).values() for file in named}
        crash_points.point("vacuum.before_delete")  # a snapshot that is taken from here on has copies of its own
        return store.remove(path, set(dead) - spared)
    return len(table.vacuum(retention_hours=hours, dry_run=False, full=True))
