"""Look at tables also between requests, so that a request finds nearly all that it needs read already.

    request ──▶ looks ──▶ every `EVERY` seconds: look at the same pipelines again ──▶ `LASTS` without a request: end

One thread of the API server does this, a pipeline at a time. It changes no answer: a request still looks at every table
itself, and reads what is newer than the thread has seen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from threading import Lock, Thread

EVERY, LASTS = 20.0, 3600.0
"""Seconds from one look to the next, and from the last request to the end of looking."""
log = logging.getLogger(__name__)


class Between:
    """Looks at the pipelines of the last requests."""

    def __init__(self, look: Callable[[str], object]) -> None:
        """Args: look: called with the name of a pipeline; it reads what is new in its tables."""
        self._look = look
        self._lock = Lock()
        self._wanted: dict[str, float] = {}
        """pipeline → when it was last asked for, in seconds of the monotonic clock"""
        self._thread: Thread | None = None

    def asked_for(self, names: Sequence[str]) -> None:
        """Note a request, and start looking where nobody does."""
        with self._lock:
            self._wanted.update(dict.fromkeys(names, time.monotonic()))
            if self._thread is None:
                self._thread = Thread(target=self._go_on, name="windrow-between-requests", daemon=True)
                self._thread.start()

    def _go_on(self) -> None:
        while names := self._still_wanted():
            for name in names:
                try:
                    self._look(name)
                except Exception:
                    log.exception("Looking at the tables of %s failed; its page will say why.", name)
            time.sleep(EVERY)

    def _still_wanted(self) -> list[str]:
        """Return the pipelines to look at; none of them ends the thread."""
        with self._lock:
            since = time.monotonic() - LASTS
            self._wanted = {name: at for name, at in self._wanted.items() if at > since}
            if not self._wanted:
                self._thread = None
            return sorted(self._wanted)
