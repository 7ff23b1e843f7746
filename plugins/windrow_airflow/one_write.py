"""Serialise the writing requests of people where Airflow runs on SQLite, to avoid a deadlock.

Airflow writes an audit log entry for every writing request from the event loop. If that write waits for SQLite's lock
while another request of the same process holds it, the holder cannot commit either, because it needs the event loop.
Both, and all readers, hang until SQLite gives up after a minute. The form that unpauses and triggers a DAG sends two
such requests at once.

On another database the middleware is not installed.
"""

from __future__ import annotations

import asyncio
from typing import Any

READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OneWriteAtATime:
    """ASGI middleware: a request that may write starts after the previous one has ended; readers never wait."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] in READING:
            await self._app(scope, receive, send)
            return
        async with self._turn:
            await self._app(scope, receive, send)


def middlewares(database: str) -> list[dict[str, Any]]:
    """Return the middlewares as a plugin declares them; none unless the database is SQLite.

    Args:
        database: URL of the metadata database.
    """
    if not database.startswith("sqlite"):
        return []
    return [{"name": "One write at a time", "middleware": OneWriteAtATime, "args": [], "kwargs": {}}]
