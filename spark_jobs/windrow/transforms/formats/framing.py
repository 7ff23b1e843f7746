"""The frame before a record whose schema is in a registry: a zero byte, then the schema's id in four bytes.

00 | 00 00 00 2a | payload            id 42
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LENGTH = 5
NEW_SCHEMA = "WINDROW_NEW_SCHEMA"
"""Begins the message of the error with which Spark stops at an id that is not among the known ones."""


class Framed(NamedTuple):
    """The id of a record's schema, and what follows the frame."""

    schema: int
    payload: bytes


def unframed(record: bytes) -> Framed | None:
    r"""Take a record out of its frame; None if it has none.

    >>> unframed(b"\x00\x00\x00\x00\x2ahello"), unframed(b'{"a": 1}')
    (Framed(schema=42, payload=b'hello'), None)
    """
    if len(record) < LENGTH or record[0] != 0:
        return None
    return Framed(int.from_bytes(record[1:LENGTH], "big"), record[LENGTH:])


def schema_id(record: Column) -> Column:
    """Id of a record's schema; null if it has no frame."""
    header = F.hex(F.substring(record, 1, LENGTH))
    is_framed = (F.octet_length(record) >= LENGTH) & header.startswith("00")
    return F.when(is_framed, F.conv(F.substring(header, 3, 8), 16, 10).cast("bigint"))


def payload(record: Column) -> Column:
    """Bytes behind the frame; null if there is none."""
    rest = F.substring(record, F.lit(LENGTH + 1), F.octet_length(record))
    return F.when(schema_id(record).isNotNull(), rest)


def known_only(record: Column, known: Iterable[int]) -> Column:
    """The record; Spark fails with `NEW_SCHEMA` where the id of its schema is none of these."""
    found = schema_id(record)
    is_new = found.isNotNull() & ~found.isin(*known) if (known := list(known)) else found.isNotNull()
    return F.when(is_new, F.raise_error(F.concat(F.lit(f"{NEW_SCHEMA} "), found.cast("string")))).otherwise(record)


def ids(records: DataFrame, most: int) -> DataFrame:
    """Ids of schemas in records, those of most records first.

    Args:
        records: has a column `value`.
        most: number of ids that are returned at most.

    Returns:
        Columns `id` and `count`.
    """
    found = records.select(schema_id(F.col("value")).alias("id")).where("id is not null")
    return found.groupBy("id").count().orderBy(F.desc("count"), "id").limit(most)
