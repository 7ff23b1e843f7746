"""Maintenance of the large tables: few files where many were, dead files away, and not one row changed.

    landing    the batches of a closed hour ─┐
    training   a day that is over            ─┴▶ read ─▶ the same rows, in row order, in few files ─▶ one commit:
                                                         these files for those, and no data changed

Such a commit is no publication and no landing batch: it carries no message, so everything that reads the history of
a table passes it over. The table's lock is held for one piece at a time, and a commit that would not bring exactly
the rows back that it takes away is not made. A reader that began before keeps the files it began with, because
vacuum spares them for the retention.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import SparkSession

from windrow.columns import ARRIVED_AT, BATCH, DATE, EVENT_TIME, INTERVAL, PLAN, ROW_ORDER
from windrow.home import Home, Table
from windrow.io.delta import staging, tables
from windrow.io.delta.locks import held
from windrow.io.registers import publications
from windrow.io.training import candidates
from windrow.outcomes import BadInput
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.plan import Plan

ROWS_PER_FILE = 500_000
SHORTEST = timedelta(days=7)
"""The least retention: longer than any job may run, and what Delta itself holds safe."""
HOUR = timedelta(hours=1)
STATISTICS = 32
"""Columns that Delta keeps statistics of, where the table does not say."""


class RetentionUnsafe(BadInput, ValueError):
    """Files would be deleted that a running job or a reader of a past version may still need."""


@dataclass(frozen=True)
class Piece:
    """Files whose rows are put together: how many files are enough, and what names exactly their rows."""

    begins: datetime
    paths: frozenset[str]
    rows: int
    wanted: int
    condition: str
    day: str | None = None
    """the partition that it is, where the table has partitions"""


def require_safe(retention: timedelta) -> None:
    """Refuse a retention that is too short.

    Raises:
        RetentionUnsafe: says why, and the least one.
    """
    if retention < SHORTEST:
        raise RetentionUnsafe(
            f"a retention of {retention} is refused: a join, a rebuild or a reader of a past version that began before "
            f"may still need those files. The least is {SHORTEST.days}d."
        )


def compact(spark: SparkSession, home: Home, now: datetime) -> dict[str, int]:
    """Put what is closed for an hour into few files; returns how many files went, by table."""
    gone: dict[str, int] = {}
    for topic in home.pipeline.topics:
        path = home.landing(topic)
        pieces = _landed(path, now - HOUR)
        gone[f"landing/{topic}"] = sum(_rewrite(spark, home, path, Table.LANDING, piece) for piece in pieces)
    path = home.table(Table.TRAINING)
    pieces = _published(path, now - HOUR)
    gone["training"] = sum(_rewrite(spark, home, path, Table.TRAINING, piece) for piece in pieces)
    return gone


def _rewrite(spark: SparkSession, home: Home, path: str, lock: Table, piece: Piece) -> int:
    """The same rows, again: in row order, in as many files as they need. Returns how many files fewer there are."""
    with held(home.lock(lock)):
        table = tables.opened(path)
        there = {file["path"]: file["size_bytes"] for file in _files(path)}
        if table is None or not piece.paths <= there.keys():  # somebody was faster; the next run looks again
            return 0
        folder = home.places.home / "staging" / home.pipeline.name / f"compact-{os.getpid()}"
        try:
            _stage(spark, path, piece, folder)
            coming = _additions(path, piece, table, sorted(folder.glob("*.parquet")))
            _require_all(path, piece, coming)
            _commit(table, piece, coming, {name: there[name] for name in piece.paths})
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return len(piece.paths) - len(coming)


def _stage(spark: SparkSession, path: str, piece: Piece, folder: Path) -> None:
    rows = spark.read.format("delta").load(path).where(piece.condition)
    few = rows.coalesce(1) if piece.wanted == 1 else rows.repartitionByRange(piece.wanted, EVENT_TIME)
    written = few.sortWithinPartitions(*ROW_ORDER)
    (written.drop(DATE) if piece.day else written).write.mode("overwrite").parquet(str(folder))


def _additions(path: str, piece: Piece, table: DeltaTable, files: Sequence[Path]) -> list[AddAction]:
    """Move the new files under the table, and say how a commit adds them. Once more is no harm."""
    stated = table.metadata().configuration.get("delta.dataSkippingStatsColumns")
    columns = stated.split(",") if stated else [field.name for field in table.schema().fields][:STATISTICS]
    within = f"{DATE}={piece.day}/" if piece.day else ""
    actions = []
    for n, file in enumerate(files):
        name = f"{within}part-{n:05d}-compact-{table.version()}.snappy.parquet"
        moved, known = Path(path) / name, staging.statistics_of(pq.read_metadata(file), columns)
        file.replace(moved)
        seen = moved.stat()
        values: dict[str, str | None] = {DATE: piece.day} if piece.day else {}
        actions.append(
            AddAction(name, seen.st_size, values, int(seen.st_mtime * 1000), data_change=False, stats=json.dumps(known))
        )
    return actions


def _require_all(path: str, piece: Piece, coming: Sequence[AddAction]) -> None:
    found = sum(json.loads(action.stats)["numRecords"] for action in coming)
    if found != piece.rows:
        raise BalanceBroken(
            f"{path}: compaction of {piece.condition} would bring {found} rows for {piece.rows}. Nothing was changed; "
            "a file of this table has no statistics, or holds rows of other batches. Report this if it stays."
        )


def _commit(table: DeltaTable, piece: Piece, coming: Sequence[AddAction], going: Mapping[str, int]) -> None:
    at = int(datetime.now(UTC).timestamp() * 1000)  # when the files died: vacuum counts from there
    values: dict[str, str | None] = {DATE: piece.day} if piece.day else {}
    gone = [RemoveAction(name, False, at, size, values) for name, size in going.items()]
    table.create_write_transaction(
        [*coming, *gone], mode="append", schema=table.schema(), partition_by=[DATE] if piece.day else None
    )


def _landed(path: str, before: datetime) -> list[Piece]:
    """Closed hours of arrival of a landing table, from the log alone. A batch lies in one hour, and is never cut."""
    low, high, arrived = f"min.{BATCH}", f"max.{BATCH}", f"max.{ARRIVED_AT}"
    known = [f for f in _files(path) if None not in (f.get(low), f.get(high), f.get(arrived))]
    pieces = []
    for hour, group in groupby(sorted(known, key=lambda f: f[low]), key=lambda f: _hour(f[arrived])):
        files = list(group)
        batches = f"{BATCH} >= {min(f[low] for f in files)} AND {BATCH} <= {max(f[high] for f in files)}"
        if hour + HOUR <= before:
            pieces.append(_piece(hour, files, batches))
    return [piece for piece in pieces if len(piece.paths) > piece.wanted]


def _published(path: str, before: datetime) -> list[Piece]:
    """Days of the training table that are over and have more than a file an hour: a rebuild rewrites few rows."""
    days, pieces = f"partition.{DATE}", []
    for day, group in groupby(sorted(_files(path), key=lambda f: f[days]), key=lambda f: f[days]):
        files, begins = list(group), datetime(day.year, day.month, day.day, tzinfo=UTC)
        hours = {_hour(f[f"min.{INTERVAL}"]) for f in files if f.get(f"min.{INTERVAL}")}
        if begins + 24 * HOUR <= before:
            pieces.append(_piece(begins, files, f"{DATE} = DATE'{day}'", least=len(hours), day=str(day)))
    return [piece for piece in pieces if len(piece.paths) > piece.wanted]


def _piece(
    begins: datetime, files: list[dict[str, Any]], condition: str, least: int = 1, day: str | None = None
) -> Piece:
    rows = sum(f["num_records"] for f in files)
    wanted = max(1, least, ceil(rows / ROWS_PER_FILE))
    return Piece(begins, frozenset(f["path"] for f in files), rows, wanted, condition, day)


def _files(path: str) -> list[dict[str, Any]]:
    """The data files of a table with their statistics; none where there is no table."""
    table = tables.opened(path)
    return [] if table is None else pa.table(table.get_add_actions(flatten=True)).to_pylist()


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def discard_outdated(home: Home) -> int:
    """Take candidates out whose plan no commit will accept any more: their interval has a newer publication."""
    table = tables.opened(home.table(Table.CANDIDATES))
    staged = sorted({entry[PLAN] for entry in table.partitions()}) if table is not None else []
    if not staged:
        return 0
    recorded = tables.read(home.table(Table.PLANS), columns=["plan"], filters=[("plan_id", "in", staged)])
    standing = publications.standing(publications.registered(home))
    outdated = [
        plan.id
        for plan in (Plan.from_json(row["plan"]) for row in recorded)
        if (now := standing.get(plan.interval.start)) is not None and now["number"] != plan.supersedes
    ]
    candidates.discard(home, outdated)
    return len(outdated)


def vacuum(home: Home, retention: timedelta) -> dict[str, int]:
    """Delete files that no version of the last `retention` needs; returns how many, by table.

    Raises:
        RetentionUnsafe: the retention is too short.
    """
    require_safe(retention)
    hours = int(retention / HOUR)
    landing = [(f"landing/{topic}", home.landing(topic), Table.LANDING) for topic in home.pipeline.topics]
    others = [(str(table), home.table(table), table) for table in Table if table is not Table.LANDING]
    gone = {}
    for name, path, lock in (*landing, *others):
        table = tables.opened(path)
        if table is not None:
            with held(home.lock(lock)):
                gone[name] = len(table.vacuum(retention_hours=hours, dry_run=False, full=True))
    return gone
