"""Expressions of a pipeline file: those that always give one row the same value are allowed, all others refused."""

from __future__ import annotations

import pytest

from windrow.config.column_types import ColumnType, parse_type
from windrow.config.sql import Scope, problems_of

_COLUMNS: dict[str, ColumnType | None] = {
    name: parse_type(kind)
    for name, kind in {
        "a": "int",
        "b": "string",
        "m": "map<string,int>",
        "s": "struct<x:int,y:array<struct<z:int>>>",
        "served_at": "timestamp",
        "clicks": "array<struct<price:double,action:string,_event_time:timestamp,_arrived_at:timestamp>>",
        "likes": "array<struct<item_id:bigint>>",
    }.items()
}
SCOPE = Scope(_COLUMNS, refused={"_batch": "an audit column"}, refused_fields={"_arrived_at": "an audit column"})


@pytest.mark.parametrize(
    "text",
    [
        "size(clicks) > 0",
        "SIZE(CLICKS) > 0 AND A IS NOT NULL",
        "exists(clicks, c -> c.action = 'buy' and c.price > a)",
        "size(filter(clicks, C -> c.price > 1))",
        "aggregate(clicks, 0D, (total, c) -> total + c.price, total -> total / 2)",
        "aggregate(clicks, named_struct('n', 0), (t, c) -> named_struct('n', t.n + 1), t -> t.n)",
        "array_max(transform(clicks, (c, i) -> c.price + i))",
        "filter(clicks, c -> exists(likes, l -> l.item_id = c.price))",
        "array_sort(clicks, (l, r) -> case when l.price < r.price then -1 else 1 end)[0].price",
        "clicks[0].price + element_at(clicks, 1).price + get(clicks, 0).price",
        "arrays_overlap(clicks.price, likes.item_id)",
        "s.y.z",
        "s.y[0].z",
        "m.anything + m['anything']",
        "timestampdiff(SECOND, served_at, clicks[0]._event_time) < 60",
        "served_at >= timestamp '2026-01-01 00:00:00' + interval 5 minutes",
        "unix_timestamp(served_at) > 0",
        "b like '%;--now()%' or b = 'today' or b rlike '^x{2}'",
        'b = "text" and `a` in (1, 2)',
        "case when a > 1 then 1 else null end",
        "from_json(b, 'x int').x",
        "date_format(served_at, 'HH:mm') = '12:30' and b = '12:30'",
        "decode(a, 1, b, 'other') = decode(encode(b, 'UTF-16LE'), 'us-ascii')",
        "rlike(b, '^x') and b rlike ('^x') and convert_timezone('UTC', 'Asia/Tokyo', served_at) is null",
        "cast(a as decimal(10,2))",
        "true",
    ],
)
def test_an_expression_over_one_row_is_right(text: str) -> None:
    assert problems_of(text, SCOPE) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # columns and fields, with the near miss
        ("size(cliks) > 0", "unknown column 'cliks'; did you mean 'clicks'?"),
        ("zzz = 1", "unknown column 'zzz'; columns are: a, b, clicks, likes, m, s, served_at"),
        ("clicks.prise", "'clicks' has no field 'prise'; did you mean 'price'?"),
        ("clicks[0].prise", "'clicks[0]' has no field 'prise'"),
        ("exists(clicks, c -> c.actoin = 'buy')", "'c' has no field 'actoin'; did you mean 'action'?"),
        ("exists(clicks, c -> c.price > prise)", "unknown column 'prise'"),
        ("aggregate(clicks, 0D, (t, c) -> t + c.prise)", "'c' has no field 'prise'"),
        ("forall(clicks, c -> c.prise > 1)", "'c' has no field 'prise'"),
        ("filter(clicks, c -> true)[0].prise", "has no field 'prise'"),
        ("s.y[0].w", "'s.y[0]' has no field 'w'; fields are: z"),
        ("a.x", "'a' is int and has no field 'x'"),
        ("c.price", "unknown column 'c'"),
        ("_batch > 3", "column '_batch': an audit column"),
        ("clicks[0]._arrived_at > served_at", "field '_arrived_at': an audit column"),
        # not the same at every reading
        *((f"{f}() is null", f"{f}() returns a different value") for f in ("rand", "uuid", "now", "current_timestamp")),
        *((f"{f}() > 0", f"{f}() returns a different") for f in ("monotonically_increasing_id", "unix_timestamp")),
        ("RAND (5) > 0.5", "rand() returns a different value on every call"),
        ("current_date > served_at", "current_date returns a different value"),
        ("size(shuffle(clicks)) > 0", "shuffle() returns a different value"),
        ("served_at > timestamp 'now'", "'now' returns a different value"),
        ("served_at > cast('today' as date)", "'today' returns a different value"),
        ("served_at > 'now'", "'now' returns a different value"),
        ("b > 'x' and served_at in ('today', 'x')", "'today' returns a different value"),
        ("served_at > concat('no', 'w')", "is computed from constants alone"),
        ("cast('no' || 'w' as timestamp) < served_at", "is computed from constants alone"),
        ("cast(named_struct('n', 'no').n as timestamp) < served_at", "is computed from constants alone"),
        ("array('x', 'w')[1] = b", "is computed from constants alone"),
        ("served_at > cast(X'6E6F77' as string)", "is computed from constants alone"),
        ("served_at > element_at(array('now'), 1)", "is computed from constants alone"),
        ("case when true then 'x' end = b", "is computed from constants alone"),
        # not on the list, however it is written
        ("sizee(clicks) > 0", "sizee() is not among the functions that an expression may call; did you mean size()?"),
        ("my_function(a) > 0", "my_function() is not among the functions"),
        ("`rand`() > 0.5", "'rand'( calls a function by a quoted or qualified name"),
        ("`java_method`('java.lang.System', 'getenv', 'HOME') = 'x'", "by a quoted or qualified name"),
        ("system.builtin.reflect('java.lang.System', 'getenv', 'HOME') = 'x'", "by a quoted or qualified name"),
        ("builtin.rand() > 0.5", "by a quoted or qualified name"),
        ("system.`builtin`.`rand`() > 0.5", "by a quoted or qualified name"),
        ("transform(clicks, c -> `rand`())[0] > 1", "by a quoted or qualified name"),
        ("`current_timestamp` > served_at", "unknown column 'current_timestamp'"),
        ("identifier('ra' || 'nd')() > 0.5", "identifier() is not among the functions"),
        ("raise_error('x') is null", "raise_error() is not among the functions"),
        ("base64(aes_encrypt(b, b)) = 'x'", "aes_encrypt() is not among the functions"),
        ("served_at > '12:30'", "'12:30' returns a different value"),
        ("served_at > timestamp 'T7:00:00'", "'T7:00:00' returns a different value"),
        # what a record holds must not stop the job
        ("from_json(b, 'x int', map('mode', 'FAILFAST')).x = 1", "leave the option mode out"),
        ("from_csv(b, 'x int', map(' Mode', 'FAILFAST')).x = 1", "leave the option mode out"),
        ("from_json(b, 'x int', map(concat('mo', 'de'), 'FAILFAST')).x = 1", "leave the option mode out"),
        ("map_from_arrays(array(b), array(b)) is null", "stops the job"),
        ("printf('%s', b) = 'x'", "stops the job"),
        ("cast(b as interval second) is null", "casts to an interval"),
        ("decode(unhex(b), b) = 'x'", "decode() needs a constant as argument 2"),
        ("encode(b, lower('UTF-8')) is null", "encode() needs a constant as argument 2"),
        ("encode(b, 'klingon') is null", "'klingon' is not a character set; write one of: iso-8859-1, us-ascii"),
        ("date_format(served_at, b) = 'x'", "date_format() needs a constant as argument 2"),
        ("convert_timezone('Europe/Paris', b, served_at) is null", "convert_timezone() needs a constant as argument 2"),
        ("split(b, concat(b, 'x'))[0] = 'x'", "split() needs a constant as argument 2"),
        ("b rlike b", "rlike needs a pattern that is written as a constant"),
        ("b not like b", "like needs a pattern that is written as a constant"),
        ("rlike(b, b)", "rlike() needs a constant as argument 2"),
        ("b rlike (b)", "rlike() needs a constant as argument 1"),
        ("to_number(b, '99') = 1", "to_number() stops the job where the value in a record does not fit"),
        # not one row, not one expression
        ("a in (select x from y)", "holds a subquery"),
        ("exists(select 1)", "holds a subquery"),
        ("select 1", "must be one expression"),
        ("a = 1, b = 2", "must be one expression"),
        ("max(a)", "max() aggregates over rows"),
        ("mean(a)", "mean() aggregates over rows"),
        ("inline_outer(clicks)", "inline_outer() makes several rows of one"),
        ("any(a)", "any() aggregates over rows"),
        ("count(*)", "count() aggregates over rows"),
        ("row_number() over (order by a)", "row_number() is a window function"),
        ("abs(a) over (order by b)", "holds a window function"),
        ("explode(clicks)", "explode() makes several rows of one"),
        ("a as b", "must be one value without a name"),
        ("clicks.*", "holds a *"),
        ("1; drop table x", "holds a semicolon"),
        ("a > 1 from t", "does not parse near 'from'"),
        ("a > 1 -- why", "holds a comment"),
        ("a > 1 /* why */", "holds a comment"),
        ("a = :p", "holds a parameter"),
        ("a = ${p}", "holds a parameter"),
        # syntax
        ("", "is empty"),
        ("size(clicks) >", "does not parse: something is missing"),
        ("1) + (2", "a ) without its ("),
        ("((a)", "a ( is not closed"),
        ("b = 'abc", "a quote or comment is not closed"),
        ("(" * 3_000 + "a" + ")" * 3_000, "is nested too deeply"),
        ("a + " * 5_000 + "a", "is longer than 10000 characters"),
    ],
)
def test_what_cannot_give_a_row_its_value_says_why(text: str, says: str) -> None:
    found = problems_of(text, SCOPE)
    assert says in " | ".join(found)
    assert all(len(problem) < 300 for problem in found)


def test_a_column_may_be_called_what_elsewhere_is_a_clock() -> None:
    assert problems_of("user = 'x'", Scope({"user": ColumnType("string")})) == []
    assert problems_of("user = 'x'", Scope({})) != []
