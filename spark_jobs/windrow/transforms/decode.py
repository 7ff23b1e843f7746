"""Kafka records to landing rows: one row per record, either good or quarantined with a reason.

    record ─▶ tombstone? too large? bad UTF-8? ─▶ JSON object of the declared types?
           ─▶ selected by a stream's `where`? ─▶ trusted event time? ─▶ key, where a label needs one
           ─▶ landing row; `_quarantined` is null, or the first reason that applies and `_raw` the bytes

A record that no stream's `where` selects is not quarantined for its payload: it is landed and counts as filtered.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import (
    ARRIVED_AT,
    BATCH,
    EPOCH,
    EVENT_TIME,
    LANDING_META,
    LANDING_TYPES,
    OFFSET,
    PARTITION,
    QUARANTINED,
    RAW,
    RECORD_AT,
    TOPIC,
    UNREADABLE,
)
from windrow.config import Pipeline, RightStream
from windrow.semantics.landing.batch import Batch
from windrow.transforms.conditions import all_of, any_of
from windrow.transforms.streams import selected

_KAFKA = ("value", "topic", "partition", "offset", "timestamp", "timestampType")
_CREATE_TIME, _LOG_APPEND_TIME = 0, 1
"""Kinds of `timestampType`: set by the producer, set by the broker. A record without a timestamp has -1."""
_ISO = r"^[+-]?\d{4,6}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?\s*(Z|UTC|[+-]\d{2}(:?\d{2})?)?$"
_SECONDS = r"^-?\d{1,12}(\.\d+)?(E[+-]?\d{1,2})?$"
_YEARS_1_TO_9999 = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds since 1970 of the instants that every reader of the tables can represent."""


def decode(records: DataFrame, pipeline: Pipeline, batch: Batch) -> DataFrame:
    """Decode the records of a batch.

    Args:
        records: columns of Spark's Kafka source (key, value, topic, partition, offset, timestamp, timestampType).
        batch: the batch that lands them; gives topic, epoch, batch number and landing time.

    Returns:
        One row per record: `LANDING_META`, `_raw`, then the columns of all streams that read the topic.
    """
    landed_at = F.lit(batch.landed_at)
    declared = pipeline.topic_columns(batch.topic)
    # Payload columns may have the names of Kafka's columns.
    renamed = records.select(*[F.col(name).alias(f"_kafka_{name}") for name in _KAFKA])
    parsed = _parse(renamed, declared, pipeline.max_record_bytes)
    row = F.get("_parsed.row", F.lit(0))
    typed = parsed.select("*", *[_typed(row.getField(name), kind).alias(name) for name, kind in declared.items()])

    is_stamped = F.col("_kafka_timestampType") == _LOG_APPEND_TIME
    trusted_until = F.when(is_stamped, F.col("_kafka_timestamp")).otherwise(landed_at) + F.lit(pipeline.max_skew)
    event_time = F.col(pipeline.event_time(batch.topic))
    is_ahead = F.coalesce(event_time > trusted_until, F.lit(False))
    judged = typed.withColumn(QUARANTINED, _reason(pipeline, batch.topic, declared, row, event_time, is_ahead))

    # Columns of an unreadable record hold what the JSON reader made of a part of it.
    is_read = ~F.coalesce(F.col(QUARANTINED).isin(*UNREADABLE), F.lit(False))
    meta = {
        EVENT_TIME: F.when(is_read & ~is_ahead, event_time),
        TOPIC: F.col("_kafka_topic"),
        EPOCH: F.lit(batch.epoch),
        PARTITION: F.col("_kafka_partition"),
        OFFSET: F.col("_kafka_offset"),
        BATCH: F.lit(batch.number),
        ARRIVED_AT: landed_at,
        RECORD_AT: F.when(F.col("_kafka_timestampType") >= _CREATE_TIME, F.col("_kafka_timestamp")),
        QUARANTINED: F.col(QUARANTINED),
        RAW: F.when(F.col(QUARANTINED).isNotNull(), F.col("_kafka_value")),
    }
    return judged.select(
        *[meta[name].cast(LANDING_TYPES[name]).alias(name) for name in (*LANDING_META, RAW)],
        *[F.when(is_read, F.col(name)).alias(name) for name in declared],
    )


def _parse(records: DataFrame, declared: Mapping[str, str], max_bytes: int) -> DataFrame:
    """Add `_unreadable`, a reason or null, and `_parsed`, the JSON reader's result, null where unreadable.

    Instants are read as text and converted by `_instant`: Spark's JSON reader would take "12:30" for today.
    """
    fields = ", ".join(f"`{n}`: {'string' if k == 'timestamp' else k}" for n, k in declared.items())
    schema = f"row array<struct<{fields}>>, end int, _corrupt string"
    text = F.col("_kafka_value").cast("string")
    unreadable = (
        F.when(F.col("_kafka_value").isNull(), "tombstone")
        .when(F.octet_length("_kafka_value") > max_bytes, "too_large")
        .when(~F.is_valid_utf8(text), "bad_utf8")
    )
    parsed = F.from_json(
        F.when(F.col("_unreadable").isNull(), _wrapped(text)),
        schema,
        {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": "_corrupt",
            "allowNonNumericNumbers": "false",
            "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS][XXX]",  # inside structs and arrays
            "dateFormat": "yyyy-MM-dd",
        },
    )
    return records.withColumn("_unreadable", unreadable).withColumn("_parsed", parsed)


def _wrapped(text: Column) -> Column:
    """A record's text as the only element of an array, followed by a field `end`.

    Spark's JSON reader ignores text behind the first JSON value. Here such text breaks the array, adds an element or
    hides `end`, so a record that is not exactly one JSON value is noticed.

    >>> rows = spark.createDataFrame([('{"a": 1}',), ('{"a": 1} x',), ('{"a": 1},{"a": 2}',)], "text string")
    >>> parsed = F.from_json(_wrapped(F.col("text")), "row array<struct<a: int>>, end int")
    >>> rows.select("text", F.size(parsed["row"]).alias("rows"), parsed["end"].alias("end")).show()
    +-----------------+----+----+
    |             text|rows| end|
    +-----------------+----+----+
    |         {"a": 1}|   1|   1|
    |       {"a": 1} x|NULL|NULL|
    |{"a": 1},{"a": 2}|   2|   1|
    +-----------------+----+----+
    <BLANKLINE>
    """
    return F.concat(F.lit('{"row":['), text, F.lit('],"end":1}'))


def _typed(value: Column, kind: str) -> Column:
    return _instant(value) if kind == "timestamp" else value


def _instant(text: Column) -> Column:
    """Text as a timestamp: ISO 8601 (UTC if it has no zone) or seconds since 1970.

    Null for any other text, and outside the years 1 to 9999. Digits behind the microsecond are cut off.

    >>> texts = ["2026-11-01T05:30:03+05:30", "2026-11-01 00:00:02.5", "1793491207.25", "12:30", "yesterday"]
    >>> rows = spark.createDataFrame([(text,) for text in texts], "text string")
    >>> rows.select("text", _instant(F.col("text")).alias("instant")).show(truncate=False)
    +-------------------------+----------------------+
    |text                     |instant               |
    +-------------------------+----------------------+
    |2026-11-01T05:30:03+05:30|2026-11-01 00:00:03   |
    |2026-11-01 00:00:02.5    |2026-11-01 00:00:02.5 |
    |1793491207.25            |2026-11-01 00:00:07.25|
    |12:30                    |NULL                  |
    |yesterday                |NULL                  |
    +-------------------------+----------------------+
    <BLANKLINE>
    """
    upper = F.upper(text)
    seconds = upper.try_cast("decimal(27,9)")
    # The bound keeps the product within a bigint, whatever number a producer writes.
    micros = F.when(F.abs(seconds) < 10**12, (seconds * 1_000_000).cast("bigint"))
    at = F.when(upper.rlike(_ISO), upper.try_cast("timestamp")).when(upper.rlike(_SECONDS), F.timestamp_micros(micros))
    return F.when(F.unix_micros(at).between(*_YEARS_1_TO_9999), at)


def _reason(
    pipeline: Pipeline, topic: str, declared: Mapping[str, str], row: Column, event_time: Column, is_ahead: Column
) -> Column:
    """The first reason to quarantine a record, or null.

    Args:
        row: the record as the JSON reader read it, with instants as text; the declared columns hold them converted.
        is_ahead: whether the event time is too far in the future to be trusted.
    """
    streams = pipeline.streams_of(topic)
    is_selected = [selected(stream) for stream in streams]
    wrong = [row.getField(n).isNotNull() & F.col(n).isNull() for n, k in declared.items() if k == "timestamp"]
    keyless = [
        any_of([F.col(k).isNull() for k in s.key]) if isinstance(s, RightStream) and s.role == "label" else F.lit(False)
        for s in streams
    ]
    accepted_by_none = all_of([~chosen | lost for chosen, lost in zip(is_selected, keyless, strict=True)])
    # `_corrupt` is set for bad JSON and for a value of another type: only the first is "malformed", so the text is
    # parsed again, without a schema.
    is_corrupt = F.col("_parsed._corrupt").isNotNull()
    text = F.col("_kafka_value").cast("string")
    is_no_object = F.json_object_keys(text).isNull() | F.try_parse_json(_wrapped(text)).isNull()
    is_whole = (F.size("_parsed.row") == 1) & F.col("_parsed.end").isNotNull()
    is_one_row = F.coalesce(is_whole & row.isNotNull(), F.lit(False))
    return (
        F.when(F.col("_unreadable").isNotNull(), F.col("_unreadable"))
        .when(F.when(is_corrupt, is_no_object).otherwise(~is_one_row), "malformed")
        .when(is_ahead, "event_time_ahead")
        .when(~any_of(is_selected), F.lit(None))
        .when(is_corrupt | any_of(wrong), "wrong_type")
        .when(any_of([_is_infinite(F.col(n), k) for n, k in declared.items()]), "not_finite")
        .when(event_time.isNull(), "event_time_missing")
        .when(accepted_by_none, "null_key")
    )


def _is_infinite(value: Column, kind: str) -> Column:
    """Whether a number, or one of an array of numbers, is infinite; false for null and for other types.

    JSON has no word for infinity, but a number beyond the range of its type is read as infinite. In an array, greatest
    and least value suffice: NaN would be the greatest, and JSON has no word for NaN either.

    >>> rows = spark.createDataFrame([([1.0, 2.0],), ([1.0, float("-inf")],), (None,)], "value array<double>")
    >>> rows.select("value", _is_infinite(F.col("value"), "array<double>").alias("is_infinite")).show()
    +----------------+-----------+
    |           value|is_infinite|
    +----------------+-----------+
    |      [1.0, 2.0]|      false|
    |[1.0, -Infinity]|       true|
    |            NULL|      false|
    +----------------+-----------+
    <BLANKLINE>
    """
    greatest, least = (F.array_max(value), F.array_min(value)) if kind.startswith("array") else (value, value)
    if kind.removeprefix("array<").removesuffix(">") in ("float", "double"):
        return F.coalesce((greatest >= float("inf")) | (least == float("-inf")), F.lit(False))
    return F.lit(False)
