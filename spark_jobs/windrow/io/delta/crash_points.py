"""Named points at which a test may kill or stop the process, so that crashes are enumerated and not drawn by chance.

`CRASH_AT=name` in the environment kills with SIGKILL at that point: no handler, no flush, no goodbye.
`PAUSE_AT=name` stops there with SIGSTOP until SIGCONT comes: a zombie, which wakes when others have gone on.
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

PAUSES = ("publish.before_lock",)
"""Where nothing can be half done, and a process that sleeps for an hour knows nothing of what happened since."""

LEDGER_POINTS = ("late.before_commit", "late.after_commit")
"""Of the late ledger: reached only by a pass that has something to put on record."""


def point(name: str) -> None:
    """Die or stop here if the environment says so."""
    if name not in (*POINTS, *PAUSES, *LEDGER_POINTS):
        raise ValueError(f"{name!r} is not a crash point; known: {', '.join((*POINTS, *PAUSES, *LEDGER_POINTS))}")
    if os.environ.get("PAUSE_AT") == name:
        os.kill(os.getpid(), signal.SIGSTOP)
    if os.environ.get("CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
