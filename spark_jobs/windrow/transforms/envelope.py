"""What is around the value of a Kafka record, as texts that are read by the rules for fields of the value.

headers [trace: a, n: 7, n: 8]   the last header of a name: `8`
key     00 00 00 2a              a whole number of `key_format: int`: `42`
                                 ─▶ {"n":8,"k":42}, which the JSON reader reads
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from windrow.config.column_types import ColumnType
from windrow.config.origins import KeyFormat, Origin

AS_IT_IS = ("string", "binary")
"""Types of columns that take a text, or the bytes, without reading them."""
_LENGTHS = {"int": 4, "long": 8}
"""Bytes of a key that is a whole number."""
_BARE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
"""Types whose values JSON writes without quotes; a decimal, a date or an instant may be a string."""
_JSON_WORD = r"^(true|false|-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?)\z"
_LONGEST_WORD = 1_000
"""Characters of the longest number that Spark's JSON reader takes."""


def bytes_of(origin: Origin) -> Column:
    """Bytes of a header, the last one of its name, or of the key; null if there is none.

    >>> headers = [("n", b"7"), ("n", b"8"), ("empty", None)]
    >>> ddl = "_kafka_headers array<struct<key:string,value:binary>>"
    >>> rows = spark.createDataFrame([(headers,), ([],), (None,)], ddl)
    >>> rows.select(bytes_of(Origin("n", "header", "n")).cast("string").alias("n")).show()
    +----+
    |   n|
    +----+
    |   8|
    |NULL|
    |NULL|
    +----+
    <BLANKLINE>
    """
    if origin.part == "key":
        return F.col("_kafka_key")
    of_name = F.filter("_kafka_headers", lambda header: header["key"] == origin.name)
    return F.get(F.reverse(of_name), F.lit(0)).getField("value")


def text_of(value: Column, key_format: KeyFormat | None) -> Column:
    """Bytes as text; null where they are none.

    Args:
        key_format: what the bytes are: a whole number for `int` and `long`, else UTF-8.

    >>> keys = [(bytes([0, 0, 0, 42]), b"42"), (bytes([255, 255, 255, 254]), bytes([255])), (b"42", b"")]
    >>> rows = spark.createDataFrame(keys, "number binary, word binary")
    >>> number, word = text_of(F.col("number"), "int"), text_of(F.col("word"), "string")
    >>> rows.select(number.alias("int"), word.alias("string")).show()
    +----+------+
    | int|string|
    +----+------+
    |  42|    42|
    |  -2|  NULL|
    |NULL|      |
    +----+------+
    <BLANKLINE>
    """
    if key_format not in _LENGTHS:
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), text)
    length = _LENGTHS[key_format]
    sign = F.when(F.hex(value) >= "8", "F" * 2 * (8 - length)).otherwise("")
    return F.when(F.octet_length(value) == length, F.conv(F.concat(sign, F.hex(value)), 16, -10))


def as_object(texts: Mapping[str, Column], types: Mapping[str, ColumnType]) -> Column:
    """Texts as the fields of a JSON object: a word of JSON where its type is written so, else a string.

    >>> rows = spark.createDataFrame([("8", "1.50"), ("8]", None)], "n string, d string")
    >>> types = {"n": ColumnType("int"), "d": ColumnType("decimal", (5, 2))}
    >>> rows.select(as_object({"n": F.col("n"), "d": F.col("d")}, types).alias("object")).show()
    +------------------+
    |            object|
    +------------------+
    |{"n":8,"d":"1.50"}|
    |        {"n":"8]"}|
    +------------------+
    <BLANKLINE>
    """
    fields = [F.concat(F.lit(f'"{name}":'), _as_json(text, types[name])) for name, text in texts.items()]
    return F.concat(F.lit("{"), F.concat_ws(",", *fields), F.lit("}"))


def _as_json(text: Column, kind: ColumnType) -> Column:
    """A text as one JSON value; null for null."""
    alone = F.to_json(F.struct(text.alias("v")))
    between = len('{"v":'), len('{"v":}')
    quoted = F.when(text.isNotNull(), F.substring(alone, F.lit(between[0] + 1), F.length(alone) - between[1]))
    if kind.name not in _BARE:
        return quoted
    return F.when(text.rlike(_JSON_WORD) & (F.length(text) <= _LONGEST_WORD), text).otherwise(quoted)
