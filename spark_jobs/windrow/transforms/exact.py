r"""Numbers as they stand in a record. Spark's JSON reader gives another text, or another number, for some of them.

    1.10 in a string column       is read as 1.1, 1e5 as 100000.0, -0 as 0
    1.555 in a decimal(38,2)      is rounded to 1.56; "1,5" is read as 15
    1e1000000 in a decimal        is written out in a million digits first, which takes seconds to hours

A look at each record finds the few that may hold such a number: nothing that the reader changes is missed, and some
others are found too. Only their text is read a second time, with every number put in quotes, as the reader keeps the
text of strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from windrow.config.column_types import ColumnType

STRING = ColumnType("string")
MARK = "\ufdd0"
"""Begins the text of a number that `marked` put in quotes. Unicode keeps this character for use within programs."""
_BACKSLASH, _QUOTE, _START, _END = "\x01", "\x02", "\x03", "\x04"
"""Stand in for an escaped backslash, an escaped quote, and the ends of a number. JSON has them only as escapes."""
_BETWEEN = "\x1f"
_ENDS = r'(?:$|\x1f|\\?")'
_OBJECT = r"[\[{][^\x1f]*(?:[0-9]\.[0-9]|[:\[,]0[,}\]]|Infinity)"
_CHANGED = rf'(?:-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?{_ENDS}|0{_ENDS}|\\*"-?Infinity|{_OBJECT})'
"""Pattern of a text that may be that of a changed number, or hold one. A whole number stays as it is, but for -0."""
_MOST = 99
"""Longest text of a decimal, and largest exponent of it, that is read."""
_NUMERIC = r"0-9.,+\-\p{Nd}"
"""Characters, besides the exponent's, of the texts that the reader takes for a decimal."""
_LEAF_ENDS = r'"(?=[,}\]])'
"""End of a string that is no name of a field."""


def marked(text: Column, mark: str = MARK) -> Column:
    r"""JSON text in which every number is a string that begins with the mark.

    >>> rows = spark.createDataFrame([(r'{"a": -1.50e3, "b\"7": "say \"5\" \\", "c": [0]}',)], "text string")
    >>> rows.select(marked(F.col("text"), "#").alias("marked")).show(truncate=False)
    +------------------------------------------------------+
    |marked                                                |
    +------------------------------------------------------+
    |{"a": "#-1.50e3", "b\"7": "say \"5\" \\", "c": ["#0"]}|
    +------------------------------------------------------+
    <BLANKLINE>
    """
    # Without escaped quotes one loop over characters finds the end of a string; a loop over groups may overflow.
    plain = _replaced(text, {r"\\": _BACKSLASH, r"\"": _QUOTE})
    edged = F.regexp_replace(plain, '("[^"]*+")|(-?[0-9][0-9.eE+-]*+)', f"$1{_START}$2{_END}")
    return _replaced(edged, {_START + _END: "", _START: f'"{mark}', _END: '"', _QUOTE: r"\"", _BACKSLASH: r"\\"})


def leaves(text: Column, columns: Mapping[str, ColumnType], leaf: ColumnType) -> Column:
    """Values of one type in a record, as the text that stands for each; other values are left out.

    Args:
        text: one JSON object, `marked`; null gives null.
        columns: those of the record.
    """
    fields = ", ".join(f"`{n}`: {part}" for n, kind in columns.items() if (part := _only(kind, leaf)) is not None)
    return F.from_json(text, f"struct<{fields}>")


def may_differ(read: Mapping[str, Column], columns: Mapping[str, ColumnType]) -> Column:
    """Whether a text of a record may be that of a number which the reader changed; never null.

    One pattern over all texts: a condition for each column would be more code than Java compiles.

    Args:
        read: columns as the JSON reader read them.
        columns: their types.
    """
    texts = [text for name, kind in columns.items() for text in _texts(read[name], kind)]
    starts = rf'(?:{_BETWEEN}|[:\[,{{]\\*")' if any(map(_is_deep, columns.values())) else _BETWEEN
    return F.concat_ws(_BETWEEN, F.lit(""), *texts).rlike(starts + _CHANGED)


def as_written(read: Column, text: Column, name: str, kind: ColumnType) -> Column:
    """A value with its text as it stands in the record; null where that is not possible.

    A value with parts of other types too is kept as it was read, unless the reader changed a number in it.
    What `from_json` is applied to is not compiled, so this adds little to the code of a row.

    Args:
        read: as the JSON reader read it.
        text: of the record.
        kind: a type that holds a string.
    """
    strings = _only(kind, STRING)
    written = _json(leaves(marked(text), {name: kind}, STRING).getField(name))
    is_clear = ~_json(read).contains(MARK)
    if strings == kind:
        within = F.regexp_replace(written, rf'\\"{MARK}([^"\\]*+)\\"', "$1")
        exact = F.replace(within, F.lit(MARK), F.lit(""))
        return F.from_json(F.when(is_clear, exact), f"struct<of: {kind}>").getField("of")
    same = _unquoted(_json(F.from_json(_json(read), f"struct<of: {strings}>").getField("of"))) == _unquoted(written)
    kept = F.from_json(F.when(is_clear & same, F.lit('{"is": true}')), "struct<is: boolean>").getField("is")
    return F.when(kept, read)


def may_round(text: Column, read_as: Iterable[ColumnType]) -> Column:
    """Whether a record may hold a number that no decimal keeps, or that takes long to read.

    Args:
        read_as: types of the columns that hold decimals, as the JSON reader reads them.
    """
    spare = min(leaf.arguments[1] for kind in read_as for leaf in decimals_of(kind))
    digits = rf"[0-9]*+(?:\.[0-9]{{{spare + 1}}}|(?:\.[0-9]*+)?[eE](?:-|\+?[0-9]{{3}}))"
    strange = rf"[0-9.+eE-]*+(?:[,\\[\p{{Nd}}&&[^0-9]]]|(?<=[0-9.+eE-]{{{_MOST}}}))"
    return F.coalesce(text.rlike(rf'[:\[,]\s*+(?:"?[+-]?{digits}|"{strange})'), F.lit(False))


def is_slow(written: Column) -> Column:
    """Whether a decimal takes long to read: a long text, or one with a large exponent.

    Args:
        written: a column from `leaves`.
    """
    exponent = rf'[{_NUMERIC}]*+[eE](?![+-]?0{{0,9}}[0-9]{{1,2}}")[^"]*'
    slow = rf'"(?:[{_NUMERIC}eE]{{{_MOST + 1},}}|{exponent}){_LEAF_ENDS}'
    return F.coalesce(_json(written).rlike(slow), F.lit(False))


def is_rounded(written: Column, scale: int) -> Column:
    """Whether a number within a column has more digits than `scale` behind the point, or is no plain number.

    Args:
        written: a column from `leaves`.
    """
    return F.coalesce(_json(written).rlike(rf'"(?!{_fitting(scale)}")[^"]*{_LEAF_ENDS}'), F.lit(False))


def decimals_of(kind: ColumnType) -> set[ColumnType]:
    """The decimal types in a type."""
    return {part for part in kind.parts() if part.name == "decimal"}


def has_strings(kind: ColumnType) -> bool:
    """Whether a type holds a string."""
    return _only(kind, STRING) is not None


def _fitting(scale: int) -> str:
    """Pattern of the numbers with at most so many digits behind the point, zeros at the end left out.

    An exponent moves the point: 15e-1 has one digit, 1.5e1 none.
    """
    shifts = [rf"\.?[0-9]{{0,{scale}}}0*(?:[eE][+-]?0+)?"]
    for by in range(1, _MOST + 1):
        shifts.append(rf"(?:\.[0-9]{{0,{scale + by}}}0*)?[eE]\+?0*{by}")
        behind = rf"(?:\.[0-9]{{0,{scale - by}}}0*)?" if by <= scale else rf"(?<=0{{{by - scale}}})(?:\.0*)?"
        shifts.append(rf"{behind}[eE]-0*{by}")
    return rf"[+-]?(?:0*\.?0*[eE][+-]?[0-9]+|[0-9]*(?:{'|'.join(shifts)}))"


def _only(kind: ColumnType, leaf: ColumnType) -> ColumnType | None:
    """A type with the parts of one type alone, as strings; None if it has none."""
    if kind == leaf:
        return STRING
    if kind.name == "struct":
        parts = {n: part for n, k in zip(kind.fields, kind.inner, strict=True) if (part := _only(k, leaf)) is not None}
        return replace(kind, fields=tuple(parts), inner=tuple(parts.values())) if parts else None
    if kind.name in ("array", "map") and (part := _only(kind.inner[-1], leaf)) is not None:
        return replace(kind, inner=(*kind.inner[:-1], part))
    return None


def _texts(read: Column, kind: ColumnType) -> Iterator[Column]:
    """The strings within a value, as strings and arrays of them; a part that is too deep for this, as JSON.

    A lambda over an array would keep Spark from compiling the whole row.
    """
    if kind == STRING or (kind.name == "array" and kind.inner[0] == STRING):
        yield read
    elif kind.name == "struct":
        for name, part in zip(kind.fields, kind.inner, strict=True):
            yield from _texts(read.getField(name), part)
    elif kind.name == "map" and kind.inner[1] == STRING:
        yield F.map_values(read)
    elif has_strings(kind):
        yield _json(read)


def _is_deep(kind: ColumnType) -> bool:
    """Whether `_texts` gives a part as JSON."""
    if kind.name == "struct":
        return any(map(_is_deep, kind.inner))
    return kind.name in ("array", "map") and kind.inner[-1] != STRING and has_strings(kind)


def _json(value: Column) -> Column:
    return F.to_json(F.struct(value.alias("of")))


def _unquoted(json: Column) -> Column:
    return F.translate(json, f'"\\{MARK}', "")


def _replaced(text: Column, words: Mapping[str, str]) -> Column:
    for word, by in words.items():
        text = F.replace(text, F.lit(word), F.lit(by))
    return text
