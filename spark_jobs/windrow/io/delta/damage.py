"""Damaged tables: what cannot be read is named, with the file and the next move. No older view passes for the newest.

    0 … 9.checkpoint  10  11  12      versions after the newest checkpoint are read from their commits; delta-rs and
        ▲                  ▲          Spark pass over an emptied one without a word, so it is looked for here
        └ cut or lost      └ emptied

A checkpoint only repeats the commits before it. Where they are all there, the way out is to put the checkpoint aside.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.outcomes import NeedsPerson

_LAST_CHECKPOINT = "_last_checkpoint"
_FILE = re.compile(r"^(?P<version>\d{20})\.(?P<kind>json|checkpoint\b.*)$")


class TableDamaged(NeedsPerson):
    """A log or a data file of a table cannot be read. A retry does not help: a person restores it."""


def refuse_lost_commits(path: str, version: int) -> None:
    """Fail where a commit after the newest checkpoint is an empty file, or one after `version` has left its checksums.

    Args:
        path: location of the table.
        version: its newest version that can be read.

    Raises:
        TableDamaged: names the commit.
    """
    log = Path(path) / "_delta_log"
    for number in range(_checkpointed(log) + 1, version + 1):
        commit = _commit(log, number)
        try:
            empty = commit.stat().st_size == 0
        except FileNotFoundError:  # cleaned after its retention: a checkpoint has it, named in the pointer or not
            continue
        if empty:
            raise TableDamaged(
                f"{commit} is empty: what version {number} of the table held cannot be read, and readers would not "
                f"notice. Restore the file from a backup, then run again; nothing was written.{_without_backup(commit)}"
            )
    lost = _commit(log, version + 1)
    if _sums(lost) and not lost.exists():  # a writer makes them after the commit
        raise TableDamaged(
            f"{lost} is missing, and its checksums are there: it was lost. Restore the file from a backup, then run "
            f"again; nothing was written.{_without_backup(lost)}"
        )


def of_log(path: str, error: Exception) -> TableDamaged:
    """Return what is wrong with a log that delta-rs cannot read: the first damaged file, and the way out."""
    log = Path(path) / "_delta_log"
    broken = next(_broken(log), None)
    what = f"the log in {log} cannot be read: {_first_line(error)}"
    if broken is not None:
        what = f"{broken} {'cannot be read' if broken.exists() else 'is missing'}"
    if broken is not None and broken.suffix != ".json" and _commits_are_whole(log):
        return TableDamaged(
            f"{path}: {what}. It only repeats what the commits hold, and they are all there: move it and "
            f"{log / _LAST_CHECKPOINT} out of the folder, then run again. Nothing was written, and no row is lost."
        )
    return TableDamaged(
        f"{path}: {what}. It was cut, emptied or lost. Restore the folder {log} from a backup, then run again; nothing "
        f"was written.{_without_backup(broken) if broken is not None else ''}"
    )


@contextmanager
def named(path: str) -> Iterator[None]:
    """Turn the error of a reader that meets a missing or cut data file into one that names the table.

    Raises:
        TableDamaged: instead of the reader's own error.
    """
    try:
        yield
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise TableDamaged(
            f"{path}: a data file of the table is missing or cut ({_first_line(error)}). Restore it from a backup, "
            "then run again; nothing was written."
        ) from error


def wrong_files(path: str, files: pa.Table) -> Iterator[str]:
    """Yield a sentence for each data file that is missing or has another size than the log says.

    Args:
        path: location of the table.
        files: its data files (`tables.data_files`).
    """
    for name, size in zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True):
        file = Path(path) / name
        try:
            found = file.stat().st_size
        except FileNotFoundError:
            yield f"{file} is missing"
            continue
        if found != size:
            yield f"{file} has {found:,} bytes, and {size:,} were written"


def _commit(log: Path, version: int) -> Path:
    return log / f"{version:020d}.json"


def _sums(commit: Path) -> list[Path]:
    """The checksums of a commit that are there: Delta's of the version, and Hadoop's of the file."""
    return [file for file in (commit.with_suffix(".crc"), commit.with_name(f".{commit.name}.crc")) if file.exists()]


def _without_backup(commit: Path) -> str:
    """What to do about a damaged commit without a backup; nothing for one that newer commits build on."""
    if any(file > commit for file in commit.parent.glob("[0-9]*.json")) or commit.suffix != ".json":
        return ""
    files = [file for file in (commit, *_sums(commit)) if file.exists()]
    return (
        f" Without a backup, move {' and '.join(map(str, files))} out of the folder: the next run then says what is "
        "missing, and what can be done."
    )


def _checkpointed(log: Path) -> int:
    """Return the version of the newest checkpoint that the log points to; -1 where it points to none."""
    try:
        return int(json.loads((log / _LAST_CHECKPOINT).read_text())["version"])
    except (OSError, ValueError, KeyError, TypeError):  # readers do without it, too
        return -1


def _broken(log: Path) -> Iterator[Path]:
    """Yield the files of the log that cannot be read, or that it points to and lacks; newest first."""
    pointed = _checkpointed(log)
    if pointed >= 0 and not any(log.glob(f"{pointed:020d}.checkpoint*")):
        yield log / f"{pointed:020d}.checkpoint.parquet"
    commits, sums = ({int(file.stem) for file in log.glob(f"[0-9]*.{kind}")} for kind in ("json", "crc"))
    for missing in sorted(set(range(pointed + 1, max(commits | sums, default=0) + 1)) - commits, reverse=True):
        yield _commit(log, missing)
    for file in sorted(log.iterdir(), reverse=True):
        if (found := _FILE.match(file.name)) is None:
            continue
        try:
            if found["kind"] == "json":
                _read_commit(file)
            elif file.suffix == ".parquet":
                pq.read_table(file)
        except (OSError, ValueError, pa.ArrowException):
            yield file


def _commits_are_whole(log: Path) -> bool:
    """Return whether every version from 0 to the newest has a commit that can be read."""
    commits = sorted(log.glob("[0-9]*.json"))
    try:
        for file in commits:
            _read_commit(file)
    except (OSError, ValueError):
        return False
    return [int(file.stem) for file in commits] == list(range(len(commits)))


def _read_commit(file: Path) -> None:
    """Read a commit.

    Raises:
        ValueError: it is empty, or a line of it is no JSON.
    """
    lines = file.read_text().splitlines()
    if not lines:
        raise ValueError(f"{os.fspath(file)} is empty")
    for line in lines:
        json.loads(line)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
