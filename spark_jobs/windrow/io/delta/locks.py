"""One writer at a time per table: Delta's commit on a local disk is a rename, which two processes can both win.

The kernel holds the lock (flock) and releases it when its holder dies, in whatever way. The holder writes its process
id, host and start time next to the lock, so that a waiting process can name it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from windrow.files import write_whole
from windrow.outcomes import AnotherWriter
from windrow.text import short_instant_text

_REPORT_AFTER_SECONDS = 5.0


class Locked(AnotherWriter):
    """Another process holds the lock. Trying again later helps."""


@contextmanager
def held(path: Path, *, wait_seconds: float = 600.0) -> Iterator[None]:
    """Hold the lock at `path` for the body.

    Raises:
        Locked: it was not free within `wait_seconds`; the message names the holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(str(path)), path.with_suffix(".holder")
    deadline = time.monotonic() + wait_seconds
    is_reported = False
    while True:
        try:
            lock.acquire(timeout=min(_REPORT_AFTER_SECONDS, max(0.0, deadline - time.monotonic())))
            break
        except Timeout:
            if time.monotonic() >= deadline:
                raise Locked(
                    f"locked: {path.stem} is held by {_holder(holder)}; waited {wait_seconds:.0f} s. "
                    "Try again when it is done; the lock of a holder that died is already free."
                ) from None
            if not is_reported:
                print(f"waiting for {path.stem}, held by {_holder(holder)}", file=sys.stderr, flush=True)
                is_reported = True
    try:
        since = short_instant_text(datetime.now(UTC))
        write_whole(holder, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}))
        yield
    finally:
        lock.release()


def _holder(path: Path) -> str:
    """Return the holder in words. Its note may be missing, because it is written after the lock is taken."""
    try:
        note = json.loads(path.read_text())
        return f"pid {note['pid']} on {note['host']} since {note['since']}"
    except (OSError, ValueError, KeyError):
        return "a process that has not written its name yet"
