"""Subjects of the late ledger: published and rebuilt rows about the same left event, side by side.

    published ─┐  by interval and subject: at most one row on each side, so the lines
    rebuilt  ──┴▶ full outer join          about one subject never depend on another

A subject is a left event: event id and event time, or the row id where the stream has no event id.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import BATCH, EVENT_TIME, INTERVAL, REASON, ROW_ID, STATE
from windrow.config import Pipeline, Stream

SUBJECT = "_subject"
ON = [INTERVAL, SUBJECT]


def subject(stream: Stream) -> Column:
    """Hash (32 hex digits) of the left event of a row; the same for its landed, rebuilt and published row.

    >>> from types import SimpleNamespace
    >>> stream = SimpleNamespace(event_id="id", columns={"id": "bigint"})
    >>> rows = spark.sql('''select id, timestamp '2026-11-01' as _event_time, 't' as _topic, 0 as _epoch,
    ...     0 as _partition, offset as _offset from values (1, 10), (1, 11), (null, 12), (null, 13) as r(id, offset)''')
    >>> rows.select("id", "_offset", F.substring(subject(stream), 1, 6).alias("_subject")).orderBy("_offset").show()
    +----+-------+--------+
    |  id|_offset|_subject|
    +----+-------+--------+
    |   1|     10|  c85ba5|
    |   1|     11|  c85ba5|
    |NULL|     12|  8a7c7a|
    |NULL|     13|  151041|
    +----+-------+--------+
    <BLANKLINE>
    """
    row = F.concat_ws("|", F.lit("row"), *ROW_ID)
    named = F.lit(None).cast("string") if stream.event_id is None else event_text(stream, F.col(stream.event_id))
    event = F.concat_ws("|", F.lit("event"), F.unix_micros(EVENT_TIME), named)
    return F.substring(F.sha2(F.when(named.isNull(), row).otherwise(event), 256), 1, 32).alias(SUBJECT)


def event_text(stream: Stream, event_id: Column) -> Column:
    """An event id as text; two texts are equal exactly where the ids are.

    >>> from types import SimpleNamespace
    >>> ids = spark.sql("select cast(10 as bigint) as number, X'0A0B' as bytes, struct(1 as a, 'x' as b) as both")
    >>> kinds = {"number": "bigint", "bytes": "binary", "both": "struct<a: int, b: string>"}
    >>> streams = [SimpleNamespace(event_id=name, columns=kinds) for name in kinds]
    >>> ids.select(*(event_text(stream, F.col(stream.event_id)).alias(stream.event_id) for stream in streams)).show()
    +------+-----+---------------+
    |number|bytes|           both|
    +------+-----+---------------+
    |    10| 0A0B|{"a":1,"b":"x"}|
    +------+-----+---------------+
    <BLANKLINE>
    """
    kind = stream.columns[stream.event_id or ""]
    if kind.startswith("struct"):
        return F.to_json(event_id)
    return F.hex(event_id) if kind == "binary" else event_id.cast("string")


def with_subject(rows: DataFrame, stream: Stream, starts: DataFrame, interval: Column) -> DataFrame:
    """Landed left rows with `_subject` and `_interval`, of the wanted intervals only.

    Args:
        starts: a few rows with the `_interval` of each wanted interval.
        interval: the interval start of a row.
    """
    placed = rows.withColumn(SUBJECT, subject(stream)).withColumn(INTERVAL, interval)
    return placed.join(F.broadcast(starts.select(INTERVAL)), on=INTERVAL, how="left_semi")


def side_by_side(published: DataFrame, rebuilt: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Published and rebuilt rows of the same subjects, narrow: ids, states and ids of matches.

    Args:
        published: training rows with `_subject`.
        rebuilt: candidate rows that would be published, with `_subject`.
    Returns:
        `_interval`, `_subject`, and of each side (`_old`, `_new`; null where it has no such row) a struct `at`, `id`,
        `batch`, `state`, `reason` and an array `…_matches` of `position`, `stream`, `at`, `id`, `event`.
    """
    return _side(published, "_old", pipeline).join(_side(rebuilt, "_new", pipeline), on=ON, how="full_outer")


def _side(rows: DataFrame, name: str, pipeline: Pipeline) -> DataFrame:
    """Identity and state of a row as one struct, and its matches of all streams as one array, in the file's order."""
    elements = [F.transform(stream.name, _narrow(position, stream)) for position, stream in enumerate(pipeline.right)]
    row = F.struct(
        F.col(EVENT_TIME).alias("at"),
        F.struct(*ROW_ID).alias("id"),
        F.col(BATCH).cast("bigint").alias("batch"),
        F.col(STATE).alias("state"),
        F.col(REASON).alias("reason"),
    )
    return rows.select(*ON, row.alias(name), F.concat(*elements).alias(f"{name}_matches"))


def _narrow(position: int, stream: Stream) -> Callable[[Column], Column]:
    """Reduces a match to what the ledger needs of it, without its payload."""

    def narrow(match: Column) -> Column:
        event = F.lit(None) if stream.event_id is None else event_text(stream, match[stream.event_id])
        return F.struct(
            F.lit(position).alias("position"),
            F.lit(stream.name).alias("stream"),
            match[EVENT_TIME].alias("at"),
            F.struct(*[match[c].alias(c) for c in ROW_ID]).alias("id"),
            event.cast("string").alias("event"),
        )

    return narrow
