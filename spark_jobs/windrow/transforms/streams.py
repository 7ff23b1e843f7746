"""The rows that one stream contributes to a join: readable rows of a stretch of event time, each event once.

landing rows ─▶ readable, in the stretch ─▶ `where` ─▶ no canary ─▶ least row id of each (event id, event time)
                                            filtered     canary       duplicate

Rows of the same event are found in two steps, so that payloads are not shuffled: a hash of the event id shows which
ids can repeat at all (few do), and only rows with such a hash are compared by event id and event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import ERASED, EVENT_TIME, QUARANTINED, ROW_ID, UNREADABLE_VALUES
from windrow.config import RightStream, Stream
from windrow.semantics.match import KeyRange, Mark
from windrow.semantics.records import Gap
from windrow.transforms.conditions import all_of, any_of
from windrow.transforms.expressions import value_of
from windrow.transforms.given import given


@dataclass(frozen=True)
class StreamRows:
    """Rows of one stream: `read` is `kept`, `duplicates`, `canaries` and the filtered rows, without overlap."""

    stream: Stream
    read: DataFrame
    """every readable row of the stretch, with booleans `_filtered`: excluded by `where`, and `_canary`: a canary"""
    kept: DataFrame
    """the rows that are joined"""
    duplicates: DataFrame
    """row ids and event times of producer retries that lost against a lesser row id (rule 11)"""
    repeated: DataFrame | None
    """`_hash`: hashes of event ids that more than one row has; None if no event id repeats, so that no row is a
    duplicate or in conflict with another"""
    erased: DataFrame | None = None
    """row ids and event times of records of its topics whose key was erased (rule 22); None if no key ever was.
    They are not in `read`"""

    @property
    def canaries(self) -> DataFrame:
        """The rows that are canaries (rule 23); none of them is compared with another by its event id."""
        return self.read.where("_canary").drop("_filtered", "_canary")


@dataclass(frozen=True)
class Inputs:
    """Input of one join. `left` covers all its intervals."""

    left: StreamRows
    rights: Mapping[str, StreamRows]
    doubtful: Mapping[str, DataFrame]
    """label stream → rows that it cannot read and whose key could be read; streams without such a row are absent"""
    gaps: tuple[Gap, ...]
    """accepted gaps that touch a window"""
    most_rows: Mapping[str, int]
    """right stream → how many rows its files have, at most, that can lie in a window"""


def rows_of(
    landing: DataFrame,
    stream: Stream,
    lo: datetime,
    hi: datetime,
    *,
    ends_in: bool,
    mark: Mark | None,
    has_erased: bool = False,
) -> StreamRows:
    """Divide a stream's landing rows into kept, duplicate and filtered ones, canaries, and erased ones.

    Args:
        landing: landing rows of the stream's topics.
        lo, hi: rows with event time in [lo, hi) are read, or in [lo, hi] with `ends_in`.
        mark: says which rows are canaries (`Pipeline.mark_of`).
        has_erased: whether a key of the pipeline was ever erased.
    """
    at = F.col(EVENT_TIME)
    upper = at <= given(hi) if ends_in else at < given(hi)
    readable = F.col(QUARANTINED).isNull() & ~is_unreadable(stream)
    there = landing.where((at >= given(lo)) & upper)
    erased = there.where(F.col(QUARANTINED) == ERASED).select(*ROW_ID, EVENT_TIME) if has_erased else None
    is_left_out = {"_filtered": ~selected(stream), "_canary": selected(stream) & is_canary(mark)}
    read = there.where(readable).withColumns(is_left_out)
    if stream.event_id is None:
        return _without_duplicates(read, stream, erased)
    claims = claims_of(read, stream)
    times = claims.groupBy("_hash").agg(F.count(F.lit(1)).alias("_times"))
    return _divided(read, stream, claims, times.where(F.col("_times") > 1).select("_hash"), erased)


def divided_by(rows: StreamRows, repeated: DataFrame) -> StreamRows:
    """Return the same rows, divided by known hashes of repeating event ids instead of a search for them.

    Args:
        repeated: `_hash` of every event id that more than one row has.
    """
    claims = claims_of(rows.read, rows.stream).join(repeated, on="_hash", how="left_semi")
    return _divided(rows.read, rows.stream, claims, repeated, rows.erased)


def without_repeats(rows: StreamRows) -> StreamRows:
    """Return the same rows for a stretch in which no event id repeats, so that no rows have to be compared.

    Args:
        rows: of a stretch that the caller has found free of repeated event ids.
    """
    return _without_duplicates(rows.read, rows.stream, rows.erased)


def claims_of(read: DataFrame, stream: Stream) -> DataFrame:
    """Readable rows that have an event id, with `_hash` of it.

    Eight bytes per row are shuffled instead of the id. Two ids with one hash only cost a comparison: what is a
    duplicate is decided by the ids themselves.

    Args:
        read: rows of the stream with `_filtered`.
    """
    event_id = F.col(str(stream.event_id))
    return chosen(read).where(event_id.isNotNull()).withColumn("_hash", F.xxhash64(event_id))


def selected(stream: Stream) -> Column:
    """Whether `where` selects a row; a null condition does not.

    >>> from types import SimpleNamespace
    >>> rows = spark.sql("select * from values ('click'), ('view'), (null) as (action)")
    >>> rows.withColumn("selected", selected(SimpleNamespace(where="action = 'click'"))).show()
    +------+--------+
    |action|selected|
    +------+--------+
    | click|    true|
    |  view|   false|
    |  NULL|   false|
    +------+--------+
    <BLANKLINE>
    """
    return F.coalesce(value_of(stream.where), F.lit(False)) if stream.where else F.lit(True)


def is_unreadable(stream: Stream) -> Column:
    """Whether the stream cannot read a row of its topic that was landed for others (`records.unreadable_for`).

    A null `where` leaves a row out, but not where a value of the stream's columns could not be read.

    >>> from types import SimpleNamespace
    >>> stream = SimpleNamespace(where="action = 'click'", columns={"action": "string", "price": "int"}, role="feature")
    >>> rows = spark.sql('''select action, names, timestamp'2026-11-01' as _event_time,
    ...     to_json(if(names is null, null, map(names, 'wrong_type'))) as _unreadable
    ...     from values ('click', 'price'), ('click', 'other'), ('view', 'price'), (null, null) as (action, names)''')
    >>> rows.select("action", "names", is_unreadable(stream).alias("unreadable")).show()
    +------+-----+----------+
    |action|names|unreadable|
    +------+-----+----------+
    | click|price|      true|
    | click|other|     false|
    |  view|price|     false|
    |  NULL| NULL|     false|
    +------+-----+----------+
    <BLANKLINE>
    """
    lost = overlaps(F.json_object_keys(UNREADABLE_VALUES), stream.columns)
    meant = F.coalesce(value_of(stream.where), lost) if stream.where else F.lit(True)
    return meant & (lost | F.col(EVENT_TIME).isNull() | is_keyless(stream))


def is_canary(mark: Mark | None) -> Column:
    """Whether a row has a key that is kept for canaries (rule 23); false without a mark.

    >>> rows = spark.sql("select * from values (899), (900), (null) as (user_id)")
    >>> rows.withColumn("canary", is_canary(Mark((("user_id", (900, 999)),)))).show()
    +-------+------+
    |user_id|canary|
    +-------+------+
    |    899| false|
    |    900|  true|
    |   NULL| false|
    +-------+------+
    <BLANKLINE>
    """
    if mark is None:
        return F.lit(False)
    return all_of([F.coalesce(_is_in(F.col(column), range_), F.lit(False)) for column, range_ in mark.ranges])


def _is_in(value: Column, range_: KeyRange) -> Column:
    if isinstance(range_, str):
        return value.startswith(range_)
    return value.between(F.lit(range_[0]), F.lit(range_[1]))


def is_keyless(stream: Stream) -> Column:
    """Whether a row lacks a part of the key without which it is not a label; false for other streams.

    >>> rows = spark.sql("select * from values (1, 'x'), (1, null), (null, null) as r(user, item)")
    >>> label, feature = (RightStream.model_construct(role=role, key=("user", "item")) for role in ("label", "feature"))
    >>> rows.select("*", is_keyless(label).alias("label"), is_keyless(feature).alias("feature")).show()
    +----+----+-----+-------+
    |user|item|label|feature|
    +----+----+-----+-------+
    |   1|   x|false|  false|
    |   1|NULL| true|  false|
    |NULL|NULL| true|  false|
    +----+----+-----+-------+
    <BLANKLINE>
    """
    if isinstance(stream, RightStream) and stream.role == "label":
        return any_of(F.col(name).isNull() for name in stream.key)
    return F.lit(False)


def overlaps(names: Column, columns: Iterable[str]) -> Column:
    """Whether an array of column names, or null, names one of the columns.

    >>> rows = spark.sql("select * from values (array('price', 'colour')), (array('size')), (null) as r(names)")
    >>> rows.withColumn("overlaps", overlaps(F.col("names"), ["user", "price"])).show()
    +---------------+--------+
    |          names|overlaps|
    +---------------+--------+
    |[price, colour]|    true|
    |         [size]|   false|
    |           NULL|   false|
    +---------------+--------+
    <BLANKLINE>
    """
    return F.coalesce(F.arrays_overlap(names, F.array(*[F.lit(name) for name in columns])), F.lit(False))


def _divided(
    read: DataFrame, stream: Stream, claims: DataFrame, repeated: DataFrame, erased: DataFrame | None
) -> StreamRows:
    duplicates = _duplicates(claims, stream)
    kept = _kept(read).join(duplicates.select(*ROW_ID), on=list(ROW_ID), how="left_anti")
    return StreamRows(stream, read, kept, duplicates, repeated, erased)


def _without_duplicates(read: DataFrame, stream: Stream, erased: DataFrame | None) -> StreamRows:
    kept = _kept(read)
    none = kept.where(F.lit(False)).select(*ROW_ID, EVENT_TIME)
    return StreamRows(stream, read, kept, none, None, erased)


def _kept(read: DataFrame) -> DataFrame:
    return chosen(read).drop("_filtered", "_canary")


def chosen(read: DataFrame) -> DataFrame:
    """Those of the rows in `StreamRows.read` that `where` selects and that are no canaries."""
    return read.where(~F.col("_filtered") & ~F.col("_canary"))


def _duplicates(claims: DataFrame, stream: Stream) -> DataFrame:
    """Rows with the event id and event time of another row that has a lesser row id. Payloads are left out."""
    same = ["_event_id", EVENT_TIME]
    ids = claims.select(F.col(str(stream.event_id)).alias("_event_id"), EVENT_TIME, F.struct(*ROW_ID).alias("_id"))
    several = (
        ids.groupBy(*same)
        .agg(F.min("_id").alias("_winner"), F.count(F.lit(1)).alias("_times"))
        .where(F.col("_times") > 1)
    )
    return ids.join(several, on=same, how="inner").where(F.col("_id") != F.col("_winner")).select("_id.*", EVENT_TIME)
