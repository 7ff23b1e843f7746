"""Protobuf records by the schema of their writer, with messages made at run time.

    frame | message index | message         index: one byte 0 for the first message of the file, else zigzag varints:
                                            how many there are, then the position at each level

A scalar field without presence that a record lacks has its default (0, "", false), because its writer cannot tell the
two apart; with presence (`optional`, a `oneof`, a message) it is null. A field that the writer's schema lacks is null.

What cannot be told: a message that is cut at the end of a field is a message; so is no byte at all. Bytes behind a
message, and those of another schema, show as fields that the writer's schema does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from windrow.transforms.formats.schemas import WriterSchema
from windrow.transforms.formats.values import Day, Instant

_EPOCH = date(1970, 1, 1).toordinal()


class OtherMessage(ValueError):
    """A record is another message than the one that is read."""


class _Message(NamedTuple):
    """What reads one message of a schema."""

    parse: Callable[[bytes], Any]
    columns: dict[str, Callable[[Any], Any]]


def decoder(schema: WriterSchema, columns: Collection[str], message: str | None = None) -> Callable[[bytes], Any]:
    """Return what reads one record of a schema, from its message index on.

    The function returns a dict of the columns that the message has. It raises `OtherMessage`, and any other error for
    bytes that are no message of the schema.

    Args:
        columns: names of the fields that are read.
        message: full name of the only message that is read; None for any.

    Raises:
        ValueError: the schema is no Protobuf schema, or does not have the message.
    """
    pool = descriptor_pool.DescriptorPool()
    files = FileDescriptorSet.FromString(schema.descriptors).file
    if not files:
        raise ValueError(f"schema {schema.id} is no Protobuf schema")
    for file in files:
        pool.Add(file)
    own = list(pool.FindFileByName(files[-1].name).message_types_by_name.values())
    known: dict[tuple[int, ...], _Message] = {}

    def decode(payload: bytes) -> Any:
        index, start = ((0,), 1) if payload[:1] == b"\0" else _index(payload)
        if index not in known:
            known[index] = _message(own, index, columns, message)
        read = known[index]
        found = read.parse(payload[start:])
        if len(UnknownFieldSet(found)):
            raise ValueError("fields that the schema does not have")
        return {name: value(found) for name, value in read.columns.items()}

    return decode


def _index(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The message index at the start of a payload, and where the message begins."""
    count, at = _varint(payload, 0)
    if not 0 < count <= len(payload):
        raise ValueError(f"a message index of {count} positions")
    index = []
    for _ in range(count):
        position, at = _varint(payload, at)
        index.append(position)
    return tuple(index), at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where it ends."""
    number = shift = 0
    while True:
        number |= (payload[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if payload[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def _message(own: Sequence[Descriptor], index: Sequence[int], columns: Collection[str], wanted: str | None) -> _Message:
    """What reads the message at an index of a file.

    Raises:
        OtherMessage: it is not the wanted one.
        ValueError: the file has no message there.
    """
    found, level = None, own
    for position in index:
        if not 0 <= position < len(level):
            raise ValueError(f"the schema has no message at {'/'.join(map(str, index))}")
        found = level[position]
        level = [one for one in found.nested_types if not one.GetOptions().map_entry]  # entries are in no .proto file
    assert found is not None
    if wanted is not None and found.full_name != wanted:
        raise OtherMessage(found.full_name)
    read = _Reading()
    values = {field.name: read.field(field) for field in found.fields if field.name in columns}
    return _Message(GetMessageClass(found).FromString, values)


class _Reading:
    """Makes functions that read values out of messages; each kind of message is looked at once."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Callable[[Any], Any]]] = {}

    def field(self, field: FieldDescriptor) -> Callable[[Any], Any]:
        """What reads a field out of its message."""
        name, kind = field.name, field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            key, value = self.single(kind.fields_by_name["key"]), self.single(kind.fields_by_name["value"])
            return lambda of: {_key(key(k)): value(v) for k, v in getattr(of, name).items()}
        one = self.single(field)
        if field.is_repeated:
            if kind is None and field.enum_type is None:
                return lambda of: list(getattr(of, name))
            return lambda of: [one(value) for value in getattr(of, name)]
        if field.has_presence:
            return lambda of: one(getattr(of, name)) if of.HasField(name) else None
        if kind is None and field.enum_type is None:
            return lambda of: getattr(of, name)
        return lambda of: one(getattr(of, name))

    def single(self, field: FieldDescriptor) -> Callable[[Any], Any]:
        """What makes a value of a field's type readable."""
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            return lambda number: names.get(number, number)
        if field.message_type is None:
            return lambda value: value
        kind = field.message_type
        if kind.full_name in _WELL_KNOWN:
            return _WELL_KNOWN[kind.full_name]
        return lambda of: self.record(of, kind)

    def record(self, of: Any, kind: Descriptor) -> dict[str, Any]:
        """A message within another as a dict."""
        if kind.full_name not in self.known:
            self.known[kind.full_name] = {field.name: self.field(field) for field in kind.fields}
        return {name: value(of) for name, value in self.known[kind.full_name].items()}


def _key(key: Any) -> str:
    """Key of a map as text, as Protobuf's JSON has it."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _decimal(of: Any) -> Decimal:
    number = int.from_bytes(of.value, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -of.scale))


def _date(of: Any) -> Any:
    try:
        return Day(date(of.year, of.month, of.day).toordinal() - _EPOCH)
    except ValueError:  # a date without a day or a year
        return {"year": of.year, "month": of.month, "day": of.day}


_WELL_KNOWN: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": lambda of: Instant(of.seconds * 1_000_000 + of.nanos // 1_000),
    "google.type.Date": _date,
    "confluent.type.Decimal": _decimal,
    **{
        f"google.protobuf.{name}Value": lambda of: of.value
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
}
"""Messages that stand for a value."""
