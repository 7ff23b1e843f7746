"""People's writes to an Airflow on SQLite take turns, so that none waits for another for ever.

Airflow notes every writing request in its audit log from the event loop. Where that note waits for SQLite's lock,
and a request of the same process holds it, the holder cannot go on either: it needs the event loop to commit. Both
stand still until SQLite gives up, a minute later, and every reader with them. The form that unpauses a DAG and
triggers it sends two such requests at once.

Airflow on another database needs none of this, and gets none of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OneWriteAtATime:
    """ASGI middleware: a request that may write starts when the one before it has answered; readers never wait."""

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
    """What Airflow installs, as its plugins name it. `database`: the URL of the metadata database."""
    if not database.startswith("sqlite"):
        return []
    return [{"name": "One write at a time", "middleware": OneWriteAtATime, "args": [], "kwargs": {}}]
