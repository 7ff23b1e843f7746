"""The reader for Spark: the same arguments, the same pin and the same rows as `windrow.training`, for large reads.

    from windrow.jobs.spark import spark_for
    from windrow.training import spark as training

    rows, pin = training.read(spark_for("training", places), "feed", labels="complete")

What a request means is decided by the modules that Polars uses too; here are only the expressions. One test compares
both readers row by row. Derived labels of cut rows are computed from the pipeline file itself, all of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, Unpack

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.columns import ARRIVED_AT, DATE, EVENT_TIME, PUBLICATION, REASON, ROW_ID, ROW_ORDER, STATE
from windrow.io.delta.session import NO_ERROR_OF_DATA
from windrow.io.registers.snapshots import KeptFiles
from windrow.io.training.states import Rows
from windrow.places import Places
from windrow.semantics.intervals import Interval, micros
from windrow.semantics.labels import DRAINED, SIDE_SILENT
from windrow.training import credit, sample, splits, survival
from windrow.training.hashing import SIZE, threshold
from windrow.training.maturity import MICROSECOND_IN_SECONDS
from windrow.training.observed import Observed, label_streams, numbers_by
from windrow.training.opening import Opened, Options, Time, opened, opened_again, opened_parts
from windrow.training.pin import Pin
from windrow.training.request import Request, WrongRequest
from windrow.transforms.expressions import value_of

_NEVER = -(2**62)
_FACTS = "_facts_"
"""Prefix of the columns that a row gets from its publication, and loses again."""


class Read(NamedTuple):
    """Rows, and the pin that reads them again, with either reader."""

    rows: DataFrame
    pin: Pin


def read(
    session: SparkSession,
    pipeline: str,
    start: Time | None = None,
    end: Time | None = None,
    *,
    at: int | Time | None = None,
    places: Places | None = None,
    **options: Unpack[Options],
) -> Read:
    """Return the rows that were served in [start, end), and their pin: `windrow.training.read` for Spark.

    Args:
        session: as Windrow starts it; its workers share the location of the tables.
    """
    return _read(session, opened(pipeline, start, end, at, places, options))


def read_pinned(session: SparkSession, pin: Pin | str, *, places: Places | None = None) -> Read:
    """Return the rows of a pin again, whichever reader made it: `windrow.training.read_pinned` for Spark."""
    return _read(session, opened_again(pin, places))


def split(
    session: SparkSession,
    pipeline: str,
    start: Time | None = None,
    end: Time | None = None,
    *,
    parts: Sequence[str] | Mapping[str, float],
    cuts: Sequence[Time] = (),
    by: str | None = None,
    at: int | Time | None = None,
    places: Places | None = None,
    **options: Unpack[Options],
) -> dict[str, Read]:
    """Return the parts of a range, of which no two share a label event: `windrow.training.split` for Spark."""
    made = opened_parts(pipeline, start, end, at, places, options, parts=parts, cuts=cuts, by=by)
    reads = {name: _read(session, one) for name, one in made.opened.items()}
    for stream in made.compared:
        shared = _shared_labels([one.rows for one in reads.values()], stream)
        splits.refuse_shared_labels(shared, stream, by, made.key)
    return reads


def _read(session: SparkSession, one: Opened) -> Read:
    request, observed = one.pin.request, one.observed
    every = _scanned(session, one.rows.within(one.pin.span) if isinstance(one.rows, KeptFiles) else one.rows)

    def published(span: Interval) -> DataFrame:
        rows = _with_facts(session, _within(every, span), observed, request.matured)
        return rows if request.matured is None else _matured(rows, observed, request.matured)

    rows = _sampled(_in_share(_labelled(published(request.range), request), request), request)
    if request.matured is not None:
        rows = _with_derived_labels(session, rows, every, observed)
    if request.delays:
        rows = _with_delays(rows, observed)
    if request.survival is not None:
        rows = _with_survival(rows, request.survival)
    rows = rows.drop(*[name for name in rows.columns if name.startswith(_FACTS)])
    if request.attribute is not None:
        rows = _credited(rows, published(one.pin.span), request.attribute, label_streams(observed))
    return Read(rows, one.pin)


def _scanned(session: SparkSession, source: Rows) -> DataFrame:
    if not isinstance(source, KeptFiles):
        return session.read.format("delta").option("versionAsOf", source.version()).load(source.table_uri)
    columns = StructType.fromJson(json.loads(source.columns))
    if not source.files:
        return session.createDataFrame([], columns)
    files = session.read.schema(columns).option("basePath", source.path).parquet(*source.locations)
    return files.select(*columns.names)


def _within(rows: DataFrame, span: Interval) -> DataFrame:
    at, day = F.col(EVENT_TIME), F.col(DATE)
    days = day.between(F.lit(span.start.date()), F.lit(span.end.date()))
    return rows.where(days & (at >= F.lit(span.start)) & (at < F.lit(span.end)))


def _labelled(rows: DataFrame, request: Request) -> DataFrame:
    if request.labels == "complete":
        return rows.where(F.col(REASON).isNull())
    return rows.where(F.col(STATE) != "unknown") if request.labels == "known" else rows


# ---- what publications knew


def _with_facts(
    session: SparkSession, rows: DataFrame, observed: Sequence[Observed], matured: timedelta | None
) -> DataFrame:
    """Add what the publication of a row knew: `silent_from`, and for each label stream its window and how far it was
    heard, in microseconds."""
    if not observed:
        return rows
    names = label_streams(observed)
    table = pa.Table.from_pylist([_facts(one, names, matured) for one in observed])
    facts = F.broadcast(session.createDataFrame(table))
    return rows.join(facts, rows[PUBLICATION] == facts[_FACTS + PUBLICATION], "left")


def _facts(one: Observed, names: Sequence[str], matured: timedelta | None) -> dict[str, int | bool | None]:
    found: dict[str, int | bool | None] = {
        PUBLICATION: one.number,
        "silent_from": micros(one.silent_from(matured)),
    }
    for name in names:
        stream, heard = one.stream(name), one.heard.get(name)
        found |= {
            f"after_{name}": micros(one.after(name, matured)),
            f"heard_{name}": _NEVER if heard is None else micros(heard),
            f"ignores_{name}": stream is not None and stream.silence == "negative",
            f"inner_{name}": stream is not None and stream.join == "inner",
        }
    return {_FACTS + name: value for name, value in found.items()}


def _fact(name: str) -> Column:
    return F.col(_FACTS + name)


# ---- labels cut to a shorter window; the reasons are in `maturity`


def _matured(rows: DataFrame, observed: Sequence[Observed], after: timedelta) -> DataFrame:
    streams, at = label_streams(observed), F.unix_micros(EVENT_TIME)
    for name in streams:
        in_time = F.filter(name, lambda label: F.unix_micros(label[EVENT_TIME]) - at <= micros(after))
        rows = rows.withColumn(name, in_time)
    has_label = F.lit(False)
    for name in streams:
        has_label = has_label | (F.coalesce(F.size(name), F.lit(0)) > 0)
        rows = rows.where(~_fact(f"inner_{name}") | (F.size(name) > 0))
    heard = F.col(REASON).isin(SIDE_SILENT, DRAINED) & (at < _fact("silent_from"))
    rows = rows.withColumn(REASON, F.when(F.coalesce(heard, F.lit(False)), None).otherwise(F.col(REASON)))
    doubted = F.col(REASON).isNotNull() & (F.col(REASON) != DRAINED)
    state = F.when(has_label, "positive").when(doubted, "unknown").otherwise("negative")
    return rows.withColumn(STATE, state)


def _with_derived_labels(
    session: SparkSession, rows: DataFrame, table: DataFrame, observed: Sequence[Observed]
) -> DataFrame:
    """Compute the derived labels again, by the expressions of the pipeline file."""
    labels = list(dict.fromkeys(label for one in observed for label in one.pipeline.labels))
    missing = [f"{name}={value}" for name, value in NO_ERROR_OF_DATA.items() if session.conf.get(name) != value]
    if labels and missing:
        raise WrongRequest(
            "matured: labels are computed as in a join, and this session has other settings: set "
            f"{', '.join(missing)}, or start it with windrow.jobs.spark.spark_for"
        )
    types = dict(table.dtypes)
    for label in labels:
        texts = numbers_by({one.number: one.pipeline.labels.get(label) for one in observed})
        value = F.lit(None)
        for text, numbers in texts.items():
            made = F.lit(None) if text is None else value_of(text)
            value = made if len(texts) == 1 else F.when(F.col(PUBLICATION).isin(list(numbers)), made).otherwise(value)
        rows = rows.withColumn(label, F.when(F.col(STATE) != "unknown", value).cast(types[label]))
    return rows


# ---- delays and survival


def _with_delays(rows: DataFrame, observed: Sequence[Observed]) -> DataFrame:
    for name in label_streams(observed):
        rows = (
            rows.withColumn(f"_delay_{name}", _delays(name, EVENT_TIME))
            .withColumn(f"_arrival_{name}", _delays(name, ARRIVED_AT))
            .withColumn(f"_age_{name}", _seconds(_age(name)))
        )
    return rows


def _with_survival(rows: DataFrame, name: str) -> DataFrame:
    first = F.try_element_at(F.col(name), F.lit(1))[EVENT_TIME]
    delay = F.unix_micros(first) - F.unix_micros(EVENT_TIME)
    is_seen = F.coalesce(delay < _seen(name), F.lit(False))
    duration = F.when(is_seen, F.greatest(delay, F.lit(0))).otherwise(_age(name))
    rows = rows.withColumn(survival.DURATION, _seconds(duration)).withColumn(survival.CENSORED, ~is_seen)
    return rows if sample.WEIGHT in rows.columns else rows.withColumn(sample.WEIGHT, F.lit(1.0))


def _age(name: str) -> Column:
    return F.greatest(F.lit(0), F.least(_seen(name), _fact(f"after_{name}")))


def _seen(name: str) -> Column:
    """Microseconds after serving before which the labels of a stream were heard (`maturity.seen`)."""
    beyond = _fact(f"after_{name}") + 1
    return (
        F.when(F.col(REASON).isNull() | (F.col(REASON) == DRAINED), beyond)
        .when(F.col(REASON) != SIDE_SILENT, F.lit(_NEVER))
        .when(_fact(f"ignores_{name}"), beyond)
        .when(_fact(f"heard_{name}") == _NEVER, F.lit(_NEVER))
        .otherwise(_fact(f"heard_{name}") - F.unix_micros(EVENT_TIME))
    )


def _delays(name: str, of: str) -> Column:
    at = F.unix_micros(EVENT_TIME)
    return F.transform(name, lambda label: _seconds(F.unix_micros(label[of]) - at))


def _seconds(micros: Column) -> Column:
    return micros.cast("double") * F.lit(MICROSECOND_IN_SECONDS)


# ---- samples, parts, credits


def hash_of(numbers: Sequence[int], columns: Sequence[tuple[str, str]]) -> Column:
    """Return the hash of `hashing.hash_of`, which is Spark's own over bigint columns.

    Args:
        columns: names with their types, as `DataFrame.dtypes` has them.
    """
    first = [F.lit(number).cast("bigint") for number in numbers]
    values = [
        F.crc32(F.encode(F.col(name), "UTF-8")) if kind == "string" else F.col(name).cast("bigint")
        for name, kind in columns
    ]
    return F.pmod(F.hash(*first, *values).cast("bigint"), F.lit(SIZE))


def _in_share(rows: DataFrame, request: Request) -> DataFrame:
    if request.share is None:
        return rows
    column = request.share.column
    hashed = hash_of((request.seed, splits.PURPOSE), [(column, dict(rows.dtypes)[column])])
    return rows.where((hashed >= threshold(request.share.low)) & (hashed < threshold(request.share.high)))


def _sampled(rows: DataFrame, request: Request) -> DataFrame:
    if request.negatives is None:
        return rows
    share, is_negative, types = request.negatives, F.col(STATE) == "negative", dict(rows.dtypes)
    chosen = hash_of((request.seed, sample.PURPOSE), [(name, types[name]) for name in ROW_ID]) < threshold(share)
    return (
        rows.where(~is_negative | chosen)
        .withColumn(sample.WEIGHT, F.when(is_negative, 1 / share).otherwise(1.0))
        .withColumn(sample.LOGIT_OFFSET, F.lit(-math.log(share)))
    )


def _credited(rows: DataFrame, touched: DataFrame, attribute: str, streams: Sequence[str]) -> DataFrame:
    for stream in streams:
        name = credit.column(stream)
        rows = rows.join(_credits(touched, stream, attribute), on=list(ROW_ID), how="left").select(
            *rows.columns, F.coalesce(name, F.array().cast("array<double>")).alias(name)
        )
    return rows


def _credits(touched: DataFrame, stream: str, attribute: str) -> DataFrame:
    """The credits of each row with a label of the stream, by row id."""
    label = [f"label{name}" for name in ROW_ID]
    pairs = touched.select(*ROW_ORDER, F.posexplode(stream).alias("position", "label")).select(
        *ROW_ORDER, "position", *[F.col("label")[name].alias(f"label{name}") for name in ROW_ID]
    )
    of = F.count(F.lit(1)).over(Window.partitionBy(*label))
    nth = F.row_number().over(Window.partitionBy(*label).orderBy(*ROW_ORDER)).cast("bigint") - 1
    shares = pairs.withColumn("nth", nth).withColumn("of", of).withColumn("share", _share(attribute))
    shared = F.sort_array(F.collect_list(F.struct("position", "share")))["share"]
    return shares.groupBy(*ROW_ID).agg(shared.alias(credit.column(stream)))


def _share(attribute: str) -> Column:
    if attribute == "linear":
        unit = credit.UNIT
        return F.expr(f"((nth + 1) * {unit}L div of - nth * {unit}L div of) / {unit}D")
    chosen = {"all": F.lit(True), "first_touch": F.col("nth") == 0, "last_touch": F.col("nth") == F.col("of") - 1}
    return chosen[attribute].cast("double")


def _shared_labels(parts: Sequence[DataFrame], stream: str) -> int:
    """How many label events of a stream are in two parts or more."""
    labels = (rows.select(F.explode(stream).alias("label")) for rows in parts)
    events = [rows.select(*[f"label.{name}" for name in ROW_ID]) for rows in labels]
    every = events[0].distinct()
    for other in events[1:]:
        every = every.unionByName(other.distinct())
    return every.groupBy(*ROW_ID).count().where("count > 1").count()
