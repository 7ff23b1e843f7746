"""Column types: one spelling each, and only what every reader of a published table understands."""

from __future__ import annotations

import pytest

from windrow.config.column_types import parse_type


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        *((name, name) for name in ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float")),
        *((name, name) for name in ("double", "date", "timestamp", "binary")),
        ("INTEGER", "int"),
        ("Long", "bigint"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("real", "float"),
        ("decimal", "decimal(10,0)"),
        ("decimal(5)", "decimal(5,0)"),
        ("numeric( 38 , 38 )", "decimal(38,38)"),
        ("decimal(1,0)", "decimal(1,0)"),
        ("array<float>", "array<float>"),
        (" ARRAY < long > ", "array<bigint>"),
        ("map<string,array<int>>", "map<string,array<int>>"),
        ("struct<a:int,B:struct<c:decimal(3,1)>>", "struct<a:int,B:struct<c:decimal(3,1)>>"),
        ("struct<int: int, array: string>", "struct<int:int,array:string>"),
        ("array<" * 15 + "int" + ">" * 15, "array<" * 15 + "int" + ">" * 15),
    ],
)
def test_a_type_has_one_spelling(text: str, normal: str) -> None:
    assert str(parse_type(text)) == normal
    assert parse_type(normal) == parse_type(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("strng", "unknown type 'strng'; did you mean 'string'?"),
        ("int64", "unknown type 'int64'; write bigint"),
        ("array<float32>", "unknown type 'float32'; write float"),
        ("bigintt", "did you mean 'bigint'?"),
        ("variant", "variant is refused: published tables must be readable by every reader; write string"),
        ("array<variant>", "variant is refused"),
        ("interval day to second", "interval is refused"),
        ("timestamp_ntz", "timestamp_ntz is refused: all instants are UTC"),
        ("varchar(10)", "varchar is refused"),
        ("", "has no type"),
        ("array", "it ends where '<' belongs"),
        ("array<int", "it ends where '>' belongs"),
        ("array<int>>", "'>' is left over after array<int>"),
        ("map<int>", "there is '>' where ',' belongs"),
        ("map<map<int,int>,int>", "names in JSON are text; write map<string,int>"),
        ("array<map<date,struct<a:int>>>", "names in JSON are text; write map<string,struct<a:int>>"),
        ("struct<>", "a struct reads struct<name:type,…>"),
        ("struct<a int>", "there is 'int' where ':' belongs"),
        ("struct<a:int,A:int>", "field 'A' is there twice"),
        ("decimal(39,0)", "p from 1 to 38"),
        ("decimal(0,0)", "p from 1 to 38"),
        ("decimal(3,4)", "s from 0 to p"),
        ("decimal(10", "it ends where ')' belongs; put a type with a comma in quotes"),
        ("decimal(a)", "decimal reads decimal(p,s)"),
        ("int not null", "'not' is left over after int"),
        ("int; drop table x", "';' cannot stand in a type"),
        ("array<" * 16 + "int" + ">" * 16, "nested more than 16 levels deep"),
        ("array<" * 100_000, "is longer than 10000 characters"),
    ],
)
def test_what_is_no_type_says_why(text: str, says: str) -> None:
    with pytest.raises(ValueError) as wrong:  # noqa: PT011 - the message is asserted below
        parse_type(text)
    assert says in str(wrong.value)
