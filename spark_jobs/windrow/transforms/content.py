"""The content of training rows as hashes: two tables are compared by row id, column by column, without any value.

    row ─▶ each column in one spelling (JSON: nulls written, microseconds, struct fields by name) ─▶ 64 bits per column
                                                                                                ─▶ 256 bits per row

Audit columns are left out (rule 15), also in the elements of right streams. The order of rows, files and columns makes
no difference. Differences are given by column, number of rows and row ids.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from windrow.columns import ELEMENT_META, EVENT_TIME, INTERVAL, REASON, ROW_ID, ROW_ORDER, STATE
from windrow.config import Pipeline
from windrow.outcomes import NeedsPerson

_SPELLING = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
MISSING, ADDED, REPEATED = "rows missing", "rows added", "rows repeated"
"""Kinds of difference that are not about one column: not published, published only, published or rebuilt twice."""
SUMS = ("_rows", "_different", "_published", "_made", "_at")
"""Columns of `findings` that are not a kind of difference; `_at` is for the interval in microseconds."""


class ContentDiffers(NeedsPerson):
    """Published rows are not what their plan makes of the landed rows. A person must look."""


def columns_of(pipeline: Pipeline) -> list[str]:
    """Names of the compared columns; interval and row id are not among them, because they identify a row."""
    streams = [stream.name for stream in pipeline.right]
    return [*pipeline.left.columns, *streams, *pipeline.labels, STATE, REASON, EVENT_TIME]


def hashed(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Hash the content of rows: one row per interval and row id.

    Args:
        rows: training rows, or candidate rows that would be published.
    Returns:
        `_interval`, the row id, `_times` (how many rows have it: 1), `_row` (SHA-256, hex) and `_columns` (array of
        64-bit hashes in the order of `columns_of`).
    """
    spelled = [_spelled(name, pipeline) for name in columns_of(pipeline)]
    row = F.sha2(F.concat_ws("\n", *spelled, *[_json(F.col(name)) for name in (INTERVAL, *ROW_ID)]), 256)
    each = rows.select(
        INTERVAL, *ROW_ID, row.alias("_row"), F.array(*[F.xxhash64(c) for c in spelled]).alias("_columns")
    )
    return each.groupBy(INTERVAL, *ROW_ID).agg(
        # a repeated row id is a difference by `_times`; which of its rows is compared does not matter then
        F.count(F.lit(1)).alias("_times"),
        F.min("_row").alias("_row"),
        F.min("_columns").alias("_columns"),
    )


def row_hashes(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Hash the content of rows to 64 bits each, at less cost than `hashed`.

    Rows that differ in a compared column have different hashes. Equal rows may have, too: in an array, 0.0 and -0.0 are
    spelled differently.

    Args:
        rows: training rows, or candidate rows that would be published.
    Returns:
        `_interval`, `_id` (the row id as a struct) and `_hash`, one row for each given row.
    """
    parts = []
    for name in (INTERVAL, *columns_of(pipeline)):
        if isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType):
            parts.append(_spelled(name, pipeline))  # a hash passes over nulls: [1, null] has that of [null, 1]
        else:
            parts += [F.col(name), F.col(name).isNull()]
    return rows.select(INTERVAL, F.struct(*ROW_ID).alias("_id"), F.xxhash64(*parts).alias("_hash"))


def compared(published: DataFrame, rebuilt: DataFrame) -> DataFrame:
    """Two results of `hashed` side by side, one row per interval and row id: published as `a`, rebuilt as `b`.

    Args:
        published: rows of `hashed`.
        rebuilt: rows of `hashed`.

    Returns:
        A full outer join: interval, row id, and the other columns as `a.…` and `b.…`; the missing side is null.
    """
    return published.alias("a").join(rebuilt.alias("b"), on=[INTERVAL, *ROW_ID], how="full_outer")


def differs() -> Column:
    """Whether a row of `compared` is missing on one side, repeated, or different on the two sides.

    >>> side = "select 0 as _interval, 't' as _topic, 0 as _epoch, 0 as _partition, * from values"
    >>> published = spark.sql(f"{side} (1, 'x', 1), (2, 'x', 2), (3, 'x', 1) as r(_offset, _row, _times)")
    >>> rebuilt = spark.sql(f"{side} (1, 'x', 1), (2, 'x', 1), (4, 'x', 1) as r(_offset, _row, _times)")
    >>> compared(published, rebuilt).select("_offset", differs().alias("differs")).orderBy("_offset").show()
    +-------+-------+
    |_offset|differs|
    +-------+-------+
    |      1|  false|
    |      2|   true|
    |      3|   true|
    |      4|   true|
    +-------+-------+
    <BLANKLINE>
    """
    same = (F.col("a._row") == F.col("b._row")) & (F.col("a._times") == 1) & (F.col("b._times") == 1)
    return ~F.coalesce(same, F.lit(False))


def findings(both: DataFrame, pipeline: Pipeline) -> DataFrame:
    """One row per interval with the number of rows for each kind of difference and each compared column.

    Args:
        both: result of `compared`.
    Returns:
        `_interval`; `_rows`: published ones; `_different`; `_published`, `_made`: hash over all published and all
        rebuilt rows, in any order; and one column for each kind of difference and each name of `columns_of`.
    """
    only_a, only_b = F.col("b._row").isNull(), F.col("a._row").isNull()
    counts = {
        MISSING: F.count_if(only_b),
        ADDED: F.count_if(only_a),
        REPEATED: F.count_if((F.col("a._times") > 1) | (F.col("b._times") > 1)),
    }
    for n, name in enumerate(columns_of(pipeline)):
        counts[name] = F.count_if(F.col("a._columns")[n] != F.col("b._columns")[n])
    return both.groupBy(INTERVAL).agg(
        F.count_if(~only_b).alias("_rows"),
        F.count_if(differs()).alias("_different"),
        _content("a").alias("_published"),
        _content("b").alias("_made"),
        *[count.alias(name) for name, count in counts.items()],
    )


def _content(side: str) -> Column:
    """One hash over rows in any order: a hash of the sums of their hashes.

    A sum does not depend on the order, and unlike XOR it counts repeated rows. `conv` handles 64 bits at most, so the
    hash is summed in four parts of 15 hex digits (60 bits) each, as decimals that do not overflow; 240 of the 256 bits
    take part. A row's hash includes its row id, so two rows that swap their contents change the sum.
    """
    parts = [F.conv(F.substring(f"{side}._row", at, 15), 16, 10).cast("decimal(20,0)") for at in (1, 16, 31, 46)]
    return F.sha2(F.concat_ws(" ", *[F.sum(part * F.col(f"{side}._times")).cast("string") for part in parts]), 256)


def _spelled(name: str, pipeline: Pipeline) -> Column:
    """A column as JSON text; the matches of a stream without their audit columns, fields in alphabetical order."""
    stream = next((s for s in pipeline.right if s.name == name), None)
    value = F.col(name)
    if stream is not None:
        fields = sorted([*stream.columns, *(c for c in ELEMENT_META if c in ROW_ORDER)])
        value = F.transform(value, lambda match: F.struct(*[match[field].alias(field) for field in fields]))
    return _json(value)


def _json(value: Column) -> Column:
    return F.to_json(F.struct(value.alias("v")), _SPELLING)
