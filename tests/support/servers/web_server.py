"""A web server on this machine that keeps what was posted to it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class WebServer(ThreadingHTTPServer):
    """Keeps path and JSON of what was posted; answers with `status`, and keeps nothing if that is no success."""

    status = 200

    def __init__(self) -> None:
        self.posted: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: WebServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.server.status == 200:
            self.server.posted.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


class TlsServer(ThreadingHTTPServer):
    """Shows a certificate to whoever comes; a client that connects and says nothing holds its own thread only."""

    def __init__(self, own: Path, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"


def answer_json(to: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    """Answer a request with a JSON document."""
    answer(to, status, body, "application/json")


def answer(to: BaseHTTPRequestHandler, status: int, body: bytes, type_: str) -> None:
    """Answer a request with a document of a media type."""
    to.send_response(status)
    to.send_header("Content-Type", type_)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)


@contextmanager
def web_server() -> Iterator[WebServer]:
    """Run one for the body."""
    server = WebServer()
    with serving(server):
        yield server


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Let a server answer while the body runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
