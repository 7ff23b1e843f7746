"""One value for the brokers and for who this client is to them. A secret of it is only ever in a client's memory.

    WINDROW_KAFKA_CLIENT    ─▶ librdkafka   values, in the memory of this process
    a file of Kafka's own   └▶ Java         ${file:<path>:<property>}: driver and executors read their copy of the file
    client properties                       themselves, so neither options, plans, logs nor arguments have a secret

The file is read for each new connection, so a password or a certificate is changed by replacing it. It holds Java's
properties, as `kafka-topics.sh --command-config` takes them; librdkafka's are made from these.
"""

from __future__ import annotations

import difflib
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow.files import read_private
from windrow.kafka.properties import parse
from windrow.outcomes import BadInput

VARIABLE = "WINDROW_KAFKA_CLIENT"
PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_TRUST, _KEY = "ssl.truststore", "ssl.keystore"
SECRET = (JAAS, "ssl.key.password", f"{_KEY}.password", f"{_KEY}.key")
"""Properties whose values are secrets."""
_OPEN = (
    PROTOCOL,
    MECHANISM,
    _TOKEN_URL,
    f"{_KEY}.type",
    f"{_KEY}.location",
    f"{_KEY}.certificate.chain",
    f"{_TRUST}.type",
    f"{_TRUST}.location",
    f"{_TRUST}.certificates",
)
_PROTOCOLS = ("SASL_SSL", "SSL")
_MODULES = {
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
_TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_PATIENCE_MS = "10000"
"""How long Java waits for an issuer of tokens. Its own default is for ever; librdkafka waits for 20 s."""
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)
"""Where systems keep the authorities that they trust. confluent-kafka looks in Red Hat's place only."""
_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')


class ClientFileWrong(BadInput):
    """The file of client properties cannot be used; the message says what to change, and shows no value of it."""


@dataclass(frozen=True)
class Kafka:
    """Brokers, and the file with which this client proves to them who it is."""

    bootstrap: str
    """addresses, separated by commas"""
    client: Path | None = None
    """file of client properties; None for brokers that do not ask"""

    @classmethod
    def of(cls, brokers: Kafka | str) -> Kafka:
        """Return the brokers; a text is the address of some that do not ask who a client is."""
        return cls(brokers) if isinstance(brokers, str) else brokers

    def __str__(self) -> str:
        """Show the addresses."""
        return self.bootstrap

    def librdkafka(self) -> dict[str, Any]:
        """Return the settings of a client of confluent-kafka; they hold secrets.

        Raises:
            BadInput: the file is missing, open to others, or wrong.
        """
        return {"bootstrap.servers": self.bootstrap, **self._proof(librdkafka)}

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client. In place of a secret they have a reference to the file.

        Raises:
            BadInput: the file is missing, open to others, or wrong.
        """
        return {"bootstrap.servers": self.bootstrap, **self._proof(self._references)}

    def _proof(self, made: Callable[[Mapping[str, str]], dict[str, str]]) -> dict[str, str]:
        return made(properties(self.client)) if self.client else {}

    def _references(self, found: Mapping[str, str]) -> dict[str, str]:
        if re.search("[:}]", str(self.client)):
            raise ClientFileWrong(f"{VARIABLE}={self.client}: Kafka takes no path with ':' or '}}'; move the file")
        settings = {name: f"${{file:{self.client}:{name}}}" if name in SECRET else found[name] for name in found}
        if found.get(MECHANISM) == "OAUTHBEARER":
            settings["sasl.login.callback.handler.class"] = _TOKENS
            settings |= dict.fromkeys(("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"), _PATIENCE_MS)
        return {
            **settings,
            "config.providers": "file",
            "config.providers.file.class": _PROVIDER,
            "config.providers.file.param.allowed.paths": str(self.client),
        }


def properties(file: Path) -> dict[str, str]:
    """Return the properties of a file, checked.

    Raises:
        BadInput: it cannot be read, or others than the user of this process may read or own it.
        ClientFileWrong: a property is unknown or missing, or its value does not do.
    """
    found = parse(read_private(file, VARIABLE, must_own=True))

    def refuse(why: str) -> ClientFileWrong:
        return ClientFileWrong(f"{VARIABLE}={file}: {why} (docs/SECURITY.md has a file of each kind)")

    for name in found:
        if name not in SECRET + _OPEN:
            raise refuse(_why_unknown(name))
    if found.get(PROTOCOL) not in _PROTOCOLS:
        raise refuse(f"`{PROTOCOL}` must be {' or '.join(_PROTOCOLS)}")
    if found[PROTOCOL] == "SASL_SSL":
        _check_login(found, refuse)
    elif {MECHANISM, JAAS} & found.keys():
        raise refuse(f"`{MECHANISM}` and `{JAAS}` belong to `{PROTOCOL}=SASL_SSL`")
    _check_stores(found, refuse)
    return found


def _why_unknown(name: str) -> str:
    if name == "bootstrap.servers":
        return "`bootstrap.servers` does not belong there: WINDROW_KAFKA has the addresses"
    if name in ("sasl.username", "sasl.password"):
        return f"`{name}` is librdkafka's; write Java's `{JAAS}`, of which both clients are made"
    near = difflib.get_close_matches(name, SECRET + _OPEN, 1)
    return f"`{name}` is no property that Windrow knows" + (f"; did you mean `{near[0]}`?" if near else "")


def _check_login(found: Mapping[str, str], refuse: Callable[[str], ClientFileWrong]) -> None:
    mechanism = found.get(MECHANISM, "")
    if mechanism not in _MODULES:
        raise refuse(f"`{MECHANISM}` must be one of {', '.join(_MODULES)}")
    module, options = _jaas(found.get(JAAS, ""))
    if module != _MODULES[mechanism]:
        raise refuse(f"`{JAAS}` must begin with `{_MODULES[mechanism]} required`")
    needed = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
    if missing := [name for name in needed if not options.get(name)]:
        raise refuse(f"`{JAAS}` lacks `{missing[0]}`")
    if not found[JAAS].rstrip().endswith(";"):
        raise refuse(f"`{JAAS}` must end with ';'")
    if mechanism == "OAUTHBEARER":
        _check_issuer(found, options, refuse)


def _check_issuer(
    found: Mapping[str, str], options: Mapping[str, str], refuse: Callable[[str], ClientFileWrong]
) -> None:
    if not found.get(_TOKEN_URL, "").startswith("https://"):
        raise refuse(f"`{_TOKEN_URL}` must be the https address that gives tokens")
    location = options.get(f"{_TRUST}.location")
    if location and options.get(f"{_TRUST}.type") != "PEM":
        raise refuse(f"`{_TRUST}.type` in `{JAAS}` must be PEM")
    if location and not Path(location).is_file():
        raise refuse(f"`{_TRUST}.location` in `{JAAS}` names a file that is not there: {location}")


def _check_stores(found: Mapping[str, str], refuse: Callable[[str], ClientFileWrong]) -> None:
    for store, kinds in ((_TRUST, ("PEM",)), (_KEY, ("PEM", "PKCS12"))):
        there = [name for name in found if name.startswith(f"{store}.") and name != f"{store}.type"]
        if there and found.get(f"{store}.type") not in kinds:
            raise refuse(f"`{store}.type` must be {' or '.join(kinds)}: librdkafka reads no JKS")
        location = found.get(f"{store}.location")
        if location and not Path(location).is_file():
            raise refuse(f"`{store}.location` names a file that is not there: {location}")
    if (f"{_KEY}.key" in found) != (f"{_KEY}.certificate.chain" in found):
        raise refuse(f"`{_KEY}.key` and `{_KEY}.certificate.chain` belong together")
    if found.get(f"{_KEY}.type") == "PEM" and (key := found.get(f"{_KEY}.location")):
        read_private(Path(key), f"`{_KEY}.location` of {VARIABLE}", must_own=True)


def _jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the login module and its options."""
    module, _, rest = text.strip().partition(" ")
    return module, {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for name, quoted, bare in _OPTION.findall(rest)
    }


def librdkafka(found: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for Java's.

    >>> librdkafka({"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": "/k.pem"})
    {'security.protocol': 'SSL', 'ssl.certificate.location': '/k.pem', 'ssl.key.location': '/k.pem'}
    """
    same = {name: found[name] for name in (PROTOCOL, MECHANISM, "ssl.key.password") if name in found}
    return {**same, **_login(found), **_trusted(found), **_own_key(found)}


def _login(found: Mapping[str, str]) -> dict[str, str]:
    if found[PROTOCOL] != "SASL_SSL":
        return {}
    options = _jaas(found[JAAS])[1]
    if found[MECHANISM] != "OAUTHBEARER":
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": found[_TOKEN_URL],
        "sasl.oauthbearer.client.id": options["clientId"],
        "sasl.oauthbearer.client.secret": options["clientSecret"],
        **_renamed(options, {"scope": "sasl.oauthbearer.scope"}),
        **_issuer_trusted(options),
    }


def _issuer_trusted(options: Mapping[str, str]) -> dict[str, str]:
    """Authorities that may sign the issuer's certificate: those of the JAAS options, as in Java, or the system's."""
    system = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    known = options.get(f"{_TRUST}.location") or next((one for one in system if one and Path(one).is_file()), None)
    return {"https.ca.location": known} if known else {}


def _trusted(found: Mapping[str, str]) -> dict[str, str]:
    return _renamed(found, {f"{_TRUST}.location": "ssl.ca.location", f"{_TRUST}.certificates": "ssl.ca.pem"})


def _own_key(found: Mapping[str, str]) -> dict[str, str]:
    if found.get(f"{_KEY}.type") == "PKCS12":
        return {name: found[name] for name in (f"{_KEY}.location", f"{_KEY}.password") if name in found}
    key = found.get(f"{_KEY}.location")
    files = {"ssl.certificate.location": key, "ssl.key.location": key} if key else {}
    return {
        **files,
        **_renamed(found, {f"{_KEY}.certificate.chain": "ssl.certificate.pem", f"{_KEY}.key": "ssl.key.pem"}),
    }


def _renamed(found: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {new: found[old] for old, new in names.items() if old in found}
