"""An issuer of tokens: OpenID discovery, client credentials for signed JWTs, and the keys that check them; over TLS.

POST /token   a name and a secret ─▶ a token of a minute; anything else ─▶ 401 as RFC 6749 writes it
GET  /keys    the public key, as brokers ask for it
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from support.servers.certificates import Authority
from support.servers.web_server import TlsServer, answer_json, serving
from windrow.files import write_whole

AUDIENCE = "kafka"
_LIFE_S = 60
_KEY_ID = "of-the-tests"


class TokenIssuer(TlsServer):
    """Knows clients by name and secret; a test may change both, the audience, and whether it answers."""

    def __init__(self, own: Path) -> None:
        super().__init__(own, _Handler)
        self.clients: dict[str, str] = {}
        self.audience = AUDIENCE
        self.is_busy = False
        self.asked: set[str] = set()
        self.issued = 0
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def tokens(self) -> str:
        """Where clients ask for tokens."""
        return f"{self.address}/token"

    @property
    def keys(self) -> str:
        """Where brokers ask for its keys."""
        return f"{self.address}/keys"

    def token(self, client: str) -> str:
        """Return a signed token for a client."""
        now = int(time.time())
        claims = {"iss": self.address, "sub": client, "aud": self.audience, "iat": now, "exp": now + _LIFE_S}
        self.issued += 1
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": _KEY_ID})

    def public_keys(self) -> dict[str, Any]:
        """Return its keys as a JWKS document."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": _KEY_ID, "use": "sig", "alg": "RS256"}]}

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a client that does not accept the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: TokenIssuer
    timeout = 10

    def do_GET(self) -> None:
        issuer = self.server
        if self.path == "/keys":
            return self._answer(200, issuer.public_keys())
        if self.path == "/.well-known/openid-configuration":
            return self._answer(
                200, {"issuer": issuer.address, "token_endpoint": issuer.tokens, "jwks_uri": issuer.keys}
            )
        return self._answer(404, {})

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        client, _, secret = self._login().partition(":")
        self.server.asked.add(client)
        if self.server.is_busy:
            return self._answer(400, {"error": "temporarily_unavailable"})
        if self.path != "/token" or form.get("grant_type") != ["client_credentials"]:
            return self._answer(400, {"error": "unsupported_grant_type"})
        if not secret or self.server.clients.get(client) != secret:
            return self._answer(401, {"error": "invalid_client", "error_description": "no such name and secret"})
        token = {"access_token": self.server.token(client), "token_type": "Bearer", "expires_in": _LIFE_S}
        return self._answer(200, token)

    def _login(self) -> str:
        kind, _, text = (self.headers["Authorization"] or "").partition(" ")
        return unquote(base64.b64decode(text).decode()) if kind == "Basic" else ""

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        answer_json(self, status, json.dumps(content).encode())

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@contextmanager
def token_issuer(authority: Authority, folder: Path) -> Iterator[TokenIssuer]:
    """Run one for the body.

    Args:
        authority: signs the certificate that it shows.
        folder: for its key.
    """
    own = folder / "issuer.pem"
    write_whole(own, authority.signed("issuer"), private=True)
    server = TokenIssuer(own)
    with serving(server):
        yield server
