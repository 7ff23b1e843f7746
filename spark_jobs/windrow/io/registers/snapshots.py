"""The register of snapshots: named states of the training table whose files maintenance spares. No Spark.

    taken      one row: who, when, why, publications, and the list of the files         in one commit, or not at all
    deleted    one more row of the name, without files: maintenance may delete them     a name is never given twice

The log of a table forgets its past versions, so a snapshot is read by its own list of files. Files are named by the
platform's writers and never written again, so what is in the list stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from deltalake import DeltaTable

from windrow.columns import EVENT_TIME
from windrow.home import Home, Table
from windrow.io.delta import store, tables
from windrow.schemas import SNAPSHOTS
from windrow.semantics.intervals import Interval, micros
from windrow.semantics.publication import numbers_of, ranges_of

TAKEN, DELETED = "taken", "deleted"
_APP_ID = "windrow.snapshots"
_LARGE = ("columns", "files")
_TRUNCATED = timedelta(milliseconds=1)
"""Statistics may be rounded to milliseconds."""


class KeptFile(NamedTuple):
    """A data file of the training table."""

    path: str
    """relative to the table"""
    size: int
    """bytes"""
    rows: int
    least: int | None
    """smallest event time in it, in microseconds since 1970; None where the log did not know it"""
    most: int | None


@dataclass(frozen=True)
class KeptFiles:
    """Rows of the training table by their files, for readers: what a version of the table is while its log has it.

    Args:
        path: location of the training table.
        number: version of the table in which these files were.
        columns: its columns, as Delta's JSON.
        files: files that can hold the wanted rows.
    """

    path: str
    number: int
    columns: str
    files: tuple[KeptFile, ...]

    def version(self) -> int:
        """Return the version of the table in which these files were."""
        return self.number

    @property
    def locations(self) -> list[str]:
        """Locations of the files."""
        return [f"{self.path}/{file.path}" for file in self.files]

    def within(self, span: Interval) -> KeptFiles:
        """Return the files that can hold rows of a span of served time.

        Args:
            span: half-open; files with unknown bounds are kept.
        """
        first, last = micros(span.start - _TRUNCATED), micros(span.end + _TRUNCATED)
        near = (f for f in self.files if (f.most is None or f.most >= first) and (f.least is None or f.least <= last))
        return KeptFiles(self.path, self.number, self.columns, tuple(near))

    @property
    def missing(self) -> list[str]:
        """Locations of the files that are not there any more."""
        return [f"{self.path}/{name}" for name in store.missing(self.path, [file.path for file in self.files])]


@dataclass(frozen=True)
class Snapshot:
    """A named state of the training table.

    Args:
        range: the served times whose rows it is for.
        numbers: publications whose rows it keeps, ascending; some are of one window before and after the range, because
            the credits of rows at its ends depend on them.
        version: version of the training table in which they stood.
        rows: rows of the intervals that the range overlaps.
        size: bytes of its files.
        deleted_at: when it was deleted; None while it is kept.
    """

    name: str
    taken_at: datetime
    who: str
    why: str | None
    range: Interval
    numbers: tuple[int, ...]
    version: int
    rows: int
    file_count: int
    size: int
    deleted_at: datetime | None = None
    deleted_by: str | None = None


def listed(home: Home) -> list[Snapshot]:
    """Return every snapshot that was ever taken, oldest first, deleted ones too."""
    columns = [name for name in SNAPSHOTS.names if name not in _LARGE]
    rows = tables.read(home.table(Table.SNAPSHOTS), columns)
    deleted = {row["name"]: row for row in rows if row["kind"] == DELETED}
    found = (_snapshot(row, deleted.get(row["name"])) for row in rows if row["kind"] == TAKEN)
    return sorted(found, key=lambda one: (one.taken_at, one.name))


def kept(home: Home) -> list[Snapshot]:
    """Return the snapshots that are not deleted, oldest first."""
    return [one for one in listed(home) if one.deleted_at is None]


def named(home: Home, name: str) -> Snapshot | None:
    """Return a snapshot by its name, or None; it may be deleted."""
    return next((one for one in listed(home) if one.name == name), None)


def files_of(home: Home, name: str) -> KeptFiles:
    """Return the files of a snapshot.

    Args:
        name: of a snapshot that was taken.
    """
    wanted = [("name", "=", name), ("kind", "=", TAKEN)]
    (row,) = tables.read(home.table(Table.SNAPSHOTS), ("training_version", *_LARGE), wanted)
    files = tuple(KeptFile(*entry) for entry in json.loads(row["files"]))
    return KeptFiles(home.table(Table.TRAINING), row["training_version"], row["columns"], files)


def opened(home: Home) -> DeltaTable:
    """Return the table of this register, created where it is missing."""
    return tables.create_if_missing(home.table(Table.SNAPSHOTS), SNAPSHOTS)


def record(home: Home, one: Snapshot, files: KeptFiles, code_version: str, seen: DeltaTable) -> None:
    """Record a snapshot, whose name is free, after the version of the register that was seen, or not at all.

    An erasure that has been through the training table makes a commit here before it looks which snapshots hold rows of
    its keys: either it sees this one, or this one is refused.

    Args:
        files: those that hold its rows, and the columns of the table.
        code_version: version of Windrow.
        seen: what `opened` has returned before the name, the publications and the files were looked for.
    Raises:
        WriteSkipped: another writer was faster.
    """
    row = {
        "name": one.name,
        "kind": TAKEN,
        "recorded_at": one.taken_at,
        "asked_by": one.who,
        "reason": one.why,
        "range_start": one.range.start,
        "range_end": one.range.end,
        "publications": json.dumps(ranges_of(one.numbers)),
        "training_version": one.version,
        "rows": one.rows,
        "file_count": one.file_count,
        "bytes": one.size,
        "columns": files.columns,
        "files": json.dumps(files.files, separators=(",", ":")),
        "code_version": code_version,
    }
    number = (seen.transaction_version(_APP_ID) or 0) + 1
    path = home.table(Table.SNAPSHOTS)
    tables.append_once(path, SNAPSHOTS, [row], app_id=_APP_ID, version=number, table=seen, pinned=True)


def delete(home: Home, name: str, now: datetime, who: str, why: str | None) -> bool:
    """Record that a snapshot is no longer needed; return False where that was done before.

    Args:
        now: time of the record.
        who: recorded with it.
        why: recorded with it; None without a reason.
    """
    row = {"name": name, "kind": DELETED, "recorded_at": now, "asked_by": who, "reason": why}

    def is_done() -> bool:
        found = named(home, name)
        return found is None or found.deleted_at is not None

    return tables.append_next(home.table(Table.SNAPSHOTS), SNAPSHOTS, [row], app_id=_APP_ID, is_done=is_done)


def paths(home: Home) -> dict[str, dict[str, int]]:
    """Return name → path → bytes of the files of every snapshot that is kept."""
    return {one.name: {file.path: file.size for file in files_of(home, one.name).files} for one in kept(home)}


class SnapshotCost(NamedTuple):
    """What snapshots cost: bytes of files that the newest version of the training table does not need."""

    number: int
    """snapshots that are kept"""
    bytes: int
    """of all of them together; a file of two snapshots counts once"""
    by_name: Mapping[str, int]


def held(home: Home) -> SnapshotCost:
    """Return how many bytes are there for the snapshots only. Reads logs and lists of files, no rows.

    Returns:
        Number of snapshots that are kept, bytes of files that no current version needs, and these bytes by snapshot; a
        file of two snapshots counts for both.
    """
    names = paths(home)
    table = tables.opened(home.table(Table.TRAINING)) if names else None
    current = set() if table is None else set(tables.data_files(table)["path"].to_pylist())
    dead = {name: {p: size for p, size in of.items() if p not in current} for name, of in names.items()}
    every = {path: size for of in dead.values() for path, size in of.items()}
    return SnapshotCost(len(names), sum(every.values()), {name: sum(of.values()) for name, of in dead.items()})


def kept_files(files: Sequence[Mapping[str, Any]]) -> Iterator[KeptFile]:
    """Yield rows of `tables.data_files` as they are recorded."""
    for row in files:
        least, most = (row.get(f"{bound}.{EVENT_TIME}") for bound in ("min", "max"))
        yield KeptFile(
            row["path"], row["size_bytes"], row["num_records"] or 0, least and micros(least), most and micros(most)
        )


def _snapshot(row: Mapping[str, Any], deleted: Mapping[str, Any] | None) -> Snapshot:
    return Snapshot(
        name=row["name"],
        taken_at=row["recorded_at"],
        who=row["asked_by"],
        why=row["reason"],
        range=Interval(row["range_start"], row["range_end"]),
        numbers=numbers_of(json.loads(row["publications"])),
        version=row["training_version"],
        rows=row["rows"],
        file_count=row["file_count"],
        size=row["bytes"],
        deleted_at=deleted["recorded_at"] if deleted else None,
        deleted_by=deleted["asked_by"] if deleted else None,
    )
