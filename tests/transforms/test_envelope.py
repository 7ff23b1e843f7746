"""Columns from keys, headers and timestamps of records: each is read as a field of the value of that text would be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from support.small_pipeline import PIPELINE
from windrow.config import Pipeline, parse
from windrow.semantics.landing.batch import Batch, Reconsidered
from windrow.transforms.decode import decode, records_of
from windrow.transforms.formats.schemas import AVRO, WriterSchema

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ANN = Reconsidered("ann", "the type was too small")
VALUE = b'{"k": 1, "t": "2026-11-01T00:00:01Z"}'
DDL = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
Headers = list[tuple[str, bytes | None]]
Sent = tuple[bytes | None, bytes | None, Headers | None]
"""key, value, headers"""


def pipeline_of(columns: str, key_format: str | None = None) -> Pipeline:
    """The small pipeline with further columns of its left stream."""
    more = f"\n  key_format: {key_format}" if key_format else ""
    text = PIPELINE.replace("{id: string, k: bigint, t: timestamp}", f"{{k: bigint, t: timestamp, {columns}}}{more}", 1)
    return parse(text.replace("{t}", "t"), "envelope.yaml")


def batch(size: int) -> Batch:
    return Batch("t.served", "id", 0, 1, NOW, {0: (0, size, size)})


def landed(spark: Any, sent: Sequence[Sent], pipeline: Pipeline, stamp_kind: int = 0) -> list[Any]:
    rows = [(key, value, "t.served", 0, n, NOW, stamp_kind, headers) for n, (key, value, headers) in enumerate(sent)]
    return decode(spark.createDataFrame(rows, DDL), pipeline, batch(len(rows))).orderBy("_offset").collect()


def outcome(row: Any, name: str) -> Any:
    """The value of a column, or the reason why it has none."""
    unreadable = json.loads(row["_unreadable"] or "{}")
    return unreadable.get(name, row[name])


TEXTS: dict[str, list[str]] = {
    "tinyint": ["7", "-128", "128", "1.0", "+7", "7 ", "", "1e1", "007", "7\n", "true", "٧"],
    "bigint": ["9223372036854775807", "9223372036854775808", "-0", "7]", '7,"k":2'],
    "double": ["1.5", "1e5", "1e999", "-1e999", "NaN", "Infinity", ".5", "1."],
    "float": ["0.1", "1e39", "16777217"],
    "boolean": ["true", "false", "True", "1", "null"],
    "decimal(5,2)": ["1.5", "1.500", "1.555", "1000", "1,5", "1e-1", "1e200", "x"],
    "date": ["2026-11-01", "2024-02-29", "2026-11-31", "2026-11-01T00:00:00Z", "1"],
    "timestamp": ["2026-11-01T05:30:03+05:30", "1793491207.25", "12:30", "yesterday"],
    "string": ["a", "", "1.10", '"quoted" \\ \u0000 \ufdd0', "{}", "null"],
}  # fmt: skip
BARE = ("tinyint", "bigint", "double", "float", "boolean")


def as_field(text: str, kind: str) -> str:
    """A text as the field of a JSON object: a word where JSON has one of this text for the type, else a string."""
    try:
        is_word = isinstance(json.loads(text), int | float) and text.strip() == text
    except ValueError:
        is_word = False
    return text if is_word and kind in BARE and text[-1] not in "yN" else json.dumps(text, ensure_ascii=False)


def test_a_header_is_read_as_a_field_of_that_text(spark: Any) -> None:
    """One column for each type, of which a record has one."""
    names = {kind: f"v{n}" for n, kind in enumerate(TEXTS)}
    given = [(names[kind], text, as_field(text, kind)) for kind, texts in TEXTS.items() for text in texts]
    columns = {
        where: ", ".join(f'{where}{name}: "{kind}"' for kind, name in names.items()) for where in ("$header.", "")
    }
    of_header = landed(
        spark, [(None, VALUE, [(name, text.encode())]) for name, text, _ in given], pipeline_of(columns["$header."])
    )
    values = [VALUE[:-1] + f', "{name}": {field}}}'.encode() for name, _, field in given]
    of_field = landed(spark, [(None, value, None) for value in values], pipeline_of(columns[""]))
    found, expected = (
        [
            (name, text, outcome(row, name), row["_quarantined"])
            for row, (name, text, _) in zip(rows, given, strict=True)
        ]
        for rows in (of_header, of_field)
    )
    assert found == expected
    read = Counter(name for name, _, value, _ in found if value not in (None, "wrong_type", "not_finite"))
    assert min(read[name] for name in names.values()) >= 2


def test_the_last_header_of_a_name_counts_and_a_missing_one_is_null(spark: Any) -> None:
    pipeline = pipeline_of("$header.trace-id: string, $header.n: int, $header.sig: binary")
    rows = landed(
        spark,
        [
            (None, VALUE, [("n", b"7"), ("trace-id", b"a"), ("n", b"8"), ("sig", b"\xff\x00")]),
            (None, VALUE, [("n", b"x"), ("n", None), ("N", b"9"), ("trace-id", b"")]),
            (None, VALUE, None),
            (None, VALUE, [("n", b"7"), ("n", b"x")]),
            (None, VALUE, [("trace-id", b"\xff"), ("n", b"7")]),
        ],
        pipeline,
    )
    assert [(row["trace_id"], row["n"], row["sig"] and bytes(row["sig"])) for row in rows] == [
        ("a", 8, b"\xff\x00"),
        ("", None, None),
        (None, None, None),
        (None, None, None),
        (None, 7, None),
    ]
    assert [row["_unreadable"] for row in rows] == [
        *(None, None, None),
        '{"n":"wrong_type"}',
        '{"trace_id":"wrong_type"}',
    ]
    assert [row["_quarantined"] for row in rows] == [None, None, None, "wrong_type", "wrong_type"]


JSON_KEYS: dict[bytes | None, tuple[Any, Any] | str] = {
    b'{"u": 7, "price": "1.50", "more": 1}': (7, Decimal("1.50")),
    b'{"price": 2}': (None, Decimal("2.00")),
    b"{}": (None, None),
    None: (None, None),
    b'{"u": "7"}': '{"u":"wrong_type"}',
    b'{"u": 7, "price": 1.555}': '{"price":"wrong_type"}',
    b"": '{"u":"wrong_type","price":"wrong_type"}',
    b"7": '{"u":"wrong_type","price":"wrong_type"}',
    b'{"u": 7, "u": 8}': '{"u":"wrong_type","price":"wrong_type"}',
    b'{"u": 7} x': '{"u":"wrong_type","price":"wrong_type"}',
    b'{"u": 7, "s": "\xff"}': '{"u":"wrong_type","price":"wrong_type"}',
}


def test_a_key_of_json_is_one_object_or_makes_its_columns_unreadable(spark: Any) -> None:
    pipeline = pipeline_of('$key.u: int, $key.price: "decimal(5,2)"', "json")
    rows = landed(spark, [(key, VALUE, None) for key in JSON_KEYS], pipeline)
    for row, (key, expected) in zip(rows, JSON_KEYS.items(), strict=True):
        if isinstance(expected, tuple):
            assert (row["u"], row["price"], row["_quarantined"]) == (*expected, None), key
        else:
            assert (row["_unreadable"], row["_quarantined"], row["k"]) == (expected, "wrong_type", 1), key


KEYS: list[tuple[str, str, bytes | None, Any]] = [
    ("string", "bigint", b"42", 42),
    ("string", "bigint", b"4x", "wrong_type"),
    ("string", "bigint", None, None),
    ("string", "string", "ü".encode(), "ü"),
    ("string", "string", b"\xff", "wrong_type"),
    ("string", "binary", b"\xff", b"\xff"),
    ("int", "int", b"\x00\x00\x00\x2a", 42),
    ("int", "bigint", b"\xff\xff\xff\xfe", -2),
    ("int", "int", b"\x00\x2a", "wrong_type"),
    ("long", "bigint", b"\x80" + bytes(7), -(2**63)),
    ("long", "bigint", b"\x7f" + b"\xff" * 7, 2**63 - 1),
    ("long", "tinyint", bytes(6) + b"\x01\x00", "wrong_type"),
    ("long", "bigint", b"42", "wrong_type"),
]


@pytest.mark.parametrize(("key_format", "kind"), sorted({case[:2] for case in KEYS}))
def test_a_key_of_one_value_is_one_column(spark: Any, key_format: str, kind: str) -> None:
    mine = [case[2:] for case in KEYS if case[:2] == (key_format, kind)]
    rows = landed(spark, [(key, VALUE, None) for key, _ in mine], pipeline_of(f"$key.u: {kind}", key_format))
    assert [outcome(row, "u") for row in rows] == [expected for _, expected in mine]


def test_a_timestamp_of_a_record_is_a_column_where_it_has_one(spark: Any) -> None:
    pipeline = pipeline_of("$timestamp.sent_at: timestamp")
    for kind, expected in ((0, NOW), (1, NOW), (-1, None)):
        (row,) = landed(spark, [(None, VALUE, None)], pipeline, kind)
        assert (row["sent_at"] and row["sent_at"].astimezone(UTC)) == expected
        assert "_raw_envelope" not in row  # nothing is needed of key and headers


def test_a_tombstone_stays_one_whatever_its_key(spark: Any) -> None:
    pipeline = pipeline_of("$key.u: bigint, $header.n: int", "string")
    (row,) = landed(spark, [(b"42", None, [("n", b"7")])], pipeline)
    assert (row["_quarantined"], row["u"], row["n"], row["_event_time"]) == ("tombstone", None, None, None)
    assert (row["_raw"], row["_raw_envelope"]) == (None, None)  # nothing that an erasure would have to find


def test_each_stream_of_a_topic_judges_by_its_own_columns(spark: Any) -> None:
    text = PIPELINE.replace("{t}.likes", "{t}.served").replace("out_of_orderness: 5s", "out_of_orderness: 10s")
    before, _, after = text.partition("right:")
    after = after.replace("k: bigint,", "k: bigint, $header.n: int,").replace(
        "event_time", "where: n > 0\n    event_time"
    )
    pipeline = parse((before + "right:" + after).replace("{t}", "t"), "shared.yaml")
    value = VALUE[:-1] + b', "id": "x"}'
    rows = landed(spark, [(None, value, [("n", text)]) for text in (b"1", b"x")], pipeline)
    assert [(row["_quarantined"], row["_unreadable"]) for row in rows] == [(None, None), (None, '{"n":"wrong_type"}')]


def test_an_avro_value_and_its_envelope_are_one_row(spark: Any) -> None:
    schema = {
        "type": "record",
        "name": "Served",
        "fields": [
            {"name": "k", "type": "long"},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"k": 1, "t": NOW})
    framed = b"\0" + (1).to_bytes(4, "big") + out.getvalue()
    pipeline = pipeline_of("$key.u: bigint, $header.n: int", "string\n  format: avro")
    sent = [(b"42", framed, [("n", b"7")]), (b"42", framed[:-1], [("n", b"7")]), (b"42", framed, [("n", b"x")])]
    rows = [(key, value, "t.served", 0, n, NOW, 0, headers) for n, (key, value, headers) in enumerate(sent)]
    known = {1: WriterSchema(1, AVRO, json.dumps(schema))}
    read = decode(spark.createDataFrame(rows, DDL), pipeline, batch(len(rows)), known).orderBy("_offset").collect()
    assert [row["_quarantined"] for row in read] == [None, "malformed", "wrong_type"]
    assert (read[0]["k"], read[0]["u"], read[0]["n"], read[0]["_event_time"].astimezone(UTC)) == (1, 42, 7, NOW)
    assert [row["_raw_envelope"] and bytes(row["_raw_envelope"]["key"]) for row in read] == [None, b"42", b"42"]
    assert [json.loads(row["_unreadable"] or "{}") for row in read][2] == {"n": "wrong_type"}


def test_quarantined_records_keep_key_and_headers_and_are_read_again(spark: Any) -> None:
    narrow, wide = (pipeline_of(f"$key.u: bigint, $header.n: {kind}", "string") for kind in ("tinyint", "int"))
    rows = [(b"42", VALUE, "t.served", 0, 0, NOW, 0, [("n", b"200")])]
    first = decode(spark.createDataFrame(rows, DDL), narrow, batch(1))
    (bad,) = first.collect()
    assert (bad["_quarantined"], bytes(bad["_raw"]), bytes(bad["_raw_envelope"]["key"])) == ("wrong_type", VALUE, b"42")
    again = Batch("t.served", "id", 0, 2, NOW + timedelta(hours=1), {0: (1, 1, 1)}, reconsidered=ANN)
    records = records_of(first, is_stamped=False, with_envelope=True)
    (row,) = decode(records, wide, again).collect()
    assert (row["_quarantined"], row["u"], row["n"], row["_reconsidered"]) == (None, 42, 200, 1)
    before_it_was_kept = first.drop("_raw_envelope")
    records = records_of(before_it_was_kept, is_stamped=False, with_envelope=True)
    assert decode(records, wide, again).collect() == []
