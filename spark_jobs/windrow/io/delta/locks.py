"""One writer at a time for a table on a local disk, because Delta's rename there lets two processes win.

The kernel holds the lock (flock) and lets go when its holder dies, however it dies. Who waits says for
whom: the holder writes its pid, host and start beside the lock.
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

from windrow.outcomes import AnotherWriter


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
    told = False
    while True:
        try:
            lock.acquire(timeout=min(5.0, max(0.0, deadline - time.monotonic())))
            break
        except Timeout:
            if time.monotonic() >= deadline:
                raise Locked(
                    f"locked: {path.stem} is held by {_holder(holder)}; waited {wait_seconds:.0f} s. "
                    "Try again when it is done; a holder that died has already let go."
                ) from None
            if not told:
                print(f"waiting for {path.stem}, held by {_holder(holder)}", file=sys.stderr, flush=True)
                told = True
    try:
        holder.write_text(
            json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()})
        )
        yield
    finally:
        lock.release()


def _holder(path: Path) -> str:
    try:
        seen = json.loads(path.read_text())
        return f"pid {seen['pid']} on {seen['host']} since {seen['since']}"
    except (OSError, ValueError, KeyError):
        return "a process that has not said its name yet"
