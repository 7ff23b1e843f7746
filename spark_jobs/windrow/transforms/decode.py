"""Kafka records to landing rows: every record comes out exactly once, readable or quarantined with a reason.

    record ─▶ tombstone? too large? bad UTF-8? ─▶ JSON object of the declared types?
           ─▶ selected by a stream's `where`? ─▶ trusted event time? ─▶ key, where a label needs one
           ─▶ landing row; `_quarantined` is null, or the first reason that applies and `_raw` the bytes

A record that no stream's `where` selects is landed as it is, whatever it lacks: it counts as filtered.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.config import Pipeline, RightStream
from windrow.schemas import LANDING_META, RAW
from windrow.transforms.conditions import all_of, any_of

_ISO = r"^[+-]?\d{4,6}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?\s*(Z|UTC|[+-]\d{2}(:?\d{2})?)?$"
_KAFKA = ("value", "topic", "partition", "offset", "timestamp", "timestampType")
_UNREADABLE = ("tombstone", "too_large", "bad_utf8", "malformed")
_SECONDS = r"^-?\d{1,12}(\.\d+)?(E[+-]?\d{1,2})?$"
_YEARS_1_TO_9999 = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds since 1970 of the instants that every reader can say."""


def decode(
    records: DataFrame, pipeline: Pipeline, topic: str, *, epoch: int, batch: int, landed_at: Column
) -> DataFrame:
    """Landing rows of one topic.

    Args:
        records: columns of Spark's Kafka source (key, value, topic, partition, offset, timestamp, timestampType).
        epoch: which topic of this name it is.
        batch: number of the landing commit.
        landed_at: landing time, a timestamp literal.
    Returns:
        `LANDING_META`, `_raw`, then the union of the columns of the streams that read the topic.
    """
    records = records.select(*[F.col(name).alias(f"_kafka_{name}") for name in _KAFKA])  # payloads use these names too
    declared = pipeline.topic_columns(topic)
    event_time = pipeline.streams_of(topic)[0].event_time
    parsed = _parse(records, declared, pipeline.max_record_bytes)
    row = F.get("_parsed.row", F.lit(0))
    typed = parsed.select("*", *[_typed(row.getField(name), kind).alias(name) for name, kind in declared.items()])
    trusted_until = F.when(F.col("_kafka_timestampType") == 1, F.col("_kafka_timestamp")).otherwise(landed_at) + F.lit(
        pipeline.max_skew
    )
    ahead = F.coalesce(F.col(event_time) > trusted_until, F.lit(False))
    judged = typed.withColumn("_quarantined", _reason(pipeline, topic, declared, row, F.col(event_time), ahead))
    said = ~F.coalesce(F.col("_quarantined").isin(*_UNREADABLE), F.lit(False))  # else what was read means nothing
    meta = {
        "_event_time": F.when(said & ~ahead, F.col(event_time)),
        "_topic": F.col("_kafka_topic"),
        "_epoch": F.lit(epoch).cast("int"),
        "_partition": F.col("_kafka_partition").cast("int"),
        "_offset": F.col("_kafka_offset"),
        "_batch": F.lit(batch).cast("bigint"),
        "_arrived_at": landed_at,
        "_record_at": F.when(F.col("_kafka_timestampType") >= 0, F.col("_kafka_timestamp")),
        "_quarantined": F.col("_quarantined"),
    }
    return judged.select(
        *[meta[name].alias(name) for name in LANDING_META],
        F.when(F.col("_quarantined").isNotNull(), F.col("_kafka_value")).alias(RAW),
        *[F.when(said, F.col(name)).alias(name) for name in declared],
    )


def _parse(records: DataFrame, declared: dict[str, str], max_bytes: int) -> DataFrame:
    """Adds `_unreadable` (a reason or null), `_parsed.row` and `_parsed._corrupt`.

    The text is wrapped into an outer object, so that whatever follows the first JSON value is an error and not
    ignored. Timestamps are parsed as text first: Spark's own reading would take "12:30" for today.
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
    """The record as the one element of an array in an object that goes on: text that is not one whole JSON value
    breaks the array, makes it longer, or loses the end."""
    return F.concat(F.lit('{"row":['), text, F.lit('],"end":1}'))


def _typed(value: Column, kind: str) -> Column:
    return _instant(value) if kind == "timestamp" else value


def _instant(said: Column) -> Column:
    """ISO 8601 (without a zone: UTC), or a number of seconds since 1970 as Spark's JSON reader takes it.

    Null for anything else, and outside the years 1 to 9999. Digits behind the microsecond are cut off.
    """
    text = F.upper(said)
    seconds = text.try_cast("decimal(27,9)")
    micros = F.when(F.abs(seconds) < 10**12, (seconds * 1_000_000).cast("bigint"))
    at = F.when(text.rlike(_ISO), text.try_cast("timestamp")).when(text.rlike(_SECONDS), F.timestamp_micros(micros))
    return F.when(F.unix_micros(at).between(*_YEARS_1_TO_9999), at)


def _reason(
    pipeline: Pipeline, topic: str, declared: dict[str, str], row: Column, event_time: Column, ahead: Column
) -> Column:
    """The first reason to quarantine, or null. `row`: what the JSON reader made of the record, times as text."""
    streams = pipeline.streams_of(topic)
    selected = [F.coalesce(F.expr(s.where), F.lit(False)) if s.where else F.lit(True) for s in streams]
    wrong = [row.getField(n).isNotNull() & F.col(n).isNull() for n, k in declared.items() if k == "timestamp"]
    keyless = [
        any_of([F.col(k).isNull() for k in s.key]) if isinstance(s, RightStream) and s.role == "label" else F.lit(False)
        for s in streams
    ]
    accepted_by_none = all_of([~chosen | lost for chosen, lost in zip(selected, keyless, strict=True)])
    corrupt = F.col("_parsed._corrupt").isNotNull()
    text = F.col("_kafka_value").cast("string")
    whole = (F.size("_parsed.row") == 1) & F.col("_parsed.end").isNotNull()
    one_row = F.coalesce(whole & row.isNotNull(), F.lit(False))
    not_an_object = F.json_object_keys(text).isNull() | F.try_parse_json(_wrapped(text)).isNull()
    return (
        F.when(F.col("_unreadable").isNotNull(), F.col("_unreadable"))
        .when(F.when(corrupt, not_an_object).otherwise(~one_row), "malformed")
        .when(ahead, "event_time_ahead")
        .when(~any_of(selected), F.lit(None))
        .when(corrupt | any_of(wrong), "wrong_type")
        .when(any_of([_not_finite(F.col(n), k) for n, k in declared.items()]), "not_finite")
        .when(event_time.isNull(), "event_time_missing")
        .when(accepted_by_none, "null_key")
    )


def _not_finite(value: Column, kind: str) -> Column:
    """Infinity by overflow: JSON itself has no word for it, and a model no use. NaN is Spark's greatest number."""
    most, least = (F.array_max(value), F.array_min(value)) if kind.startswith("array") else (value, value)
    if kind.removeprefix("array<").removesuffix(">") in ("float", "double"):
        return F.coalesce((most >= float("inf")) | (least == float("-inf")), F.lit(False))
    return F.lit(False)
