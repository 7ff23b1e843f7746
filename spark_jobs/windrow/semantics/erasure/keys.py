"""Erased keys are known by a keyed hash alone: HMAC-SHA256 of the key columns, the same here and in Spark.

    columns user_id, shop     values 7, 'nord'     ──▶  "shop=4:nord" "user_id=1:7"     in the order of the names
                                                   ──▶  HMAC-SHA256(secret, text)       64 hexadecimal digits

A length stands before each value, so no two keys have one text. Without the secret nobody can try keys against a hash.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

Mode = Literal["delete", "null"]
"""What becomes of left rows of an erased key: they leave the training table, or they stay there without payload."""

BLOCK = 64
"""Bytes of a block of SHA-256, to which HMAC pads its secret."""


class Keyed(Protocol):
    """A stream: its key columns, and all of its columns, or None for every column that a record has."""

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def columns(self) -> Collection[str] | None: ...


class Reading(Keyed, Protocol):
    """A stream that reads topics."""

    @property
    def name(self) -> str: ...

    @property
    def topics(self) -> Sequence[str]: ...


class Holder(NamedTuple):
    """A stream whose records of a topic can be told by keys of some left columns."""

    columns: tuple[str, ...]
    topic: str
    stream: str


@dataclass(frozen=True)
class Erased:
    """Keys of some left columns that were erased, by their hashes."""

    secret: bytes
    columns: tuple[str, ...]
    hashes: frozenset[str]
    mode: Mode = "delete"

    def holds(self, values: Mapping[str, Any], columns: Mapping[str, str]) -> bool:
        """Whether a record has one of the keys.

        Args:
            columns: left column → column of the record (see `columns_in`).
        """
        key = {name: values.get(column) for name, column in columns.items()}
        return hash_of(self.secret, key) in self.hashes


def columns_in(stream: Keyed, left: Keyed, columns: Iterable[str]) -> dict[str, str] | None:
    """Return left column → column of the stream that holds the same key; None where the stream lacks one.

    A column of the left key is paired with that of the stream's key, any other one with the column of its name.
    """
    found = {}
    for name in columns:
        if name in left.key:
            found[name] = stream.key[left.key.index(name)]
        elif stream.columns is None or name in stream.columns:
            found[name] = name
        else:
            return None
    return found


def holders(streams: Iterable[Reading], left: Keyed, lists: Iterable[tuple[str, ...]]) -> set[Holder]:
    """Return which of the streams hold keys of which left columns, by topic.

    Args:
        lists: the lists of left columns by which keys were erased.
    """
    by = list(lists)
    return {
        Holder(columns, topic, stream.name)
        for stream in streams
        for columns in by
        if columns_in(stream, left, columns) is not None
        for topic in stream.topics
    }


def lost(known: Iterable[Holder], streams: Sequence[Reading], left: Keyed) -> list[Holder]:
    """Return those holders whose topic is still read, and whose records cannot be told by these keys any more.

    Where the stream itself is gone from its topic (or has another name), any other one that reads the topic and holds
    the key will do.
    """
    gone = []
    for one in known:
        reading = [stream for stream in streams if one.topic in stream.topics]
        mine = [stream for stream in reading if stream.name == one.stream] or reading
        if mine and all(columns_in(stream, left, one.columns) is None for stream in mine):
            gone.append(one)
    return sorted(gone)


def is_within_key(left: Keyed, columns: Iterable[str]) -> bool:
    """Whether matches have the columns in common: then a row and its matches are erased together."""
    return set(columns) <= set(left.key)


def hash_of(secret: bytes, key: Mapping[str, Any]) -> str | None:
    """Return the hash of a key by column; None where a value is null, because such a record has no key.

    >>> hash_of(b"secret", {"shop": "nord", "user_id": 7}) == hash_of(b"secret", {"user_id": 7, "shop": "nord"})
    True
    >>> hash_of(b"secret", {"user_id": None}) is None
    True
    """
    if any(value is None for value in key.values()):
        return None
    return hmac.new(secret, message_of(key), hashlib.sha256).hexdigest()


def message_of(key: Mapping[str, Any]) -> bytes:
    """Return the bytes that are hashed.

    >>> message_of({"user_id": 7, "shop": "nord"})
    b'shop=4:norduser_id=1:7'
    """
    texts = {name: str(value).encode() for name, value in sorted(key.items())}
    return b"".join(name.encode() + b"=%d:" % len(text) + text for name, text in texts.items())


def pads(secret: bytes) -> tuple[bytes, bytes]:
    """Return the inner and the outer padded secret of HMAC, with which SHA-256 alone makes it.

    >>> inner, outer = pads(b"secret")
    >>> within = hashlib.sha256(inner + message_of({"user_id": 7})).digest()
    >>> hashlib.sha256(outer + within).hexdigest() == hash_of(b"secret", {"user_id": 7})
    True
    """
    padded = secret.ljust(BLOCK, b"\0")
    return bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded)
