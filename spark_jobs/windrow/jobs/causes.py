"""Known causes of unexpected errors: what a person can act on, in one line in front of the trace.

Spark passes the errors of its tasks on as text, so the cause is found in the text.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from windrow.io.delta.damage import TableDamaged
from windrow.io.delta.refusals import of_store
from windrow.io.delta.tables import WriteSkipped
from windrow.io.training.payload import PayloadMisplaced
from windrow.kafka.refusals import of_java
from windrow.outcomes import Condition, NotReady
from windrow.places import Places

_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?P<file>\S+?)\.\s|"
    r"\[PATH_NOT_FOUND\] Path does not exist: (?P<path>\S+?)\.?\s"
)


_RACE = re.compile(
    r"\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)\]|Concurrent(Transaction|Append|Write)Exception"
)
_IN_WORKER = re.compile(r"^windrow\.[\w.]+\.(?P<kind>TableDamaged|PayloadMisplaced): (?P<what>.+)$", re.MULTILINE)
"""Conditions of a Python worker, as the last line of its trace has them."""
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "File too large")
"""A disk, a quota or a limit of file sizes; Linux has the same words for all programs."""


class DiskFull(NotReady):
    """A disk is full. A retry helps once there is space; what was committed stands."""


def known_cause(error: Exception) -> Condition | None:
    """Return the condition behind an unexpected error; None where its text does not tell one."""
    if _is_out_of_space(error):
        return _disk_full()
    if _RACE.search(str(error)):
        return WriteSkipped(
            "another writer committed to the same table meanwhile, and nothing of this run was. Start the job again: "
            "it will see what is there."
        )
    if refused := of_java(Places.from_env(os.environ).brokers, str(error)) or of_store(str(error)):
        return refused
    if raised := _IN_WORKER.search(str(error)):
        return {"TableDamaged": TableDamaged, "PayloadMisplaced": PayloadMisplaced}[raised["kind"]](raised["what"])
    found = _UNREADABLE.search(str(error))
    if found is None:
        return None
    file = re.sub(r"^file:/+", "/", found["file"] or found["path"])
    return TableDamaged(
        f"{file} cannot be read: it is missing or cut. Restore it from a backup, then run again; nothing was written. "
        "`windrow verify` names every file that is missing."
    )


def _is_out_of_space(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, says that a disk is full, on Python's side or on Java's."""
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        one = chain.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        text = f"{one} {getattr(one, '_stackTrace', '')}"  # of Spark's errors, the causes are text only
        if any(words in text for words in _NO_SPACE):
            return True
        chain += [one.__cause__, one.__context__]
    return False


def _disk_full() -> DiskFull:
    """The condition, with what is free in the folders that fill."""
    home = Places.from_env(os.environ).home
    spill = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    free = ", ".join(f"{folder} ({_free_text(folder)})" for folder in dict.fromkeys((home, spill)))
    return DiskFull(
        f"the disk is full; free in the folder of the tables and in that of Spark's spill: {free}. What was committed "
        "stands, and nothing else is visible. Free space there, then run again (dags/README.md, The disk is full)"
    )


def _free_text(folder: Path) -> str:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return f"{shutil.disk_usage(there).free / 2**20:,.0f} MB"
