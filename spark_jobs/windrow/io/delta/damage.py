"""Damaged tables: what cannot be read is named, with the file and the next move. No older view passes for the newest.

    0 … 9.checkpoint  10  11  12      versions after the newest checkpoint are read from their commits; delta-rs and
        ▲                  ▲          Spark pass over an emptied one without a word, so it is looked for here
        └ cut or lost      └ emptied

A checkpoint only repeats the commits before it. Where they are all there, the way out is to put the checkpoint aside.

A commit says itself how much it did (rows or files written, actions, a transaction), so one that lacks lines is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.io.delta import store
from windrow.outcomes import NeedsPerson
from windrow.text import counted

DIGEST = "windrow.digest"
"""Key in the metadata of a commit by delta-rs: the digest of its rows, or of its identity."""
ACTIONS = "windrow.actions"
"""Key in the metadata of a commit of files that were there already: how many lines it has for files and transaction."""

ROWS = "windrow.rows"
"""Key in the metadata of such a commit: how many rows its files have, where Spark has just written them."""

_LAST_CHECKPOINT = "_last_checkpoint"
_LOOKED_AT = 100
"""Newest commits that are looked at for missing lines, where no checkpoint is pointed to that has the others."""
_BAD_PAGE = "could not verify page integrity"
"""In the error of Arrow that meets values with another checksum than theirs."""
_FILE = re.compile(r"^(?P<version>\d{20})\.(?P<kind>json|checkpoint\b.*)$")


class TableDamaged(NeedsPerson):
    """A log or a data file of a table cannot be read. A retry does not help: a person restores it."""


def refuse_lost_commits(path: str, version: int) -> None:
    """Fail where a commit after the newest checkpoint is empty or lacks lines, or one after `version` left its sums.

    Args:
        path: location of the table.
        version: its newest version that can be read.

    Raises:
        TableDamaged: names the commit.
    """
    log = f"{path}/_delta_log"
    first = _checkpointed(log) + 1
    lost = _commit(version + 1)
    commits = [_commit(number) for number in range(first, version + 1)]
    there = store.sizes(log, [*commits, lost, *_sums(log, lost)])
    present = [name for name in commits if name in there]  # one that is gone was cleaned: a checkpoint has it
    for name in present:
        if not there[name]:
            raise TableDamaged(
                f"{log}/{name} is empty: what version {int(name.split('.')[0])} of the table held cannot be read, and "
                "readers would not notice. Restore the file from a backup, then run again; nothing was written."
                f"{_without_backup(log, name)}"
            )
    # a writer makes checksums after the commit; it may have made both since the commit was looked for, so look again
    if lost not in there and any(name in there for name in _sums(log, lost)) and not store.stat(f"{log}/{lost}"):
        raise TableDamaged(
            f"{log}/{lost} is missing, and its checksums are there: it was lost. Restore the file from a backup, then "
            f"run again; nothing was written.{_without_backup(log, lost)}"
        )
    _refuse_cut_commits(log, {name: there[name] for name in present[-_LOOKED_AT:]})


def has_commit(path: str, version: int) -> bool:
    """Return whether the log of a table has the commit of a version; a cleaned one and an old copy lack it."""
    return store.stat(f"{path}/_delta_log/{_commit(version)}") is not None


def _refuse_cut_commits(log: str, sizes: dict[str, int]) -> None:
    """Fail where a commit lacks lines. One of a size that was found whole is not read again by this process."""
    places = {f"{log}/{name}": name for name in sizes}
    lacks = store.each(places, lambda place: _missing(place, sizes[places[place]]))
    for name, lack in zip(sizes, lacks, strict=True):
        if lack:
            raise TableDamaged(
                f"{log}/{name} was cut: {lack}. Restore it from a backup, then run again; nothing was written."
                f"{_without_backup(log, name)}"
            )


@lru_cache(100_000)
def _missing(commit: str, size: int) -> str:
    """Return what a commit lacks of what it says of itself; empty where it is whole.

    Args:
        size: bytes; a commit never changes, so another size is another file.
    """
    try:
        lines = store.read(commit).decode().split("\n")  # a text may hold other ends of lines
        actions = [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:  # cleaned since it was listed
        return ""
    info: dict[str, Any] | None = next((one["commitInfo"] for one in actions if "commitInfo" in one), None)
    if info is None:
        return "it does not say what it did"
    metrics = info.get("operationMetrics") or {}
    added = [one["add"] for one in actions if "add" in one]
    rows, files = int(metrics.get("numOutputRows", 0)), int(metrics.get("num_added_files", 0))
    named = sum(json.loads(one["stats"])["numRecords"] for one in added if one.get("stats"))
    if named < rows:  # committed by Spark
        return f"{counted(rows, 'row')} were written, and it names files with {named:,}"
    if len(added) < files:  # delta-rs
        return f"{counted(files, 'file')} were written, and it names {len(added):,}"
    if ACTIONS in info:
        listed = sum(kind in one for one in actions for kind in ("add", "remove", "txn"))
        return f"it had {info[ACTIONS]} actions, and it has {listed}" if listed < int(info[ACTIONS]) else ""
    is_ours = '"windrow"' in info.get("userMetadata", "") or (DIGEST in info and "num_added_files" in metrics)
    return "it does not name its transaction" if is_ours and not any("txn" in one for one in actions) else ""


def of_log(path: str, error: Exception) -> TableDamaged:
    """Return what is wrong with a log that delta-rs cannot read: the first damaged file, and the way out.

    Args:
        path: location of the table.
        error: what delta-rs raised.

    Returns:
        An error to raise; nothing is raised here.
    """
    log = f"{path}/_delta_log"
    names = {file.name for file in store.listed(log)}
    broken = next(_broken(log, names), None)
    what = f"the log in {log} cannot be read: {_first_line(error)}"
    if broken is not None:
        what = f"{log}/{broken} {'cannot be read' if broken in names else 'is missing'}"
    if broken is not None and not broken.endswith(".json") and _commits_are_whole(log, names):
        return TableDamaged(
            f"{path}: {what}. It only repeats what the commits hold, and they are all there: move it and "
            f"{log}/{_LAST_CHECKPOINT} out of the folder, then run again. Nothing was written, and no row is lost."
        )
    return TableDamaged(
        f"{path}: {what}. It was cut, emptied or lost. Restore the folder {log} from a backup, then run again; nothing "
        f"was written.{_without_backup(log, broken) if broken is not None else ''}"
    )


@contextmanager
def named(path: str) -> Iterator[None]:
    """Turn the error of a reader that meets a missing, cut or changed data file into one that names the table.

    Raises:
        TableDamaged: instead of the reader's own error.
    """
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        is_whole = not isinstance(error, (FileNotFoundError, pa.ArrowInvalid)) and _BAD_PAGE not in str(error)
        if is_whole:  # another trouble of the disk or the store
            raise
        raise TableDamaged(
            f"{path}: a data file of the table is missing or cut, or was changed ({_first_line(error)}). Restore it "
            "from a backup, then run again; nothing was written."
        ) from error


def wrong_files(path: str, files: pa.Table) -> Iterator[str]:
    """Yield a sentence for each data file that is missing or has another size than the log says.

    Args:
        path: location of the table.
        files: its data files (`tables.data_files`).
    """
    yield from wrong_sizes(path, dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True)))


def wrong_sizes(path: str, written: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each file of a table that is missing or has another size. A store is asked once.

    Args:
        written: name relative to the table → bytes.
    """
    found = store.sizes(path, list(written)) if written else {}
    for name, size in written.items():
        if name not in found:
            yield f"{path}/{name} is missing"
        elif found[name] != size:
            yield f"{path}/{name} has {found[name]:,} bytes, and {size:,} were written"


def _commit(version: int) -> str:
    return f"{version:020d}.json"


def _sums(log: str, commit: str) -> list[str]:
    """The checksums that a commit may have: Delta's of the version, and in a folder Hadoop's of the file."""
    of_version = f"{commit.removesuffix('.json')}.crc"
    return [of_version] if store.is_remote(log) else [of_version, f".{commit}.crc"]


def _without_backup(log: str, commit: str) -> str:
    """What to do about a damaged commit without a backup; nothing for one that newer commits build on."""
    names = {file.name for file in store.listed(log)}
    if not commit.endswith(".json") or any(name > commit for name in names if _is_commit(name)):
        return ""
    files = [f"{log}/{name}" for name in (commit, *_sums(log, commit)) if name in names]
    return (
        f" Without a backup, move {' and '.join(files)} out of the folder: the next run then says what is "
        "missing, and what can be done."
    )


def _checkpointed(log: str) -> int:
    """Return the version of the newest checkpoint that the log points to; -1 where it points to none."""
    try:
        return int(json.loads(store.read(f"{log}/{_LAST_CHECKPOINT}"))["version"])
    except (OSError, ValueError, KeyError, TypeError):  # readers do without it, too
        return -1


def _is_commit(name: str) -> bool:
    found = _FILE.match(name)
    return found is not None and found["kind"] == "json"


def _broken(log: str, names: set[str]) -> Iterator[str]:
    """Yield the names of files of the log that cannot be read, or that it points to and lacks; newest first."""
    pointed = _checkpointed(log)
    if pointed >= 0 and not any(name.startswith(f"{pointed:020d}.checkpoint") for name in names):
        yield f"{pointed:020d}.checkpoint.parquet"
    commits = {int(name.split(".")[0]) for name in names if _is_commit(name)}
    sums = {int(name.split(".")[0]) for name in names if re.fullmatch(r"\d{20}\.crc", name)}
    for missing in sorted(set(range(pointed + 1, max(commits | sums, default=0) + 1)) - commits, reverse=True):
        yield _commit(missing)
    for name in sorted(names, reverse=True):
        if (found := _FILE.match(name)) is None:
            continue
        try:
            if found["kind"] == "json":
                _read_commit(log, name)
            elif name.endswith(".parquet"):
                pq.read_table(name, filesystem=store.filesystem(log))
        except (OSError, ValueError, pa.ArrowException):
            yield name


def _commits_are_whole(log: str, names: set[str]) -> bool:
    """Return whether every version from 0 to the newest has a commit that can be read."""
    commits = sorted(name for name in names if _is_commit(name))
    try:
        for name in commits:
            _read_commit(log, name)
    except (OSError, ValueError):
        return False
    return [int(name.split(".")[0]) for name in commits] == list(range(len(commits)))


def _read_commit(log: str, name: str) -> None:
    """Read a commit.

    Raises:
        ValueError: it is empty, or a line of it is no JSON.
    """
    lines = [line for line in store.read(f"{log}/{name}").decode().split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{name} is empty")
    for line in lines:
        json.loads(line)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
