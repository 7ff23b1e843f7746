"""The column types of a pipeline file: the Spark DDL types that every reader of a Delta table understands.

    string boolean tinyint smallint int bigint float double decimal(p,s) date timestamp binary
    array<T>  map<string,T>  struct<name:T,…>

A record is JSON, so the keys of a map are strings. VARIANT, intervals and timestamp_ntz are refused: a published table
keeps Delta reader version 1, so that Spark, delta-rs, Polars, pandas and DuckDB read the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windrow.config.problems import near_miss
from windrow.text import short

SIMPLE = (
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "date",
    "timestamp",
    "binary",
)
_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "bool": "boolean",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_ELSEWHERE = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "str": "string",
    "text": "string",
    "utf8": "string",
    "bytes": "binary",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
}
"""Names of types in Arrow, Python and other databases, by which people mean one of these."""
_READERS = "published tables must be readable by every reader"
_REFUSED = {
    "variant": f"variant is refused: {_READERS}; write string, and parse it where it is read",
    "interval": f"interval is refused: {_READERS}; write bigint, in a unit that the name says",
    "timestamp_ntz": f"timestamp_ntz is refused: all instants are UTC and {_READERS}; write timestamp",
    "varchar": "varchar is refused: its length is a constraint, not a type; write string",
    "char": "char is refused: its length is a constraint, not a type; write string",
    "void": "void is refused: it holds nothing; name the type",
    "text": "text is not a Spark type; write string",
    "str": "str is not a Spark type; write string",
    "datetime": "datetime is not a Spark type; write timestamp",
    "json": "json is not a Spark type; write string, or struct<…> with the fields that are read",
    "geometry": f"geometry is refused: {_READERS}; write binary",
    "geography": f"geography is refused: {_READERS}; write binary",
}
_DEEPEST = 16
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\d+|[<>(),:])")


@dataclass(frozen=True)
class ColumnType:
    """A type as a value; `str()` is its normalised DDL: `array<struct<item:bigint>>`."""

    name: str
    arguments: tuple[int, ...] = ()
    inner: tuple[ColumnType, ...] = ()
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.name == "struct":
            return f"struct<{','.join(f'{n}:{t}' for n, t in zip(self.fields, self.inner, strict=True))}>"
        if self.inner:
            return f"{self.name}<{','.join(map(str, self.inner))}>"
        return f"{self.name}({','.join(map(str, self.arguments))})" if self.arguments else self.name

    def parts(self) -> Iterator[ColumnType]:
        """The type itself and all types nested in it."""
        yield self
        for part in self.inner:
            yield from part.parts()


def parse_type(text: str) -> ColumnType:
    """Parse a type as Spark DDL writes it; aliases are replaced by the standard name.

    Raises:
        ValueError: the text is not a supported type; the message says what would be right.

    >>> str(parse_type("ARRAY < struct<id: LONG, price: dec(10, 2)> >"))
    'array<struct<id:bigint,price:decimal(10,2)>>'
    """
    if not text.strip():
        raise ValueError("has no type; write one, such as string or bigint")
    if len(text) > 10_000:
        raise ValueError(f"{short(text)} is longer than 10000 characters")
    reader = _Reader(text)
    found = reader.type(1)
    if reader.next is not None:
        raise reader.wrong(f"{reader.next!r} is left over after {found}")
    return found


def type_of_schema(kind: str | Mapping[str, Any]) -> ColumnType:
    """Return a type as the schema of a table has it, in Delta's log and in Spark's JSON.

    >>> str(type_of_schema({"type": "array", "elementType": "long", "containsNull": True}))
    'array<bigint>'
    """
    if isinstance(kind, str):
        name, _, arguments = kind.removesuffix(")").partition("(")
        return ColumnType(_ALIASES.get(name, name), tuple(int(n) for n in arguments.split(",") if n))
    if kind["type"] == "array":
        return ColumnType("array", inner=(type_of_schema(kind["elementType"]),))
    if kind["type"] == "map":
        return ColumnType("map", inner=(type_of_schema(kind["keyType"]), type_of_schema(kind["valueType"])))
    fields = kind["fields"]
    return ColumnType(
        "struct",
        inner=tuple(type_of_schema(field["type"]) for field in fields),
        fields=tuple(field["name"] for field in fields),
    )


def differences(name: str, was: ColumnType, now: ColumnType) -> Iterator[tuple[str, ColumnType, ColumnType]]:
    """Yield what differs between two types of a column: its path, the type that it had, and the one that it has.

    A field that only one of two structs has is no difference: it was added, or is no longer written.

    >>> old, new = parse_type("array<struct<a:int,b:date>>"), parse_type("array<struct<b:date,a:bigint,c:int>>")
    >>> [(path, str(was), str(now)) for path, was, now in differences("xs", old, new)]
    [('xs[].a', 'int', 'bigint')]
    """
    if was.name == now.name == "struct":
        known = {field.lower(): kind for field, kind in zip(was.fields, was.inner, strict=True)}
        for field, kind in zip(now.fields, now.inner, strict=True):
            if field.lower() in known:
                yield from differences(f"{name}.{field}", known[field.lower()], kind)
    elif was.name == now.name and was.inner:
        steps = ("[]",) if was.name == "array" else (".key", ".value")
        for step, one, other in zip(steps, was.inner, now.inner, strict=True):
            yield from differences(f"{name}{step}", one, other)
    elif was != now:
        yield name, was, now


def reason_not_a_key(kind: ColumnType) -> str | None:
    """Return why a column of this type cannot be part of a key, or None if it can."""
    for part in kind.parts():
        if part.name in ("float", "double"):
            return "-0.0, NaN and rounding make equality unreliable; use bigint, decimal or string"
        if part.name in ("array", "map"):
            return "use the columns that it is made of"
    return None


class _Reader:
    """Recursive descent over the tokens of one type; `next` is the token to be read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.next: str | None = None
        self.advance()

    def wrong(self, reason: str) -> ValueError:
        return ValueError(f"{short(self.text)} is not a column type: {reason}")

    def advance(self) -> str | None:
        token = self.next
        found = _TOKEN.match(self.text, self.position)
        if found:
            self.next, self.position = found[1], found.end()
        else:
            rest = self.text[self.position :].strip()
            if rest:
                raise self.wrong(f"{rest[0]!r} cannot stand in a type")
            self.next = None
        return token

    def expect(self, wanted: str) -> None:
        if self.next != wanted:
            got = "it ends" if self.next is None else f"there is {self.next!r}"
            hint = "; put a type with a comma in quotes" if self.next is None else ""
            raise self.wrong(f"{got} where {wanted!r} belongs{hint}")
        self.advance()

    def type(self, depth: int) -> ColumnType:
        if depth > _DEEPEST:
            raise self.wrong(f"nested more than {_DEEPEST} levels deep")
        word = (self.advance() or "").lower()
        name = _ALIASES.get(word, word)
        if name in _REFUSED:
            raise ValueError(_REFUSED[name])
        if name in ("array", "map"):
            return self.container(name, depth)
        if name == "struct":
            return self.struct(depth)
        if name == "decimal":
            return self.decimal()
        if name not in SIMPLE:
            if word in _ELSEWHERE:
                raise ValueError(f"unknown type {short(word)}; write {_ELSEWHERE[word]}")
            known = (*SIMPLE, *_ALIASES, "array<…>", "map<string,…>", "struct<…:…>")
            raise ValueError(f"unknown type {short(word or self.text)}; {near_miss(word, known, 'types are')}")
        return ColumnType(name)

    def container(self, name: str, depth: int) -> ColumnType:
        self.expect("<")
        inner = [self.type(depth + 1)]
        if name == "map":
            self.expect(",")
            inner.append(self.type(depth + 1))
            if inner[0].name != "string":
                raise self.wrong(f"names in JSON are text; write map<string,{inner[1]}>")
        self.expect(">")
        return ColumnType(name, inner=tuple(inner))

    def struct(self, depth: int) -> ColumnType:
        self.expect("<")
        names: list[str] = []
        inner: list[ColumnType] = []
        while True:
            name = self.advance() or ""
            if not re.match(r"[A-Za-z_]", name):
                raise self.wrong("a struct reads struct<name:type,…>")
            if name.lower() in (known.lower() for known in names):
                raise self.wrong(f"field {name!r} is there twice (upper and lower case are the same to Spark)")
            self.expect(":")
            names.append(name)
            inner.append(self.type(depth + 1))
            if self.next != ",":
                break
            self.advance()
        self.expect(">")
        return ColumnType("struct", inner=tuple(inner), fields=tuple(names))

    def decimal(self) -> ColumnType:
        precision, scale = 10, 0
        if self.next == "(":
            self.advance()
            precision = self.number()
            if self.next == ",":
                self.advance()
                scale = self.number()
            self.expect(")")
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self.wrong("decimal(p,s) needs p from 1 to 38 and s from 0 to p")
        return ColumnType("decimal", arguments=(precision, scale))

    def number(self) -> int:
        token = self.advance() or ""
        if not token.isdigit() or len(token) > 3:
            raise self.wrong("decimal reads decimal(p,s)")
        return int(token)
