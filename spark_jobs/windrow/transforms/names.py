r"""Whether a record is JSON in which no object has two values of one name: by a look, or by parsing it again.

The JSON reader takes the last of several values of one name, and reads `\ud800`, which is half a character. Only
Spark's parser of variants refuses both, and it costs several times as much as reading the record. So it parses a
record only if a look at the text does not show that it would accept it:

    {"id": "r1", "k": 7}             two names in the text, two columns read: each was given once
    {"id": "r1", "k": 7, "k": 8}     three names, two columns: parsed again, and refused
    {"id": "r1", "k": null}          two names, one column: parsed again, and accepted, like any other doubt
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

Look = Literal["first", "never"]
"""Whether records are looked at first, or all are parsed again. The result is the same."""

MOST_COLUMNS = 16
"""Records of more columns are all parsed again: counting those that were read would be more code than Java compiles."""
_MOST_BYTES = 1 << 20
"""Longer records are parsed again: the variant of a very long one would be too large."""
_NAME_ENDS = r'"[ \t\n\r]*+:'
"""End of a name. A string may hold such text too; then there are more of them than names."""


def is_json(text: Column, parsed: Column, row: Column, corrupt: Column, columns: Sequence[str], look: Look) -> Column:
    """Whether the parser of variants accepts a record; never null.

    Args:
        text: the record; valid UTF-8.
        parsed: whether the parser of variants accepts it; never null. Looked at only where the names leave a doubt.
        row: the record as the JSON reader read it, without single quotes in place of double ones.
        corrupt: not null if the reader found that something is no JSON, or of a wrong type.
        columns: fields of `row`.
    """
    if look == "never" or not columns or len(columns) > MOST_COLUMNS:
        return parsed
    return F.when(_is_clear(text, row, corrupt, columns), F.lit(True)).otherwise(parsed)


def _is_clear(text: Column, row: Column, corrupt: Column, columns: Sequence[str]) -> Column:
    """Whether the names in a text are those of the columns that were read, each once; never null.

    Every name in the text ends like `_NAME_ENDS`, and a column that is not null was read from a value with its name.
    As many ends as columns leave no end for a name that is given twice, that is no column, or that is deeper.

    >>> texts = ['{"id": "r", "k": 7}', '{"id": "r", "k": 7, "k": 8}', '{"k": 7}', '{"id": null, "k": 7}']
    >>> rows = spark.createDataFrame([(text,) for text in texts], "text string")
    >>> row, corrupt = F.from_json("text", "id string, k int"), F.lit(None)
    >>> rows.select("text", _is_clear(F.col("text"), row, corrupt, ["id", "k"]).alias("clear")).show(truncate=False)
    +---------------------------+-----+
    |text                       |clear|
    +---------------------------+-----+
    |{"id": "r", "k": 7}        |true |
    |{"id": "r", "k": 7, "k": 8}|false|
    |{"k": 7}                   |true |
    |{"id": null, "k": 7}       |false|
    +---------------------------+-----+
    <BLANKLINE>
    """
    given = reduce(add, [row.getField(name).isNotNull().cast("int") for name in columns])
    is_plain = corrupt.isNull() & (F.octet_length(text) <= _MOST_BYTES) & ~text.contains("\\u")
    return F.coalesce(is_plain & (F.regexp_count(text, F.lit(_NAME_ENDS)) == given), F.lit(False))
