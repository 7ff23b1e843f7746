"""Each function that `where` and `labels` may call gives the same value for the same row, and none stops a job.

one call per function and more ─▶ evaluated over odd rows ─▶ in another process zone and locale, in other
and such calls in each other                                 partitions, compiled ─▶ the same, to the bit
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from windrow.config.column_types import parse_type
from windrow.config.sql import Scope, problems_of
from windrow.config.sql_functions import ALLOWED
from windrow.io import expressions
from windrow.io.delta.session import frame_of, session
from windrow.transforms.expressions import value_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COLUMNS = {
    **dict.fromkeys(("i", "i2", "j", "j2"), "int"),
    "l": "bigint",
    **dict.fromkeys(("x", "y"), "double"),
    "dec": "decimal(10,2)",
    "f": "boolean",
    **dict.fromkeys(("s", "s2"), "string"),
    "bin": "binary",
    **dict.fromkeys(("d", "d2"), "date"),
    **dict.fromkeys(("t", "t2"), "timestamp"),
    **dict.fromkeys(("xs", "ys"), "array<double>"),
    "is": "array<int>",
    "ss": "array<string>",
    **dict.fromkeys(("m", "m2"), "map<string,int>"),
    "clicks": "array<struct<price:double,action:string>>",
}
NAN, INF, BIG = float("nan"), float("inf"), 2**63 - 1
CLICKS = [{"price": 1.0, "action": "buy"}]


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type]


ROWS: list[tuple[Any, ...]] = [
    (3, 2, 1, 2, 1700000000, 0.5, 2.5, Decimal("1.50"), True, "abc", "b", b"abc", date(2020, 1, 31), date(2020, 3, 1),
     at(2020, 1, 31, 12), at(2020, 7, 1), [1.0, 2.0], [2.0], [1, 2], ["a", "b"], {"a": 1}, {"b": 2}, CLICKS),
    (0, 0, 0, 0, 0, 0.0, -0.0, Decimal(0), False, "", "", b"", date(1, 1, 1), date(9999, 12, 31),
     at(1901, 1, 1), at(9999, 12, 31), [], [], [], [], {}, {}, []),
    (-1, -2, -3, -1, -BIG - 1, NAN, INF, Decimal("-99999999.99"), True, "12:34:56", "yyyy", b"\xff\xfe\x00",
     date(1582, 10, 15), date(1970, 1, 1), at(1582, 10, 10), at(1970, 1, 1), [NAN, None, -0.0], [None, INF], [1, 1],
     ["a", "a"], {"a": None}, {"a": 3}, CLICKS),
    (2**31 - 1, -(2**31), 5, 3, BIG, -INF, 1e308, Decimal("99999999.99"), None, "2024-03-10 02:30:00", "(", b"\x80",
     date(2024, 3, 10), date(2024, 11, 3), at(2024, 3, 10, 7, 30), at(2024, 11, 3, 5, 30), [1e308, -1e308], [NAN], [1],
     ["a", "c"], {"": 1, "b": 2}, {"": 1}, CLICKS),
    (12, 25, 2, 9, -62135596800, -1.5, 0.1, Decimal("59.99"), True, "%d %s ISTANBUL i", "%", b"a=1&b=2",
     date(2000, 2, 29), date(2001, 2, 28), at(2000, 2, 29), at(1999, 12, 31, 23, 59, 59, 999999), [3.0], [1.0],
     [1, 2, 3], ["x", "b", "c"], {"x": 5}, {"x": 6}, None),
    (64, -70, 3, -4, 253402300800, 1e-300, NAN, Decimal("12.34"), False, "http://a b/%zz?x=1", "\\",
     "\U0001f600".encode(), date(1999, 12, 31), date(2000, 1, 1), at(2038, 1, 19), at(2000, 1, 1), [1.0], None, None,
     ["z"], None, {"k": 1}, CLICKS),
    (1, 1, 1, 1, 1, 1.0, 1.0, Decimal(1), True, '{"a": 1, "t": "12:30"}', "Europe/Nowhere", b"1", date(2024, 1, 1),
     date(2024, 1, 2), at(2024, 1, 1), at(2024, 1, 2), [1.0], [1.0], [1], ["1"], {"1": 1}, {"1": 1}, CLICKS),
    (1, 1, 1, 1, 1, 1.0, 1.0, Decimal(1), True, "now", "today", b"now", date(2024, 1, 1), date(2024, 1, 2),
     at(2024, 1, 1), at(2024, 1, 2), [1.0], [1.0], [1], ["now"], {"1": 1}, {"1": 1}, CLICKS),
    (None,) * len(COLUMNS),
]  # fmt: skip
"""An ordinary row, and rows of everything that is odd; none holds a day of these years."""

CALLS = """
s <=> s2 ; equal_null(s, s2) ; isnan(x) ; isnotnull(x) ; isnull(x) ; regexp_like(s, 'a') ; abs(x) ; acos(x)
acosh(x) ; asin(x) ; asinh(x) ; atan(x) ; atan2(x, y) ; atanh(x) ; bin(l) ; bround(x, 1) ; cbrt(x) ; ceil(x)
ceil(dec, 1) ; ceiling(x) ; conv(s, i, i2) ; cos(x) ; cosh(x) ; cot(x) ; csc(x) ; degrees(x) ; i div i2 ; div(i, i2)
e() * x ; exp(x) ; expm1(x) ; factorial(i) ; floor(x) ; greatest(x, y) ; hex(l) ; hypot(x, y) ; least(x, y) ; ln(x)
log(x, y) ; log10(x) ; log1p(x) ; log2(x) ; mod(i, i2) ; negative(i) ; pi() * x ; pmod(i, i2) ; positive(i)
pow(x, y) ; power(x, y) ; radians(x) ; rint(x) ; round(x, 1) ; sec(x) ; sign(x) ; signum(x) ; sin(x) ; sinh(x)
sqrt(x) ; tan(x) ; tanh(x) ; try_add(i, i2) ; try_divide(i, i2) ; try_mod(i, i2) ; try_multiply(i, i2)
try_subtract(i, i2) ; unhex(s) ; width_bucket(x, y, 10.0, i) ; bit_count(l) ; bit_get(l, 3) ; getbit(l, 3)
shiftleft(i, i2) ; shiftright(i, i2) ; shiftrightunsigned(i, i2) ; add_months(d, j)
convert_timezone('Europe/Paris', 'Asia/Tokyo', cast(t as timestamp_ntz)) ; date_add(d, i) ; date_diff(d, d2)
date_format(t, 'yyyy-MM-dd HH:mm') ; date_from_unix_date(i) ; date_part('hour', t) ; date_sub(d, i)
date_trunc('hour', t) ; dateadd(DAY, j, t) ; datediff(d, d2) ; datepart('hour', t) ; day(d) ; dayname(d)
dayofmonth(d) ; dayofweek(d) ; dayofyear(d) ; extract(HOUR FROM t) ; from_unixtime(l)
from_unixtime(l, 'yyyy-MM-dd') ; from_utc_timestamp(t, 'Europe/Paris') ; hour(t) ; last_day(d) ; make_date(i, i2, i)
make_dt_interval(i, i2, i, x) ; make_interval(i, i2, i, i2, i, i2, x) ; make_timestamp(i, i2, i, i2, i, dec)
make_timestamp(i, i2, i, i2, i, dec, 'Europe/Paris') ; make_timestamp_ltz(i, i2, i, i2, i, dec)
make_timestamp_ntz(i, i2, i, i2, i, dec) ; make_ym_interval(j, j2) ; minute(t) ; month(d) ; monthname(d)
months_between(t, t2) ; next_day(d, s) ; quarter(d) ; second(t) ; timestamp_micros(l)
timestamp_millis(cast(i as bigint)) ; timestamp_seconds(cast(i as bigint)) ; timestampadd(HOUR, i, t)
timestampdiff(HOUR, t, t2) ; to_date(s) ; to_date(s, 'yyyy-MM-dd') ; to_timestamp(s, 'yyyy-MM-dd')
to_timestamp(s, 'HH:mm') ; to_timestamp_ltz(s, 'yyyy-MM-dd') ; to_timestamp_ntz(s) ; to_unix_timestamp(s)
to_unix_timestamp(s, 'yyyy-MM-dd') ; to_utc_timestamp(t, 'Europe/Paris') ; trunc(d, s) ; try_make_interval(i, i2)
try_make_timestamp(i, i2, i, i2, i, dec) ; try_make_timestamp_ltz(i, i2, i, i2, i, dec)
try_make_timestamp_ntz(i, i2, i, i2, i, dec) ; try_to_date(s) ; try_to_date(s, 'yyyy-MM-dd')
try_to_timestamp(s, 'yyyy-MM-dd') ; unix_date(d) ; unix_micros(t) ; unix_millis(t) ; unix_seconds(t)
unix_timestamp(s) ; unix_timestamp(t) ; weekday(d) ; weekofyear(d) ; year(d) ; ascii(s) ; base64(bin)
bit_length(s) ; btrim(s) ; char(l) ; char_length(s) ; character_length(s) ; chr(l) ; s collate UTF8_LCASE
collate(s, 'UNICODE') ; collation(s) ; concat_ws(s2, s, s2) ; contains(s, s2) ; decode(bin, 'utf-8')
decode(i, 1, 'one', 'other') ; elt(i, s, s2) ; encode(s, 'utf-8') ; encode(s, 'US-ASCII') ; endswith(s, s2)
find_in_set(s, s2) ; format_number(x, '#,##0.00') ; format_number(x, 2) ; initcap(s)
instr(s, s2) ; is_valid_utf8(s) ; lcase(s) ; left(s, i) ; len(s) ; length(s) ; levenshtein(s, s2) ; locate(s, s2, i)
lower(s) ; lpad(s, 5, s2) ; ltrim(s) ; luhn_check(s) ; make_valid_utf8(s) ; mask(s) ; octet_length(s)
overlay(s, s2, i, i2) ; position(s, s2) ; quote(s) ; regexp_count(s, 'a')
regexp_extract(s, '(a)', 1) ; regexp_extract_all(s, '(a)', 1) ; regexp_instr(s, '[0-9]')
regexp_replace(s, 'a', 'b') ; regexp_substr(s, '[0-9]+') ; repeat(s, 2) ; replace(s, s2, s) ; reverse(s)
right(s, i) ; rpad(s, 5, s2) ; rtrim(s) ; soundex(s) ; split(s, 'a', i) ; split_part(s, 'a', 1) ; startswith(s, s2)
substr(s, i, i2) ; substring(s, i, i2) ; substring_index(s, s2, i) ; to_char(dec, '999.99') ; to_char(t, 'yyyy')
to_char(bin, 'hex') ; to_varchar(dec, '999.99') ; translate(s, s2, s) ; trim(s) ; try_to_binary(s, 'hex')
try_to_number(s, '999') ; try_validate_utf8(s) ; ucase(s) ; upper(s) ; parse_url(s, s2) ; parse_url(s, 'HOST')
parse_url(s, 'QUERY', 'x') ; try_parse_url(s, 'HOST') ; try_parse_url(s, 'QUERY', 'x') ; try_url_decode(s)
url_encode(s) ; crc32(bin) ; hash(s, i, t) ; hash(xs) ; md5(bin) ; sha(bin) ; sha1(bin) ; sha2(bin, i)
sha2(bin, 256) ; xxhash64(s, i, t)
from_json(s, 'a int, t timestamp', map('timestampFormat', 'yyyy-MM-dd HH:mm:ss')) ; get_json_object(s, s2)
json_array_length(s) ; json_object_keys(s) ; to_json(struct(s, t, d)) ; to_json(m)
from_csv(s, 'a int, t string, d date') ; to_csv(struct(s, t, d)) ; array(i, i2) ; array_append(xs, x)
array_compact(xs) ; array_contains(xs, x) ; array_distinct(xs) ; array_except(xs, ys) ; array_insert(xs, 1, x)
array_intersect(xs, ys) ; array_join(ss, s) ; array_max(xs) ; array_min(xs) ; array_position(xs, x)
array_prepend(xs, x) ; array_remove(xs, x) ; array_repeat(x, 2) ; array_size(xs) ; array_union(xs, ys)
arrays_overlap(xs, ys) ; arrays_zip(xs, ys) ; flatten(array(xs, ys)) ; get(xs, i) ; slice(xs, 1, 2)
sort_array(xs, false) ; aggregate(xs, 0D, (a, v) -> a + v) ; array_sort(xs)
array_sort(xs, (a, v) -> case when a < v then -1 when a > v then 1 else 0 end)
array_sort(xs, (a, v) -> case when a < v then -1 end) ; exists(xs, v -> v > 1) ; filter(xs, v -> v > 1)
forall(xs, v -> v > 1) ; map_filter(m, (k, v) -> v > 1) ; map_zip_with(m, m2, (k, v, w) -> v + w)
reduce(xs, 0D, (a, v) -> a + v) ; transform(xs, v -> v + 1) ; transform_keys(m, (k, v) -> concat(k, 'x'))
transform_values(m, (k, v) -> v + 1) ; zip_with(xs, ys, (v, w) -> v + w)
map(coalesce(s, ''), i, coalesce(s2, ''), i2) ; map_concat(m, m2) ; map_contains_key(m, s) ; map_entries(m)
map_from_entries(arrays_zip(ss, ss)) ; map_keys(m) ; map_values(m) ; str_to_map(s)
str_to_map(s, ',', ':') ; named_struct('a', i) ; struct(i, s) ; cardinality(xs) ; concat(s, s2) ; concat(xs, ys)
element_at(xs, 1) ; element_at(m, s) ; reverse(xs) ; size(xs) ; try_element_at(xs, 1) ; coalesce(i, i2)
if(f, i, i2) ; ifnull(i, i2) ; nanvl(x, y) ; nullif(i, i2) ; nullifzero(i) ; nvl(i, i2) ; nvl2(i, i2, i)
zeroifnull(i) ; bigint(s) ; binary(s) ; boolean(s) ; cast(s as int) ; date(s) ; decimal(s) ; double(s) ; float(s)
int(s) ; smallint(s) ; string(x) ; string(t) ; string(m) ; timestamp(l) ; timestamp(x) ; tinyint(s)
try_cast(s as date) ; cast(s as timestamp_ntz) ; cast(cast(t as timestamp_ntz) as timestamp) ; cast(x as timestamp)
cast(x as int) ; cast(t as date) ; cast(m as string) ; cast(clicks as string) ; d > s ; s like '%a_' ; s ilike '%A%'
s rlike '^a' ; s like 'a%' escape 'x' ; xs[i] ; m[s] ; clicks[i].price ; i / i2 ; i % i2 ; i + i2 ; i * i2 ; l + l
-l ; dec * dec ; dec / dec ; t + make_interval(i, i2) ; t + interval 1 day ; d + i ; t + make_dt_interval(j)
d + make_ym_interval(j) ; t - t2 ; d - d2 ; t - interval 1 month ; year(s) ; s between '1' and '2' ; i in (1, i2)
i & i2 ; i << i2 ; ~i ; case when f then i else i2 end ; s || s2
"""


def texts() -> list[str]:
    return [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" ; ")]


NESTED = 100
"""Expressions of calls within calls."""
_COLUMN = re.compile(r"\b(" + "|".join(COLUMNS) + r")\b(?![('])(?=(?:[^']*'[^']*')*[^']*$)")
"""A column, neither in a text nor a function of this name."""
SCOPE = Scope({name: parse_type(kind) for name, kind in COLUMNS.items()})


def nested(spark: Any, empty: Any) -> list[str]:
    """Expressions that both checks accept, each a call with other calls of the right type in place of its columns."""
    kinds = {name: field.dataType for name, field in zip(COLUMNS, empty.select(*COLUMNS).schema, strict=True)}
    by_kind: dict[str, list[str]] = {}
    for text, field in zip(texts(), empty.selectExpr(*texts()).schema, strict=True):
        by_kind.setdefault(str(field.dataType), []).append(text)
    rng, found = random.Random(16), []

    def filled(text: str, depth: int) -> str:
        def value(column: re.Match[str]) -> str:
            fitting = by_kind.get(str(kinds[column[0]]), [])
            if not depth or not fitting or rng.random() < 0.4:
                return column[0]
            return f"({filled(rng.choice(fitting), depth - 1)})"

        return _COLUMN.sub(value, text)

    while len(found) < NESTED:
        text = filled(rng.choice(texts()), 2)
        if (
            text not in texts()
            and not problems_of(text, SCOPE)
            and not [*expressions._problems(spark, text, COLUMNS, False)]
        ):
            found.append(text)
    return found


def test_every_allowed_function_is_called_and_every_call_is_allowed() -> None:
    called = set(re.findall(r"(\w+) *\(", CALLS.lower()))
    assert called >= ALLOWED, sorted(ALLOWED - called)
    refused = {text: found for text in texts() if (found := problems_of(text, SCOPE))}
    assert refused == {}


@contextmanager
def process_of(spark: Any, zone: str, language: str, country: str) -> Iterator[None]:
    """Let the JVM run in another zone and locale; the session stays in UTC, as every session of Windrow."""
    util = spark._jvm.java.util
    before = util.TimeZone.getDefault(), util.Locale.getDefault()
    util.TimeZone.setDefault(util.TimeZone.getTimeZone(zone))
    util.Locale.setDefault(util.Locale(language, country))
    try:
        yield
    finally:
        util.TimeZone.setDefault(before[0])
        util.Locale.setDefault(before[1])


def values(frame: Any, expressions: Sequence[str]) -> list[dict[str, str]]:
    """The value of every expression for every row, as text that shows each bit of a number."""
    columns = [value_of(text).cast("string").alias(str(n)) for n, text in enumerate(expressions)]
    named = frame.select("row", *columns).collect()
    by_row = sorted((row.asDict() for row in named), key=lambda row: row["row"])
    return [{text: row[str(n)] for n, text in enumerate(expressions)} for row in by_row]


def test_the_same_row_has_the_same_value_in_any_process_and_none_is_of_today(spark: Any) -> None:
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in {"row": "int", **COLUMNS}.items())
    rows = frame_of(spark, [(n, *row) for n, row in enumerate(ROWS)], ddl).localCheckpoint()
    assert set(expressions._changing(rows.selectExpr(*texts()))) == set()

    every = [*texts(), *nested(spark, rows.limit(0))]
    first = values(rows.coalesce(1), every)
    with process_of(spark, "Pacific/Kiritimati", "tr", "TR"):
        spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
        try:
            second = values(rows.repartition(5), every)
        finally:
            spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    differing = {text for one, other in zip(first, second, strict=True) for text in one if one[text] != other[text]}
    assert differing == set()

    days = [f"{datetime.now(UTC) + timedelta(days):%Y-%m-%d}" for days in (-1, 0, 1)]
    of_today = {text for row in first for text, value in row.items() if any(day in (value or "") for day in days)}
    assert of_today == set(), "another value tomorrow"


def test_a_session_in_another_zone_is_refused(spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with pytest.raises(RuntimeError, match="runs in time zone Asia/Tokyo, not UTC"):
            session("another zone", "local[1]")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
