"""Avro and Protobuf records by their writers' schemas, as fastavro and google.protobuf write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.config.column_types import parse_type
from windrow.config.formats import Format
from windrow.io.landing.protoc import NotProtobuf, descriptors
from windrow.transforms.formats.compare import compared
from windrow.transforms.formats.records import reader
from windrow.transforms.formats.schemas import AVRO, JSON, PROTOBUF, WriterSchema
from windrow.transforms.formats.values import Day, Instant, fitted

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT = datetime(2026, 11, 1, 12, 30, 0, 250_000, tzinfo=UTC)
MICROS = (AT - EPOCH) // timedelta(microseconds=1)
Result = dict[str, Any]


def framed(payload: bytes, number: int = 1) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def avro_bytes(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def read(kind: str, columns: Mapping[str, str], schemas: list[WriterSchema], *records: bytes | None) -> list[Result]:
    types = {name: parse_type(text) for name, text in columns.items()}
    known = {schema.id: schema for schema in schemas}
    found: list[Result] = reader(Format(kind), types, known)(pa.array(records, pa.binary())).to_pylist()  # type: ignore[arg-type]
    return found


def read_avro(schema: Any, columns: Mapping[str, str], *payloads: bytes) -> list[Result]:
    return read("avro", columns, [WriterSchema(1, AVRO, json.dumps(schema))], *map(framed, payloads))


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}
CASES: list[tuple[Any, Any, str, Any]] = [
    ("long", 127, "tinyint", 127),
    ("long", 128, "tinyint", "wrong"),
    ("int", -5, "bigint", -5),
    ("long", 2**53 + 1, "double", float(2**53 + 1)),
    ("long", 5, "string", "wrong"),
    ("string", "5", "bigint", "wrong"),
    ("boolean", True, "int", "wrong"),
    ("int", 1, "boolean", "wrong"),
    ("double", 0.1, "float", 0.10000000149011612),
    ("double", 1.5, "bigint", "wrong"),
    ("double", 1e39, "float", "not_finite"),
    ("double", float("nan"), "double", "not_finite"),
    ({"type": "array", "items": "double"}, [1.0, float("inf")], "array<double>", "not_finite"),
    ({"type": "array", "items": "long"}, [1, 300], "array<tinyint>", "wrong"),
    ({"type": "array", "items": ["null", "long"]}, [1, None], "array<int>", [1, None]),
    ({"type": "map", "values": "long"}, {"a": 1}, "map<string,int>", [("a", 1)]),
    ({"type": "map", "values": "long"}, {"a": 1}, "array<int>", "wrong"),
    (
        {**record(x="int", y="string"), "name": "Inner"},
        {"x": 1, "y": "z"},
        "struct<y:string,more:date>",
        {"y": "z", "more": None},
    ),
    ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "string", "Y"),
    (["null", "string", "long"], 7, "bigint", 7),
    (["null", "string", "long"], "seven", "bigint", "wrong"),
    (["null", "string"], None, "bigint", None),
    ("bytes", b"\xff", "binary", b"\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
    ("bytes", b"a", "string", "wrong"),
    ({"type": "string", "logicalType": "uuid"}, "0" * 32, "string", "0" * 32),
    ({"type": "long", "logicalType": "timestamp-millis"}, MICROS // 1000, "timestamp", AT),
    ({"type": "long", "logicalType": "timestamp-micros"}, MICROS, "timestamp", AT),
    ({"type": "long", "logicalType": "timestamp-nanos"}, MICROS * 1000 + 999, "timestamp", AT),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, MICROS // 1000, "timestamp", AT),
    ({"type": "long", "logicalType": "timestamp-millis"}, 2**62, "timestamp", "wrong"),
    ({"type": "long", "logicalType": "timestamp-millis"}, MICROS // 1000, "bigint", "wrong"),
    ("long", MICROS, "timestamp", "wrong"),
    ("string", "2026-11-01T00:00:00Z", "timestamp", "wrong"),
    ({"type": "int", "logicalType": "date"}, 20_393, "date", date(2025, 11, 1)),
    ({"type": "int", "logicalType": "date"}, 2**30, "date", "wrong"),
    (DECIMAL, (1500).to_bytes(3, "big"), "decimal(5,2)", Decimal("1.50")),
    (DECIMAL, (1555).to_bytes(3, "big"), "decimal(5,2)", "wrong"),
    (DECIMAL, (-1_000_000).to_bytes(4, "big", signed=True), "decimal(5,2)", "wrong"),
    (DECIMAL, (-999_990).to_bytes(4, "big", signed=True), "decimal(5,2)", Decimal("-999.99")),
    ("long", 12, "decimal(5,2)", Decimal("12.00")),
    ("double", 1.5, "decimal(5,2)", "wrong"),
]


@pytest.mark.parametrize(("kind", "value", "column", "expected"), CASES)
def test_a_value_is_read_as_it_is_or_named(kind: Any, value: Any, column: str, expected: Any) -> None:
    raw = json.loads(json.dumps(kind).replace("logicalType", "ignored"))  # written as plain numbers and bytes
    (found,) = read_avro(record(v=kind), {"v": column}, avro_bytes(record(v=raw), {"v": value}))
    assert found["reason"] is None
    if expected in ("wrong", "not_finite"):
        assert (found["row"]["v"], found[expected]) == (None, ["v"])
    else:
        assert found["row"]["v"] == expected
        assert (found["wrong"], found["not_finite"]) == (None, None)


def test_a_record_that_is_none_of_its_schema_has_a_reason() -> None:
    schemas = [
        WriterSchema(1, AVRO, json.dumps(record(a="long", b="string"))),
        WriterSchema(2, JSON, "{}"),
        WriterSchema(3, AVRO, "no schema"),
        WriterSchema(4, AVRO, '"long"'),
        WriterSchema(5, PROTOBUF, "message", descriptors=b""),
    ]
    good = avro_bytes(record(a="long", b="string"), {"a": 5, "b": "ö"})
    records = [framed(good), framed(good[:-1]), framed(good + b"\0"), framed(b""), good, b"", b"\0\0\0\0", None]
    records += [framed(good.replace(b"\xc3\xb6", b"\xc3("))] + [framed(good, number) for number in (2, 3, 4, 5, 6)]
    found = read("avro", {"a": "bigint", "c": "string"}, schemas, *records)
    bad = ["malformed", "malformed", "malformed", "unframed", "unframed", "unframed", None, "bad_utf8"]
    others = [f"other_schema:{number}" for number in (2, 3, 4, 5)]
    assert [one["reason"] for one in found] == [None, *bad, *others, "unknown_schema:6"]
    assert found[0]["row"] == {"a": 5, "c": None}
    assert all(one["row"] == {"a": None, "c": None} for one in found[1:])


def test_another_schemas_bytes_of_the_same_form_cannot_be_told() -> None:
    """A known limit: both are a record of two numbers."""
    (found,) = read_avro(
        record(a="long", b="long"), {"a": "bigint"}, avro_bytes(record(x="int", y="int"), {"x": 1, "y": 2})
    )
    assert (found["reason"], found["row"]) == (None, {"a": 1})


def test_a_schema_that_refers_to_another_is_read_with_it() -> None:
    place = {"type": "record", "name": "Place", "namespace": "of", "fields": [{"name": "city", "type": "string"}]}
    whole = record(place=place)
    schema = WriterSchema(1, AVRO, json.dumps(record(place="of.Place")), (("of.Place", json.dumps(place)),))
    payload = avro_bytes(whole, {"place": {"city": "Bern"}})
    (found,) = read("avro", {"place": "struct<city:string>"}, [schema], framed(payload))
    assert found["row"] == {"place": {"city": "Bern"}}


def test_values_of_one_column_are_looked_at_one_by_one_where_they_differ() -> None:
    found = fitted([Instant(5), 5, None, "x", Instant(-(10**18))], parse_type("timestamp"))
    assert (found.unfit, found.array.is_valid().to_pylist()) == ({1, 3, 4}, [True, False, False, False, False])
    days = fitted([[Day(0)], [3], [], None], parse_type("array<date>"))
    assert (days.unfit, days.array.to_pylist()) == ({1}, [[date(1970, 1, 1)], None, [], None])


# Random schemas and values: a strategy gives an Avro type, its values, and the column type that holds them.
WHOLE = {"int": ("int", 31), "long": ("bigint", 63)}
SIMPLE = st.one_of(
    *[
        st.just((name, st.integers(-(2**bits), 2**bits - 1), column, lambda value: value))
        for name, (column, bits) in WHOLE.items()
    ],
    st.just(("string", st.text(max_size=5), "string", lambda value: value)),
    st.just(("bytes", st.binary(max_size=5), "binary", lambda value: value)),
    st.just(("boolean", st.booleans(), "boolean", lambda value: value)),
    st.just(("double", st.floats(allow_nan=False, allow_infinity=False), "double", lambda value: value)),
    st.just(("float", st.floats(width=32, allow_nan=False, allow_infinity=False), "float", lambda value: value)),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Arrays, maps and unions with null of other types."""

    def array(one: Any) -> Any:
        kind, values, column, expected = one
        items = st.lists(values, max_size=3)
        return {"type": "array", "items": kind}, items, f"array<{column}>", lambda vs: [expected(v) for v in vs]

    def mapping(one: Any) -> Any:
        kind, values, column, expected = one
        items = st.dictionaries(st.text(max_size=3), values, max_size=3)
        pairs = lambda vs: [(key, expected(v)) for key, v in vs.items()]  # noqa: E731 - one of three alike
        return {"type": "map", "values": kind}, items, f"map<string,{column}>", pairs

    def optional(one: Any) -> Any:
        kind, values, column, expected = one
        return ["null", kind], st.none() | values, column, lambda v: None if v is None else expected(v)

    return st.one_of(inner.map(array), inner.map(mapping), SIMPLE.map(optional))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_random_records_of_random_schemas_are_read_as_fastavro_wrote_them(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.recursive(SIMPLE, nested, max_leaves=4), min_size=1, max_size=4))
    schema = record(**{f"f{n}": kind for n, (kind, _, _, _) in enumerate(fields)})
    columns = {f"f{n}": column for n, (_, _, column, _) in enumerate(fields)}
    values = {f"f{n}": data.draw(strategy) for n, (_, strategy, _, _) in enumerate(fields)}
    payload = avro_bytes(schema, values)
    cut = data.draw(st.integers(0, max(0, len(payload) - 1)))
    whole, short, long = read_avro(schema, columns, payload, payload[:cut], payload + b"\1")
    expected = {f"f{n}": view(values[f"f{n}"]) for n, (_, _, _, view) in enumerate(fields)}
    assert (whole["reason"], whole["wrong"], whole["row"]) == (None, None, expected)
    assert long["reason"] == "malformed"
    assert (short["reason"] is None) == (len(payload) == 0)


SCALARS: dict[int, tuple[str, st.SearchStrategy[Any]]] = {
    Field.TYPE_INT32: ("int", st.integers(-(2**31), 2**31 - 1)),
    Field.TYPE_SINT64: ("bigint", st.integers(-(2**63), 2**63 - 1)),
    Field.TYPE_FIXED32: ("bigint", st.integers(0, 2**32 - 1)),
    Field.TYPE_STRING: ("string", st.text(max_size=5)),
    Field.TYPE_BYTES: ("binary", st.binary(max_size=5)),
    Field.TYPE_BOOL: ("boolean", st.booleans()),
    Field.TYPE_DOUBLE: ("double", st.floats(allow_nan=False, allow_infinity=False)),
    Field.TYPE_FLOAT: ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_random_messages_of_random_schemas_are_read_as_protobuf_wrote_them(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.tuples(st.sampled_from(sorted(SCALARS)), st.booleans()), min_size=1, max_size=5))
    file = FileDescriptorProto(name="r.proto", package="r", syntax="proto3")
    message, columns, values = file.message_type.add(name="R"), {}, {}
    for n, (kind, is_repeated) in enumerate(kinds):
        label = Field.LABEL_REPEATED if is_repeated else Field.LABEL_OPTIONAL
        message.field.add(name=f"f{n}", number=n + 1, type=kind, label=label)  # type: ignore[arg-type]
        column, strategy = SCALARS[kind]
        columns[f"f{n}"] = f"array<{column}>" if is_repeated else column
        values[f"f{n}"] = data.draw(st.lists(strategy, max_size=3) if is_repeated else strategy)
    pool = DescriptorPool()
    pool.Add(file)
    payload = GetMessageClass(pool.FindMessageTypeByName("r.R"))(**values).SerializeToString()
    schema = WriterSchema(1, PROTOBUF, "", descriptors=FileDescriptorSet(file=[file]).SerializeToString())
    whole, behind = read(
        "protobuf", columns, [schema], framed(b"\0" + payload), framed(b"\0" + payload + b"\xf8\x01\1")
    )
    assert (whole["reason"], whole["wrong"], whole["row"]) == (None, None, values)
    assert behind["reason"] == "malformed"  # a field that the schema does not have


PROTO = """\
syntax = "proto3";
package feed;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "other/place.proto";
message Event {
  string id = 1; optional int64 k = 2; google.protobuf.Timestamp t = 3; Kind kind = 4; map<int32, Place> places = 5;
  oneof one { string text = 6; bool flag = 7; } google.protobuf.Int64Value wrapped = 8; repeated Kind kinds = 9;
  message Inner { string id = 1; }
  enum Kind { NONE = 0; SOME = 1; }
}
message Second { string id = 1; }
"""
PLACE = 'syntax = "proto3"; package feed; message Place { string city = 1; }'
COLUMNS = {
    "id": "string",
    "k": "bigint",
    "t": "timestamp",
    "kind": "string",
    "places": "map<string,struct<city:string>>",
    "text": "string",
    "flag": "boolean",
    "wrapped": "int",
    "kinds": "array<string>",
    "missing": "date",
}


def test_a_message_of_text_with_imports_is_read_by_its_index_and_its_presence() -> None:
    made = descriptors(PROTO, (("other/place.proto", PLACE),))
    schema = WriterSchema(1, PROTOBUF, PROTO, descriptors=made)
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(made).file:
        pool.Add(file)
    event = GetMessageClass(pool.FindMessageTypeByName("feed.Event"))
    full = event(id="a", k=0, kind=1, text="x", kinds=[0, 1])
    full.t.FromDatetime(AT)
    full.places[7].city = "Bern"
    full.wrapped.value = 0
    payload = full.SerializeToString()
    second = GetMessageClass(pool.FindMessageTypeByName("feed.Second"))(id="two").SerializeToString()
    records = [b"\0" + payload, b"\0", b"\2\2" + second, b"\4\0\0" + second, b"\2\x08" + second, b"", b"\x80"]
    records += [b"\0" + payload[:-1], b"\0" + event(id="a").SerializeToString() + b"\x20\x09"]
    found = read("protobuf", COLUMNS, [schema], *map(framed, records))
    nothing = dict.fromkeys(COLUMNS)
    assert found[0]["row"] == {
        "id": "a",
        "k": 0,
        "t": AT,
        "kind": "SOME",
        "places": [("7", {"city": "Bern"})],
        "text": "x",
        "flag": None,
        "wrapped": 0,
        "kinds": ["NONE", "SOME"],
        "missing": None,
    }
    assert found[1]["row"] == nothing | {"id": "", "kind": "NONE", "places": [], "kinds": []}, "all of it defaults"
    assert [one["row"] for one in found[2:4]] == [nothing | {"id": "two"}] * 2  # the second message; a nested one
    assert [one["reason"] for one in found[4:8]] == ["malformed"] * 4
    assert (found[8]["reason"], found[8]["wrong"]) == (None, ["kind"])  # a number that the enum does not have
    only = reader(Format("protobuf", message="feed.Event"), {"id": parse_type("string")}, {1: schema})
    reasons = only(pa.array([framed(b"\0" + payload), framed(b"\2\2" + second)])).field("reason").to_pylist()
    assert reasons == [None, "other_schema:1"]
    for text in ("message Broken {", 'syntax = "proto3"; import "gone.proto"; message A {}'):
        with pytest.raises(NotProtobuf):
            descriptors(text, ())


def test_columns_are_compared_with_a_schema_by_the_rules_of_landing() -> None:
    place = {**record(zip="int"), "name": "Place"}
    fields = {"id": "string", "n": "long", "u": ["null", "string", "int"], "place": place, "other": ["null", "Place"]}
    avro = WriterSchema(4, AVRO, json.dumps(record(**fields, ts={"type": "long", "logicalType": "timestamp-millis"})))
    columns = {"id": "string", "n": "int", "u": "bigint", "other": "struct<zip:int>", "ts": "timestamp", "idd": "date"}
    found = compared(avro, columns)
    assert [(one.column, one.is_never) for one in found] == [("n", False), ("u", False), ("idd", False)]
    assert found[0].message == (
        "is int; values of schema 4 such as 9223372036854775807, -9223372036854775808 would be wrong_type"
    )
    assert found[2].message.endswith("every record would be null there; did you mean 'id'?")
    assert [one.is_never for one in compared(avro, {"id": "bigint", "ts": "bigint", "place": "string"})] == [True] * 3
    made = descriptors(PROTO, (("other/place.proto", PLACE),))
    protobuf = WriterSchema(5, PROTOBUF, PROTO, descriptors=made)
    assert [one.column for one in compared(protobuf, COLUMNS)] == ["wrapped", "missing"]
    assert [one.column for one in compared(protobuf, COLUMNS, "feed.Second")] == list(COLUMNS)[1:]
    with pytest.raises(ValueError, match=r"schema 5 has no message feed\.Third"):
        compared(protobuf, COLUMNS, "feed.Third")
    assert compared(WriterSchema(6, JSON, "{}"), COLUMNS) == []
