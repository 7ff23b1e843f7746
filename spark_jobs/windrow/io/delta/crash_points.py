"""Named points at which a test kills or stops the process: every crash that matters is enumerated, none is random.

`CRASH_AT=name` in the environment kills the process with SIGKILL at that point, without handlers or flushes.
`PAUSE_AT=name` stops it with SIGSTOP until SIGCONT: a zombie that wakes up after others have gone on.
Without these variables a point does nothing.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "land.offsets_planned",
    "land.before_commit",
    "land.after_commit",
    "land.after_clock",
    "join.planned",
    "join.before_commit",
    "join.after_commit",
    "join.after_measures",
    "check.before_verdict",
    "check.after_verdict",
    "publish.before_commit",
    "publish.after_commit",
    "publish.after_register",
)
"""Points that every run from landing to publication passes."""

PAUSES = ("publish.before_lock",)
"""Points at which nothing is half done, and after which a process that slept for an hour has an outdated view."""

LEDGER_POINTS = ("late.before_commit", "late.after_commit")
"""Points of the late ledger; only a pass that commits reaches them."""


SNAPSHOT_POINTS = ("snapshot.before_commit", "snapshot.after_commit")
"""Points of taking a snapshot."""

VACUUM_POINTS = ("vacuum.before_delete",)
"""Points of deleting files that only snapshots could need."""


EXPORT_POINTS = ("export.before_shard", "export.after_shard")
"""Points of an export: a file is whole and not yet in its place, or it is in its place and on record."""


ERASE_POINTS = (
    "erase.after_keys",
    "erase.after_landing",
    "erase.after_candidates",
    "erase.before_training",
    "erase.after_training",
)
"""Points of an erasure."""


def point(name: str) -> None:
    """Die or stop here if the environment names this point.

    Raises:
        ValueError: the name is not a crash point.
    """
    known = (*POINTS, *PAUSES, *LEDGER_POINTS, *SNAPSHOT_POINTS, *VACUUM_POINTS, *EXPORT_POINTS, *ERASE_POINTS)
    if name not in known:
        raise ValueError(f"{name!r} is not a crash point; known: {', '.join(known)}")
    if os.environ.get("PAUSE_AT") == name:
        os.kill(os.getpid(), signal.SIGSTOP)
    if os.environ.get("CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
