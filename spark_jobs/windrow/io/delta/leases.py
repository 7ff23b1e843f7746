"""A lock that processes on several machines see: an object in the store of the tables, which its holder renews.

    nobody ──PUT if absent──▶ held until t ──renewed each 10 s──▶ … ──▶ given back
                                   └─ not renewed by t ──PUT if unchanged──▶ held by another

A holder that died keeps it for a minute at most, whatever its clock said: who waits also measures for how long the
lease stays as it is.

It keeps writers from doing work that only one of them can commit, and tells who holds them up. It is not what makes
commits safe: a holder that slept, or whose clock is wrong, can find itself with a second one, and then the commit
decides (see `tables` and `appending`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.io.delta import store
from windrow.text import instant_text, parse_instant

LENGTH = timedelta(seconds=60)
RENEWAL = timedelta(seconds=10)


class Waiter:
    """One process that asks for a lease until it is free."""

    def __init__(self, location: str, holder: dict[str, Any], stopwatch: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            location: of the object.
            holder: what others read of the holder, as plain values. The caller holds the lock `lock` on `host`, so a
                lease of the same two was left by a process that died.
            stopwatch: seconds since any moment; it never jumps.
        """
        self._location, self._holder, self._stopwatch = location, holder, stopwatch
        self._seen, self._seen_at = "", 0.0

    def acquired(self, now: datetime | None = None) -> str | None:
        """Take the lease if it is free; return its tag, or None where another holds it.

        Args:
            now: this process's clock.
        """
        now = now or datetime.now(UTC)
        if tag := store.replace(self._location, _note(self._holder, now), None):
            return tag
        note, tag = _read(self._location)
        if tag is None or (note is not None and not self._is_left(note, tag, now)):
            return None
        return store.replace(self._location, _note(self._holder, now), tag)

    def _is_left(self, note: dict[str, Any], tag: str, now: datetime) -> bool:
        """Return whether its holder died or is over its time, by its note or by this process's stopwatch."""
        if tag != self._seen:
            self._seen, self._seen_at = tag, self._stopwatch()
        is_ours = all(note.get(name) == self._holder.get(name) for name in ("host", "lock"))
        is_unchanged = self._stopwatch() - self._seen_at >= LENGTH.total_seconds()
        return is_ours or is_unchanged or parse_instant(note["until"]) <= now


def holder_of(location: str) -> dict[str, Any] | None:
    """Return what the holder has written of itself; None where nobody holds the lease."""
    note, _ = _read(location)
    return None if note is None or note["until"] == _NEVER else note


@contextmanager
def renewed(location: str, holder: dict[str, Any], tag: str) -> Iterator[None]:
    """Renew a lease while the body runs, and give it back. One that another has taken over is left to it.

    Args:
        location: of the lease object.
        holder: what the lease says about its holder: `pid`, `host`, `since`, `lock`.
        tag: the entity tag that the lease got when it was taken.
    """
    done, held = threading.Event(), [tag]

    def renew() -> None:
        while not done.wait(RENEWAL.total_seconds()):
            try:
                new = store.replace(location, _note(holder, datetime.now(UTC)), held[0])
            except Exception:  # the store does not answer: the next round may succeed, and commits do not depend on it
                continue
            if new is None:
                return
            held[0] = new

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        # where the store does not answer, what the body has done stays done, and the lease runs out
        with suppress(Exception):
            store.replace(location, json.dumps({**holder, "until": _NEVER}).encode(), held[0])


_NEVER = "1970-01-01T00:00:00Z"
"""`until` of a lease that was given back."""


def _note(holder: dict[str, Any], now: datetime) -> bytes:
    return json.dumps({**holder, "until": instant_text(now + LENGTH)}).encode()


def _read(location: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the note and its tag; no note where it cannot be read, no tag where there is none."""
    try:
        content, tag = store.tagged(location)
    except FileNotFoundError:
        return None, None
    try:
        note = json.loads(content)
        parse_instant(note["until"])
    except (ValueError, KeyError, TypeError):
        return None, tag
    return note, tag
