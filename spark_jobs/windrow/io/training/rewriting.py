"""Files of a Delta table written again without what was erased: each file that holds rows of an erased key, no other.

    file with such rows ─▶ read, changed ─▶ one new file, in row order, or none ─▶ one commit that swaps the files

A new file stands for one old file: what was true of the old one (one interval, one batch) is true of the new one.
No deletion vector is used: a reader of version 1 sees the table as before. The caller holds the table's lock. Vacuum
deletes the old files after the retention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import DATE, FILE, ROW_ORDER
from windrow.home import Home
from windrow.io.delta import files, scan, store, tables
from windrow.io.delta.session import frame_of
from windrow.io.delta.staging import files_in, own_folder
from windrow.semantics.balance import BalanceBroken
from windrow.text import counted

AT_ONCE = 200
"""Files that one Spark job writes again, and one commit swaps."""
_PLACE = "_place"


class Held(NamedTuple):
    """Rows of erased keys in one file."""

    name: str
    """last part of its path"""
    rows: int
    leaving: int
    """how many of them are not in the new file"""


def table_rows(spark: SparkSession, path: str) -> DataFrame | None:
    """Return the rows of a table with `_file`, the name of their file; None where it has none."""
    rows = scan.rows(spark, path, ()) if scan.can_hold(path, ()) else None
    return None if rows is None else rows.select("*", F.col("_metadata.file_name").alias(FILE))


def held_in(found: DataFrame, leaving: Any) -> list[Held]:
    """Return the files that hold rows of erased keys, by name.

    Args:
        found: rows of erased keys, with `_file`.
        leaving: condition for the rows that are not in the new file.
    """
    counts = found.groupBy(FILE).agg(F.count(F.lit(1)).alias("rows"), F.count_if(leaving).alias("leaving"))
    return sorted(Held(unquote(row[FILE]), row["rows"], row["leaving"]) for row in counts.collect())


def write_again(
    spark: SparkSession,
    home: Home,
    path: str,
    held: Sequence[Held],
    change: Callable[[DataFrame], DataFrame],
    statistics: Sequence[str],
    now: datetime,
    message: str | None = None,
) -> None:
    """Replace the files by such without what was erased.

    Args:
        held: the files, and how many rows leave each of them.
        change: takes rows of the table without its partition column, and returns them as they are to be.
        statistics: columns whose statistics go into the log.
        now: clock of this host, by which vacuum counts the retention of the replaced files.
        message: JSON text that each commit carries.
    Raises:
        BalanceBroken: a new file would not hold as many rows as it must. Its commit was not made.
        WriteSkipped: another writer was faster.
    """
    for first in range(0, len(held), AT_ONCE):
        _swap(spark, home, path, held[first : first + AT_ONCE], change, statistics, now, message)


def _swap(
    spark: SparkSession,
    home: Home,
    path: str,
    held: Sequence[Held],
    change: Callable[[DataFrame], DataFrame],
    statistics: Sequence[str],
    now: datetime,
    message: str | None,
) -> None:
    table = tables.opened(path)
    assert table is not None, "its rows were just looked at"
    known = {str(row["path"]).rsplit("/", 1)[-1]: row for row in tables.data_files(table).to_pylist()}
    if gone := [one.name for one in held if one.name not in known]:
        raise tables.WriteSkipped(
            f"{path}: another writer has replaced {gone[0]}, and nothing was committed. Start again."
        )
    old = [known[one.name] for one in held]
    folder = own_folder(home.places.staging(home.pipeline.name), "erase")
    try:
        _stage(spark, table, path, old, change, folder)
        actions = []
        for place, (row, one) in enumerate(zip(old, held, strict=True)):
            actions += list(_actions(path, row, one, f"{folder}/{_PLACE}={place}", place, statistics, now))
        names = sorted(str(action.path) for action in actions)
        tables.commit_files(
            path,
            table,
            actions,
            identity=" ".join(names),
            partition_by=[DATE] if f"partition.{DATE}" in old[0] else (),
            message=message,
        )
    finally:
        store.remove_all(folder)


def _stage(
    spark: SparkSession,
    table: DeltaTable,
    path: str,
    old: Sequence[Mapping[str, Any]],
    change: Callable[[DataFrame], DataFrame],
    folder: str,
) -> None:
    """Write the changed rows of each file to a folder of its own."""
    names = [(str(row["path"]).rsplit("/", 1)[-1], place) for place, row in enumerate(old)]
    places = frame_of(spark, names, f"{FILE} string, {_PLACE} int")
    rows = scan.rows_of(spark, path, table, [row["path"] for row in old])
    rows = rows.select("*", F.col("_metadata.file_name").alias(FILE))
    partition = [DATE] if f"partition.{DATE}" in old[0] else []
    placed = rows.join(F.broadcast(places), on=FILE, how="inner").drop(FILE, *partition)
    (
        change(placed)
        .repartition(len(old), _PLACE)
        .sortWithinPartitions(_PLACE, *ROW_ORDER)
        .write.mode("overwrite")
        .partitionBy(_PLACE)
        .parquet(folder)
    )


def _actions(
    path: str,
    old: Mapping[str, Any],
    held: Held,
    folder: str,
    place: int,
    statistics: Sequence[str],
    now: datetime,
) -> Iterator[Any]:
    """Yield the log entries that remove a file and add the one that stands for it, if it has rows."""
    day = old.get(f"partition.{DATE}")
    staged = files_in(folder)
    rows = sum(file.rows for file in staged)
    if rows != old["num_records"] - held.leaving:
        raise BalanceBroken(
            f"{path}/{old['path']} has {counted(old['num_records'], 'row')}, of which {held.leaving:,} are to leave; "
            f"{rows:,} would stay. Nothing was changed in it; run again, and report this if it stays."
        )
    for n, file in enumerate(staged):
        name = f"{f'{DATE}={day}/' if day else ''}part-erased-{place}-{n}-{file.name}"
        store.copy(file.path, f"{path}/{name}")
        yield files.add_action(path, name, file, statistics, str(day) if day else None)
    yield files.remove_action(old["path"], old["size_bytes"], str(day) if day else None, now)
