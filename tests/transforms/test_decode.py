"""Values that the JSON reader would change without a word: they are as unreadable as those of a wrong type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.slow_values import Unreadable, is_changed, is_slow, parsed, value_of
from support.small_pipeline import PIPELINE
from windrow.config import parse
from windrow.config.column_types import parse_type
from windrow.semantics.landing.batch import Batch
from windrow.transforms.decode import decode
from windrow.transforms.names import Look

pytestmark = pytest.mark.spark

FILE = PIPELINE.replace("{id: string, k: bigint, t: timestamp}", '{k: bigint, t: timestamp, v: "TYPE"}', 1)
NOW = datetime(2026, 11, 1, tzinfo=UTC)
START = '{"k": 1, "t": "2026-11-01T00:00:01Z"'
CASES: list[tuple[str, str, Any]] = [
    ("tinyint", "127", 127),
    ("tinyint", "-128", -128),
    ("tinyint", "128", "wrong_type"),
    ("tinyint", "200", "wrong_type"),
    ("array<tinyint>", "[1, null, -3]", [1, None, -3]),
    ("array<tinyint>", "[1, 200]", "wrong_type"),
    ("map<string,tinyint>", '{"a": 255}', "wrong_type"),
    ("struct<a:tinyint,b:string>", '{"a": 5, "b": "x"}', (5, "x")),
    ("struct<a:tinyint,b:string>", '{"a": 130, "b": "x"}', "wrong_type"),
    ("decimal(5,2)", "1.5", Decimal("1.50")),
    ("decimal(5,2)", "-999.99", Decimal("-999.99")),
    ("decimal(5,2)", "1.500", Decimal("1.50")),
    ("decimal(5,2)", "1.555", "wrong_type"),
    ("decimal(5,2)", "999.999", "wrong_type"),
    ("decimal(5,2)", "1000", "wrong_type"),
    ("decimal(5,0)", "12.5", "wrong_type"),
    ("decimal(5,2)", '"1.5"', Decimal("1.50")),
    ("decimal(5,2)", '"1,5"', "wrong_type"),
    ("decimal(5,2)", "1.5e-1", Decimal("0.15")),
    ("decimal(5,2)", "1E+2", Decimal("100.00")),
    ("decimal(5,2)", f"1.5{'0' * 40}", Decimal("1.50")),
    ("decimal(5,2)", f"1.5{'0' * 40}1", "wrong_type"),
    ("decimal(38,2)", "1.555", "wrong_type"),
    ("decimal(38,2)", '"1.555"', "wrong_type"),
    ("decimal(38,2)", "1.5500", Decimal("1.55")),
    ("decimal(38,2)", "15e-2", Decimal("0.15")),
    ("decimal(38,2)", "155e-3", "wrong_type"),
    ("decimal(38,2)", "0e-40", Decimal("0.00")),
    ("struct<a:decimal(5,2),s:string>", '{"a": 1.555, "s": "x"}', "wrong_type"),
    ("struct<a:decimal(5,2),s:string>", '{"a": 1.55, "s": "7e123456"}', (Decimal("1.55"), "7e123456")),
    ("struct<a:decimal(5,2),s:string>", '{"a": 1.55, "s": 1.10}', "wrong_type"),
    ("struct<a:decimal(5,2),s:string>", '{"a": 1.55, "s": 11}', (Decimal("1.55"), "11")),
    ("map<string,decimal(4,1)>", '{"7e123456": 2.5}', {"7e123456": Decimal("2.5")}),
    ("map<string,decimal(4,1)>", '{"a": 2.55}', "wrong_type"),
    ("string", "1.10", "1.10"),
    ("string", "1e5", "1e5"),
    ("string", "-0", "-0"),
    ("string", "1E400", "1E400"),
    ("string", '"1.10"', "1.10"),
    ("string", "true", "true"),
    ("string", r'{"a": [1.10, "x\"5.0\\"], "b": 1e-05}', r'{"a":[1.10,"x\"5.0\\"],"b":1e-05}'),
    ("string", r'"5.0\ufdd0"', "5.0\ufdd0"),
    ("string", r'["5.0\ufdd0", 1.5]', "wrong_type"),
    ("array<string>", '["7.0", 1.10, {"a": 1.50}, -0, null]', ["7.0", "1.10", '{"a":1.50}', "-0", None]),
    ("struct<a:string>", '{"a": 1.10}', ("1.10",)),
    ("array<struct<s:string,d:double>>", '[{"s": "1.10", "d": 1.10}]', [("1.10", 1.1)]),
    ("array<struct<s:string,d:double>>", '[{"s": 1.10, "d": 1.10}]', "wrong_type"),
    ("double", "1e999", "not_finite"),
    ("array<double>", "[1.0, -1e999]", "not_finite"),
    ("array<array<double>>", "[[1.0], [2.0, 1e999]]", "not_finite"),
    ("array<array<double>>", "[[1.0], null, [null, 2.0]]", [[1.0], None, [None, 2.0]]),
    ("struct<a:double,b:string>", '{"a": 1e999, "b": "Infinity"}', "not_finite"),
    ("struct<a:double,b:string>", '{"a": 1.5, "b": "Infinity"}', (1.5, "Infinity")),
    ("struct<a:struct<b:array<float>>>", '{"a": {"b": [1e39]}}', "not_finite"),
    ("map<string,double>", '{"a": 1e999}', "not_finite"),
    ("map<string,double>", '{"a": 2.5}', {"a": 2.5}),
]


def decoded(spark: Any, values: Sequence[str], columns: str, look: Look | None = None) -> list[Any]:
    """The rows of records whose columns other than key and event time are given, as a part of JSON text.

    `look` is of the careful way; without it plain records are read the plain way.
    """
    texts = [f"{START}, {value}}}" for value in values]
    records = spark.createDataFrame(
        [(None, text.encode(), "t.served", 0, n, NOW, 0) for n, text in enumerate(texts)],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int",
    )
    batch = Batch("t.served", "id", 0, 1, NOW, {0: (0, len(texts), len(texts))})
    pipeline = parse(FILE.replace("{t}", "t").replace('v: "TYPE"', columns), "values.yaml")
    rows = decode(records, pipeline, batch, careful=look is not None, look=look or "first")
    return rows.orderBy("_offset").collect()


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_value_is_read_as_it_is_or_not_at_all(spark: Any, is_plain: bool) -> None:
    """One column for each type, of which a record has one. A type that is never plain makes all records careful."""
    reader = spark._jvm.windrow.PlainRecords
    names = {
        kind: f"v{n}" for n, kind in enumerate(sorted({of for of, _, _ in CASES})) if reader.reads(kind) == is_plain
    }
    mine = [(names[kind], text, expected) for kind, text, expected in CASES if kind in names]
    assert len(mine) > 15
    values = [f'"{name}": {text}' for name, text, _ in mine]
    columns = ", ".join(f'{name}: "{kind}"' for kind, name in names.items())
    rows, careful = (decoded(spark, values, columns, look) for look in (None, "first"))
    assert rows == careful
    for row, (name, text, expected) in zip(rows, mine, strict=True):
        given = {column: row[column] for column in names.values() if row[column] is not None}
        if expected in ("wrong_type", "not_finite"):
            assert (row["_quarantined"], json.loads(row["_unreadable"])) == (expected, {name: expected}), (name, text)
            continue
        assert (row["_quarantined"], given) == (None, {name: expected}), (name, text)


NAMED: dict[str, str | None] = {
    '"s": "a", "n": 2, "d": [0.5]': None,
    '"s" \t\n: "a", "n":2': None,
    '"n": null': None,
    '"n": 1, "more": [1, {"a": 2}]': None,
    r'"s": "\":", "n": 2': None,
    r'"s": "x\\", "n": 2': None,
    r'"s": "\u00e9"': None,
    '"s": {"a": 1}': None,
    f'"s": {"7" * 900}': None,
    '"n": 1, "n": 2': "malformed",
    '"n": 1, "n": 1': "malformed",
    '"n": null, "n": 1': "malformed",
    '"n": 1, "n": null': "malformed",
    '"k": 1': "malformed",
    r'"n": 1, "\u006e": 2': "malformed",
    '"more": 1, "more": 2': "malformed",
    '"s": {"a": 1, "a": 2}': "malformed",
    '"more": [{"a": 1, "a": 2}]': "malformed",
    "'s': 'a'": "malformed",
    "'n': 1, \"n\": 2, 'n': 3": "malformed",
    "\"s\": 'a'": "malformed",
    r'"s": "\ud800"': "malformed",
    r'"\udc00": 1': "malformed",
    f'"s": {"7" * 1500}': "malformed",
    f'"more": {"7" * 1500}': "malformed",
    '"n": 1} {"n": 2': "malformed",
    '"n": 1}],"end":1} {"more": 2': "malformed",
    '"n": 1}],"end":1}],"end":1': "malformed",
    '"n": "x"}],"end":1} {"more": 2': "malformed",
}
"""Members of a record → why it is refused."""


def test_a_name_given_twice_is_refused_by_a_look_as_by_parsing_every_record(spark: Any) -> None:
    columns = 's: string, n: int, d: "array<double>"'
    parts = ('"s": "a"', '"n": 2', '"d": [1.5, null]', '"n": null', '"m": 1', '"s": "\\":"', '"d": {"n": 1}', "'s': 1")
    mixed = st.lists(st.sampled_from(parts), min_size=1, max_size=4).map(", ".join)
    members = [*NAMED, *drawn(mixed, 200)]
    plain_first, first, never = (decoded(spark, members, columns, look) for look in (None, "first", "never"))
    assert [row["_quarantined"] for row in first[: len(NAMED)]] == list(NAMED.values())
    rows = zip(members, plain_first, first, never, strict=True)
    different = [text for text, one, *others in rows if others != [one, one]]
    assert different == []


ENDLESS = (
    "1e2147483640",
    "1e-2147483640",
    '"1e2147483640"',
    '"1,e2147483640"',
    r'"\u0031e2147483640"',
    '"1e\uff12147483640"',
    f'"{"1" * 3_000_000}"',
)
"""Numbers on which the JSON reader would work for minutes at least, or need more memory than there is."""


def test_a_decimal_that_takes_long_to_read_is_refused_unread_and_the_other_columns_are_read(spark: Any) -> None:
    values = [f'"v": {text}, "s": 1.10, "n": 5' for text in ENDLESS]
    values.append(f'"v": 1.5, "s": {ENDLESS[0]}, "n": 5')
    *rows, last = decoded(spark, values, 'v: "decimal(10,2)", s: string, n: int')
    for row, text in zip(rows, ENDLESS, strict=True):
        assert json.loads(row["_unreadable"]) == {"v": "wrong_type"}, text
        assert (row["_quarantined"], row["v"], row["s"], row["n"]) == ("wrong_type", None, "1.10", 5), text
    assert (last["_quarantined"], last["v"], last["s"], last["n"]) == (None, Decimal("1.50"), ENDLESS[0], 5)


KINDS = (
    "string",
    "bigint",
    "tinyint",
    "double",
    "boolean",
    "decimal(10,2)",
    "decimal(38,2)",
    "decimal(38,38)",
    "array<string>",
    "map<string,decimal(6,3)>",
    "struct<a:decimal(38,3),b:string>",
    "array<struct<a:string,d:double>>",
)
DIGITS = st.text("0019", min_size=1, max_size=45)
NUMBERS = st.builds(
    lambda sign, whole, point, exponent: f"{sign}{whole}{point}{exponent}",
    st.sampled_from(("", "-")),
    st.sampled_from(("0", "1", "90", "127", "128", "9223372036854775808")) | DIGITS.map("1".__add__),
    st.just("") | DIGITS.map(".".__add__),
    st.sampled_from(("", "", "e0", "E+1", "e-1", "e-03", "e12", "e-40", "e99", "E+100", "e-400", "e999999999")),
)
TEXTS = st.sampled_from(
    (
        r'"\u0000"',
        r'"\ud83d\ude00"',
        r'"a\"\\"',
        '"true"',
        '"é"',
        '"7e123456"',
        '"1,5"',
        r'"{\"a\": 1.50}"',
        '""',
        '"NaN"',
    )
)
SIMPLE = NUMBERS | NUMBERS.map('"{}"'.format) | TEXTS | st.sampled_from(("null", "true", "false", '"+1.5"', '".5"'))


def array_of(values: Any) -> Any:
    return st.lists(values, max_size=3).map(lambda of: f"[{', '.join(of)}]")


def object_of(values: Mapping[str, Any]) -> Any:
    return st.fixed_dictionaries({}, optional=values).map(
        lambda of: "{" + ", ".join(f'"{name}": {value}' for name, value in of.items()) + "}"
    )


ANY = st.recursive(
    SIMPLE, lambda inner: array_of(inner) | object_of(dict.fromkeys(("a", "b", "1.50"), inner)), max_leaves=4
)


def shaped(kind: Any) -> Any:
    """JSON texts in the form of a type, with any values in it."""
    if kind.name == "array":
        return array_of(shaped(kind.inner[0])) | SIMPLE
    if kind.name == "map":
        return object_of(dict.fromkeys(("a", "7e123456"), shaped(kind.inner[1])))
    if kind.name == "struct":
        return object_of({name: shaped(part) for name, part in zip(kind.fields, kind.inner, strict=True)})
    return ANY if kind.name == "string" else SIMPLE


def drawn(values: Any, count: int) -> list[Any]:
    """Examples of a strategy, the same in every run."""
    found: list[Any] = []

    @settings(derandomize=True, max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(values)
    def draw(one: Any) -> None:
        found.append(one)

    draw()
    return found


def test_values_at_the_edges_are_read_as_a_slow_decoder_reads_them(spark: Any) -> None:
    records = drawn(st.tuples(*[shaped(parse_type(kind)) for kind in KINDS]), 300)
    values = [", ".join(f'"c{n}": {value}' for n, value in enumerate(record)) for record in records]
    rows = decoded(spark, values, ", ".join(f'c{n}: "{kind}"' for n, kind in enumerate(KINDS)))
    wrong = [one for row, record in zip(rows, records, strict=True) for one in differences(row, record)]
    assert wrong == [], f"{len(wrong)} values, such as {wrong[:20]}"


def differences(row: Any, record: tuple[str, ...]) -> Iterator[tuple[str, str, Any, Any]]:
    """Type, text, value or reason found, value or reason expected, of each value that is read in another way."""
    kinds = [parse_type(kind) for kind in KINDS]
    unreadable = json.loads(row["_unreadable"] or "{}")
    has_a_slow_one = any(has_slow(parsed(text), kind) for text, kind in zip(record, kinds, strict=True))
    for n, (text, kind) in enumerate(zip(record, kinds, strict=True)):
        found = unreadable.get(f"c{n}", None if row[f"c{n}"] is None else plain(row[f"c{n}"], kind))
        expected = read_slowly(text, kind)
        if isinstance(expected, Unreadable):
            is_right = found == str(expected)
        elif f"c{n}" not in unreadable:
            is_right = same(found, expected)
        else:  # a number in a string among other types, and decimals beside one that is refused, need not be read
            are_strings = {part.name for part in kind.parts()} <= {"string", "array"}
            is_changed_one = is_changed(parsed(text), kind) and not are_strings
            is_right = is_changed_one or (has_a_slow_one and "decimal" in KINDS[n])
        if not is_right:
            yield KINDS[n], text, found, str(expected)


def read_slowly(text: str, kind: Any) -> Any:
    """The value, or `Unreadable` with the reason."""
    try:
        return value_of(parsed(text), kind)
    except Unreadable as why:
        return why


def has_slow(given: Any, kind: Any) -> bool:
    """Whether a decimal within a value is refused before it is read."""
    if kind.name == "decimal":
        return is_slow(given)
    if kind.name == "struct" and isinstance(given, dict):
        return any(has_slow(given.get(name), part) for name, part in zip(kind.fields, kind.inner, strict=True))
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return kind.name in ("array", "map") and any(has_slow(one, kind.inner[-1]) for one in inner)


def plain(value: Any, kind: Any) -> Any:
    """A value of a row with structs as dicts."""
    if value is None or not kind.inner:
        return value
    if kind.name == "array":
        return [plain(one, kind.inner[0]) for one in value]
    if kind.name == "map":
        return {name: plain(one, kind.inner[1]) for name, one in value.items()}
    return {name: plain(value[name], part) for name, part in zip(kind.fields, kind.inner, strict=True)}


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal; objects in a text may spell their characters in other ways."""
    if isinstance(found, str) and isinstance(expected, str) and found != expected and found[:1] in ("[", "{"):
        return bool(parsed(found) == parsed(expected))
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[name], expected[name]) for name in found)
    return bool(found == expected)
