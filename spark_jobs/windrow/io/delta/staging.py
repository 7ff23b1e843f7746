"""Files that are to join the training table with the rows of an interval: the candidate's own, or new ones.

    candidates/_plan=<plan>/part-*.parquet, if they have the columns and the number that will be published
    candidates ─▶ one job ─▶ <pipeline>/staging/<plan>-<host>-<pid>/_n=<number>/part-*.parquet, if not
                                                    │ in the commit of that number
                                                    ▼
                             training/_date=<day>/part-<number>-<name>, added with statistics

The name is Spark's, which no other write has: a process that is late cannot replace a file that is published.
A file holds rows of one interval, so that a later publication of the interval can remove it without reading it.
No reader sees a staged file before a commit names it. The staging folder of a killed
process is removed a day later, by the next publication, maintenance or erasure.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.columns import DATE, INTERVAL, PUBLICATION, ROW_ORDER
from windrow.io.delta import files, scan, store, tables
from windrow.io.delta.files import DataFile
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

_NUMBER = "_n"
_ABANDONED = timedelta(days=1)


@dataclass(frozen=True)
class Staged:
    """The files of one plan; every row in them carries the publication number that the plan is expected to get."""

    plan: Plan
    number: int
    files: tuple[DataFile, ...]
    columns: Mapping[str, str]
    """name → type as Spark writes it, without the partition column"""

    @property
    def rows(self) -> int:
        """Number of rows in all files."""
        return sum(file.rows for file in self.files)


def own(plan: Plan, number: int, paths: Sequence[str], columns: Mapping[str, str]) -> Staged | None:
    """Return the candidate's own files, or None where they cannot be published as they are.

    That is so where their rows carry another publication number, because another one was expected when they were
    written, or where they have columns that the training table does not get.

    Args:
        paths: locations of its files.
        columns: name → type as Spark writes it, of what a training row has, without the partition column.
    """
    own_files = tuple(store.each(paths, DataFile.read))
    names = {name for file in own_files for name in file.columns}
    if not own_files or not names <= set(columns) or any(not _has_number(file, number) for file in own_files):
        return None
    return Staged(plan, number, own_files, {name: columns[name] for name in names})


def _has_number(file: DataFile, number: int) -> bool:
    """Whether all rows carry this publication number, by the file's own bounds."""
    known = file.statistics([PUBLICATION])
    return known["minValues"].get(PUBLICATION) == number == known["maxValues"].get(PUBLICATION)


@contextmanager
def staged(rows: DataFrame, numbers: Mapping[Plan, int], root: str) -> Iterator[dict[str, Staged]]:
    """Write `rows` in one job; yields the files by plan id and removes them afterwards.

    Args:
        rows: training rows of all plans, with their publication numbers.
        numbers: publication number of each plan, as in the rows' `_publication`.
        root: location in the folder or store of the tables.
    """
    remove_abandoned(root)
    folder = own_folder(root, next(iter(numbers)).id)
    without_day = rows.drop(DATE)
    try:
        (
            # a copy of the number names the folders, because Spark takes a partition column out of the files
            without_day.withColumn(_NUMBER, F.col(PUBLICATION))
            .sortWithinPartitions(_NUMBER, *ROW_ORDER)
            .write.mode("overwrite")
            .partitionBy(_NUMBER)
            .parquet(folder)
        )
        columns = {field.name: field.dataType.simpleString() for field in without_day.schema}
        yield {
            plan.id: Staged(plan, number, files_in(f"{folder}/{_NUMBER}={number}"), columns)
            for plan, number in numbers.items()
        }
    finally:
        store.remove_all(folder)


def files_in(folder: str) -> tuple[DataFile, ...]:
    """Return the Parquet files that Spark has written directly into a folder, by name.

    Args:
        folder: location; files in folders below are left out.

    Returns:
        Each with rows, size and statistics from its footer.
    """
    names = [file.name for file in store.listed(folder) if file.name.endswith(".parquet") and "/" not in file.name]
    return tuple(store.each([f"{folder}/{name}" for name in names], DataFile.read))


def fits(table: DeltaTable, columns: Mapping[str, str]) -> bool:
    """Return whether files with these columns (name → type as Spark writes it) can join the table as it is.

    They cannot where it spells a name otherwise, or has a type with fewer fields.
    """
    types = {field.name: field.dataType.simpleString() for field in scan.spark_schema(table)}
    return all(types.get(name) == kind for name, kind in columns.items())


def removals(table: DeltaTable, interval: Interval, now: datetime) -> list[RemoveAction] | None:
    """Return log entries that take an interval's rows out of the table; None where a file holds other rows too.

    Such a file, which compaction writes, must be rewritten instead.

    Args:
        interval: one interval of the table's grid.
        now: time of the removal in the log.
    """
    low, high, day = f"min.{INTERVAL}", f"max.{INTERVAL}", f"{interval.start:%Y-%m-%d}"
    found = files_with(table, interval)
    # a file with one interval has equal bounds; unknown bounds are treated as several intervals
    if any(file[low] != file[high] or file[low] is None for file in found):
        return None
    return [files.remove_action(file["path"], file["size_bytes"], day, now) for file in found]


def files_with(table: DeltaTable, interval: Interval) -> list[dict[str, Any]]:
    """Return the files that can hold rows of an interval: path, size, rows, bounds of `_interval`; None for unknown."""
    known = tables.data_files(table)
    low, high, day = f"min.{INTERVAL}", f"max.{INTERVAL}", f"partition.{DATE}"
    wanted = [c for c in ("path", "size_bytes", "num_records", low, high) if c in known.column_names]
    # a row in Python for each file of the day, not for each of the table
    of_day = known.filter(pc.field(day) == interval.start.date()).select(wanted) if known.num_rows else known
    rows = [{low: None, high: None, **row} for row in of_day.to_pylist()]
    return [row for row in rows if None in (row[low], row[high]) or row[low] <= interval.start <= row[high]]


def additions(path: str, staged: Staged, statistics: Sequence[str]) -> list[AddAction]:
    """Give the files names in the folder of the table and return the log entries that add them. Idempotent.

    Args:
        statistics: columns whose statistics go into the log.
    """
    day = f"{staged.plan.interval.start:%Y-%m-%d}"
    known = {file.path: file for file in staged.files}

    def added(source: str) -> AddAction:
        file = known[source]
        name = f"{DATE}={day}/part-{staged.number}-{file.name}"
        store.copy(source, f"{path}/{name}")
        return files.add_action(path, name, file, statistics, day)

    return store.each(known, added)


def own_folder(root: str, purpose: str) -> str:
    """Return the location of a staging folder that no other live process has, on whatever machine.

    Args:
        root: location of the pipeline's staging folders.
        purpose: what the process stages; one that does so for several tables takes turns.
    """
    return f"{root}/{purpose}-{socket.gethostname()}-{os.getpid()}"


def remove_abandoned(root: str) -> None:
    """Remove the folders of killed processes: those to which nobody has written for a day.

    Args:
        root: location of the pipeline's staging folders.
    """
    written: dict[str, datetime] = {}
    for file in store.listed(root):
        folder = file.name.split("/", 1)[0]
        written[folder] = max(file.modified, written.get(folder, file.modified))
    for folder, last in written.items():
        if datetime.now(UTC) - last > _ABANDONED:
            store.remove_all(f"{root}/{folder}")
