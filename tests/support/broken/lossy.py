"""A proxy in front of a store that passes a conditional write on and loses the first answer to it: the connection ends.

Commits of a Delta log are such writes, and so are the leases of writers.

It is a process of its own, because a client that waits in native code may keep Python's lock.
"""

from __future__ import annotations

import hashlib
import http.client
import socket
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from types import TracebackType
from urllib.parse import urlsplit

PROCESSES = get_context("spawn")


class Lossy:
    """Listens while it is entered; `lost` counts the answers that were lost."""

    def __init__(self, endpoint: str) -> None:
        self._lost = PROCESSES.Value("i", 0)
        here, there = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_serve, args=(urlsplit(endpoint).netloc, self._lost, there))
        self._process.start()
        self.url = f"http://127.0.0.1:{here.recv()}"

    @property
    def lost(self) -> int:
        """Number of lost answers."""
        return int(self._lost.value)

    def __enter__(self) -> Lossy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()


def _serve(target: str, lost: Synchronized[int], ready: Connection) -> None:
    seen: set[tuple[str, bytes]] = set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            upstream = http.client.HTTPConnection(target, timeout=60)
            # the signature names the host that the client meant, so the header goes on as it is
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            content = answer.read()
            if self._is_first(body, answer.status):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            with suppress(ConnectionError):  # the client was killed
                self.end_headers()
                self.wfile.write(content)

        def _is_first(self, body: bytes, status: int) -> bool:
            is_conditional = self.command == "PUT" and ("If-None-Match" in self.headers or "If-Match" in self.headers)
            write = (self.path, hashlib.sha256(body).digest())
            with lost.get_lock():
                if not is_conditional or status != 200 or write in seen:
                    return False
                seen.add(write)
                lost.value += 1
                return True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        # delta-rs opens a connection for each commit of a log at once; one beyond the queue waits for up to a minute
        request_queue_size = 1024

    server = Server(("127.0.0.1", 0), Handler)
    ready.send(server.server_port)
    server.serve_forever()
