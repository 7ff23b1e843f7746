"""Rows of erased keys: found by a join with the hashes of the keys, emptied or left out (rule 22).

    rows ─▶ HMAC-SHA256 of the key columns ─▶ equal to a hash of an erased key? ─▶ `_erased`: its mode, or null

The hash is `semantics.erasure.keys.hash_of` in Spark's own functions. The padded secret is a row of a DataFrame and not
a constant, so that no plan, page or error of Spark shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import (
    ERASED,
    EVENT_TIME,
    PLACE_TYPES,
    QUARANTINED,
    RAW,
    RAW_ENVELOPE,
    REASON,
    RECONSIDERED,
    ROW_ID,
    STATE,
    UNREADABLE_VALUES,
)
from windrow.config import Pipeline
from windrow.semantics.erasure.keys import columns_in, is_within_key
from windrow.transforms.conditions import any_of

MODE = "_erased"
"""Column with the mode of the erased key of a row; null where its key was not erased."""
_OF_PAYLOAD = (RAW, RAW_ENVELOPE, UNREADABLE_VALUES, *PLACE_TYPES)
"""Columns of Windrow that hold payload, or show where it is."""
Way = Mapping[str, str]
"""Left column → column of the rows that holds the same key."""


@dataclass(frozen=True)
class ErasedKeys:
    """Hashes of erased keys, for joins."""

    hashes: Mapping[tuple[str, ...], DataFrame]
    """left columns → `_hash`, `_mode`; one row per key of these columns"""
    pads: DataFrame
    """one row: `_inner`, `_outer`, the padded secret"""


def ways_of(pipeline: Pipeline, topics: Iterable[str], columns: Sequence[str]) -> list[Way]:
    """Return the ways in which a record of these topics can hold a key of left columns, each once."""
    streams = {stream.name: stream for topic in topics for stream in pipeline.streams_of(topic)}
    if not set(columns) <= pipeline.left.columns.keys():
        return []
    found = [columns_in(stream, pipeline.left, columns) for stream in streams.values()]
    return list({tuple(way.items()): way for way in found if way}.values())


def marked(rows: DataFrame, keys: ErasedKeys, ways: Mapping[tuple[str, ...], Sequence[Way]]) -> DataFrame:
    """Add `_erased`: the mode of the erased key that a row has, or null.

    Args:
        ways: left columns of erased keys → how these rows hold them; a way with a column that the rows lack is no way.
    """
    there = {name.lower() for name in rows.columns}
    joined = rows.crossJoin(F.broadcast(keys.pads))
    modes: list[str] = []
    for columns, hashes in keys.hashes.items():
        for way in ways.get(columns, ()):
            if not {name.lower() for name in way.values()} <= there:
                continue
            mode, known = f"_mode_{len(modes)}", f"_hash_{len(modes)}"
            tombstones = hashes.select(F.col("_hash").alias(known), F.col("_mode").alias(mode))
            joined = joined.join(F.broadcast(tombstones), on=key_hash(way) == F.col(known), how="left").drop(known)
            modes.append(mode)
    found = F.coalesce(*[F.col(mode) for mode in modes]) if modes else F.lit(None).cast("string")
    return joined.select(*[F.col(f"`{name}`") for name in rows.columns], found.alias(MODE))


def key_hash(way: Way) -> Column:
    """Hash of the key of a row; null where a part of the key is null. The rows have the padded secret."""
    parts: list[Column] = []
    for name, column in sorted(way.items()):
        text = F.col(f"`{column}`").cast("string")
        parts += [F.lit(f"{name}="), F.octet_length(text).cast("string"), F.lit(":"), text]
    within = F.unhex(F.sha2(F.concat(F.col("_inner"), F.encode(F.concat(*parts), "UTF-8")), 256))
    return F.sha2(F.concat(F.col("_outer"), within), 256)


def landing_ways(pipeline: Pipeline, topic: str, keys: ErasedKeys) -> dict[tuple[str, ...], list[Way]]:
    """Return left columns of erased keys → how records of a topic hold them."""
    return {columns: ways_of(pipeline, [topic], columns) for columns in keys.hashes}


def originals_of_erased(rows: DataFrame, pipeline: Pipeline, topic: str, keys: ErasedKeys) -> DataFrame | None:
    """Return the ids of quarantined rows for which the row of an erased key stands; None where none can be.

    The key of such a row could not be read before it was reconsidered, and its bytes hold it.

    Args:
        rows: all rows of the landing table of a topic.
    """
    if RECONSIDERED not in rows.columns:
        return None
    again = marked(rows.where(F.col(RECONSIDERED).isNotNull()), keys, landing_ways(pipeline, topic, keys))
    values = [F.col(f"`{name}`").isNotNull() for name in rows.columns if not name.startswith("_") or name == RAW]
    # with mode `null` a left row has no reason; a row that was read has a value, that of its event time at least
    was_emptied = (F.col(QUARANTINED) == ERASED) | (F.col(EVENT_TIME).isNotNull() & ~any_of(values))
    return again.where(F.col(MODE).isNotNull() | was_emptied).select(*ROW_ID).distinct()


def marked_landing(
    rows: DataFrame, pipeline: Pipeline, topic: str, keys: ErasedKeys, originals: DataFrame | None = None
) -> DataFrame:
    """Add `_erased` to landing rows of a topic, as `marked`, also to the originals that still have their bytes.

    Args:
        originals: what `originals_of_erased` has found; None adds no row to those whose key can be read.
    """
    found = marked(rows, keys, landing_ways(pipeline, topic, keys))
    if originals is None:
        return found
    joined = found.join(originals.withColumn("_is_original", F.lit(True)), on=list(ROW_ID), how="left")
    has_bytes = F.col(RECONSIDERED).isNull() & F.col(QUARANTINED).isNotNull() & F.col(RAW).isNotNull()
    mode = F.coalesce(F.col(MODE), F.when(F.col("_is_original") & has_bytes, F.lit("delete")))
    return joined.select(*[F.col(f"`{name}`") for name in rows.columns], mode.alias(MODE))


def unsearchable(marked_rows: DataFrame, ways: Mapping[tuple[str, ...], Sequence[Way]]) -> DataFrame:
    """Return landing rows that keep their bytes although a column that can hold an erased key has no value.

    A quarantined row for which a reconsidered row stands was searched with that one, where it has all these values.

    Args:
        marked_rows: all rows of the landing table of a topic, with `_erased`; those of erased keys are left out.
        ways: as for `marked`; without any, all rows with bytes are returned.
    """
    there = {name.lower() for name in marked_rows.columns}
    columns = sorted({column for several in ways.values() for way in several for column in way.values()})
    unread = [F.col(f"`{name}`").isNull() if name.lower() in there else F.lit(True) for name in columns]
    is_unread = any_of(unread) if unread else F.lit(True)
    hidden = marked_rows.where(F.col(MODE).isNull() & F.col(RAW).isNotNull() & is_unread)
    if RECONSIDERED not in marked_rows.columns:
        return hidden
    searched = marked_rows.where(F.col(RECONSIDERED).isNotNull() & ~is_unread).select(*ROW_ID).distinct()
    return hidden.join(searched, on=list(ROW_ID), how="left_anti")


def emptied(
    rows: DataFrame, pipeline: Pipeline, topic: str, keys: ErasedKeys | None, originals: DataFrame | None = None
) -> DataFrame:
    """Return landing rows of a topic, those of erased keys without payload (`semantics.records.emptied`).

    Args:
        rows: `LANDING_META`, `_raw`, `_raw_envelope` where the topic has it, and any payload columns.
        keys: None where no key was erased.
        originals: as for `marked_landing`.
    """
    if keys is None:
        return rows
    found = marked_landing(rows, pipeline, topic, keys, originals)
    stays = (F.col(MODE) == "null") & F.lit(topic in pipeline.left.topics)
    reason = F.when(F.col(MODE).isNull() | stays, F.col(QUARANTINED)).otherwise(F.coalesce(QUARANTINED, F.lit(ERASED)))

    def left(name: str) -> Column:
        if name == QUARANTINED:
            return reason.alias(name)
        if name.startswith("_") and name not in _OF_PAYLOAD:  # no payload column begins so
            return F.col(name)
        return F.when(F.col(MODE).isNull(), F.col(f"`{name}`")).alias(name)

    return found.select(*[left(name) for name in rows.columns])


def training_ways(pipeline: Pipeline, keys: ErasedKeys) -> dict[tuple[str, ...], list[Way]]:
    """Return left columns of erased keys → how training rows hold them: under their own names."""
    known = pipeline.left.columns.keys()
    return {columns: [dict(zip(columns, columns, strict=True))] for columns in keys.hashes if set(columns) <= known}


def matches_of_erased(rows: DataFrame, pipeline: Pipeline, keys: ErasedKeys, *columns: str) -> DataFrame | None:
    """Return matches of erased keys in rows of other keys; None where there can be none.

    There can be some where a column of the key is not in the left key: a row and its match may then differ in it.

    Args:
        rows: training or candidate rows.
        columns: those of the rows that are wanted, one result per match.
    """
    found = []
    for stream in pipeline.right:
        ways = {c: columns_in(stream, pipeline.left, c) for c in keys.hashes if not is_within_key(pipeline.left, c)}
        known = {c: [way] for c, way in ways.items() if way and set(c) <= pipeline.left.columns.keys()}
        array = f"_all_{stream.name}" if f"_all_{stream.name}" in rows.columns else stream.name
        if known and array in rows.columns:
            each = rows.select(*columns, F.explode(array).alias("_match"))
            there = {name.lower() for name in each.select("_match.*").columns}  # an older file may have lacked one
            fields = sorted({name for (way,) in known.values() for name in way.values() if name.lower() in there})
            flat = each.select(*columns, *[F.col(f"_match.`{name}`").alias(name) for name in fields])
            found.append(marked(flat, keys, known).where(F.col(MODE).isNotNull()).select(*columns))
    return reduce(DataFrame.unionByName, found) if found else None


def without_erased(marked_rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return training rows without those of erased keys; with mode `null` these stay, without payload.

    Args:
        marked_rows: training rows with `_erased`.
    """
    rows = marked_rows.where(F.col(MODE).isNull() | (F.col(MODE) == "null"))
    is_it, streams = F.col(MODE).isNotNull(), {stream.name for stream in pipeline.right}
    payload = {*pipeline.left.columns, *pipeline.labels}

    def column(name: str, kind: str) -> Column:
        value = F.col(f"`{name}`")
        if name in streams:
            return F.when(is_it, F.array().cast(kind)).otherwise(value).alias(name)
        if name == STATE:
            return F.when(is_it, "unknown").otherwise(value).alias(name)
        if name == REASON:
            return F.when(is_it, "null_key").otherwise(value).alias(name)
        # a column that the pipeline file has no more is payload too
        is_own = name.startswith("_") and name not in payload
        return value if is_own else F.when(~is_it, value).alias(name)

    return rows.select(*[column(name, kind) for name, kind in marked_rows.dtypes if name != MODE])
