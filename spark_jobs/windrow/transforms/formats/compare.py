"""What a landing would make of a schema's records: declared columns against the types of its fields.

Values that a field may have, its least and its greatest among them, are fitted to the column as landing does it; so
there is one set of rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from windrow.config.column_types import parse_type
from windrow.config.problems import near_miss
from windrow.transforms.formats.schemas import AVRO, PROTOBUF, WriterSchema
from windrow.transforms.formats.values import Day, Instant, fitted

_DEEPEST = 5


class Compared(NamedTuple):
    """A column of which a landing would not always have the value."""

    column: str
    message: str
    is_never: bool
    """whether no value would fit"""


def compared(schema: WriterSchema, columns: Mapping[str, str], message: str | None = None) -> list[Compared]:
    """Compare declared columns with a schema; none for a kind of schema that says nothing about bytes (JSON).

    Args:
        message: full name of the message (Protobuf); None for the first of the file.

    Raises:
        ValueError: the schema cannot be read, or does not have the message.
    """
    if schema.kind not in (AVRO, PROTOBUF):
        return []
    samples = _avro(schema) if schema.kind == AVRO else _protobuf(schema, message)
    return [found for name, kind in columns.items() if (found := _column(name, kind, samples, schema.id))]


def _column(name: str, kind: str, samples: Mapping[str, list[Any]], number: int) -> Compared | None:
    if name not in samples:
        hint = near_miss(name, samples, "its fields are")
        return Compared(name, f"is no field of schema {number}; every record would be null there; {hint}", False)
    values = [value for value in samples[name] if value is not None]
    unfit = fitted(values, parse_type(kind)).unfit
    if not unfit:
        return None
    examples = ", ".join(f"{values[row]!r:.40}" for row in sorted(unfit)[:2])
    if len(unfit) == len(values):
        return Compared(name, f"is {kind}, and no value of schema {number} fits, such as {examples}", True)
    message = f"is {kind}; values of schema {number} such as {examples} would be wrong_type"
    return Compared(name, message, False)


def _avro(schema: WriterSchema) -> dict[str, list[Any]]:
    """Values that each field of an Avro record may have."""
    named: dict[str, Any] = {}
    for _, text in schema.references:
        _name(json.loads(text), "", named)
    parsed = json.loads(schema.text)
    _name(parsed, "", named)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError(f"schema {schema.id} is no record")
    space = parsed.get("namespace", "")
    return {field["name"]: list(_avro_values(field["type"], space, named, 0)) for field in parsed["fields"]}


def _name(kind: Any, space: str, named: dict[str, Any]) -> None:
    """Remember the named types within a type, by full name."""
    if isinstance(kind, list):
        for part in kind:
            _name(part, space, named)
    elif isinstance(kind, dict):
        space = kind.get("namespace", space)
        if "name" in kind:
            named[kind["name"] if "." in kind["name"] else f"{space}.{kind['name']}".lstrip(".")] = kind
        for part in (*(field["type"] for field in kind.get("fields", ())), kind.get("items"), kind.get("values")):
            _name(part, space, named)
        if isinstance(kind.get("type"), dict | list):
            _name(kind["type"], space, named)


_PLAIN: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True],
    "int": [0, 2**31 - 1, -(2**31)],
    "long": [0, 2**63 - 1, -(2**63)],
    "float": [0.5],
    "double": [0.5],
    "string": ["text"],
    "bytes": [b"bytes"],
    "fixed": [b"bytes"],
}


def _avro_values(kind: Any, space: str, named: Mapping[str, Any], depth: int) -> Iterator[Any]:
    """Values of an Avro type, as its decoder returns them."""
    if depth > _DEEPEST:
        return
    if isinstance(kind, list):
        for part in kind:
            yield from _avro_values(part, space, named, depth + 1)
        return
    if isinstance(kind, str):
        if kind in _PLAIN:
            yield from _PLAIN[kind]
        elif (known := named.get(kind) or named.get(f"{space}.{kind}")) is not None:
            yield from _avro_values(known, space, named, depth + 1)
        return
    of, logical = kind["type"], kind.get("logicalType", "")
    if not isinstance(of, str):
        yield from _avro_values(of, space, named, depth + 1)
    elif of == "record":
        parts = {f["name"]: list(_avro_values(f["type"], space, named, depth + 1)) for f in kind["fields"]}
        for n in range(max(map(len, parts.values()), default=1)):
            yield {name: values[min(n, len(values) - 1)] for name, values in parts.items() if values}
    elif of == "array":
        yield from ([value] for value in _avro_values(kind["items"], space, named, depth + 1))
    elif of == "map":
        yield from ({"key": value} for value in _avro_values(kind["values"], space, named, depth + 1))
    elif of == "enum":
        yield kind["symbols"][0]
    elif logical == "decimal" and of in ("bytes", "fixed"):
        yield from (Decimal((0, (9,) * kind["precision"], -kind.get("scale", 0))), Decimal(0))
    elif of == "long" and "timestamp-" in logical:
        yield Instant(0)
    elif (of, logical) == ("int", "date"):
        yield Day(0)
    elif (of, logical) == ("fixed", "uuid"):
        yield "text"
    else:
        yield from _avro_values(of, space, named, depth + 1)


_NUMBERS = {
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32), "int"),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64), "long"),
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
}
_UNSIGNED = {
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), 2**32 - 1),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), 2**64 - 1),
}
_MESSAGES: dict[str, list[Any]] = {
    "google.protobuf.Timestamp": [Instant(0)],
    "google.type.Date": [Day(0)],
    "confluent.type.Decimal": [Decimal(0)],
}


def _protobuf(schema: WriterSchema, message: str | None) -> dict[str, list[Any]]:
    """Values that each field of a message may have."""
    pool = descriptor_pool.DescriptorPool()
    files = FileDescriptorSet.FromString(schema.descriptors).file
    for file in files:
        pool.Add(file)
    if not files or not files[-1].message_type:
        raise ValueError(f"schema {schema.id} has no message that can be read")
    try:
        first = files[-1].message_type[0].name
        found = pool.FindMessageTypeByName(message or f"{files[-1].package}.{first}".lstrip("."))
    except KeyError:
        raise ValueError(f"schema {schema.id} has no message {message}") from None
    return {field.name: list(_protobuf_values(field, 0)) for field in found.fields}


def _protobuf_values(field: FieldDescriptor, depth: int) -> Iterator[Any]:
    """Values of a field, as its decoder returns them."""
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        yield from ({"key": value} for value in _single(kind.fields_by_name["value"], depth))
    elif field.is_repeated:
        yield from ([value] for value in _single(field, depth))
    else:
        yield from _single(field, depth)


def _single(field: FieldDescriptor, depth: int) -> Iterator[Any]:
    if depth > _DEEPEST:
        return
    if field.enum_type is not None:
        yield field.enum_type.values[0].name
    elif field.message_type is None:
        yield from [0, _UNSIGNED[field.type]] if field.type in _UNSIGNED else _PLAIN[_NUMBERS[field.type]]
    elif field.message_type.full_name in _MESSAGES:
        yield from _MESSAGES[field.message_type.full_name]
    elif field.message_type.full_name.endswith("Value") and field.message_type.file.name.endswith("wrappers.proto"):
        yield from _single(field.message_type.fields_by_name["value"], depth)
    else:
        parts = {one.name: list(_protobuf_values(one, depth + 1)) for one in field.message_type.fields}
        for n in range(max(map(len, parts.values()), default=1)):
            yield {name: values[min(n, len(values) - 1)] for name, values in parts.items() if values}
