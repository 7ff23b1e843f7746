"""The commit that makes a publication visible: it replaces exactly the rows of one interval, or nothing.

    files that go, files that come ─▶ one commit to training ─▶ read it back ─▶ register

The publication number is the transaction version of the training table, so it only grows, also when an older interval
is rebuilt.

Own files: a commit only names files. The files of a candidate are those of the training table, so they are linked
under it and added as they are, if the candidate carries the number that is being published. Otherwise files are
written anew for many plans before the lock is taken (see `staging`). Spark writes files under the lock only where
compaction has put several intervals into one file, or another publication's number was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from windrow.columns import DATE, INTERVAL, TRAINING_STATISTICS
from windrow.home import Home, Table
from windrow.io.delta import appending, crash_points, files, scan, staging, tables
from windrow.io.delta.staging import Staged
from windrow.io.registers import publications
from windrow.io.training import candidates, comments
from windrow.io.training.maintenance import kept_for
from windrow.meaning import meaning_of_row
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.intervals import Interval
from windrow.semantics.maintenance import RETENTION
from windrow.semantics.plan import Plan
from windrow.text import counted
from windrow.transforms.training import training_columns

Row = dict[str, Any]
"""A row of the register, by column."""

Action = AddAction | RemoveAction


def own_files(home: Home, numbers: Mapping[Plan, int]) -> dict[str, Staged]:
    """Return the files of those candidates that can be published as they are, by plan id.

    Args:
        numbers: the publication number that each plan is about to get.
    """
    files, columns = candidates.files_of(home, list(numbers))
    published = {name: columns[name] for name in training_columns(columns) if name in columns}
    own = (staging.own(plan, number, files[plan.id], published) for plan, number in numbers.items())
    return {staged.plan.id: staged for staged in own if staged}


def write_files(home: Home, rows: DataFrame, numbers: Mapping[Plan, int]) -> AbstractContextManager[dict[str, Staged]]:
    """Write training rows of plans to new files, in one job; yields them by plan id, and removes them afterwards.

    Args:
        rows: training rows of all plans, with their numbers.
        numbers: the publication number of each plan.
    """
    return staging.staged(rows, numbers, home.places.staging(home.pipeline.name))


class Standing:
    """Standing publications of intervals, read again only when another process has published in between."""

    def __init__(self, home: Home, starts: Sequence[datetime]) -> None:
        self._read = lambda: publications.standing(publications.of_intervals(home, starts))
        self._rows: dict[datetime, Row] = {}
        self._last: int | None = None

    def of(self, start: datetime, last: int) -> Row | None:
        """Return the standing publication of an interval. The caller holds the lock.

        Args:
            start: start of the interval, one of those that this object was made for.
            last: number of the newest publication of the pipeline.
        """
        if last != self._last:
            self._rows, self._last = self._read(), last
        return self._rows.get(start)

    def add(self, row: Row) -> None:
        """Note a publication that this process has made."""
        self._rows[row["interval"]], self._last = row, row["number"]


def fields_of_candidates(home: Home) -> list[StructField]:
    """Return the columns that the candidates give the training table; none where there is no candidate."""
    table = tables.opened(home.table(Table.CANDIDATES))
    known = {} if table is None else {field.name: field for field in scan.spark_schema(table)}
    return [known.get(name, StructField(name, DateType())) for name in training_columns(known)] if known else []


def create_if_missing(home: Home, fields: list[StructField], present: DeltaTable | None) -> DeltaTable:
    """Create an empty training table: partitioned by UTC date, with statistics of the columns that files are chosen by.

    One that is there gets the columns of the candidates, and statistics and comments of this release and of this
    pipeline file. The caller holds the lock.

    Args:
        fields: `fields_of_candidates`, read after the candidates were written.
        present: the table at its newest version; None without one.
    """
    path = home.table(Table.TRAINING)
    assert fields or present is not None, "its rows are about to be published"
    if present is not None:
        if fields:
            appending.grow(present, StructType(fields), path)
        tables.keep_statistics(present, TRAINING_STATISTICS)
        comments.keep(home.pipeline, present)
        return present
    properties = {
        "delta.enableDeletionVectors": "false",
        tables.STATISTICS: ",".join(TRAINING_STATISTICS),
        **tables.CHECKPOINTS,
        **kept_for(RETENTION),
    }
    schema = Schema.from_json(StructType(comments.with_comments(home.pipeline, fields)).json())
    return tables.create_if_missing(path, schema, properties, by=DATE, about=meaning_of_row(home.pipeline))


def commit(
    home: Home,
    interval: Interval,
    row: Row,
    rows: Callable[[], DataFrame],
    staged: Staged | None = None,
    *,
    seen: DeltaTable | None = None,
    register: DeltaTable | None = None,
    last_look: Callable[[], None] | None = None,
) -> Row:
    """Make a publication visible in one commit and register it; returns the register row.

    The caller holds the lock and has compared the interval's standing publication with the plan's. The lock may be lost
    meanwhile, so the commit follows the version on which the caller has looked at these things, or none.

    Args:
        row: register row without the training table's version; the commit carries it.
        rows: returns the numbered training rows; called only where `staged` cannot be used.
        staged: files with these rows; None where no file was written, because there is no row or Spark writes them.
        seen: the training table as it was then; None for its newest version. It shows the commit afterwards.
        register: the register of publications, where the caller has it open.
        last_look: fails where keys were erased since the rows were looked at (`erasures.watch`).

    Raises:
        BalanceBroken: the number of staged rows is not the registered one. Nothing was committed.
        WriteSkipped: the last commit is not this publication.
    """
    path = home.table(Table.TRAINING)
    crash_points.point("publish.before_commit")
    table = seen or tables.at(path)
    if last_look:
        last_look()
    actions = _swap_files(table, path, interval, row, staged)
    if actions is None:
        actions = _replace_rows(table, path, interval, row, rows())
    message = publications.to_json(row)
    tables.commit_files(
        path,
        table,
        actions,
        identity=message,
        partition_by=[DATE],
        message=message,
        transaction=(publications.APP_ID, row["number"]),
        pinned=True,
    )
    crash_points.point("publish.after_commit")
    row = {**row, "training_version": _read_back(path, table, row)}
    publications.register(home, row, register)
    crash_points.point("publish.after_register")
    return row


def _swap_files(
    table: DeltaTable, path: str, interval: Interval, row: Row, staged: Staged | None
) -> list[Action] | None:
    """Return the log entries that put the staged files in place of those of the interval; None where they cannot be."""
    # every row carries its publication number: files that were written for another one cannot be used
    if (staged.number if staged else 0) != (row["number"] if row["rows"] else 0):
        return None
    # a file that compaction has merged holds other intervals too, so it cannot be removed as a whole
    removed = staging.removals(table, interval, row["published_at"])
    if removed is None or (staged and not staging.fits(table, staged.columns)):
        return None
    if staged:
        _require_rows(interval, row, staged.rows)
    added = staging.additions(path, staged, TRAINING_STATISTICS) if staged else []
    return [*added, *removed]


def _replace_rows(table: DeltaTable, path: str, interval: Interval, row: Row, rows: DataFrame) -> list[Action]:
    """Write the rows, and those of other intervals that share a file with the interval; return the log entries that put
    both in place of the files.
    """
    old = staging.files_with(table, interval)
    appending.grow(table, rows.schema, path)  # a candidate may have got columns since the table was opened
    added, found = _written(rows, path, table)
    _require_rows(interval, row, found)
    kept: list[AddAction] = []
    if old:
        both = scan.rows_of(rows.sparkSession, path, table, [file["path"] for file in old])
        is_other = F.col(INTERVAL) != F.lit(interval.start)
        kept, staying = _written(both.where(is_other), path, table)
        leaving, held = both.where(~is_other).count(), sum(file["num_records"] or 0 for file in old)
        if staying + leaving != held:
            raise BalanceBroken(
                f"{interval}: its files in {path} hold {counted(held, 'row')}, of which {leaving:,} are to leave; "
                f"{staying:,} would stay. Nothing was published; run again, and report this if it stays."
            )
    day = f"{interval.start:%Y-%m-%d}"
    removed = [files.remove_action(file["path"], file["size_bytes"], day, row["published_at"]) for file in old]
    return [*added, *kept, *removed]


def _written(rows: DataFrame, path: str, table: DeltaTable) -> tuple[list[AddAction], int]:
    return appending.additions(path, appending.written(rows, path, table, DATE), TRAINING_STATISTICS, DATE)


def _require_rows(interval: Interval, row: Row, found: int) -> None:
    if found != row["rows"]:
        raise BalanceBroken(
            f"{interval}: {counted(found, 'row')} staged for publication {row['number']}, {row['rows']} counted. "
            "Nothing was published; run again, and report this if it stays."
        )


def _read_back(path: str, table: DeltaTable, row: Row) -> int:
    """Return the version that the commit made: an answer may be lost, or another writer may have been faster."""
    newest = tables.refreshed(path, table)
    for commit in tables.commits_of(newest) if newest is not None else ():
        found = publications.from_json(commit.message)
        if found["number"] <= row["number"]:
            if (found["number"], found["plan_id"]) == (row["number"], row["plan_id"]):
                return commit.version
            break
    raise tables.WriteSkipped(
        f"{path}: publication {row['number']} was not committed, because another writer was faster. Start the job "
        "again: it will see what is there."
    )
