"""Avro records by the schema of their writer. Whatever the schema promises is read; nothing is taken from another one.

A field that the writer did not have is null, as in JSON: the default that a newer schema gives it depends on which
schema is the newest, and the same bytes would have other values on another day.

What cannot be told: the bytes of a record under the id of another schema may by chance be a record of that schema too,
of the same length. fastavro reads a negative position in an enum or a union from the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
from fastavro.read import LOGICAL_READERS, schemaless_reader

from windrow.transforms.formats.schemas import WriterSchema
from windrow.transforms.formats.values import Day, Instant

_MICROS = 1_000_000
_UNITS = {"millis": 1_000, "micros": _MICROS, "nanos": 1_000_000_000}
_OWN = "windrow-"
"""Begins the names under which logical types are read here, so that other users of fastavro keep its own readers."""


def decoder(schema: WriterSchema) -> Callable[[bytes], Any]:
    """Return what reads one record of a schema.

    The function returns a dict, and raises any error for bytes that are no record of the schema, or more than one.

    Raises:
        ValueError: the schema is no Avro schema of a record.
    """
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(_renamed(json.loads(text)), named_schemas=named)
        parsed: Any = fastavro.parse_schema(_renamed(json.loads(schema.text)), named_schemas=named)
    except Exception as problem:  # fastavro raises errors of many kinds
        raise ValueError(f"schema {schema.id} cannot be read: {problem}") from problem
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError(f"schema {schema.id} is no record")

    def decode(payload: bytes) -> Any:
        source = BytesIO(payload)
        record = schemaless_reader(source, parsed, None)
        if source.tell() != len(payload):
            raise ValueError("bytes behind the record")
        return record

    return decode


def _renamed(schema: Any) -> Any:
    """The schema with logical types under the names of the readers here; those that have none are left out."""
    if isinstance(schema, list):
        return [_renamed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: value if name in ("default", "aliases", "symbols") else _renamed(value)
        for name, value in schema.items()
        if name != "logicalType"
    }
    logical, kind = schema.get("logicalType"), schema.get("type")
    if isinstance(logical, str) and f"{kind}-{_OWN}{logical}" in _READERS:
        made["logicalType"] = _OWN + logical
    return made


def _instant(per_second: int) -> Callable[..., Instant]:
    """Reader of instants in a unit; what is finer than a microsecond is cut off, as in JSON."""
    if per_second <= _MICROS:
        return lambda value, *_: Instant(value * (_MICROS // per_second))
    return lambda value, *_: Instant(value // (per_second // _MICROS))


def _day(value: int, *_: Any) -> Day:
    return Day(value)


def _decimal(value: bytes, schema: Any = None, *_: Any) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -int(schema.get("scale", 0))))


def _uuid(value: bytes, *_: Any) -> str:
    return str(UUID(bytes=value))


_READERS: dict[str, Callable[..., Any]] = {
    **{f"long-{_OWN}{zone}timestamp-{unit}": _instant(n) for zone in ("", "local-") for unit, n in _UNITS.items()},
    f"int-{_OWN}date": _day,
    f"bytes-{_OWN}decimal": _decimal,
    f"fixed-{_OWN}decimal": _decimal,
    f"fixed-{_OWN}uuid": _uuid,
}
"""By Avro type and logical type: what reads a value. An instant without a zone is one of UTC, as in JSON."""
LOGICAL_READERS.update(_READERS)


def field_types(schema: WriterSchema) -> Iterable[tuple[str, Any]]:
    """Names of a record's fields with their Avro types, for people who compare them with columns."""
    for field in json.loads(schema.text).get("fields", ()):
        yield field["name"], field["type"]
