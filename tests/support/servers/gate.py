"""A gate in front of a web server of this machine: TLS, and a login or a certificate for whoever comes."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from support.servers.certificates import Authority
from support.servers.web_server import answer_json, serving
from windrow.files import write_whole


class _Gate(ThreadingHTTPServer):
    def __init__(self, behind: str, login: str | None, own: Path, asks: Authority | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.wanted = login and f"Basic {base64.b64encode(login.encode()).decode()}"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(own)
        if asks is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(cadata=asks.pem)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection. Of one that is refused the rest is read, or its client would not see why."""
        request.settimeout(20)
        try:
            with self.context.wrap_socket(request.dup(), server_side=True) as private:
                super().finish_request(private, client_address)
        except ssl.SSLError:
            with suppress(OSError):
                request.shutdown(socket.SHUT_WR)
                while request.recv(4096):
                    pass

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a client that does not accept the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: _Gate

    def do_GET(self) -> None:
        if self.server.wanted and self.headers["Authorization"] != self.server.wanted:
            return answer_json(self, 401, b'{"error_code": 401, "message": "who are you"}')
        asked = Request(self.server.behind + self.path, headers={"Accept": self.headers.get("Accept", "*/*")})
        try:
            with build_opener(ProxyHandler({})).open(asked, timeout=20) as found:
                return answer_json(self, found.status, found.read())
        except HTTPError as refused:
            return answer_json(self, refused.code, refused.read())

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@contextmanager
def gate(
    address: str, authority: Authority, folder: Path, *, login: str | None = None, asks: Authority | None = None
) -> Iterator[str]:
    """Run one for the body; yields its address, with the path of the one behind.

    Args:
        authority: signs the certificate that it shows.
        folder: for its key.
        login: name and password that it asks for, with a colon between them.
        asks: signs the certificates of those whom it lets in; None: it asks for none.
    """
    there, own = urlsplit(address), folder / "gate.pem"
    write_whole(own, authority.signed("gate"), private=True)
    server = _Gate(f"{there.scheme}://{there.netloc}", login, own, asks)
    with serving(server):
        yield f"https://127.0.0.1:{server.server_port}{there.path}"
