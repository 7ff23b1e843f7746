"""Small Delta tables, read and written without a JVM (delta-rs).

A write names an app id and a version, and of all writers of a version one wins, in whatever process, with a lock or
without. An error does not tell whether the commit was made: its answer may be lost, and a second try of it would find
the first one in its way. Therefore the log is looked at: a commit carries a digest of its rows, and what is there with
this digest was written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from windrow.io.delta import damage, store
from windrow.io.delta.files import DataFile, add_action, remove_action
from windrow.outcomes import AnotherWriter
from windrow.semantics.plan import Plan

Filter = tuple[str, str, Any]
"""Column, operator and value, as Arrow's readers take them."""
Filters = Sequence[Filter] | Sequence[list[Filter]]
"""Conditions that a row must all meet, or lists of such, one of which it must meet."""

COMPACT_EVERY = 10
"""Commits between two compactions; many one-row files make a table slow to read."""
_MERGED = 4 * 1024 * 1024
"""Bytes from which a file is not merged again: what a merge costs does not grow with the table."""
_ROWS_OF_GROUP = 8192
"""Rows of a row group of a merged file: a reader of the newest rows passes over the others."""
_INSTANT = pa.timestamp("us", tz="UTC")
_TRIES = 20
"""Tries of a write that may come at any version; each is lost only to a writer that has committed."""
CHECKPOINTS = {"delta.checkpointInterval": "10"}
"""Versions between two checkpoints: whoever opens a table reads the commits after the newest one."""
REGISTER = {**CHECKPOINTS, "delta.logRetentionDuration": "interval 7 days"}
"""Properties of a table that nobody reads as of an old version: whoever opens it in a folder lists its whole log."""


class WriteSkipped(AnotherWriter):
    """A commit of this app id and version is already in the table: the writer's view is outdated."""


_NOT_MERGED = (WriteSkipped, damage.TableDamaged, DeltaError, OSError, pa.ArrowException)
"""Errors of a merge after an append, which was made whatever comes of the merge: a retry would make it twice."""


def at(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at a version, or its newest one.

    Raises:
        TableNotFoundError, DeltaError: delta-rs cannot open it.
    """
    return DeltaTable(path, version=version, storage_options=store.options(path))


def opened(path: str) -> DeltaTable | None:
    """Return the newest version of the table, or None where there is no table yet.

    Raises:
        TableDamaged: the table has a log that cannot be read, or lacks a commit.
    """
    if not store.may_exist(path):  # delta-rs would create the folder of a table that is only asked for
        return None
    try:
        table = at(path)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise damage.of_log(path, error) from error
    damage.refuse_lost_commits(path, table.version())
    return table


def refreshed(path: str, known: DeltaTable | None) -> DeltaTable | None:
    """Return the newest version of a table, or None where there is none.

    Args:
        known: the table as it was opened before, which is brought up to date: that reads the commits since alone. None
            for a table that is to be opened; so is one whose log no longer has the commit that was the newest.

    Raises:
        TableDamaged: the table has a log that cannot be read, or lacks a commit.
    """
    if known is None or not damage.has_commit(path, known.version()):
        return opened(path)
    try:
        known.update_incremental()
    except DeltaError as error:
        raise damage.of_log(path, error) from error
    damage.refuse_lost_commits(path, known.version())
    return known


STATISTICS = "delta.dataSkippingStatsColumns"
"""Table property: the columns whose least and greatest value stand in the log."""


def keep_statistics(table: DeltaTable, columns: Sequence[str]) -> None:
    """Let the log of a table get statistics of these columns only, from the next commit on.

    An older release let Delta keep them for others too. The caller holds the table's lock; `table` shows the commit.
    """
    set_properties(table, {STATISTICS: ",".join(columns)})


def add_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Give a table those of the properties that it lacks: an older release made it without them.

    Raises:
        WriteSkipped: another writer was faster.
    """
    known = table.metadata().configuration
    set_properties(table, {name: value for name, value in properties.items() if name not in known})


def set_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Give a table properties, unless it has them; `table` shows the commit.

    Raises:
        WriteSkipped: another writer was faster.
    """
    ensure(
        table,
        lambda: properties.items() <= table.metadata().configuration.items(),
        lambda: table.alter.set_table_properties(dict(properties), raise_if_not_exists=False),
    )


def ensure(table: DeltaTable, is_so: Callable[[], bool], commit: Callable[[], object]) -> None:
    """Make a commit that makes something true of a table, unless it is true; also where the answer to it is lost.

    Args:
        table: shows the commit afterwards.
        is_so: whether it is true of `table`.
        commit: makes it true.
    Raises:
        WriteSkipped: another writer was faster.
        DeltaError, OSError: it could not be committed.
    """
    if is_so():
        return
    try:
        commit()
    except (DeltaError, OSError) as error:
        table.update_incremental()
        if is_so():
            return
        if isinstance(error, CommitFailedError):
            raise WriteSkipped(
                f"{table.table_uri}: another writer was faster ({_first_line(error)}). Start the job again."
            ) from error
        raise


def data_files(table: DeltaTable) -> pa.Table:
    """Return the data files of a table with their statistics, one row per file, from the log alone.

    Columns: `path`, `size_bytes`, `num_records`, and `min.<column>`, `max.<column>`, `null_count.<column>`,
    `partition.<column>` where the log has them.
    """
    return pa.table(table.get_add_actions(flatten=True))


def rows_by(table: DeltaTable, partition: str) -> dict[Any, int]:
    """Return value of a partition column → rows in its files, from the log alone.

    Args:
        partition: name of a partition column.
    """
    counts: dict[Any, int] = {}
    files = data_files(table)
    for value, rows in zip(files[f"partition.{partition}"].to_pylist(), files["num_records"].to_pylist(), strict=True):
        counts[value] = counts.get(value, 0) + rows
    return counts


def read(path: str, columns: Sequence[str] | None = None, filters: Filters | None = None) -> list[dict[str, Any]]:
    """Return rows of a small table as dicts by column; empty where the table is missing.

    Args:
        columns: None or empty for all.
    Raises:
        TableDamaged: the log or a data file cannot be read.
    """
    found = arrow(path, columns, filters)
    return [] if found is None else dicts(found)


def dicts(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dicts by column, equal to those of `to_pylist`.

    Arrow makes instants one by one, which takes most of the time for a long register; NumPy makes them at once.
    """
    names = rows.column_names
    return [
        dict(zip(names, row, strict=True))
        for batch in rows.to_batches()
        for row in zip(*map(_values, batch.columns), strict=True)
    ]


def _values(column: pa.Array) -> list[Any]:
    if column.type != _INSTANT:
        return list(column.to_pylist())
    naive = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).tolist()
    return [None if at is None else at.replace(tzinfo=UTC) for at in naive]


def arrow(path: str, columns: Sequence[str] | None = None, filters: Filters | None = None) -> pa.Table | None:
    """Return rows of a small table, as `read` does; None where there is no table, or no row can be wanted."""
    table = opened(path)
    if table is None or any(part[1:] == ("in", []) for part in filters or ()):
        return None  # an empty set selects no row, and Arrow could not infer its type
    with damage.named(path):
        return matching(table, columns, filters)


def matching(table: DeltaTable, columns: Sequence[str] | None = None, filters: Filters | None = None) -> pa.Table:
    """Return the rows that meet conditions, from the files that can hold one by their bounds in the log.

    Delta-rs takes a bound that is missing in the log for one that no value is within, and would leave out the file.

    Args:
        columns: None or empty for all.
    """
    whole = table.to_pyarrow_dataset()
    either = _alternatives(filters or ())
    if boundless := _without_bounds(table, {name for conditions in either for name, _, _ in conditions}):
        parts = [
            whole.format.make_fragment(part.path, whole.filesystem) if part.path in boundless else part
            for part in whole.get_fragments()
        ]
        whole = pds.FileSystemDataset(parts, whole.schema, whole.format, whole.filesystem)
    wanted = pq.filters_to_expression(either) if either else None
    return whole.to_table(columns=list(columns) if columns else None, filter=wanted)


def _alternatives(filters: Filters) -> list[list[Filter]]:
    given: Any = list(filters)
    return [given] if given and isinstance(given[0], tuple) else given


def _without_bounds(table: DeltaTable, columns: set[str]) -> set[str]:
    """Return the files for which the log lacks a bound of one of the columns; none of a table with partitions."""
    if not columns or table.metadata().partition_columns:
        return set()
    files, bounds = data_files(table), [f"{end}.{name}" for name in columns for end in ("min", "max")]
    known = files.select(["path", *(name for name in bounds if name in files.column_names)])
    return {file["path"] for file in known.to_pylist() if any(file.get(name) is None for name in bounds)}


def of_plans(column: str, plans: Sequence[Plan]) -> list[Filter]:
    """Return filters for the rows of these plans; `column` holds the plan id.

    They name the interval too: files have narrow bounds of it, while the bounds of a random id exclude no file.

    Returns:
        Alternatives, of which each is a list of conditions that must hold together.
    """
    return [(column, "in", [plan.id for plan in plans]), ("interval", "in", [plan.interval.start for plan in plans])]


def version_of(path: str, app_id: str) -> int:
    """Return the last committed transaction version of an app id; -1 before its first, or without a table.

    Args:
        path: location of the table.
        app_id: id of a writer in the commits, such as `windrow.publish`.
    """
    return last_version(opened(path), app_id)


def last_version(table: DeltaTable | None, app_id: str) -> int:
    """Return the last transaction version of an app id in an open table; -1 before its first, or without a table."""
    last = table.transaction_version(app_id) if table is not None else None
    return -1 if last is None else int(last)


class Commit(NamedTuple):
    """A commit with a message."""

    version: int
    message: str
    """JSON text of the commit's user metadata."""
    rows: int | None
    """Number of written rows by the writer's own metrics, where it recorded them."""


def commits(path: str) -> Iterator[Commit]:
    """Yield the commits of a table that have a message, newest first; those of maintenance have none."""
    table = opened(path)
    return iter(()) if table is None else commits_of(table)


def commits_of(table: DeltaTable) -> Iterator[Commit]:
    """Yield the commits that have a message, newest first.

    The history is read in growing steps, because most callers stop at the newest commit.
    """
    seen, step = 0, 8
    while True:
        log = table.history(limit=step)
        for entry in log[seen:]:
            if message := entry.get("userMetadata"):
                metrics = entry.get("operationMetrics", {})
                by_spark = metrics.get("numOutputRows", entry.get(damage.ROWS))  # committed by it, or by delta-rs
                rows = metrics.get("num_added_rows", by_spark)
                yield Commit(int(entry["version"]), message, None if rows is None else int(rows))
        if len(log) < step:
            return
        seen, step = step, step * 4


def append_once(
    path: str,
    schema: pa.Schema,
    rows: Iterable[Mapping[str, Any]],
    *,
    app_id: str,
    version: int,
    message: str | None = None,
    merge_files: bool = True,
    table: DeltaTable | None = None,
    pinned: bool = False,
) -> None:
    """Append rows in one commit, exactly once per version of the app id.

    Args:
        rows: values by column; a missing one is null.
        app_id: names the writer; it has versions of its own.
        version: number of this write, greater than those before.
        message: JSON text that the commit carries.
        merge_files: whether small files become one after every so many commits, and the log is kept for days only.
        table: the table, where the caller has it open; it shows the commit afterwards.
        pinned: whether the commit takes the version after `table`, on which the rows were found, or none.

    Raises:
        WriteSkipped: the version is not newer than the last one of the app id, or another writer was faster.
    """
    # a write by path, without a table, comes upon one that was made meanwhile and repeats a version of its app id
    table = table or create_if_missing(path, schema, REGISTER if merge_files else CHECKPOINTS)
    require_new(table, path, app_id, version)
    before = table.version()
    data = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    digest = _digest(data)
    properties = CommitProperties(
        custom_metadata={damage.DIGEST: digest} | ({"userMetadata": message} if message else {}),
        app_transactions=[_transaction(app_id, version)],
        max_commit_retries=0 if pinned else None,
    )
    try:
        # schema_mode: a table that was created by an older release gains its missing columns
        write_deltalake(
            table,
            data,
            mode="append",
            schema_mode="merge",
            commit_properties=properties,
        )
    except (DeltaError, OSError) as error:
        _require_commit(path, digest, before, error)
        table.update_incremental()
    if merge_files and table.version() % COMPACT_EVERY == 0:
        with suppress(*_NOT_MERGED):
            add_properties(table, REGISTER)
            merge(path, table)


def require_new(table: DeltaTable, path: str, app_id: str, version: int) -> None:
    """Fail where the table has this version of an app id, or a later one.

    Raises:
        WriteSkipped: it has.
    """
    last = table.transaction_version(app_id)
    if last is not None and version <= last:
        raise WriteSkipped(
            f"{path}: version {version} of {app_id} is not newer than {last}; another writer was faster. "
            "Start the job again: it will see what is there."
        )


def merge(path: str, table: DeltaTable) -> None:
    """Make one file of all small files of a table, in parts of which a reader opens those that it needs.

    Delta-rs has an operation for it, which doubles rows: it commits after another one has merged the same files.

    Args:
        path: location of the table, which has no partitions.

    Raises:
        WriteSkipped: another writer was faster.
        TableDamaged: a file cannot be read, or has not as many rows as the log says.
    """
    files = data_files(table).to_pylist()
    small = {file["path"]: file for file in files if file["size_bytes"] < _MERGED and file["num_records"] is not None}
    if len(small) < 2:
        return
    with damage.named(path):
        whole = table.to_pyarrow_dataset()
        parts = [part for part in whole.get_fragments() if part.path in small]
        rows = pds.FileSystemDataset(parts, whole.schema, whole.format, whole.filesystem).to_table()
    if rows.num_rows != (written := sum(file["num_records"] for file in small.values())):
        raise damage.TableDamaged(f"{path}: its small files have {rows.num_rows:,} rows, and {written:,} were written")
    name = f"part-merged-{hashlib.sha256(' '.join(sorted(small)).encode()).hexdigest()}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=_ROWS_OF_GROUP)
    store.create(f"{path}/{name}", sink.getvalue().to_pybytes())  # of the same files: the same content
    added = add_action(path, name, DataFile.read(f"{path}/{name}"), rows.column_names, None, data_change=False)
    at = datetime.now(UTC)
    removed = [remove_action(old, file["size_bytes"], None, at, data_change=False) for old, file in small.items()]
    commit_files(path, table, [added, *removed], identity=name)


def create_if_missing(
    path: str,
    schema: pa.Schema | Schema,
    properties: Mapping[str, str] = REGISTER,
    *,
    by: str | None = None,
    about: str | None = None,
) -> DeltaTable:
    """Return a table at its newest version; an empty one is created where there is none.

    Args:
        properties: of a table that is created; some may be for Spark alone.
        by: the partition column.
        about: its description.

    Raises:
        DeltaError, OSError: it cannot be created.
    """
    if (present := opened(path)) is not None:
        return present
    try:
        return DeltaTable.create(
            path,
            schema,
            mode="ignore",
            description=about,
            partition_by=[by] if by else None,
            configuration=dict(properties),
            raise_if_key_not_exists=False,
            storage_options=store.options(path),
            commit_properties=CommitProperties(max_commit_retries=0),  # a retry would create it once more, as version 1
        )
    except (DeltaError, OSError):
        if (made := opened(path)) is None:  # neither this writer, whose answer was lost, nor another one made it
            raise
        return made


def append_next(
    path: str,
    schema: pa.Schema,
    rows: Iterable[Mapping[str, Any]],
    *,
    app_id: str,
    is_done: Callable[[], bool] = lambda: False,
) -> bool:
    """Append rows as the next version of the app id, unless that was done; return whether this call has done it.

    Args:
        rows: values by column; a missing one is null.
        is_done: asked before each try, because another writer may be faster.
    Raises:
        WriteSkipped: others were faster each time.
    """
    rows = list(rows)
    for left in reversed(range(_TRIES)):
        version = max(0, version_of(path, app_id)) + 1  # before `is_done`: what is written after it takes this version
        if is_done():
            return False
        try:
            append_once(path, schema, rows, app_id=app_id, version=version)
            return True
        except WriteSkipped:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def commit_files(
    path: str,
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    *,
    identity: str,
    partition_by: Sequence[str] = (),
    message: str | None = None,
    transaction: tuple[str, int] | None = None,
    rows: int | None = None,
    pinned: bool = False,
) -> None:
    """Add and remove files that are there already, in one commit on top of `table`, or do nothing.

    A commit that removes files takes the version after `table`, or none. Any other one may come later: delta-rs looks
    at the commits between. But it lets a file be removed twice where one of the commits changes no data (compaction).

    Args:
        identity: text that no other commit of the table has; by it the commit is found where its answer was lost.
        message: JSON text that the commit carries.
        transaction: app id and version; delta-rs compares it with the commits after `table` only, this function with
            those before.
        rows: number of rows in the files, where they are new; the commit carries it.
        pinned: whether a commit that removes nothing takes the version after `table`, or none, too.
    Raises:
        WriteSkipped: another writer has taken the version.
    """
    if transaction:
        require_new(table, path, *transaction)
    digest, before = hashlib.sha256(identity.encode()).hexdigest(), table.version()
    lines = len(actions) + (transaction is not None)
    is_pinned = pinned or any(isinstance(action, RemoveAction) for action in actions)
    try:
        table.create_write_transaction(
            list(actions),
            mode="append",
            schema=table.schema(),
            partition_by=list(partition_by) or None,
            commit_properties=CommitProperties(
                custom_metadata={damage.DIGEST: digest, damage.ACTIONS: str(lines)}
                | ({"userMetadata": message} if message else {})
                | ({} if rows is None else {damage.ROWS: str(rows)}),
                app_transactions=[_transaction(*transaction)] if transaction else None,
                max_commit_retries=0 if is_pinned else None,
            ),
        )
    except (DeltaError, OSError) as error:
        _require_commit(path, digest, before, error)


def fence(path: str, why: str) -> None:
    """Make a commit without rows: whoever commits only on the version that was looked at fails after it.

    Whoever changes what writers must respect holds the lock. But a process that slept for longer than a lease believes
    that it holds it too. Where there is no table, whoever creates it looks later.

    Args:
        why: names the change, and is not in the log.
    """
    if (table := opened(path)) is not None:
        commit_files(path, table, [], identity=f"{why} after version {table.version()}")


def _transaction(app_id: str, version: int) -> Transaction:
    """Return the entry of an app id with its time: a table that keeps entries for a while drops the others by it."""
    return Transaction(app_id, version, int(time.time() * 1000))


def _digest(data: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as stream:
        stream.write_table(data)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _require_commit(path: str, digest: str, before: int, error: Exception) -> None:
    """Return where the commit was made although its writer got an error; otherwise raise.

    Args:
        before: version that the writer began from.
        error: what it got.
    Raises:
        WriteSkipped: another writer was faster.
        Exception: `error`, where nobody was.
    """
    table = opened(path)
    newer = 0 if table is None else table.version() - before
    if table is not None and newer and any(one.get(damage.DIGEST) == digest for one in table.history(limit=newer)):
        return
    if isinstance(error, CommitFailedError):
        raise WriteSkipped(
            f"{path}: another writer was faster ({_first_line(error)}), and nothing was committed. Start the job "
            "again: it will see what is there."
        ) from error
    raise error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
