"""Named points at which a test may kill the process, so that crashes are enumerated and not drawn by chance.

`CRASH_AT=name` in the environment kills with SIGKILL at that point: no handler, no flush, no goodbye.
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


def point(name: str) -> None:
    """Die here if the environment says so."""
    if name not in POINTS:
        raise ValueError(f"{name!r} is not a crash point; known: {', '.join(POINTS)}")
    if os.environ.get("CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
