"""snapshot: keep a named state of the training table for good, or let it go. No Spark.

read      register, and a version of the table in which the wanted publications stand
compute   publications of the range, and of one window before and after it; their files
write     copies of files that the newest version lacks, then one row of `snapshots`, which is the snapshot; then a look
          that every file is there

All under the lock of the training table, which maintenance takes to delete files. One that sleeps beyond its lease
deletes what it has chosen before, which may be any file that the newest version lacks, and no copy. A kill leaves the
row or nothing; copies without a row are deleted after the retention.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any

import typer

from windrow.home import Home, Table
from windrow.io.delta import crash_points, store, tables
from windrow.io.delta.locks import held
from windrow.io.registers import erasures, publications, snapshots
from windrow.io.registers.snapshots import KeptFile, KeptFiles, Snapshot
from windrow.io.training import states
from windrow.io.training.states import Row
from windrow.jobs.decision import noted
from windrow.jobs.options import OptionalFrom, OptionalTo, PipelineName, Who
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.outcomes import BadInput, NothingToDo
from windrow.semantics.intervals import Interval, shifted
from windrow.text import short, shown_instant

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

SnapshotName = Annotated[str, typer.Argument(help="Name of the snapshot: letters, digits, . _ and -.", metavar="NAME")]
AtPublication = Annotated[
    int | None,
    typer.Option(
        "--publication", min=1, metavar="N", show_default=False, help="The state after publication N; default: now."
    ),
]
Why = Annotated[str, typer.Option("--why", "--reason", metavar="TEXT", help="Why; recorded with the snapshot.")]


class RowsOfStateGone(BadInput):
    """Files of the wanted state were deleted before it was kept. A retry does not help."""


def take(
    ctx: Context,
    name: str,
    begin: datetime | None = None,
    end: datetime | None = None,
    number: int | None = None,
    *,
    who: str,
    why: str | None = None,
) -> Snapshot:
    """Keep a state of the training table under a name; return the snapshot.

    Args:
        begin: first served time; None for the start of the pipeline.
        end: end of the served times, not included; None for the end of the newest published interval.
        number: the state after this publication; None for the newest.
    Raises:
        BadRequest: the name was given to another snapshot, or nothing is published in the range.
        NothingToDo: the same state is kept under this name.
        RowsOfStateGone: files of the state were deleted by vacuum.
        HoldsErased: keys were erased, and publications of the state were replaced since.
        WriteSkipped: keys were erased, rows were published, or another snapshot was taken meanwhile. A retry helps.
    """
    if not _NAME.fullmatch(name):
        raise BadRequest(f"{short(name)} is not a valid snapshot name: letters, digits, . _ and -, at most 100 of them")
    home = ctx.home
    with held(home.lock(Table.TRAINING)):
        known = snapshots.opened(home)
        one, files = _state(ctx, name, begin, end, number, who, why)
        _refuse_given(home, one)
        files = _with_copies(home, one, files)
        crash_points.point("snapshot.before_commit")
        try:
            snapshots.record(home, one, files, version("windrow"), known)
        except tables.WriteSkipped:
            _refuse_given(home, one)
            raise
        crash_points.point("snapshot.after_commit")
        if _lost(home, files):  # where another machine deletes files although this one holds the lock
            snapshots.delete(home, name, ctx.now(), who, "files were deleted while it was taken")
            raise _gone(one.range)
    return one


def delete(ctx: Context, name: str, *, who: str, why: str | None = None) -> Snapshot:
    """Let maintenance delete the files that only this snapshot needs; return it. Its name stays taken.

    Raises:
        BadRequest: there is no snapshot of this name.
        NothingToDo: it was deleted before.
    """
    one = snapshots.named(ctx.home, name)
    if one is None:
        known = ", ".join(snapshot.name for snapshot in snapshots.kept(ctx.home)) or "none"
        raise BadRequest(f"{ctx.pipeline.name} has no snapshot {short(name)}; it has {known}")
    if not snapshots.delete(ctx.home, name, ctx.now(), who, why):
        raise NothingToDo(f"the snapshot {name} of {ctx.pipeline.name} is deleted already")
    return one


def _state(
    ctx: Context,
    name: str,
    begin: datetime | None,
    end: datetime | None,
    number: int | None,
    who: str,
    why: str | None,
) -> tuple[Snapshot, KeptFiles]:
    """Return what is to be recorded. The caller holds the training lock."""
    home, pipeline = ctx.home, ctx.pipeline
    table = tables.opened(home.table(Table.TRAINING))  # before the register, which may be ahead of it then
    newest = publications.repair(home)
    if table is not None and (table.transaction_version(publications.APP_ID) or 0) != newest:
        raise tables.WriteSkipped(f"{pipeline.name} was published to while the snapshot was taken: take it again")
    if number is not None and number > newest:
        raise BadRequest(f"{pipeline.name} has no publication {number}; it has {newest or 'none'}")
    register = publications.registered(home)
    last = newest if number is None else number
    standing = list(publications.standing([row for row in register if row["number"] <= last]).values())
    span = _range(pipeline.start, standing, begin, end)
    inside = states.within(standing, span)
    if not inside or table is None:
        raise BadRequest(f"{pipeline.name} has published nothing of {span}: `windrow publications {pipeline.name}`")
    reach = states.reach_of(home, standing, span)
    wide = Interval(shifted(span.start, -reach), shifted(span.end, reach))
    rows = sorted(states.within(standing, wide), key=lambda row: row["number"])
    found = states.table_with(home, table, register, rows, wide)
    if found is not table:
        _refuse_before_erasure(home, span)
    if found is not None:
        files = states.files_in(home, found, wide)
    elif kept := states.snapshot_with(home, register, rows, wide):
        files = kept[1]
    else:
        raise _gone(span)
    size = sum(file.size for file in files.files)
    counts = sum(row["rows"] for row in inside), len(files.files), size
    numbers = tuple(row["number"] for row in rows)
    return Snapshot(name, ctx.now(), who, why, span, numbers, files.version(), *counts), files


def _range(first: datetime, standing: Sequence[Row], begin: datetime | None, end: datetime | None) -> Interval:
    start = first if begin is None else begin
    until = max((row["interval_end"] for row in standing), default=first) if end is None else end
    if until <= start:
        raise BadRequest(f"the range ends at {shown_instant(until)}, at or before it begins ({shown_instant(start)})")
    return Interval(start, until)


def _refuse_given(home: Home, wanted: Snapshot) -> None:
    """Check that no snapshot has the wanted one's name.

    Raises:
        NothingToDo: one has, of the same state.
        BadRequest: one has, of another state, or it was deleted.
    """
    known = snapshots.named(home, wanted.name)
    if known is None:
        return
    since = f"{known.who} took the snapshot {known.name} at {shown_instant(known.taken_at)}"
    if known.deleted_at is None and (known.range, known.numbers) == (wanted.range, wanted.numbers):
        raise NothingToDo(f"{since}, of this state")
    was = f" and {known.deleted_by} deleted it at {shown_instant(known.deleted_at)}" if known.deleted_at else ""
    raise BadRequest(f"{since}, of {known.range}{was}. A name is given once: choose another one.")


def _refuse_before_erasure(home: Home, span: Interval) -> None:
    """Fail where keys were erased: rows that do not stand any more were not searched for them.

    The caller holds the training lock: an erasure that begins now looks at what is recorded under it.
    """
    if erasures.are_any(home):
        raise erasures.HoldsErased(
            f"keys of {home.pipeline.name} were erased, and rows of {span} that were published then have been replaced "
            "since: they may be of these keys, and a snapshot would keep them for good. Nothing was kept. Leave out "
            "--publication: the state that stands now can be kept."
        )


def _with_copies(home: Home, one: Snapshot, files: KeptFiles) -> KeptFiles:
    """Copy those of the files that the newest version lacks, and return all by the names that they have then.

    Raises:
        RowsOfStateGone: one of them is gone.
    """
    names = {file.path: _name_of_copy(one, file.path) for file in _at_risk(home, files)}
    copies = {f"{files.path}/{path}": f"{files.path}/{name}" for path, name in names.items()}
    try:
        store.each(copies, lambda location: store.copy(location, copies[location], is_new=True))
    except FileNotFoundError as error:
        raise _gone(one.range) from error
    return replace(files, files=tuple(file._replace(path=names.get(file.path, file.path)) for file in files.files))


def _name_of_copy(one: Snapshot, path: str) -> str:
    """Return a name in the folder of the file, which no other snapshot and no other try gives."""
    folder, _ = path.rsplit("/", 1)
    of = hashlib.sha256(f"{one.name} {one.taken_at.isoformat()} {path}".encode()).hexdigest()
    return f"{folder}/part-kept-{of}.parquet"


def _lost(home: Home, files: KeptFiles) -> list[str]:
    """Return which files are gone; those of the newest version are not looked for, because nothing deletes them."""
    return replace(files, files=tuple(_at_risk(home, files))).missing


def _at_risk(home: Home, files: KeptFiles) -> list[KeptFile]:
    """Return the files that the newest version of the training table lacks."""
    table = tables.opened(home.table(Table.TRAINING))
    current = set() if table is None else set(tables.data_files(table)["path"].to_pylist())
    return [file for file in files.files if file.path not in current]


def _gone(span: Interval) -> RowsOfStateGone:
    return RowsOfStateGone(
        f"rows of {span} that were published then are in no version of the training table any more: other publications "
        "have replaced them, and vacuum has removed their files. Take a later state."
    )


def execute(
    pipeline: PipelineName,
    name: SnapshotName,
    begin: OptionalFrom = None,
    end: OptionalTo = None,
    publication: AtPublication = None,
    why: Why = "",
    who: Who = None,
) -> Mapping[str, Any]:
    """Take the snapshot, and return what it keeps.

    Raises:
        BadRequest: the name is not valid or was given to another state, or nothing is published in the range.
        NothingToDo: the same state is kept under this name.
        RowsOfStateGone: files of the state were deleted by vacuum.
        HoldsErased: keys were erased, and publications of the state were replaced since.
    """
    user, reason = noted(why, who)
    return brief(take(context(pipeline), name, begin, end, publication, who=user, why=reason))


def brief(one: Snapshot) -> dict[str, Any]:
    """Return a snapshot as programs and tables show it."""
    return {
        "name": one.name,
        "taken_at": one.taken_at,
        "who": one.who,
        "why": one.why,
        "from": one.range.start,
        "to": one.range.end,
        "publication": one.numbers[-1],
        "rows": one.rows,
        "files": one.file_count,
        "bytes": one.size,
        "deleted_at": one.deleted_at,
        "deleted_by": one.deleted_by,
    }


main = job(execute)
