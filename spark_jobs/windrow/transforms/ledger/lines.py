"""Lines of the late ledger: published rows against the same subjects rebuilt. Agrees with `semantics.ledger`.

    both sides of a subject (`subjects.side_by_side`)
      ├▶ one side only, or another row id ─▶ late_left, pair_appeared, winner_changed, erased
      └▶ the same row id ─▶ its matches that only one side has ─▶ late_label, late_feature, winner_changed, erased
                         └▶ its state, where no line about its labels can carry the change ─▶ state_changed

A line is late if its batch is above the publication's pin. The clock only gives the amount and the cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from windrow.columns import BATCH, INTERVAL, PUBLICATION, RECORD_AT, ROW_ID
from windrow.config import Pipeline
from windrow.transforms.conditions import any_of
from windrow.transforms.ledger.columns import as_lines
from windrow.transforms.ledger.subjects import ON
from windrow.transforms.streams import StreamRows

_STATE = "."
"""Stands for a stream's name in the entry for a changed state; no stream can have this name."""


def lines(both: DataFrame, landed: DataFrame, standing: DataFrame, began: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Lines about what the rebuilt rows change in the published ones.

    Args:
        both: result of `subjects.side_by_side`; it is read twice.
        landed: result of `arrivals` for all that is landed around the subjects.
        standing: by `_interval`: `_publication`, `_closed_at`, and of its plan `_pins` (topic → batch), `_clocks`
            (topic/epoch/partition → event clock), `_disorder_us` (topic → microseconds), `_drained` and `_forced`.
        began: `topic`, `batch`, `_watermark`: the watermark as each late batch began to land.
    Returns:
        the columns of `schemas.LATE` without `pass`.
    """
    same = F.coalesce(F.col("_old.id") == F.col("_new.id"), F.lit(False))
    whole_rows = _whole_rows(both.where(~same), landed, standing, pipeline)
    matches = _matches(both.where(same), landed, standing, pipeline)
    changes = whole_rows.unionByName(matches, allowMissingColumns=True)
    return as_lines(_with_missed_by(changes, began))


def arrivals(left: StreamRows, rights: Mapping[str, StreamRows], pipeline: Pipeline) -> DataFrame:
    """Every readable landed row: `_stream`, `_id` (a row id), `_batch`, `_record_at`."""
    sides = {pipeline.left.name: left, **rights}
    columns = (F.struct(*ROW_ID).alias("_id"), BATCH, RECORD_AT)
    frames = [side.read.select(F.lit(name).alias("_stream"), *columns) for name, side in sides.items()]
    return reduce(DataFrame.unionByName, frames)


def _whole_rows(apart: DataFrame, landed: DataFrame, standing: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Changes that add or remove whole left rows."""
    left = landed.where(F.col("_stream") == pipeline.left.name)
    coming = left.select(F.col("_id").alias("_new_id"), RECORD_AT)
    leaving = left.select(F.col("_id").alias("_old_id"), F.lit(True).alias("_is_landed"))
    rows = (
        apart.withColumn("_new_id", F.col("_new.id"))
        .withColumn("_old_id", F.col("_old.id"))
        .join(coming, on="_new_id", how="left")
        .join(leaving, on="_old_id", how="left")
        .join(F.broadcast(standing), on=INTERVAL, how="inner")
    )
    is_late = F.coalesce(F.col("_new.batch") > _pin(F.col("_new.id")), F.lit(False))
    kind = (
        # a published row leaves for a lesser row id of the same event, or because its landing row was deleted
        F.when(F.col("_old").isNotNull(), F.when(F.col("_is_landed"), "winner_changed").otherwise("erased"))
        .when(is_late, "late_left")
        .otherwise("pair_appeared")
    )
    row = F.struct(F.coalesce("_new.at", "_old.at").alias("at"), F.coalesce("_new.id", "_old.id").alias("id"))
    return rows.select(
        *ON,
        PUBLICATION,
        kind.alias("kind"),
        row.alias("_row"),
        F.col("_old.id").alias("_gone"),
        *_lateness(is_late, F.col("_new.id"), F.col("_new.batch")),
    )


def _matches(same: DataFrame, landed: DataFrame, standing: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Changes of matches and states within the same row.

    There is one for each added match, with the removed match that it replaces, and one for each match that is only
    removed. The first change of the row's labels also carries a change of state; without one, the state has a line of
    its own.
    """
    known = landed.select("_stream", "_id", BATCH, RECORD_AT, F.lit(True).alias("_is_landed"))
    changes = _on_one_side(same).join(known, on=["_stream", "_id"], how="left")
    paired = _paired(changes, pipeline).join(F.broadcast(standing), on=INTERVAL, how="inner")
    coming, leaving = F.col("_coming"), F.col("_leaving")
    is_late = F.coalesce(coming[BATCH] > _pin(coming["id"]), F.lit(False))
    is_label = _is_among("_stream", [stream.name for stream in pipeline.label_streams])
    is_state = F.col("_stream") == _STATE
    ranked = _with_rank(paired, is_label, is_state).where(~is_state | (F.col("_rank") == 1))
    carries = (F.col("_rank") == 1) & (is_label | is_state) & F.col("_row.differs")
    states = {
        "state_before": "old_state",
        "reason_before": "old_reason",
        "state_after": "state",
        "reason_after": "reason",
    }
    return ranked.withColumn(RECORD_AT, coming[RECORD_AT]).select(
        *ON,
        PUBLICATION,
        _kind_of_match(is_late, is_label, is_state).alias("kind"),
        F.struct("_row.at", "_row.id").alias("_row"),
        F.when(~is_state, F.col("_stream")).alias("_stream"),
        F.when(~is_state, F.struct(coming["at"].alias("at"), coming["id"].alias("id"))).alias("_appeared"),
        F.when(~is_state, F.struct(leaving["at"].alias("at"), leaving["id"].alias("id"))).alias("_vanished"),
        *[F.when(carries, F.col(f"_row.{source}")).alias(name) for name, source in states.items()],
        *_lateness(is_late, coming["id"], coming[BATCH]),
    )


def _kind_of_match(is_late: Column, is_label: Column, is_state: Column) -> Column:
    """Kind of the line about a changed match or state, as `semantics.ledger` decides it."""
    coming, leaving = F.col("_coming"), F.col("_leaving")
    same_event = F.coalesce((coming["event"] == leaving["event"]) & (coming["at"] == leaving["at"]), F.lit(False))
    return (
        F.when(is_state, "state_changed")
        .when(leaving.isNotNull() & ~leaving["_is_landed"], "erased")
        .when(same_event | ~is_late, "winner_changed")
        .otherwise(F.when(is_label, "late_label").otherwise("late_feature"))
    )


def _with_rank(paired: DataFrame, is_label: Column, is_state: Column) -> DataFrame:
    """Add `_rank`, the place among the changes of a row: labels first, then the state, then features.

    Rank 1 carries the change of state: the state's own entry has rank 1 only where no label changes. Among labels the
    order is that of `semantics.ledger`: by stream, added matches before those that are only removed, in row order.
    """
    order = Window.partitionBy(*ON).orderBy(
        F.when(is_label, 0).when(is_state, 1).otherwise(2),
        "_position",
        F.col("_coming").isNull(),
        F.coalesce("_coming.at", "_leaving.at"),
        F.coalesce("_coming.id", "_leaving.id"),
    )
    return paired.withColumn("_rank", F.row_number().over(order))


def _on_one_side(same: DataFrame) -> DataFrame:
    """Matches that only the published or only the rebuilt row has, and one entry where the states differ.

    Both sides are exploded into one list: a match on both sides is in it twice and drops out, which needs no join.
    """
    old, new = F.col("_old"), F.col("_new")
    differs = ~(old["state"].eqNullSafe(new["state"]) & old["reason"].eqNullSafe(new["reason"]))
    row = F.struct(
        new["at"].alias("at"),
        new["id"].alias("id"),
        new["state"].alias("state"),
        new["reason"].alias("reason"),
        old["state"].alias("old_state"),
        old["reason"].alias("old_reason"),
        differs.alias("differs"),
    )

    def marked(side: str, is_new: bool) -> Column:
        return F.transform(f"{side}_matches", lambda match: match.withField("is_new", F.lit(is_new)))

    state = F.struct(
        F.lit(-1).alias("position"),
        F.lit(_STATE).alias("stream"),
        new["at"].alias("at"),
        new["id"].alias("id"),
        F.lit(None).cast("string").alias("event"),
        F.lit(True).alias("is_new"),
    )
    entries = F.concat(marked("_old", False), marked("_new", True), F.filter(F.array(state), lambda _: differs))
    identity = {name: F.col(f"_match.{name}").alias(f"_{name}") for name in ("position", "stream", "id")}
    return (
        same.select(*ON, row.alias("_row"), F.explode(entries).alias("_match"))
        .groupBy(*ON, "_row", *identity.values())
        .agg(
            F.count(F.lit(1)).alias("_sides"),
            F.max("_match.is_new").alias("_is_new"),
            F.max("_match.at").alias("at"),
            F.max("_match.event").alias("event"),
        )
        .where(F.col("_sides") == 1)
    )


def _paired(changes: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Pairs each added match with the removed match it replaces: the same event or, with `take`, the single slot."""
    by_row = F.concat_ws("|", F.lit("row"), *[F.col(f"_id.{name}") for name in ROW_ID])
    by_event = F.concat(F.lit("event|"), F.concat_ws("|", F.unix_micros("at"), F.col("event")))
    pair = (
        F.when(_is_among("_stream", [stream.name for stream in pipeline.right if stream.take != "all"]), "taken")
        .when(F.col("event").isNull(), by_row)
        .otherwise(by_event)
    )
    is_landed = F.coalesce("_is_landed", F.lit(False)).alias("_is_landed")
    match = F.struct("at", F.col("_id").alias("id"), "event", BATCH, RECORD_AT, is_landed)
    return changes.groupBy(*ON, "_row", "_stream", "_position", pair.alias("_pair")).agg(
        F.max(F.when(F.col("_is_new"), match)).alias("_coming"),
        F.max(F.when(~F.col("_is_new"), match)).alias("_leaving"),
    )


def _lateness(is_late: Column, row_id: Column, batch: Column) -> list[Column]:
    """Topic, batch and cause (see `semantics.ledger.cause`) of a late row, null for any other; and `_closed_at`."""
    partition = F.concat_ws("/", row_id["_topic"], row_id["_epoch"], row_id["_partition"])
    clock = F.try_element_at("_clocks", partition)
    disorder = F.coalesce(F.try_element_at("_disorder_us", row_id["_topic"]), F.lit(0))
    in_time = F.unix_micros(RECORD_AT) - disorder <= F.unix_micros("_closed_at")
    cause = (
        F.when(F.col("_drained"), "drained")
        .when(F.col("_forced"), "forced")
        .when(clock.isNull() | (clock < F.col("_closed_at")), "idle_advance")
        .when(F.coalesce(in_time, F.lit(False)), "lag")
        .otherwise("producer_delay")
    )
    return [
        F.when(is_late, row_id["_topic"]).alias("_late_topic"),
        F.when(is_late, batch).alias("batch"),
        F.col("_closed_at"),
        F.when(is_late, cause).alias("cause"),
    ]


def _with_missed_by(changes: DataFrame, began: DataFrame) -> DataFrame:
    """Add `missed_by_us`: how far the watermark was beyond the closing when the late batch began to land.

    Null where it had not come to the closing: the row missed nothing.
    """
    known = began.select(F.col("topic").alias("_late_topic"), "batch", "_watermark")
    missed_by = F.unix_micros("_watermark") - F.unix_micros("_closed_at")
    joined = changes.join(F.broadcast(known), on=["_late_topic", "batch"], how="left")
    return joined.withColumn("missed_by_us", F.when(missed_by >= 0, missed_by))


def _pin(row_id: Column) -> Column:
    """The publication's pin of the row's topic; 0 where the topic had landed nothing then."""
    return F.coalesce(F.try_element_at("_pins", row_id["_topic"]), F.lit(0))


def _is_among(column: str, names: Sequence[str]) -> Column:
    return any_of([F.col(column) == name for name in names])
