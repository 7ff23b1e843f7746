"""What one stream contributes: its readable rows of a stretch of event time, each event once.

landing rows ─▶ not quarantined, in the stretch ─▶ `where` ─▶ least row id of each (event id, event time)
                                                  filtered     duplicate
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.config import Stream
from windrow.schemas import EVENT_TIME, QUARANTINED, ROW_ID


@dataclass(frozen=True)
class StreamRows:
    """Rows of one stream, divided without rest: `read` = `kept` + `duplicates` + those with `_filtered`."""

    read: DataFrame
    """Every readable row of the stretch, with a boolean `_filtered`: left out by `where`."""
    kept: DataFrame
    """What the join works with."""
    duplicates: DataFrame
    """Row ids and event times of producer retries that lost against a lesser row id (rule 11)."""
    has_ids: bool
    """Whether the stream has an event id: without one nothing is a duplicate."""

    def keep(self) -> None:
        """Compute the duplicates once for all who read them; where there are none, leave the plan that says so."""
        if self.has_ids:
            self.duplicates.persist()

    def release(self) -> None:
        """Let go of what was kept."""
        self.duplicates.unpersist()


def rows_of(landing: DataFrame, stream: Stream, lo: datetime, hi: datetime, *, ends_in: bool) -> StreamRows:
    """Rows of `stream` with event time in [lo, hi), or [lo, hi] where `ends_in`."""
    at = F.col(EVENT_TIME)
    upper = at <= F.lit(hi) if ends_in else at < F.lit(hi)
    read = landing.where(F.col(QUARANTINED).isNull() & (at >= F.lit(lo)) & upper).withColumn(
        "_filtered", ~selected(stream)
    )
    chosen = read.where(~F.col("_filtered")).drop("_filtered")
    duplicates = _duplicates(chosen, stream)
    kept = (
        chosen if stream.event_id is None else chosen.join(duplicates.select(*ROW_ID), on=list(ROW_ID), how="left_anti")
    )
    return StreamRows(read, kept, duplicates, stream.event_id is not None)


def selected(stream: Stream) -> Column:
    """Whether `where` lets a row in; a condition that is null lets nothing in."""
    return F.coalesce(F.expr(stream.where), F.lit(False)) if stream.where else F.lit(True)


def _duplicates(rows: DataFrame, stream: Stream) -> DataFrame:
    """Losers among rows with the same event id and event time. Narrow columns only: payloads stay where they are."""
    if stream.event_id is None:
        return rows.where(F.lit(False)).select(*ROW_ID, EVENT_TIME)
    same = ["_event_id", EVENT_TIME]
    ids = rows.where(F.col(stream.event_id).isNotNull()).select(
        F.col(stream.event_id).alias("_event_id"), EVENT_TIME, F.struct(*ROW_ID).alias("_id")
    )
    repeated = (
        ids.groupBy(*same)
        .agg(F.min("_id").alias("_winner"), F.count(F.lit(1)).alias("_times"))
        .where(F.col("_times") > 1)
    )
    return ids.join(repeated, on=same, how="inner").where(F.col("_id") != F.col("_winner")).select("_id.*", EVENT_TIME)
