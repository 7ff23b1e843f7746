"""One writer at a time per table: work that only one can commit is not begun by two, and who waits says for whom.

On one machine the kernel holds the lock (flock) and releases it when its holder dies, in whatever way. The holder
writes its process id, host and start time next to it. Where tables are in a store, a lease there (see `leases`) does
the same for several machines. Neither is what makes a commit safe: of many writers one wins a version in any case.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from windrow.files import write_whole
from windrow.io.delta import leases
from windrow.outcomes import AnotherWriter
from windrow.places import Lock
from windrow.text import short_instant_text

_REPORT_AFTER_SECONDS = 5.0
T = TypeVar("T")


class Locked(AnotherWriter):
    """Another process holds the lock. Trying again later helps."""


@contextmanager
def held(lock: Lock, *, wait_seconds: float = 600.0) -> Iterator[None]:
    """Hold a lock for the body.

    Raises:
        Locked: it was not free within `wait_seconds`; the message names the holder.
    """
    path, deadline = lock.file, time.monotonic() + wait_seconds
    path.parent.mkdir(parents=True, exist_ok=True)
    flock, holder = FileLock(str(path)), path.with_suffix(".holder")
    _wait(lambda seconds: _flocked(flock, seconds), deadline, path.stem, lambda: _noted(holder))
    try:
        since = short_instant_text(datetime.now(UTC))
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "lock": _identity(path)}
        write_whole(holder, json.dumps(me))
        if lock.lease is None:
            yield
            return
        lease, waiter = lock.lease, leases.Waiter(lock.lease, me)
        tag = _wait(lambda seconds: _leased(waiter, seconds), deadline, path.stem, lambda: leases.holder_of(lease))
        with leases.renewed(lease, me, tag):
            yield
    finally:
        flock.release()


def _identity(file: Path) -> str:
    """Return what tells a lock file from those of other machines and containers, whose names and paths may be equal."""
    found = file.stat()
    return f"{file} {found.st_dev} {found.st_ino} {_boot()}"


def _boot() -> str:
    """Return an id of the running kernel; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _wait(
    attempt: Callable[[float], T | None], deadline: float, name: str, holder: Callable[[], dict[str, Any] | None]
) -> T:
    """Try until the deadline and return the result; after the first try, print who holds the lock.

    Raises:
        Locked: none gave anything before the deadline.
    """
    began, is_reported = time.monotonic(), False
    while (found := attempt(min(_REPORT_AFTER_SECONDS, max(0.0, deadline - time.monotonic())))) is None:
        if time.monotonic() >= deadline:
            raise Locked(
                f"locked: {name} is held by {_in_words(holder())}; waited {time.monotonic() - began:.0f} s. "
                "Try again when it is done; the lock of a holder that died is free, or will be within a minute."
            )
        if not is_reported:
            print(f"waiting for {name}, held by {_in_words(holder())}", file=sys.stderr, flush=True)
            is_reported = True
    return found


def _flocked(flock: FileLock, seconds: float) -> bool | None:
    try:
        flock.acquire(timeout=seconds)
    except Timeout:
        return None
    return True


def _leased(waiter: leases.Waiter, seconds: float) -> str | None:
    """Ask for the lease each second."""
    until = time.monotonic() + seconds
    while (tag := waiter.acquired()) is None and time.monotonic() < until:
        time.sleep(1.0)
    return tag


def _noted(path: Path) -> dict[str, Any] | None:
    """What the holder has written of itself; it may be missing, because it is written after the lock is taken."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _in_words(note: dict[str, Any] | None) -> str:
    try:
        assert note is not None
        return f"pid {note['pid']} on {note['host']} since {note['since']}"
    except (AssertionError, KeyError):
        return "a process that has not written its name yet"
