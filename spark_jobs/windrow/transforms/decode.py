"""Kafka records to landing rows: one row per record, either good or quarantined with a reason.

    record ─▶ tombstone? too large? ─▶ one JSON object, or a record of its writer's schema? ─▶ trusted event time?
           ─▶ values that are not of their column's type: `_unreadable`
              (a JSON record that is plain beyond doubt takes a shorter way to here: `plain`)
           ─▶ each stream: selected by `where`? its own columns, event time, key readable?
           ─▶ landing row; `_quarantined` is null, or the first reason that applies

A record is quarantined if no stream that is meant to read it can. A record that no stream's `where` selects is landed
and counts as filtered, whatever its payload. `_raw` keeps the bytes of whatever could not be read as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import (
    ARRIVED_AT,
    BAD_UTF8,
    BATCH,
    EPOCH,
    EVENT_TIME,
    LANDING_META,
    LANDING_TYPES,
    MALFORMED,
    OFFSET,
    PARTITION,
    QUARANTINED,
    RAW,
    RAW_ENVELOPE,
    RAW_ENVELOPE_TYPE,
    RECONSIDERED,
    RECORD_AT,
    TOMBSTONE,
    TOO_LARGE,
    TOPIC,
    UNFRAMED,
    UNREADABLE,
    UNREADABLE_BEGINNINGS,
    UNREADABLE_VALUES,
)
from windrow.config import Pipeline, Stream
from windrow.config.column_types import ColumnType, parse_type
from windrow.config.formats import Format
from windrow.config.origins import KeyFormat, Origin
from windrow.semantics.intervals import shifted
from windrow.semantics.landing.batch import Batch
from windrow.transforms import envelope, exact, names, plain
from windrow.transforms.conditions import any_of
from windrow.transforms.expressions import value_of
from windrow.transforms.formats import framing
from windrow.transforms.formats.schemas import Schemas
from windrow.transforms.given import given
from windrow.transforms.streams import is_keyless, overlaps

_KAFKA = ("value", "topic", "partition", "offset", "timestamp", "timestampType")
_ENVELOPE = ("key", "headers")
_CREATE_TIME, _LOG_APPEND_TIME = 0, 1
"""Kinds of `timestampType`: set by the producer, set by the broker. A record without a timestamp has -1."""
_ISO = r"^[+-]?\d{4,6}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?\s*(Z|UTC|[+-]\d{2}(:?\d{2})?)?$"
_SECONDS = r"^-?\d{1,12}(\.\d{1,99})?(E[+-]?\d{1,2})?$"
_YEARS_1_TO_9999 = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds since 1970 of the instants that every reader of the tables can represent."""
_JSON = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowNonNumericNumbers": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS][XXX]",  # inside structs and arrays
    "dateFormat": "yyyy-MM-dd",
}
_STRICT = {"allowSingleQuotes": "false"}
"""For the record itself: in single quotes it is no JSON."""
_BETWEEN = "\x1f"
"""Separates names of columns; no name holds a control character."""


def decode(
    records: DataFrame,
    pipeline: Pipeline,
    batch: Batch,
    schemas: Schemas | None = None,
    *,
    is_complete: bool = True,
    careful: bool = False,
    look: names.Look = "first",
) -> DataFrame:
    """Decode the records of a batch.

    Args:
        records: columns of Spark's Kafka source (value, topic, partition, offset, timestamp, timestampType; key and
            headers where columns come from them); those of a batch that reconsiders also have `reconsidered`
            (`records_of`).
        batch: the batch that lands them; gives topic, epoch, batch number and landing time.
        schemas: the known schemas of producers, where the topic's format needs them.
        is_complete: whether a schema that is not among them is unknown (`unknown_schema:<id>`). If not, Spark fails at
            the first record of one, with `framing.NEW_SCHEMA` in its message.
        careful: whether all records are read the careful way; the rows are the same (`plain`).
        look: whether a record is looked at before it is parsed a second time; the rows are the same (`names`).

    Returns:
        One row per record: `LANDING_META`, `_raw`, `_raw_envelope` where columns come from keys or headers, then the
        columns of all streams that read the topic.
    """
    landed_at = given(batch.landed_at)
    declared = pipeline.topic_columns(batch.topic)
    origins = pipeline.origins(batch.topic)
    types = {name: parse_type(kind) for name, kind in declared.items() if name not in origins}
    outer = {name: parse_type(declared[name]) for name in origins}
    has_envelope = pipeline.takes_envelope(batch.topic)
    # Payload columns may have the names of Kafka's columns.
    original = F.lit(None) if batch.reconsidered is None else F.col("reconsidered")
    taken = (*_KAFKA, *(_ENVELOPE if has_envelope else ()))
    renamed = records.select(*[F.col(n).alias(f"_kafka_{n}") for n in taken], original.alias("_kafka_reconsidered"))
    if origins:
        renamed = _with_envelope(renamed, origins, outer, pipeline.key_format(batch.topic), pipeline.max_record_bytes)
    of = pipeline.format(batch.topic)
    if of.needs_schemas:
        known = schemas if schemas is not None else {}
        typed = _decoded(renamed, types, pipeline.max_record_bytes, of, known, is_complete=is_complete)
        unread = F.coalesce("_unusable", "_parsed.reason")
    else:
        raw = F.col("_kafka_value")
        framed = (
            renamed.withColumns({"_record": raw, "_kafka_value": framing.payload(raw)}) if of.is_framed else renamed
        )
        max_bytes = pipeline.max_record_bytes - (framing.LENGTH if of.is_framed else 0)
        looked = framed if careful else plain.with_plain(framed, types, max_bytes)
        row = F.get("_parsed.row", F.lit(0))
        typed = plain.with_both(_typed_json(_parse(looked, types, pipeline.max_record_bytes), row, types), types)
        unread = F.when(plain.is_careful(looked), _unread_json(list(types), row, look))
    if origins:
        typed = _with_both(typed, list(outer))

    is_stamped = F.col("_kafka_timestampType") == _LOG_APPEND_TIME
    stamp = F.col("_kafka_timestamp")
    if batch.reconsidered is not None:  # the topic may be stamped only since these records were written
        stamp = F.least(stamp, landed_at)
    latest = given(shifted(batch.landed_at, pipeline.max_skew))
    trusted_until = F.when(is_stamped, stamp + F.lit(pipeline.max_skew)).otherwise(latest)
    event_time = F.col(pipeline.event_time(batch.topic))
    is_ahead = F.coalesce(event_time > trusted_until, F.lit(False))
    judged = typed.withColumn(QUARANTINED, _reason(pipeline, batch.topic, unread, event_time, is_ahead))

    # Columns of an unreadable record hold what the JSON reader made of a part of it. This and `is_unfit` are columns,
    # because a condition within each column is more code than Java compiles.
    is_unread = F.coalesce(_is_whole_record_bad(F.col(QUARANTINED)), F.lit(False))
    is_unfit = F.col("_wrong").isNotNull() | F.col("_not_finite").isNotNull()
    judged = judged.withColumns({"_is_read": ~is_unread, "_is_unfit": is_unfit})
    is_read = F.col("_is_read")
    meta = {
        EVENT_TIME: F.when(is_read & ~is_ahead, event_time),
        TOPIC: F.col("_kafka_topic"),
        EPOCH: given(batch.epoch, "int"),
        PARTITION: F.col("_kafka_partition"),
        OFFSET: F.col("_kafka_offset"),
        BATCH: given(batch.number),
        ARRIVED_AT: landed_at,
        RECORD_AT: F.when(F.col("_kafka_timestampType") >= _CREATE_TIME, F.col("_kafka_timestamp")),
        QUARANTINED: F.col(QUARANTINED),
        UNREADABLE_VALUES: F.when(is_read & F.col("_is_unfit"), _reasons_by_column()),
        RECONSIDERED: F.col("_kafka_reconsidered"),
        RAW: F.when(
            F.col(QUARANTINED).isNotNull() | F.col("_is_unfit"),
            F.col("_record" if "_record" in judged.columns else "_kafka_value"),
        ),
    }
    if has_envelope:
        around = F.struct(*[F.col(f"_kafka_{name}").alias(name) for name in _ENVELOPE]).cast(RAW_ENVELOPE_TYPE)
        meta[RAW_ENVELOPE] = F.when(meta[RAW].isNotNull(), around)
    kept = (*LANDING_META, RAW, *((RAW_ENVELOPE,) if has_envelope else ()))
    return judged.select(
        *[meta[name].cast(LANDING_TYPES.get(name, RAW_ENVELOPE_TYPE)).alias(name) for name in kept],
        *[F.when(is_read, F.col(name)).alias(name) for name in declared],
    )


def _typed_json(parsed: DataFrame, row: Column, types: Mapping[str, ColumnType]) -> DataFrame:
    """Add the declared columns to `_parse`d records, and `_wrong` and `_not_finite`: names of columns without a value.

    Args:
        row: the record as the JSON reader read it.
    """
    values = {name: _typed(row.getField(name), name, kind) for name, kind in types.items()}
    strings = {name: kind for name, kind in types.items() if exact.has_strings(kind)}
    differs = exact.may_differ({name: row.getField(name) for name in strings}, strings) if strings else F.lit(False)
    typed = parsed.select("*", *[value.alias(name) for name, value in values.items()], differs.alias("_differs"))
    written = {name: _as_written(name, kind) for name, kind in strings.items()}
    return typed.withColumns({**written, "_wrong": _wrong(row, types, written), "_not_finite": _not_finite(types)})


def _with_envelope(
    records: DataFrame,
    origins: Mapping[str, Origin],
    types: Mapping[str, ColumnType],
    key_format: KeyFormat | None,
    max_bytes: int,
) -> DataFrame:
    """Add `_envelope` to records: `values` of the columns that come from it, and names in `wrong` and `not_finite`.

    A key of JSON is read as the value of a record is, and so are texts, as the fields of one object.
    """
    of_key = {name: kind for name, kind in types.items() if origins[name].part == "key" and key_format == "json"}
    simple = {n: kind for n, kind in types.items() if n not in of_key and origins[n].part != "timestamp"}
    raw = {name: envelope.bytes_of(origins[name]) for name in simple}
    texts = {n: envelope.text_of(raw[n], key_format if origins[n].part == "key" else None) for n in simple}
    read = {name: kind for name, kind in simple.items() if kind.name not in envelope.AS_IT_IS}
    parts: list[str] = []
    for part, text, fields in (
        ("_key", F.col("_kafka_key"), of_key),
        ("_words", envelope.as_object({name: texts[name] for name in read}, read), read),
    ):
        if fields:
            records = _read_object(records, text, fields, max_bytes, part)
            parts.append(part)

    stamp = F.when(F.col("_kafka_timestampType") >= _CREATE_TIME, F.col("_kafka_timestamp"))
    is_in_range = F.unix_micros(stamp).between(*_YEARS_1_TO_9999)
    values, wrong = {}, {}
    for name, kind in types.items():
        if name in of_key or name in read:
            values[name] = F.col("_key" if name in of_key else "_words").getField("values").getField(name)
        elif name in simple:
            values[name] = raw[name] if kind.name == "binary" else texts[name]
        else:
            values[name], wrong[name] = F.when(is_in_range, stamp), F.coalesce(~is_in_range, F.lit(False))
        if name in simple and kind.name != "binary":
            wrong[name] = raw[name].isNotNull() & texts[name].isNull()
    unread = F.when(any_of(wrong.values()), _named(wrong))
    return records.withColumn(
        "_envelope",
        F.struct(
            F.struct(*[value.alias(name) for name, value in values.items()]).alias("values"),
            _all_names(unread, *[F.col(part).getField("wrong") for part in parts]).alias("wrong"),
            _all_names(*[F.col(part).getField("not_finite") for part in parts]).alias("not_finite"),
        ),
    )


def _read_object(
    records: DataFrame, text: Column, types: Mapping[str, ColumnType], max_bytes: int, into: str
) -> DataFrame:
    """Add a column to records: `values` of a JSON object's fields, and names in `wrong` and `not_finite`.

    Args:
        text: the object, in UTF-8. Of null no field is wrong, and of what is no readable object every one.
    """
    packed = records.select(F.struct("*").alias("_of"), text.cast("binary").alias("_kafka_value"))
    row = F.get("_parsed.row", F.lit(0))
    typed = _typed_json(_parse(packed, types, max_bytes), row, types)
    unread = _unread_json(list(types), row, "first")
    values = F.struct(*[F.when(unread.isNull(), F.col(name)).alias(name) for name in types])
    every = F.when(F.col("_kafka_value").isNotNull(), F.array(*[F.lit(name) for name in types]))
    wrong = F.when(unread.isNull(), F.col("_wrong")).otherwise(every)
    not_finite = F.when(unread.isNull(), F.col("_not_finite"))
    read = F.struct(values.alias("values"), wrong.alias("wrong"), not_finite.alias("not_finite"))
    return typed.select("_of.*", read.alias(into))


def _with_both(typed: DataFrame, names: Sequence[str]) -> DataFrame:
    """Add the columns that come from the envelope to those that come from the value."""
    values = {name: F.col("_envelope.values").getField(name) for name in names}
    wrong = _all_names(F.col("_wrong"), F.col("_envelope.wrong"))
    return typed.withColumns(
        {**values, "_wrong": wrong, "_not_finite": _all_names(F.col("_not_finite"), F.col("_envelope.not_finite"))}
    )


def _all_names(*several: Column) -> Column:
    """Names of several arrays, of which some may be null; null if all are."""
    nothing = F.array().cast("array<string>")
    if not several:
        return F.lit(None).cast("array<string>")
    return F.when(any_of(one.isNotNull() for one in several), F.concat(*[F.coalesce(one, nothing) for one in several]))


def _decoded(
    records: DataFrame,
    types: Mapping[str, ColumnType],
    max_bytes: int,
    of: Format,
    schemas: Schemas,
    *,
    is_complete: bool,
) -> DataFrame:
    """Add what `_parse` and `_typed_json` add, for records that are read by the schemas of their writers."""
    from windrow.transforms.formats.records import reader, result_ddl  # most pipelines need none of its libraries

    unusable = F.when(F.col("_kafka_value").isNull(), TOMBSTONE).when(
        F.octet_length("_kafka_value") > max_bytes, TOO_LARGE
    )
    records = records.withColumn("_unusable", unusable)
    value = F.when(F.col("_unusable").isNull(), F.col("_kafka_value"))
    if not is_complete:
        value = framing.known_only(value, schemas)
    read = F.arrow_udf(reader(of, types, schemas), returnType=result_ddl(types))  # type: ignore[call-overload]
    parsed = records.withColumn("_parsed", read(value))
    row, wrong = F.col("_parsed.row"), F.col("_parsed.wrong")
    columns = {name: row.getField(name) for name in types}
    return parsed.withColumns({**columns, "_wrong": wrong, "_not_finite": F.col("_parsed.not_finite")})


def _is_whole_record_bad(reason: Column) -> Column:
    """Whether a reason says that nothing of a record could be read."""
    return reason.isin(*UNREADABLE) | any_of(reason.startswith(beginning) for beginning in UNREADABLE_BEGINNINGS)


def records_of(quarantined: DataFrame, *, is_stamped: bool, with_envelope: bool = False) -> DataFrame:
    """Quarantined landing rows as the records that they were, for `decode`.

    Args:
        is_stamped: whether the broker stamps the records of the topic (LogAppendTime).
        with_envelope: whether columns come from keys or headers; a row that was quarantined before they were kept is
            left out.
    """
    if with_envelope:
        if RAW_ENVELOPE not in quarantined.columns:
            quarantined = quarantined.withColumn(RAW_ENVELOPE, F.lit(None).cast(RAW_ENVELOPE_TYPE))
        quarantined = quarantined.where(F.col(RAW_ENVELOPE).isNotNull())
    kept = [F.col(RAW_ENVELOPE).getField(name).alias(name) for name in (_ENVELOPE if with_envelope else ())]
    kind = F.when(F.col(RECORD_AT).isNotNull(), _LOG_APPEND_TIME if is_stamped else _CREATE_TIME).otherwise(-1)
    columns = {"value": RAW, "topic": TOPIC, "partition": PARTITION, "offset": OFFSET, "timestamp": RECORD_AT}
    return quarantined.select(
        *[F.col(name).alias(as_kafka) for as_kafka, name in columns.items()],
        kind.alias("timestampType"),
        *kept,
        F.col(BATCH).alias("reconsidered"),
    )


def _parse(records: DataFrame, declared: Mapping[str, ColumnType], max_bytes: int) -> DataFrame:
    """Add `_unusable`, a reason or null, `_parsed`, the JSON reader's result, null where unusable, and `_texts`.

    All are null for a record that was read the plain way.
    `_texts` holds the values of a record as text, where the JSON reader found one that is not of its column's type.
    Instants are read as text and converted by `_instant`: Spark's JSON reader would take "12:30" for today.
    """
    read_as = {name: _read_as(kind) for name, kind in declared.items()}
    text = F.col("_kafka_value").cast("string")
    unusable = (
        F.when(F.col("_kafka_value").isNull(), TOMBSTONE)
        .when(F.octet_length("_kafka_value") > max_bytes, TOO_LARGE)
        .when(~F.is_valid_utf8(text), BAD_UTF8)
    )
    if "_record" in records.columns:
        of_frame = F.when(F.col("_record").isNull(), TOMBSTONE).when(F.octet_length("_record") > max_bytes, TOO_LARGE)
        unusable = F.coalesce(of_frame, F.when(F.col("_kafka_value").isNull(), UNFRAMED), unusable)
    is_careful = plain.is_careful(records)
    records = _decimals(records.withColumn("_unusable", F.when(is_careful, unusable)), text, declared)
    whole = F.when(is_careful & F.col("_unusable").isNull(), _wrapped(text))
    parsed = F.from_json(F.when(~F.col("_is_slow"), whole), _schema(read_as), _JSON | _STRICT)
    if any(map(exact.decimals_of, read_as.values())):
        # A number is no boolean, so it is found to be of a wrong type without being read.
        undecimal = {name: _with(kind, "decimal", "boolean") for name, kind in read_as.items()}
        others = F.from_json(F.when(F.col("_is_slow"), whole), _schema(undecimal), _JSON | _STRICT)
        parsed = F.coalesce(parsed, others.try_cast(_schema(read_as)))
    is_corrupt = F.col("_parsed._corrupt").isNotNull()
    as_text = ", ".join(f"`{name}` string" for name in declared)
    texts = F.from_json(F.when(is_corrupt, text), as_text, _JSON)
    return records.withColumn("_parsed", parsed).withColumn("_texts", texts)


def _schema(read_as: Mapping[str, ColumnType]) -> str:
    """Schema of the JSON reader's result for a record that is `_wrapped`."""
    fields = ", ".join(f"`{name}`: {kind}" for name, kind in read_as.items())
    return f"struct<row: array<struct<{fields}>>, end: bigint, _corrupt: string>"


def _wrapped(text: Column) -> Column:
    """A record's text as the only element of an array, followed by a field `end` with the hash of the text.

    Spark's JSON reader ignores text behind the first JSON value. Here such text breaks the array, adds an element or
    hides `end`, so a record that is not exactly one JSON value is noticed. One that closes the array itself would have
    to hold its own hash.

    >>> texts = ['{"a": 1}', '{"a": 1} x', '{"a": 1},{"a": 2}', '{"a": 1}],"end":1}']
    >>> rows = spark.createDataFrame([(text,) for text in texts], "text string")
    >>> parsed = F.from_json(_wrapped(F.col("text")), "row array<struct<a: int>>, end bigint")
    >>> is_end = parsed["end"] == _end(F.col("text"))
    >>> rows.select("text", F.size(parsed["row"]).alias("rows"), is_end.alias("is_end")).show()
    +------------------+----+------+
    |              text|rows|is_end|
    +------------------+----+------+
    |          {"a": 1}|   1|  true|
    |        {"a": 1} x|NULL|  NULL|
    | {"a": 1},{"a": 2}|   2|  true|
    |{"a": 1}],"end":1}|   1| false|
    +------------------+----+------+
    <BLANKLINE>
    """
    return F.concat(F.lit('{"row":['), text, F.lit('],"end":'), _end(text).cast("string"), F.lit("}"))


def _end(text: Column) -> Column:
    """What stands in the field `end` of a text that is `_wrapped`."""
    return F.xxhash64(text)


def _is_variant(text: Column) -> Column:
    """Whether the parser of variants accepts a record as exactly one JSON value; never null."""
    end = F.try_variant_get(F.try_parse_json(_wrapped(text)), "$.end", "bigint")
    return F.coalesce(end == _end(text), F.lit(False))


def _decimals(records: DataFrame, text: Column, declared: Mapping[str, ColumnType]) -> DataFrame:
    """Add `_is_slow`, whether a decimal of the record takes too long to read, and `_is_rounded`: column → whether the
    reader would round a decimal in it, null for a record whose decimals are all read as they are."""
    decimals = {name: of for name, kind in declared.items() if (of := exact.decimals_of(kind))}
    if not decimals:
        return records.withColumn("_is_slow", F.lit(False))
    may_round = F.col("_unusable").isNull() & exact.may_round(text, [_read_as(declared[name]) for name in decimals])
    kinds = {kind: f"_written_{n}" for n, kind in enumerate(sorted(set().union(*decimals.values()), key=str))}
    written = F.when(F.col("_may_round"), exact.marked(text, ""))
    records = records.withColumn("_may_round", may_round).withColumn("_written", written)
    for kind, of_kind in kinds.items():
        records = records.withColumn(of_kind, exact.leaves(F.col("_written"), declared, kind))
    values = {name: [(F.col(kinds[kind]).getField(name), kind) for kind in of] for name, of in decimals.items()}
    is_slow = any_of(exact.is_slow(value) for of in values.values() for value, _ in of)
    is_rounded = F.struct(
        *[any_of(exact.is_rounded(value, kind.arguments[1]) for value, kind in of).alias(n) for n, of in values.items()]
    )
    return records.withColumn("_is_slow", F.col("_may_round") & is_slow).withColumn(
        "_is_rounded", F.when(F.col("_may_round") & ~F.col("_is_slow"), is_rounded)
    )


def _as_written(name: str, kind: ColumnType) -> Column:
    """A column that holds strings, with their text as it stands in the record; null where that is not possible."""
    written = exact.as_written(F.col(name), F.col("_kafka_value").cast("string"), name, kind)
    return F.when(F.col("_differs"), written).otherwise(F.col(name))


def _read_as(kind: ColumnType) -> ColumnType:
    """The type as which the JSON reader reads a value, so that it need not change one to make it fit.

    It would take 200 for -56 in a tinyint, and round a decimal with more digits behind the point than declared. A
    decimal gets all its spare digits behind the point; one of 38 digits has none to spare.

    >>> str(_read_as(parse_type("array<struct<a:tinyint>>"))), str(_read_as(parse_type("decimal(10,2)")))
    ('array<struct<a:smallint>>', 'decimal(38,30)')
    """
    return ColumnType("string") if kind.name == "timestamp" else _widened(kind)


def _widened(kind: ColumnType) -> ColumnType:
    if kind.name == "decimal":
        precision, scale = kind.arguments
        return replace(kind, arguments=(38, scale + 38 - precision))
    name = "smallint" if kind.name == "tinyint" else kind.name
    return replace(kind, name=name, inner=tuple(map(_widened, kind.inner)))


def _with(kind: ColumnType, old: str, new: str) -> ColumnType:
    """A type with another simple type in place of one."""
    if kind.name == old:
        return ColumnType(new)
    return replace(kind, inner=tuple(_with(part, old, new) for part in kind.inner))


def _typed(read: Column, name: str, kind: ColumnType) -> Column:
    """A value of its column's type; null where it would be another value then.

    Args:
        read: the value as the JSON reader read it (`_read_as`).
    """
    if kind.name == "timestamp":
        return _instant(read)
    if exact.decimals_of(kind):
        read = F.when(~F.col("_is_slow") & F.coalesce(~F.col("_is_rounded").getField(name), F.lit(True)), read)
    if _read_as(kind) == kind:
        return read
    typed = read.try_cast(str(kind))
    if kind.inner:  # a map has no equality, and 1.5 has as many zeros in JSON as its type has digits
        again = typed.try_cast(str(_read_as(kind)))
        return F.when(F.to_json(F.struct(read.alias("of"))) == F.to_json(F.struct(again.alias("of"))), typed)
    return F.when(read == typed, typed)


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


def _wrong(row: Column, declared: Mapping[str, ColumnType], written: Mapping[str, Column]) -> Column:
    """Names of the columns whose value is not of their type; null if there is none.

    The JSON reader says that there is one, but not which: the text of each value is compared with what was read of it.
    Should none be found although there is one, all are named.

    Args:
        row: the record as the JSON reader read it (`_read_as`); the declared columns hold its values converted.
        written: the final values of the columns that hold strings.
    """
    values = {name: written.get(name, F.col(name)) for name, kind in declared.items() if _may_be_unfit(kind)}
    unfit = {name: row.getField(name).isNotNull() & value.isNull() for name, value in values.items()}
    wrong = _named({name: unfit.get(name, F.lit(False)) | _is_wrong(name, kind) for name, kind in declared.items()})
    found = F.when(F.size(wrong) > 0, wrong).otherwise(F.array(*[F.lit(name) for name in declared]))
    return F.when(F.col("_parsed._corrupt").isNotNull() | any_of(unfit.values()), found)


def _may_be_unfit(kind: ColumnType) -> bool:
    """Whether `_typed` may refuse what the JSON reader read."""
    return _read_as(kind) != kind or exact.has_strings(kind) or bool(exact.decimals_of(kind))


def _is_wrong(name: str, kind: ColumnType) -> Column:
    """Whether the text of a value in a corrupt record is not of the column's type.

    The reader gives null for a wrong value, but an array or struct with null for a part that is wrong.
    """
    text = F.col("_texts").getField(name)
    if not kind.inner:
        return text.isNotNull() & F.col(name).isNull()
    is_unread = F.col("_is_slow") if exact.decimals_of(kind) else F.lit(False)
    value = F.when(~is_unread, F.concat(F.lit('{"value":'), text, F.lit("}")))
    alone = F.from_json(value, f"value {kind}, _corrupt string", _JSON)
    return text.isNotNull() & (is_unread | alone.getField("_corrupt").isNotNull())


def _not_finite(declared: Mapping[str, ColumnType]) -> Column:
    """Names of the columns that hold an infinite number; null if there is none."""
    is_infinite = {n: _is_infinite(F.col(n), kind) for n, kind in declared.items() if _has_floats(kind)}
    return F.when(any_of(is_infinite.values()), _named(is_infinite))


def _named(conditions: Mapping[str, Column]) -> Column:
    """Array of the names whose condition holds.

    A lambda over an array would keep Spark from compiling the whole row.
    """
    texts = F.concat_ws(_BETWEEN, *[F.when(condition, F.lit(name)) for name, condition in conditions.items()])
    return F.when(texts != "", F.split(texts, _BETWEEN)).otherwise(F.array().cast("array<string>"))


def _reasons_by_column() -> Column:
    """Column → reason as JSON, for the values of a record that could not be read, of which there is one.

    Text, because Delta keeps no statistics of a map: files with such rows are found by their number of nulls.
    """
    nothing = F.array().cast("array<string>")
    wrong, infinite = (F.coalesce(F.col(name), nothing) for name in ("_wrong", "_not_finite"))
    infinite = F.array_except(infinite, wrong)
    reasons = [F.array_repeat(F.lit(why), F.size(of)) for why, of in (("wrong_type", wrong), ("not_finite", infinite))]
    return F.to_json(F.map_from_arrays(F.concat(wrong, infinite), F.concat(*reasons)))


def _unread_json(columns: Sequence[str], row: Column, look: names.Look) -> Column:
    """Why a record is not one readable JSON object, or null.

    Args:
        columns: fields of `row`.
        row: the record as the JSON reader read it.
    """
    text = F.col("_kafka_value").cast("string")
    corrupt = F.col("_parsed._corrupt")
    is_json = names.is_json(text, _is_variant(text), row, corrupt, columns, look)
    # `_corrupt` is set for a value of another type too, and then says nothing about the text around it.
    is_whole = (F.size("_parsed.row") == 1) & (F.col("_parsed.end") == _end(text))
    is_one_row = F.coalesce(is_whole & row.isNotNull(), F.lit(False))
    is_object = F.when(corrupt.isNotNull(), F.json_object_keys(text).isNotNull()).otherwise(is_one_row)
    return F.when(F.col("_unusable").isNotNull(), F.col("_unusable")).when(~(is_json & is_object), MALFORMED)


def _reason(pipeline: Pipeline, topic: str, unread: Column, event_time: Column, is_ahead: Column) -> Column:
    """The first reason to quarantine a record, or null.

    Args:
        unread: why it could not be read as a whole, or null.
        is_ahead: whether the event time is too far in the future to be trusted.
    """
    of_streams = _reason_of_streams(pipeline.streams_of(topic), event_time)
    return F.coalesce(unread, F.when(is_ahead, "event_time_ahead").otherwise(of_streams))


def _reason_of_streams(streams: Sequence[Stream], event_time: Column) -> Column:
    """The first reason for which a stream cannot read a record, or null if one can, or if `where` leaves it out of all.

    It agrees with `streams.is_unreadable`, which each stream asks when it reads the landed rows.
    """
    meant, wrong, infinite, readable = [], [], [], []
    for stream in streams:
        is_wrong, is_infinite = (overlaps(F.col(name), stream.columns) for name in ("_wrong", "_not_finite"))
        is_meant = F.coalesce(value_of(stream.where), is_wrong | is_infinite) if stream.where else F.lit(True)
        meant.append(is_meant)
        wrong.append(is_meant & is_wrong)
        infinite.append(is_meant & is_infinite)
        readable.append(is_meant & ~is_wrong & ~is_infinite & event_time.isNotNull() & ~is_keyless(stream))
    return (
        F.when(~any_of(meant) | any_of(readable), F.lit(None))
        .when(any_of(wrong), "wrong_type")
        .when(any_of(infinite), "not_finite")
        .when(event_time.isNull(), "event_time_missing")
        .otherwise("null_key")
    )


def _has_floats(kind: ColumnType) -> bool:
    return any(part.name in ("float", "double") for part in kind.parts())


def _is_infinite(value: Column, kind: ColumnType) -> Column:
    """Whether a number, or one within an array, map or struct, is infinite; false for null.

    JSON has no word for infinity, but a number beyond the range of its type is read as infinite. In an array of
    numbers, greatest and least value suffice: NaN would be the greatest, and JSON has no word for NaN either.

    Args:
        kind: a type that holds a float or double.

    >>> rows = spark.createDataFrame([([1.0, 2.0],), ([1.0, float("-inf")],), (None,)], "value array<double>")
    >>> rows.select("value", _is_infinite(F.col("value"), parse_type("array<double>")).alias("is_infinite")).show()
    +----------------+-----------+
    |           value|is_infinite|
    +----------------+-----------+
    |      [1.0, 2.0]|      false|
    |[1.0, -Infinity]|       true|
    |            NULL|      false|
    +----------------+-----------+
    <BLANKLINE>
    """
    if kind.name == "struct":
        fields = zip(kind.fields, kind.inner, strict=True)
        return any_of([_is_infinite(value.getField(name), part) for name, part in fields if _has_floats(part)])
    if kind.name == "map":
        parts = zip((F.map_keys(value), F.map_values(value)), kind.inner, strict=True)
        return any_of([_has_infinite(items, part) for items, part in parts if _has_floats(part)])
    if kind.name == "array":
        return _has_infinite(value, kind.inner[0])
    return F.coalesce((value == float("inf")) | (value == float("-inf")), F.lit(False))


def _has_infinite(items: Column, kind: ColumnType) -> Column:
    """Whether an item of an array is infinite, or holds an infinite number; false for a null array."""
    if kind.inner:
        return F.coalesce(F.exists(items, lambda item: _is_infinite(item, kind)), F.lit(False))
    greatest, least = F.array_max(items), F.array_min(items)
    return F.coalesce((greatest == float("inf")) | (least == float("-inf")), F.lit(False))
