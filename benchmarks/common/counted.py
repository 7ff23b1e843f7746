"""Requests to an object store, counted by kind: a port of this machine that passes everything on, and reads along.

It is a process of its own, so that the clients' figures do not hold its work. Only the first line of each request is
looked at; the host that a client signs is the one that it calls, so the signature stays right.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from urllib.parse import urlsplit

_PROCESSES = get_context("spawn")
_REQUEST = re.compile(rb"(GET|PUT|HEAD|DELETE|POST) (\S+) HTTP/1\.1\r\n")
_LONGEST = 4096
"""Bytes of a request's first line that may come in two parts."""


class Counted:
    """Listens while it is entered; `url` is the endpoint to call instead of the store's."""

    def __init__(self, endpoint: str) -> None:
        self._asked, there = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_serve, args=(urlsplit(endpoint), there), daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{self._asked.recv()}"

    def taken(self) -> dict[str, int]:
        """Requests since the last call: `get`, `put`, `list`, `head`, `delete`, `post`."""
        self._asked.send("take")
        found: dict[str, int] = self._asked.recv()
        return found

    def __enter__(self) -> Counted:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()


def _serve(target: object, asked: Connection) -> None:
    asyncio.run(_pass_on(target.hostname, target.port, asked))  # type: ignore[attr-defined]


async def _pass_on(host: str, port: int, asked: Connection) -> None:
    counts: Counter[str] = Counter()

    def take() -> None:
        asked.recv()
        asked.send(dict(counts))
        counts.clear()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection(host, port)
        await asyncio.gather(_copy(reader, to, counts), _copy(there, writer, None), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    asyncio.get_running_loop().add_reader(asked.fileno(), take)
    asked.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: Counter[str] | None) -> None:
    rest = b""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            if counts is not None:
                seen = rest + data
                end = 0
                for found in _REQUEST.finditer(seen):
                    counts[kind_of(found[1], found[2])] += 1
                    end = found.end()
                rest = seen[max(end, len(seen) - _LONGEST) :]
            await writer.drain()
    finally:
        writer.close()


def kind_of(method: bytes, target: bytes) -> str:
    """Return the kind of a request, as object stores bill it: a listing is a GET of a prefix."""
    is_listing = method == b"GET" and (b"list-type=" in target or b"prefix=" in target or b"delimiter=" in target)
    return "list" if is_listing else method.decode().lower()
