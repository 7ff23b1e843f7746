"""Records that are read the plain way: which they are, and that the careful way makes the same rows of them.

WINDROW_RECORDS is how many generated records are compared.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from support.small_pipeline import PIPELINE
from windrow.config import Pipeline, parse
from windrow.config.column_types import parse_type
from windrow.semantics.landing.batch import Batch
from windrow.transforms import plain
from windrow.transforms.decode import decode

pytestmark = pytest.mark.spark

RECORDS = int(os.environ.get("WINDROW_RECORDS", "2500"))
NOW = datetime(2026, 11, 1, tzinfo=UTC)
DDL = "value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
COLUMNS = {
    "k": "bigint",
    "t": "timestamp",
    "word": "string",
    "flag": "boolean",
    "tiny": "tinyint",
    "small": "smallint",
    "whole": "int",
    "single": "float",
    "real": "double",
    "day": "date",
    "size": "float",
    "words": "array<string>",
    "flags": "array<boolean>",
    "wholes": "array<bigint>",
    "singles": "array<float>",
    "reals": "array<double>",
}
PLAIN = (
    '{"k":1}',
    ' { "k" : 1 , "word" : "a b" } ',
    '{"k": null, "t": null, "singles": [1, null]}',
    '{"k": 9223372036854775807, "tiny": -128, "whole": 0}',
    '{"word": "1.10", "words": ["é", "日本，", "😀", "-0", ""]}',
    '{"single": 1e-5, "real": -2.2250738585072014e-308, "size": 0.1234567890123456789012345}',
    '{"day": "2024-02-29", "flag": true, "flags": [false]}',
    '{"t": "2026-11-01T00:00:01Z"}',
    '{"t": "2026-11-01 00:00:01.123456789+00:00"}',
    '{"t": 1793491207}',
    '{"others": "x", "another": -1.5, "third": null, "k": 1}',
)
DOUBTFUL = {
    "no object": ("", "[]", "null", "{}", "[1]", '"k"'),
    "bytes behind": ('{"k": 1} x', '{"k": 1}{"k": 2}', '{"k": 1}\n', '{"k": 1}\0', '{"k": 1}],"end":1}'),
    "bytes before": ('\ufeff{"k": 1}', '\n{"k": 1}'),
    "cut": ('{"k": 1', '{"k": ', '{"k', '{"word": "a', '{"singles": [1', '{"t": "2026-11-01T00:00:01Z"', "{"),
    "two values of one name": ('{"k": 1, "k": 1}', '{"x": 1, "x": 1}', '{"k": null, "k": 1}'),
    "not as JSON writes it": ("{'k': 1}", "{k: 1}", '{"k" 1}', '{"k": 1,}', '{"k": 1; "word": "a"}', '{"flag": True}'),
    "escapes": (r'{"word": "\u0041"}', r'{"word": "\ud800"}', r'{"w\u006frd": "a"}', r'{"word": "\""}'),
    "control characters": ('{"word": "a\tb"}', '{"word": "\x00"}', '{"k":\t1}', '{"k":\r\n1}'),
    "marks": ('{"word": "\ufdd0"}', '{"word": "\ufeff"}'),
    "no number of JSON": ('{"k": 01}', '{"k": +1}', '{"real": .5}', '{"real": 1.}', '{"real": NaN}', '{"real": -}'),
    "infinite": ('{"real": 1e999}', '{"single": 1e39}', '{"real": -Infinity}'),
    "too long": (f'{{"real": 0.{"1" * 40}}}', f'{{"k": {"1" * 20}}}', '{"k": 9223372036854775808}'),
    "minus zero": ('{"k": -0}', '{"real": -0}'),
    "of another type": ('{"k": "1"}', '{"k": 1.0}', '{"tiny": 128}', '{"word": 1}', '{"flag": 1}', '{"singles": 1}'),
    "deep": ('{"x": {"k": 1}}', '{"x": [1]}', '{"singles": [[1]]}'),
    "other times": (
        '{"t": "2026-11-01T00:00:01+05:30"}',
        '{"t": "2026-11-01T00:00:01"}',
        '{"t": "2026-11-01"}',
        '{"t": "2026-11-01T24:00:00Z"}',
        '{"t": "2023-02-29T00:00:00Z"}',
        '{"t": "0000-01-01T00:00:00Z"}',
        '{"t": "2026-11-01T00:00:01.Z"}',
        '{"t": 1793491207.5}',
        '{"t": 253402300800}',
        '{"t": "1793491207"}',
        '{"day": "2023-02-29"}',
        '{"day": "2026-11-1"}',
    ),
    "many names": ("{" + ", ".join(f'"x{n}": 1' for n in range(17)) + "}",),
}


def pipeline_of(columns: dict[str, str]) -> Pipeline:
    given = ", ".join(f'"{name}": "{kind}"' for name, kind in columns.items())
    file = PIPELINE.replace("{id: string, k: bigint, t: timestamp}", f"{{{given}}}", 1).replace("{t}", "t")
    return parse(file, "plain.yaml")


def are_plain(spark: Any, records: Sequence[bytes], max_bytes: int = 1000) -> list[bool]:
    """Of each record, whether it is read the plain way."""
    rows = spark.createDataFrame([(n, record) for n, record in enumerate(records)], "n int, value binary")
    row = plain.read(F.col("value"), {name: parse_type(kind) for name, kind in COLUMNS.items()}, max_bytes)
    return [found["is"] for found in rows.select("n", row.isNotNull().alias("is")).orderBy("n").collect()]


def test_plain_records_are_read_at_once(spark: Any) -> None:
    records = [record.rstrip().encode() for record in PLAIN]
    assert [record for record, is_one in zip(PLAIN, are_plain(spark, records), strict=True) if not is_one] == []


def test_every_doubt_leaves_a_record_to_the_careful_way(spark: Any) -> None:
    records = [(why, record) for why, several in DOUBTFUL.items() for record in several]
    found = are_plain(spark, [record.encode() for _, record in records])
    assert [one for one, is_one in zip(records, found, strict=True) if is_one] == []


def test_broken_text_and_long_records_are_left_to_the_careful_way(spark: Any) -> None:
    bytes_of_a_word = (b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xe6\x97")
    broken = [b'{"%s": "%s"}' % (name, word) for name in (b"word", b"x") for word in bytes_of_a_word]
    broken.append(b'{"\xff": 1}')
    assert are_plain(spark, broken) == [False] * len(broken)
    assert are_plain(spark, [b'{"k": 1}'], max_bytes=8) == [True]
    assert are_plain(spark, [b'{"k": 1}'], max_bytes=7) == [False]


def test_a_frame_counts_as_a_part_of_its_record(spark: Any) -> None:
    text = PIPELINE.replace("{t}.served\n", "t.served\n  format: json_schema\n").replace("{t}", "t")
    pipeline = parse(f"{text}max_record_bytes: 1024\n", "framed.yaml")
    records = [b"\0\0\0\0\1" + b'{"id": "%s", "k": 1, "t": 1}' % (b"x" * size) for size in range(980, 1000)]
    quick, careful = (rows_of(spark, records, pipeline, careful=careful) for careful in (False, True))
    assert quick == careful
    assert sum("too_large" in row for row in quick) == sum(len(record) > 1024 for record in records) > 0


@pytest.mark.parametrize("kind", ["decimal(5,2)", "binary", "map<string,int>", "struct<a:int>", "array<timestamp>"])
def test_a_column_of_another_type_leaves_all_records_to_the_careful_way(spark: Any, kind: str) -> None:
    records = spark.createDataFrame([(b'{"k": 1}',)], "_kafka_value binary")
    types = {"k": parse_type("int"), "v": parse_type(kind)}
    assert plain.PLAIN not in plain.with_plain(records, types, 1000).columns
    assert plain.PLAIN in plain.with_plain(records, {"k": types["k"]}, 1000).columns


@pytest.mark.usefixtures("compiled")
def test_the_careful_way_makes_the_same_rows(spark: Any) -> None:
    pipeline, taken = pipeline_of(COLUMNS), 0
    known = [record.encode() for records in (PLAIN, *DOUBTFUL.values()) for record in records]
    made = [*known, *generated(RECORDS, seed=len(COLUMNS))]
    for first in range(0, len(made), 50_000):
        records = made[first : first + 50_000]
        quick, careful = (rows_of(spark, records, pipeline, careful=careful) for careful in (False, True))
        different = [(r, q, c) for r, q, c in zip(records, quick, careful, strict=True) if q != c]
        assert different == [], f"{len(different)} records, such as {different[:3]}"
        taken += sum(are_plain(spark, records, 1 << 20))
    assert 0.2 < taken / len(made) < 0.9  # both ways are tried


def rows_of(spark: Any, records: Sequence[bytes], pipeline: Pipeline, *, careful: bool) -> list[str]:
    """Landing rows of records, as texts that tell every two values of a column apart."""
    rows = spark.createDataFrame([(value, "t.served", 0, n, NOW, 0) for n, value in enumerate(records)], DDL)
    batch = Batch("t.served", "id", 0, 1, NOW, {0: (0, len(records), len(records))})
    decoded = decode(rows, pipeline, batch, careful=careful)
    texts = [F.hex(name) if kind == "binary" else F.col(name).cast("string") for name, kind in decoded.dtypes]
    named = [text.alias(name) for text, name in zip(texts, decoded.columns, strict=True)]
    found = decoded.select("_offset", F.to_json(F.struct(*named)).alias("row")).orderBy("_offset").collect()
    assert [row["_offset"] for row in found] == list(range(len(records)))
    return [row["row"] for row in found]


WORDS = (
    *(
        '""',
        '"a"',
        '"é"',
        '"日本，"',
        '"😀"',
        '"\x7f"',
        '"\ufffd"',
        '"\u2028"',
        '"1.10"',
        '"-0"',
        '"0"',
        '"1e5"',
        '"NaN"',
    ),
    *(
        '"[1.5]"',
        '"{a: 1.0}"',
        '"a:b"',
        '"Infinity"',
        '"true"',
        '"null"',
        '" "',
        f'"{"x" * 3000}"',
        '"-1.50E3"',
        '"\'"',
    ),
)
ODD_WORDS = (
    '"\ufdd0"',
    '"\ufeff"',
    r'"\u0041"',
    r'"\ud800"',
    r'"\""',
    r'"\\":"',
    '"a\tb"',
    '"\x01"',
    "'a'",
    '"{\\"a\\": 1.5}"',
)
TIMES = (
    *(
        '"2026-11-01T00:00:01Z"',
        '"2026-11-01T00:00:01.5Z"',
        '"2026-11-01 23:59:59.999999+00:00"',
        '"0001-01-01T00:00:00Z"',
    ),
    *(
        '"9999-12-31T23:59:59.999999999Z"',
        '"1582-10-10T12:00:00Z"',
        '"1969-12-31T23:59:59.9999999Z"',
        "0",
        "1793491207",
    ),
    *('"2024-02-29T00:00:00Z"', '"1900-02-28T00:00:00.000001Z"', "253402300799"),
)
ODD_TIMES = (
    *(
        '"2026-11-01T00:00:01+05:30"',
        '"2026-11-01T00:00:01"',
        '"2026-11-01"',
        '"12:30"',
        '"2026-11-01T24:00:00Z"',
        '"-1"',
    ),
    *(
        '"2023-02-29T00:00:00Z"',
        '"0000-01-01T00:00:00Z"',
        '"9999-12-31T23:59:59-01:00"',
        "1793491207.5",
        "253402300800",
    ),
    *(
        "-1",
        "1e9",
        '"1793491207"',
        '"2026-11-01t00:00:01z"',
        '"2026-11-01T00:00:60Z"',
        '"2026-11-01T00:00:01.1234567890Z"',
    ),
    *(
        '"+2026-11-01T00:00:01Z"',
        '"2026-11-01T00:00:01 Z"',
        '"2026-11-01T00:00:01UTC"',
        '"2026-11-01T00:00Z"',
        '"٢026-11-01"',
    ),
)
DAYS = ('"2026-11-01"', '"2024-02-29"', '"0001-01-01"', '"9999-12-31"', '"1582-10-10"', '"1969-12-31"')
ODD_DAYS = (
    '"2023-02-29"',
    '"0000-01-01"',
    '"2026-1-1"',
    '"2026-11-01T00:00:00Z"',
    "20000",
    '"+2026-11-01"',
    '" 2026-11-01"',
)
WHOLES = ("0", "1", "-1", "127", "-128", "32767", "2147483647", "16777217", "999999999999999999", "9223372036854775807")
ODD_NUMBERS = (
    *(
        "-0",
        "-0.0",
        "-0e0",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e400",
        "-1e39",
        "1e-400",
        "NaN",
        "Infinity",
        "1.0",
        "1E+2",
        '"1"',
    ),
    *(
        "128",
        "9223372036854775808",
        "-9223372036854775808",
        "3.4028235e38",
        "3.4028236e38",
        "1.4e-45",
        "7e-46",
        "0x10",
        "1_0",
    ),
    *("0.1000000000000000055511151231257827", "9007199254740993", "16777217.0", "1.00000005960464477539", "1" * 45),
)
OTHERS = ("x", "K", "end", "row", "_corrupt", "ü")
ODD_NAMES = ("x", r"wo\u0072d", "")
ODD_VALUES = ('{"k": 1}', '{"k": 1, "k": 2}', "[1]", "1", "")
FORMS = (("", ":", ","), (" ", ": ", ", "), ("", ": ", ", "), ("\n ", " :\t", ",\r\n"))


def generated(count: int, seed: int) -> Iterator[bytes]:
    """Records from plain to broken, the same for a seed."""
    chance = random.Random(seed)
    for _ in range(count):
        record = text(chance, odds=chance.choice((0, 0, 0.02, 0.3))).encode()
        yield broken(chance, record) if chance.random() < 0.2 else record


def text(chance: random.Random, odds: float) -> str:
    """One record; `odds` is how often a part of it is an odd one."""
    names = chance.sample(list(COLUMNS), chance.randint(1, len(COLUMNS)))
    fields = [(name, value(chance, COLUMNS[name], odds)) for name in names]
    if chance.random() < 0.3:
        fields.insert(0, (chance.choice(OTHERS), chance.choice((*WORDS, *WHOLES, "null"))))
    if chance.random() < odds:
        fields.append((chance.choice((*names, *ODD_NAMES)), chance.choice(ODD_VALUES)))
    blank, colon, comma = chance.choice(FORMS[: 4 if odds else 3])
    members = comma.join(f'"{name}"{colon}{value}' for name, value in fields)
    return f"{{{blank}{members}{blank}}}"


def value(chance: random.Random, kind: str, odds: float) -> str:
    """A value of a type, as JSON."""
    if chance.random() < 0.05:
        return "null"
    if chance.random() < odds:
        return chance.choice((*ODD_WORDS, *ODD_TIMES, *ODD_DAYS, *ODD_NUMBERS, *WORDS, "true", "[]", "{}", "[null]"))
    if kind.startswith("array<"):
        items = (value(chance, kind[6:-1], odds) for _ in range(chance.randint(0, 4)))
        return f"[{chance.choice((',', ', ')).join(items)}]"
    made: dict[str, Callable[[], str]] = {
        "string": lambda: chance.choice(WORDS),
        "boolean": lambda: chance.choice(("true", "false")),
        "date": lambda: chance.choice(DAYS),
        "timestamp": lambda: chance.choice(TIMES),
        "tinyint": lambda: str(chance.randint(-128, 127)),
        "smallint": lambda: str(chance.randint(-(2**15), 2**15 - 1)),
        "int": lambda: str(chance.randint(-(2**31), 2**31 - 1)),
        "bigint": lambda: chance.choice((*WHOLES, str(chance.randint(-(2**63) + 1, 2**63 - 1)))),
        "float": lambda: number(chance),
        "double": lambda: number(chance),
    }
    return made[kind]()


def number(chance: random.Random) -> str:
    """A number with a fraction, with few digits or many, sometimes with an exponent."""
    if chance.random() < 0.2:
        return repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-30, 30))
    if chance.random() < 0.1:
        return chance.choice(WHOLES)
    digits = "".join(chance.choices("0123456789", k=chance.randint(1, chance.choice((7, 10, 24)))))
    exponent = chance.choice(("", "", "", "e-5", "E+3", "e22", "e-22"))
    return f"{chance.choice(('', '-'))}{chance.choice(WHOLES[:9]).lstrip('-')}.{digits}{exponent}"


def broken(chance: random.Random, record: bytes) -> bytes:
    """A record with a part that was lost, doubled or changed."""
    begin = chance.randrange(len(record))
    end = min(len(record), begin + chance.choice((1, 1, 1, 2, 5, 40)))
    others = (b"", record[begin:end] * 2, bytes([chance.randrange(256)]), b'"', b"0", b" ", b",", b"\\", b"}")
    other = chance.choice(others)
    return chance.choice((record[:begin] + other + record[end:], record[:begin], record + other))
