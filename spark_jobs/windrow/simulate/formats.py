"""Simulated records in the formats that pipeline files know: JSON, or Avro and Protobuf behind a registry's frame.

Bodies are made as JSON, poison too. Poison that a schema allows is written by it; what none allows (a cut record, lists
in lists, bytes that are no text) stays as it is: without a frame, or behind one where only its size matters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from windrow.simulate.record import SimulatedRecord, encode
from windrow.text import parse_instant

FormatName = Literal["json", "json_schema", "avro", "protobuf"]
Encode = Callable[[SimulatedRecord], bytes | None]
_TIMES = ("served_at", "engaged_at")
_TYPES: dict[str, tuple[Any, str]] = {
    "request_id": ("string", "string"),
    "event_id": ("string", "string"),
    "action": ("string", "string"),
    "user_id": ("long", "int64"),
    "item_id": ("long", "int64"),
    "served_at": ({"type": "long", "logicalType": "timestamp-micros"}, "google.protobuf.Timestamp"),
    "engaged_at": ({"type": "long", "logicalType": "timestamp-micros"}, "google.protobuf.Timestamp"),
    "features": ({"type": "array", "items": "float"}, "float"),
}
"""By field, its type in Avro and in Protobuf."""
_FIELDS = {
    "left": ("request_id", "user_id", "item_id", "served_at", "features"),
    "right": ("event_id", "user_id", "item_id", "action", "engaged_at"),
}
_TOO_LARGE = 1024 * 1024


def encoder(kind: FormatName, registry: str | None) -> Encode:
    """Return what makes the bytes of a record in a format.

    Schemas are registered when the first record of a topic is made.

    Args:
        registry: address of the registry; needed for all but JSON.
    """
    if kind == "json":
        return lambda record: encode(record.body)
    assert registry is not None, "the caller has refused this"
    from confluent_kafka.schema_registry import SchemaRegistryClient

    client = SchemaRegistryClient({"url": registry})
    known: dict[tuple[str, str], _Writer] = {}

    def make(record: SimulatedRecord) -> bytes | None:
        body = record.body if isinstance(record.body, dict) else _body_of(record.body)
        plain = encode(record.body)
        if body is None or plain is None or len(plain) > _TOO_LARGE:
            return plain if plain is None or len(plain) <= _TOO_LARGE else b"\0\0\0\0\1" + plain
        is_text = next((name for name in ("features", "user_id") if isinstance(body.get(name), str)), "")
        if (record.topic, is_text) not in known:
            known[record.topic, is_text] = _WRITERS[kind](client, record.topic, _FIELDS[record.side], is_text)
        try:
            return known[record.topic, is_text](body)
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            return plain  # without a frame, so that it is quarantined as the truth says

    return make


_Writer = Callable[[Mapping[str, Any]], bytes]


def _body_of(poison: bytes | None) -> dict[str, Any] | None:
    """A poisoned body, where it is a record that a schema may allow."""
    try:
        body = json.loads(poison or b"")
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _micros(text: str) -> int:
    from windrow.semantics.intervals import micros

    return micros(parse_instant(text))


def _framed(client: Any, topic: str, kind: str, schema: str) -> bytes:
    """The frame of a schema, which is registered."""
    from confluent_kafka.schema_registry import Schema

    number = client.register_schema(f"{topic}-value", Schema(schema, kind))
    return b"\0" + int(number).to_bytes(4, "big")


def _avro(client: Any, topic: str, names: tuple[str, ...], is_text: str) -> _Writer:
    from io import BytesIO

    import fastavro

    fields = [
        {"name": name, "type": ["null", "string" if name == is_text else _TYPES[name][0]], "default": None}
        for name in names
    ]
    schema = {"type": "record", "name": "Event", "namespace": "feed", "fields": fields}
    frame, parsed = _framed(client, topic, "AVRO", json.dumps(schema)), fastavro.parse_schema(schema)

    def write(body: Mapping[str, Any]) -> bytes:
        out = BytesIO()
        times = {name: _micros(body[name]) for name in _TIMES if name in body}
        fastavro.schemaless_writer(out, parsed, {**body, **times})
        return frame + out.getvalue()

    return write


def _protobuf(client: Any, topic: str, names: tuple[str, ...], is_text: str) -> _Writer:
    import base64

    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    kinds = {"string": FieldDescriptorProto.TYPE_STRING, "int64": FieldDescriptorProto.TYPE_INT64}
    kinds["float"] = FieldDescriptorProto.TYPE_FLOAT
    file = FileDescriptorProto(name="event.proto", package="feed", syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name="Event")
    for number, name in enumerate(names, start=1):
        kind = "string" if name == is_text else _TYPES[name][1]
        field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if kind == "float":
            field.label = FieldDescriptorProto.LABEL_REPEATED
        if kind in kinds:
            field.type = kinds[kind]
        else:
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{kind}"
        if kind in ("string", "int64"):  # a key that is not there is null, not 0
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("feed.Event"))
    text = base64.b64encode(file.SerializeToString(deterministic=True)).decode()
    frame = _framed(client, topic, "PROTOBUF", text) + b"\0"

    def write(body: Mapping[str, Any]) -> bytes:
        found = made(**{n: body[n] for n in names if n not in _TIMES and body.get(n) is not None})
        for name in _TIMES:
            if name in body:
                getattr(found, name).FromMicroseconds(_micros(body[name]))
        return frame + bytes(found.SerializeToString())

    return write


def _json_schema(client: Any, topic: str, names: tuple[str, ...], is_text: str) -> _Writer:
    frame = _framed(client, topic, "JSON", json.dumps({"type": "object", "properties": {name: {} for name in names}}))
    return lambda body: frame + (encode(dict(body)) or b"")


_WRITERS: dict[str, Callable[[Any, str, tuple[str, ...], str], _Writer]] = {
    "avro": _avro,
    "json_schema": _json_schema,
    "protobuf": _protobuf,
}
