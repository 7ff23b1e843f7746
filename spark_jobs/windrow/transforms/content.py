"""What a training row says, as hashes: two tables of rows are compared by row id, column by column.

    row ─▶ each column in one spelling (JSON: nulls written, microseconds, struct fields by name) ─▶ 64 bits a column
                                                                                                ─▶ 256 bits the row

Audit columns are left out (rule 15), also in the elements of right streams. The order of rows, files and columns
makes no difference. No value leaves: what differs is told by column, number of rows, and row ids.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import ELEMENT_META, EVENT_TIME, INTERVAL, REASON, ROW_ID, ROW_ORDER, STATE
from windrow.config import Pipeline
from windrow.outcomes import NeedsPerson

_SPELLING = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
MISSING, ADDED, REPEATED = "rows missing", "rows added", "rows repeated"


class ContentDiffers(NeedsPerson):
    """Published rows are not what their plan makes of the landed rows. A person must look."""


def columns_of(pipeline: Pipeline) -> list[str]:
    """The columns that are compared, besides interval and row id, by which rows are found."""
    streams = [stream.name for stream in pipeline.right]
    return [*pipeline.left.columns, *streams, *pipeline.labels, STATE, REASON, EVENT_TIME]


def hashed(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """By interval and row id: `_times`, `_row` (sha-256, hex) and an array `_columns` of 64-bit hashes."""
    spelled = [_spelled(name, pipeline) for name in columns_of(pipeline)]
    row = F.sha2(F.concat_ws("\n", *spelled, *[_json(F.col(name)) for name in (INTERVAL, *ROW_ID)]), 256)
    each = rows.select(
        INTERVAL, *ROW_ID, row.alias("_row"), F.array(*[F.xxhash64(c) for c in spelled]).alias("_columns")
    )
    return each.groupBy(INTERVAL, *ROW_ID).agg(
        F.count(F.lit(1)).alias("_times"), F.min("_row").alias("_row"), F.min("_columns").alias("_columns")
    )


def compared(published: DataFrame, made: DataFrame) -> DataFrame:
    """Two results of `hashed`, side by side, one row an interval and row id."""
    return published.alias("a").join(made.alias("b"), on=[INTERVAL, *ROW_ID], how="full_outer")


def differs() -> Column:
    """Whether a row of `compared` is not the same on both sides."""
    same = (F.col("a._row") == F.col("b._row")) & (F.col("a._times") == 1) & (F.col("b._times") == 1)
    return ~F.coalesce(same, F.lit(False))


def findings(both: DataFrame, pipeline: Pipeline) -> DataFrame:
    """By interval: `rows`, `different`, and a count for each kind of difference and each compared column.

    `published` and `made` are the contents' hashes over all rows, whatever their order.
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
    """One hash over rows in any order: the sum of their hashes, in which each row's id takes part."""
    parts = [F.conv(F.substring(f"{side}._row", at, 15), 16, 10).cast("decimal(20,0)") for at in (1, 16, 31, 46)]
    return F.sha2(F.concat_ws(" ", *[F.sum(part * F.col(f"{side}._times")).cast("string") for part in parts]), 256)


def _spelled(name: str, pipeline: Pipeline) -> Column:
    stream = next((s for s in pipeline.right if s.name == name), None)
    value = F.col(name)
    if stream is not None:
        fields = sorted([*stream.columns, *(c for c in ELEMENT_META if c in ROW_ORDER)])
        value = F.transform(value, lambda e: F.struct(*[e[field].alias(field) for field in fields]))
    return _json(value)


def _json(value: Column) -> Column:
    return F.to_json(F.struct(value.alias("v")), _SPELLING)
