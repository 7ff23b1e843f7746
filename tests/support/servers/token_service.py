"""A security token service as stores' clients ask it: a token of web identity for keys of a store, over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.servers.certificates import Authority
from support.servers.web_server import TlsServer, answer, serving
from windrow.files import write_whole
from windrow.text import instant_text

_ANSWER = """\
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>{session}</SessionToken><Expiration>{until}</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


class TokenService(TlsServer):
    """Gives a key of a store to whoever shows the token; others get 403."""

    def __init__(self, own: Path, token: str, key: str, secret: str, session: str) -> None:
        super().__init__(own, _Handler)
        self.token, self.key, self.secret, self.session = token, key, secret, session
        self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: TokenService

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        asked = {**parse_qs(urlsplit(self.path).query), **parse_qs(body)}
        service = self.server
        service.asked += 1
        is_known = asked.get("Action") == ["AssumeRoleWithWebIdentity"] and asked["WebIdentityToken"] == [service.token]
        until = instant_text(datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1))
        given = _ANSWER.format(key=service.key, secret=service.secret, session=service.session, until=until)
        answer(self, 200 if is_known else 403, given.encode() if is_known else b"", "text/xml")

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@contextmanager
def token_service(authority: Authority, folder: Path, **known: str) -> Iterator[TokenService]:
    """Run one for the body.

    Args:
        authority: signs the certificate that it shows.
        folder: for its key.
        known: `token` that it accepts; `key`, `secret` and `session` that it gives.
    """
    own = folder / "service.pem"
    write_whole(own, authority.signed("service"), private=True)
    server = TokenService(own, **known)
    with serving(server):
        yield server
