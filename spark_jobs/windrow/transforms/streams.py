"""What one stream contributes: its readable rows of a stretch of event time, each event once.

landing rows ─▶ not quarantined, in the stretch ─▶ `where` ─▶ least row id of each (event id, event time)
                                                  filtered     duplicate
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, QUARANTINED, ROW_ID
from windrow.config import Stream


@dataclass(frozen=True)
class StreamRows:
    """Rows of one stream, divided without rest: `read` = `kept` + `duplicates` + those with `_filtered`."""

    stream: Stream
    read: DataFrame
    """Every readable row of the stretch, with a boolean `_filtered`: left out by `where`."""
    kept: DataFrame
    """What the join works with."""
    duplicates: DataFrame
    """Row ids and event times of producer retries that lost against a lesser row id (rule 11)."""
    repeated: DataFrame | None
    """`_hash`: hashes of the event ids that more than one row claims. None if none is: no row is a duplicate then, or
    in conflict with another."""

    def release(self) -> None:
        """Let go of what was kept."""
        if self.repeated is not None:
            self.repeated.unpersist()
            self.duplicates.unpersist()


def rows_of(landing: DataFrame, stream: Stream, lo: datetime, hi: datetime, *, ends_in: bool) -> StreamRows:
    """Rows of `stream` with event time in [lo, hi), or [lo, hi] where `ends_in`."""
    at = F.col(EVENT_TIME)
    upper = at <= F.lit(hi) if ends_in else at < F.lit(hi)
    read = landing.where(F.col(QUARANTINED).isNull() & (at >= F.lit(lo)) & upper).withColumn(
        "_filtered", ~selected(stream)
    )
    if stream.event_id is None:
        return _undivided(read, stream)
    claims = named(read, stream)
    times = claims.groupBy("_hash").agg(F.count(F.lit(1)).alias("_times"))
    return _divided(read, stream, claims, times.where(F.col("_times") > 1).select("_hash"))


def looked_through(sides: Sequence[StreamRows]) -> list[StreamRows]:
    """The same rows, each divided once for all who read them: which event ids repeat is looked up here and now.

    One number a row is shuffled for it, a hash; and mostly none repeats, so that nothing else is left to do.
    """

    def look(rows: StreamRows) -> StreamRows:
        if rows.repeated is None:
            return rows
        repeated = rows.repeated.persist()
        if repeated.count():
            claims = named(rows.read, rows.stream).join(repeated, on="_hash", how="left_semi")
            known = _divided(rows.read, rows.stream, claims, repeated)
            known.duplicates.persist()
            return known
        repeated.unpersist()
        return _undivided(rows.read, rows.stream)

    with ThreadPoolExecutor(len(sides)) as pool:
        return list(pool.map(look, sides))


def named(read: DataFrame, stream: Stream) -> DataFrame:
    """The readable rows that claim an event id, with its `_hash`."""
    event_id = F.col(str(stream.event_id))
    return read.where(~F.col("_filtered") & event_id.isNotNull()).withColumn("_hash", F.xxhash64(event_id))


def _divided(read: DataFrame, stream: Stream, claims: DataFrame, repeated: DataFrame) -> StreamRows:
    duplicates = _duplicates(claims, stream)
    kept = _chosen(read).join(duplicates.select(*ROW_ID), on=list(ROW_ID), how="left_anti")
    return StreamRows(stream, read, kept, duplicates, repeated)


def _undivided(read: DataFrame, stream: Stream) -> StreamRows:
    chosen = _chosen(read)
    return StreamRows(stream, read, chosen, chosen.where(F.lit(False)).select(*ROW_ID, EVENT_TIME), None)


def _chosen(read: DataFrame) -> DataFrame:
    return read.where(~F.col("_filtered")).drop("_filtered")


def selected(stream: Stream) -> Column:
    """Whether `where` lets a row in; a condition that is null lets nothing in."""
    return F.coalesce(F.expr(stream.where), F.lit(False)) if stream.where else F.lit(True)


def _duplicates(claims: DataFrame, stream: Stream) -> DataFrame:
    """Losers among rows with the same event id and event time. Narrow columns only: payloads stay where they are."""
    same = ["_event_id", EVENT_TIME]
    ids = claims.select(F.col(str(stream.event_id)).alias("_event_id"), EVENT_TIME, F.struct(*ROW_ID).alias("_id"))
    several = (
        ids.groupBy(*same)
        .agg(F.min("_id").alias("_winner"), F.count(F.lit(1)).alias("_times"))
        .where(F.col("_times") > 1)
    )
    return ids.join(several, on=same, how="inner").where(F.col("_id") != F.col("_winner")).select("_id.*", EVENT_TIME)
