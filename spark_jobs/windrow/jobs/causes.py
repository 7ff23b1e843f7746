"""Known causes of unexpected errors: what a person can act on, said in one line in front of the trace.

Spark passes the errors of its tasks on as text, so the cause is found in the text.
"""

from __future__ import annotations

import re

from windrow.io.delta.damage import TableDamaged
from windrow.outcomes import Condition

_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?P<file>\S+?)\.\s|"
    r"\[PATH_NOT_FOUND\] Path does not exist: (?P<path>\S+?)\.?\s"
)


def known_cause(error: Exception) -> Condition | None:
    """Return the condition behind an unexpected error; None where its text does not tell one."""
    found = _UNREADABLE.search(str(error))
    if found is None:
        return None
    file = re.sub(r"^file:/+", "/", found["file"] or found["path"])
    return TableDamaged(
        f"{file} cannot be read: it is missing or cut. Restore it from a backup, then run again; nothing was written. "
        "`windrow verify` names every file that is missing."
    )
