"""Events as producers write them in each format, by Confluent's own serializers against a real registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from windrow.io.landing.protoc import descriptors

Serialize = Callable[[str, Mapping[str, Any]], bytes]
"""Writes an event to a topic's subject."""

COLUMNS = (
    '{id: string, k: bigint, t: timestamp, price: "decimal(9,2)", day: date, score: double, weights: "array<float>", '
    'place: "struct<city:string,zip:int>", kind: string, note: string, old: boolean}'
)
"""Columns of an event as a pipeline file declares them."""
_PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "int"}],
}


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


_COMMON = [
    _field("price", _logical("bytes", "decimal", precision=9, scale=2)),
    _field("day", _logical("int", "date")),
    _field("score", "double"),
    _field("weights", {"type": "array", "items": "float"}),
    _field("place", ["null", _PLACE]),
    _field("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
]
AVRO = (
    [  # the first version: a narrow key, milliseconds
        _field("id", "string"),
        _field("k", "int"),
        _field("t", _logical("long", "timestamp-millis")),
        *_COMMON,
        _field("old", "boolean"),
    ],
    [  # widened, reordered, with a field of a default that nobody reads
        *reversed(_COMMON),
        _field("t", _logical("long", "timestamp-micros")),
        _field("k", "long"),
        _field("id", ["null", "string"]),
        _field("note", ["null", "string"], default=None),
        _field("unread", "int", default=7),
        _field("old", ["boolean", "null"]),
    ],
    [  # one field dropped
        _field("id", "string"),
        _field("k", "long"),
        _field("t", _logical("long", "timestamp-micros")),
        *_COMMON,
        _field("note", ["string", "null"], default=""),
    ],
)
"""Fields of three versions of the schema."""

_PROTO = """\
syntax = "proto3";
package feed;
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
import "confluent/type/decimal.proto";
message Place {{ string city = 1; int32 zip = 2; }}
enum Kind {{ A = 0; B = 1; }}
message Event {{
  string id = 1; {key} k = 2; google.protobuf.Timestamp t = 3; confluent.type.Decimal price = 4;
  google.type.Date day = 5; double score = 6; repeated float weights = 7; Place place = 8; Kind kind = 9; {more}
}}
"""
PROTOBUF = (
    _PROTO.format(key="int32", more="bool old = 10;"),
    _PROTO.format(key="int64", more="optional bool old = 10; optional string note = 11; int32 unread = 12;"),
    _PROTO.format(key="int64", more="reserved 10; optional string note = 11;"),
)


def event(number: int, seconds: float, key: int, version: int) -> dict[str, Any]:
    """An event as its producer has it, with the fields of a version of the schema."""
    made: dict[str, Any] = {
        "id": f"e{number}",
        "k": key,
        "t": datetime.fromtimestamp(1_793_491_200 + seconds, UTC),
        "price": Decimal(f"{number}.{number % 100:02}"),
        "day": date(2026, 10, 31),
        "score": 0.1 + number / 3,
        "weights": [number / 7, -0.0, 1e-40],
        "place": {"city": f"Zürich {number}", "zip": 8000 + number} if number % 3 else None,
        "kind": "AB"[number % 2],
    }
    if version < 2:
        made["old"] = number % 2 == 0
    if version > 0:
        made["note"] = f"note {number}"
    return made


def as_json(made: Mapping[str, Any]) -> bytes:
    """An event as JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat().replace("+00:00", "Z")
        return value.isoformat() if isinstance(value, date) else str(value)

    return json.dumps(made, default=plain).encode()


def avro(registry: str, fields: list[dict[str, Any]]) -> Serialize:
    """What writes events of a version in Avro, and registers its schema."""
    text = json.dumps({"type": "record", "name": "Event", "namespace": "feed", "fields": fields})
    write = AvroSerializer(SchemaRegistryClient({"url": registry}), text)
    return lambda topic, made: write(
        {"unread": 1, "old": None, "note": None, **made}, SerializationContext(topic, MessageField.VALUE)
    )


def protobuf(registry: str, text: str) -> Serialize:
    """What writes events of a version in Protobuf, and registers its schema."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors(text, ())).file:
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName("feed.Event"))
    write = ProtobufSerializer(kind, SchemaRegistryClient({"url": registry}), {"use.deprecated.format": False})

    def serialize(topic: str, made: Mapping[str, Any]) -> bytes:
        found = kind(id=made["id"], k=made["k"], score=made["score"], weights=made["weights"])
        found.t.FromDatetime(made["t"])
        number = int(made["price"].scaleb(2))
        found.price.value, found.price.scale = number.to_bytes(8, "big", signed=True), 2
        found.day.year, found.day.month, found.day.day = made["day"].year, made["day"].month, made["day"].day
        found.kind = "AB".index(made["kind"])
        if made["place"]:
            found.place.city, found.place.zip = made["place"]["city"], made["place"]["zip"]
        for name in ("old", "note"):
            if name in made:
                setattr(found, name, made[name])
        return bytes(write(found, SerializationContext(topic, MessageField.VALUE)))

    return serialize
