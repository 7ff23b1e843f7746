"""Files of an interval's rows that are to join the training table: the candidate's own, or written anew.

    candidates/_plan=<plan>/part-*.parquet, if they have the columns and the number that will be published
    candidates ─▶ one job ─▶ staging/<pipeline>/<plan>-<pid>/_n=<number>/part-*.parquet, if not
                                                    │ in the commit of that number
                                                    ▼
                             training/_date=<day>/part-<n>-<number>-<plan>.snappy.parquet, added with statistics

A file holds rows of one interval, so that a later publication of the interval can remove it without reading it.
What is staged and never committed is nowhere to be seen; the folder goes with the process, or a day later.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from windrow.columns import DATE, INTERVAL, PUBLICATION, ROW_ORDER
from windrow.io.delta import tables
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan
from windrow.text import instant_text

_NUMBER = "_n"
_LONGEST_TEXT = 32
"""Text longer than this has no bounds in the statistics."""
_ABANDONED_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Staged:
    """The files of one plan, whose rows carry the publication number that it was foreseen to get."""

    plan: Plan
    number: int
    files: tuple[Path, ...]
    columns: Mapping[str, str]
    """name → type in Spark's words, without the partition column"""

    @property
    def rows(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self.files)


def own(plan: Plan, number: int, files: Sequence[Path], columns: Mapping[str, str]) -> Staged | None:
    """The candidate's own files; None where another number was foreseen, or where not all they have is published.

    Args:
        columns: name → type in Spark's words, of what a training row has, but for the partition column.
    """
    names: set[str] = set()
    for file in files:
        metadata = pq.read_metadata(file)
        names |= set(metadata.schema.to_arrow_schema().names)
        known = statistics_of(metadata, [PUBLICATION])
        if (known["minValues"].get(PUBLICATION), known["maxValues"].get(PUBLICATION)) != (number, number):
            return None
    if not files or not names <= set(columns):
        return None
    return Staged(plan, number, tuple(files), {name: columns[name] for name in names})


@contextmanager
def staged(rows: DataFrame, numbers: Mapping[Plan, int], root: Path) -> Iterator[dict[str, Staged]]:
    """Write `rows` (training columns, numbered) in one job; by plan id, for the body.

    Args:
        numbers: publication number of each plan, as in the rows' `_publication`.
        root: folder beside the tables, on the same file system.
    """
    _sweep(root)
    folder = root / f"{next(iter(numbers)).id}-{os.getpid()}"
    files = rows.drop(DATE)
    try:
        (
            files.withColumn(_NUMBER, F.col(PUBLICATION))
            .sortWithinPartitions(_NUMBER, *ROW_ORDER)
            .write.mode("overwrite")
            .partitionBy(_NUMBER)
            .parquet(str(folder))
        )
        columns = {field.name: field.dataType.simpleString() for field in files.schema}
        yield {
            plan.id: Staged(plan, number, tuple(sorted((folder / f"{_NUMBER}={number}").glob("*.parquet"))), columns)
            for plan, number in numbers.items()
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fits(table: DeltaTable, columns: Mapping[str, str]) -> bool:
    """Whether files with these columns can join the table as it is, without a change of its schema."""
    types = {field.name: field.dataType.simpleString() for field in tables.spark_schema(table)}
    plain = table.protocol().min_writer_version <= 2
    return plain and all(types.get(name) == kind for name, kind in columns.items())


def removals(table: DeltaTable, interval: Interval, now: datetime) -> list[RemoveAction] | None:
    """What takes an interval's rows out of the table; None where a file holds other rows too, and must be rewritten."""
    values: dict[str, str | None] = {DATE: f"{interval.start:%Y-%m-%d}"}
    found = files_with(table, interval)
    if any(file[f"min.{INTERVAL}"] != file[f"max.{INTERVAL}"] or file[f"min.{INTERVAL}"] is None for file in found):
        return None
    return [RemoveAction(file["path"], True, _milliseconds(now), file["size_bytes"], values) for file in found]


def files_with(table: DeltaTable, interval: Interval) -> list[dict[str, Any]]:
    """The files that can hold rows of an interval: path, size and bounds of `_interval` (None where unknown)."""
    files = pa.table(table.get_add_actions(flatten=True))
    least, most = f"min.{INTERVAL}", f"max.{INTERVAL}"
    wanted = [c for c in ("path", "size_bytes", f"partition.{DATE}", least, most) if c in files.column_names]
    rows = [{least: None, most: None, **row} for row in files.select(wanted).to_pylist()]
    ofday = [row for row in rows if row[f"partition.{DATE}"] == interval.start.date()]
    return [row for row in ofday if None in (row[least], row[most]) or row[least] <= interval.start <= row[most]]


def additions(path: str, staged: Staged, statistics: Sequence[str]) -> list[AddAction]:
    """Link the files under the table, and say how a commit adds them. Once more is no harm."""
    day = f"{staged.plan.interval.start:%Y-%m-%d}"
    folder = Path(path) / f"{DATE}={day}"
    folder.mkdir(parents=True, exist_ok=True)
    actions = []
    for n, file in enumerate(staged.files):
        name = f"part-{n:05d}-{staged.number}-{staged.plan.id}.snappy.parquet"
        metadata = pq.read_metadata(file)
        seen = _linked(file, folder / name).stat()
        known = json.dumps(statistics_of(metadata, statistics), separators=(",", ":"))
        actions.append(
            AddAction(f"{DATE}={day}/{name}", seen.st_size, {DATE: day}, int(seen.st_mtime * 1000), True, known)
        )
    return actions


def _linked(file: Path, to: Path) -> Path:
    """The same file under another name; a copy where links cannot be."""
    beside = to.with_name(f".{to.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        os.link(file, beside)
    except OSError:
        shutil.copyfile(file, beside)
    return beside.replace(to)


def statistics_of(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, Any]:
    """Delta's statistics of a Parquet file, from the file's own."""
    places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in columns:
        seen = [group.column(places[name]).statistics for group in groups] if name in places else []
        if not seen or any(one is None or not one.has_null_count for one in seen):
            continue
        nulls[name] = sum(one.null_count for one in seen)
        bounds = [(one.min, one.max) for one in seen if one.has_min_max]
        if bounds and len(bounds) == sum(one.num_values > 0 for one in seen):
            lo, hi = _bound(min(b[0] for b in bounds), up=False), _bound(max(b[1] for b in bounds), up=True)
            if lo is not None and hi is not None:
                least[name], most[name] = lo, hi
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _bound(value: Any, *, up: bool) -> Any:
    """A bound as Delta's log says it: instants to the millisecond, never inside the true bound."""
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        floor = at.replace(microsecond=at.microsecond // 1000 * 1000)
        at = floor + timedelta(milliseconds=1) if up and floor < at else floor
        return instant_text(at).replace("000Z", "Z")
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else None


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _sweep(root: Path) -> None:
    """Folders of processes that were killed: nobody has written to them for a day."""
    for folder in root.glob("*-*") if root.is_dir() else ():
        if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
