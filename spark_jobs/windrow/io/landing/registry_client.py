"""Who this process is to a schema registry. What is secret of it is in the memory of the client alone.

WINDROW_REGISTRY_CLIENT   a file, 0600, of client properties with Confluent's names
    basic.auth.user.info=windrow:…               of the registry `default`
    orders.ssl.ca.location=/etc/orders.pem       of the registry `orders`
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from windrow.config.formats import DEFAULT_REGISTRY
from windrow.files import read_private
from windrow.kafka.properties import parse
from windrow.outcomes import BadInput
from windrow.places import REGISTRY_CLIENT

_LOGIN = "basic.auth.user.info"
_KEY = "ssl.key.location"
_FILES = ("ssl.ca.location", "ssl.certificate.location", _KEY)
_KNOWN = (_LOGIN, *_FILES)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class RegistryFileWrong(BadInput):
    """The file of client properties cannot be used; the message says what to change, and shows no value of it."""


def settings(file: Path | None, name: str, address: str) -> dict[str, str]:
    """Return the settings with which a client proves to a registry who it is; they hold secrets.

    Args:
        file: of client properties; None for registries that do not ask.
        name: of the registry.

    Raises:
        BadInput: the file cannot be read, or others than the user of this process may read or own it.
        RegistryFileWrong: a property is unknown, or its value does not do.
    """
    if file is None:
        return {}
    found: dict[str, str] = {}
    for written, value in parse(read_private(file, REGISTRY_CLIENT, must_own=True)).items():
        known = next((one for one in _KNOWN if written == one or written.endswith(f".{one}")), None)
        if known is None:
            near = difflib.get_close_matches(written, _KNOWN, 1)
            meant = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(_KNOWN)}"
            raise _wrong(file, f"`{written}` is no property that Windrow knows; {meant}")
        if (written.removesuffix(known).rstrip(".") or DEFAULT_REGISTRY) == name:
            found[known] = value
    _check(file, found, address)
    return found


def _check(file: Path, found: Mapping[str, str], address: str) -> None:
    if _LOGIN in found:
        user, _, password = found[_LOGIN].partition(":")
        if not (user and password):
            raise _wrong(file, f"`{_LOGIN}` must be a name and a password, with a colon between them")
        there = urlsplit(address)
        if there.scheme != "https" and there.hostname not in _LOOPBACK:
            raise _wrong(file, f"a password goes over TLS only: {address} must begin with https://")
    if missing := next((one for one in _FILES if one in found and not Path(found[one]).is_file()), None):
        raise _wrong(file, f"`{missing}` names a file that is not there: {found[missing]}")
    if _KEY in found:
        read_private(Path(found[_KEY]), f"`{_KEY}` of {REGISTRY_CLIENT}", must_own=True)


def _wrong(file: Path, why: str) -> RegistryFileWrong:
    return RegistryFileWrong(f"{REGISTRY_CLIENT}={file}: {why} (docs/SECURITY.md)")
