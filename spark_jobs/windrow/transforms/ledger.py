"""Lines of the late ledger: published rows against the same subjects rebuilt. Agrees with `semantics.ledger`.

    published ─┐ by subject    one side, or another row id ─▶ late_left, pair_appeared, winner_changed, erased
    rebuilt  ──┴▶ full outer ─▶ the same row id ─▶ its matches side by side ─▶ late_label, winner_changed, …
                                                 └▶ its state, where no line about its labels can carry it

A subject is a left event: event id and event time, or the row id where there is no event id. Each has at most one
published and one rebuilt row, so what is said about one never depends on another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from windrow.columns import BATCH, EVENT_TIME, INTERVAL, PUBLICATION, REASON, RECORD_AT, ROW_ID, STATE
from windrow.config import Pipeline, Stream
from windrow.schemas import LATE
from windrow.semantics.ledger import AS_PUBLISHED, CONFIG_CHANGED
from windrow.transforms.conditions import any_of
from windrow.transforms.streams import StreamRows

SUBJECT = "_subject"
ON = [INTERVAL, SUBJECT]
SPARK_TYPES = {pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.timestamp("us", "UTC"): "timestamp"}
_STATE = "."
"""Stands where a stream's name would: no stream is called so."""


def subject(stream: Stream) -> Column:
    """Which left event a row is: of a landing row, a candidate and a published row the same text."""
    row = F.concat_ws("|", F.lit("row"), *ROW_ID)
    named = F.lit(None).cast("string") if stream.event_id is None else event_text(stream, F.col(stream.event_id))
    event = F.concat_ws("|", F.lit("event"), F.unix_micros(EVENT_TIME), named)
    return F.substring(F.sha2(F.when(named.isNull(), row).otherwise(event), 256), 1, 32).alias(SUBJECT)


def event_text(stream: Stream, event_id: Column) -> Column:
    """An event id as text: equal exactly where the ids are."""
    kind = stream.columns[stream.event_id or ""]
    if kind.startswith("struct"):
        return F.to_json(event_id)
    return F.hex(event_id) if kind == "binary" else event_id.cast("string")


def met(published: DataFrame, rebuilt: DataFrame, p: Pipeline) -> DataFrame:
    """Published and rebuilt rows of the same subjects side by side, narrow: ids, states, ids of matches.

    Args:
        published: training rows with `_subject`.
        rebuilt: candidate rows that would be published, with `_subject`.
    """
    return _side(published, "_old", p).join(_side(rebuilt, "_new", p), on=ON, how="full_outer")


def lines(both: DataFrame, landed: DataFrame, standing: DataFrame, began: DataFrame, p: Pipeline) -> DataFrame:
    """What the rebuilt rows change in the published ones.

    Args:
        both: what `met` makes; read twice.
        landed: `_stream`, `_id` (a row id), `_batch`, `_record_at` of all that is landed around them (see `arrivals`).
        standing: by `_interval`: `_publication`, `_closed_at`, and of its plan `_pins` (topic → batch), `_clocks`
            (topic/epoch/partition → event clock), `_disorder_us` (topic → microseconds) and `_drained`.
        began: `topic`, `batch`, `_watermark`: W as each late batch began to land.
    Returns:
        the columns of `schemas.LATE` without `pass`.
    """
    same = F.coalesce(F.col("_old.id") == F.col("_new.id"), F.lit(False))
    whole = _whole_rows(both.where(~same), landed, standing, p)
    told = whole.unionByName(_matches(both.where(same), landed, standing, p), allowMissingColumns=True)
    return _as_lines(_with_lateness(told, began))


def arrivals(left: StreamRows, rights: Mapping[str, StreamRows], p: Pipeline) -> DataFrame:
    """Identity, batch and record time of every readable landed row, by stream."""
    sides = {p.left.name: left, **rights}
    columns = (F.struct(*ROW_ID).alias("_id"), BATCH, RECORD_AT)
    frames = [side.read.select(F.lit(name).alias("_stream"), *columns) for name, side in sides.items()]
    return reduce(DataFrame.unionByName, frames)


def counting(ledger: DataFrame, standing: DataFrame) -> DataFrame:
    """The reading rule (see `io.ledger.table.lines`) for publications of this config.

    `standing`: `_interval` and `_publication` of what readers see.
    """
    publications = standing.select(F.col(INTERVAL).alias("interval"), F.col(PUBLICATION).alias("publication"))
    compared = ledger.where(F.col("kind") != CONFIG_CHANGED).join(
        F.broadcast(publications), on=["interval", "publication"], how="left_semi"
    )
    of_subject = Window.partitionBy("interval", "publication", "subject")
    newest = compared.withColumn("_newest", F.max("pass").over(of_subject)).where(F.col("pass") == F.col("_newest"))
    return newest.where(F.col("kind") != AS_PUBLISHED).drop("_newest")


def taken_back(told: DataFrame, before: DataFrame, scope: DataFrame) -> DataFrame:
    """`as_published` lines: subjects that were looked at again and no longer differ.

    Args:
        told: the lines of this pass. before: the lines that counted until now.
        scope: `_interval`, `_subject` of what was looked at.
    """
    on = ["interval", "subject"]
    seen = scope.select(F.col(INTERVAL).alias("interval"), F.col(SUBJECT).alias("subject"))
    gone = before.join(seen, on=on, how="left_semi").join(told.select(*on).distinct(), on=on, how="left_anti")
    return _as_lines(gone.select(*on, "publication").distinct().withColumn("kind", F.lit(AS_PUBLISHED)))


def _side(rows: DataFrame, name: str, p: Pipeline) -> DataFrame:
    """A row's identity and state as one struct, and its matches as one narrow array, in the streams' order."""
    elements = [F.transform(stream.name, _narrow(position, stream)) for position, stream in enumerate(p.right)]
    batch = F.col(BATCH).cast("bigint").alias("batch")
    row = F.struct(
        F.col(EVENT_TIME).alias("at"),
        F.struct(*ROW_ID).alias("id"),
        batch,
        F.col(STATE).alias("state"),
        F.col(REASON).alias("reason"),
    )
    return rows.select(*ON, row.alias(name), F.concat(*elements).alias(f"{name}_matches"))


def _narrow(position: int, stream: Stream) -> Callable[[Column], Column]:
    """Of an element of a right stream's array, what the ledger says about it."""

    def narrow(e: Column) -> Column:
        event = F.lit(None) if stream.event_id is None else event_text(stream, e[stream.event_id])
        return F.struct(
            F.lit(position).alias("position"),
            F.lit(stream.name).alias("stream"),
            e[EVENT_TIME].alias("at"),
            F.struct(*[e[c].alias(c) for c in ROW_ID]).alias("id"),
            event.cast("string").alias("event"),
        )

    return narrow


def _whole_rows(apart: DataFrame, landed: DataFrame, standing: DataFrame, p: Pipeline) -> DataFrame:
    """Left rows that come, and those that leave."""
    ours = landed.where(F.col("_stream") == p.left.name)
    coming = ours.select(F.col("_id").alias("_new_id"), RECORD_AT)
    leaving = ours.select(F.col("_id").alias("_old_id"), F.lit(True).alias("_is_landed"))
    rows = (
        apart.withColumn("_new_id", F.col("_new.id"))
        .withColumn("_old_id", F.col("_old.id"))
        .join(coming, on="_new_id", how="left")
        .join(leaving, on="_old_id", how="left")
        .join(F.broadcast(standing), on=INTERVAL, how="inner")
    )
    is_late = F.coalesce(F.col("_new.batch") > _pin(F.col("_new.id")), F.lit(False))
    kind = (
        F.when(F.col("_old").isNotNull(), _leaving(F.col("_is_landed")))
        .when(is_late, "late_left")
        .otherwise("pair_appeared")
    )
    return rows.select(
        *ON,
        PUBLICATION,
        kind.alias("kind"),
        F.struct(F.coalesce("_new.at", "_old.at").alias("at"), F.coalesce("_new.id", "_old.id").alias("id")).alias(
            "_row"
        ),
        F.col("_old.id").alias("_gone"),
        *_late(is_late, F.col("_new.id"), F.col("_new.batch")),
    )


def _matches(kept: DataFrame, landed: DataFrame, standing: DataFrame, p: Pipeline) -> DataFrame:
    """A line for each match that comes, with the one that leaves for it, or for one that only leaves; and the state.

    A change of state stands on the first line about the row's labels, or has a line of its own.
    """
    known = landed.select("_stream", "_id", BATCH, RECORD_AT, F.lit(True).alias("_is_landed"))
    changes = _on_one_side(kept).join(known, on=["_stream", "_id"], how="left")
    paired = _paired(changes, p).join(F.broadcast(standing), on=INTERVAL, how="inner")
    coming, leaving = F.col("_coming"), F.col("_leaving")
    is_late = F.coalesce(coming[BATCH] > _pin(coming["id"]), F.lit(False))
    same_event = F.coalesce((coming["event"] == leaving["event"]) & (coming["at"] == leaving["at"]), F.lit(False))
    is_label = _among("_stream", [s.name for s in p.label_streams])
    is_state = F.col("_stream") == _STATE
    kind = (
        F.when(is_state, "state_changed")
        .when(leaving.isNotNull() & ~leaving["_is_landed"], "erased")
        .when(same_event | ~is_late, "winner_changed")
        .otherwise(F.when(is_label, "late_label").otherwise("late_feature"))
    )
    first = Window.partitionBy(*ON).orderBy(
        F.when(is_label, 0).when(is_state, 1).otherwise(2),
        "_position",
        coming.isNull(),
        F.coalesce(coming["at"], leaving["at"]),
        F.coalesce(coming["id"], leaving["id"]),
    )
    ranked = paired.withColumn("_n", F.row_number().over(first)).where(~is_state | (F.col("_n") == 1))
    carries = (F.col("_n") == 1) & (is_label | is_state) & F.col("_row.differs")
    states = {
        "state_before": "old_state",
        "reason_before": "old_reason",
        "state_after": "state",
        "reason_after": "reason",
    }
    return ranked.withColumn(RECORD_AT, coming[RECORD_AT]).select(
        *ON,
        PUBLICATION,
        kind.alias("kind"),
        F.struct("_row.at", "_row.id").alias("_row"),
        F.when(~is_state, F.col("_stream")).alias("_stream"),
        F.when(~is_state, F.struct(coming["at"].alias("at"), coming["id"].alias("id"))).alias("_appeared"),
        F.when(~is_state, F.struct(leaving["at"].alias("at"), leaving["id"].alias("id"))).alias("_vanished"),
        *[F.when(carries, F.col(f"_row.{source}")).alias(name) for name, source in states.items()],
        *_late(is_late, coming["id"], coming[BATCH]),
    )


def _on_one_side(kept: DataFrame) -> DataFrame:
    """Matches that only the published or only the rebuilt row has; and one entry for a state that differs."""
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

    def of(side: str, is_new: bool) -> Column:
        return F.transform(f"{side}_matches", lambda m: m.withField("is_new", F.lit(is_new)))

    state = F.struct(
        F.lit(-1).alias("position"),
        F.lit(_STATE).alias("stream"),
        new["at"].alias("at"),
        new["id"].alias("id"),
        F.lit(None).cast("string").alias("event"),
        F.lit(True).alias("is_new"),
    )
    entries = F.concat(of("_old", False), of("_new", True), F.filter(F.array(state), lambda _: differs))
    return (
        kept.select(*ON, row.alias("_row"), F.explode(entries).alias("_m"))
        .groupBy(
            *ON,
            "_row",
            F.col("_m.position").alias("_position"),
            F.col("_m.stream").alias("_stream"),
            F.col("_m.id").alias("_id"),
        )
        .agg(
            F.count(F.lit(1)).alias("_n"),
            F.max("_m.is_new").alias("_is_new"),
            F.max("_m.at").alias("at"),
            F.max("_m.event").alias("event"),
        )
        .where(F.col("_n") == 1)
    )


def _paired(changes: DataFrame, p: Pipeline) -> DataFrame:
    """What comes beside what leaves for it: the same event, or with `take` the one place there is."""
    by_event = F.concat_ws("|", F.unix_micros("at"), F.col("event"))
    pair = (
        F.when(_among("_stream", [s.name for s in p.right if s.take != "all"]), "taken")
        .when(F.col("event").isNull(), F.concat_ws("|", F.lit("row"), *[F.col(f"_id.{c}") for c in ROW_ID]))
        .otherwise(F.concat(F.lit("event|"), by_event))
    )
    is_landed = F.coalesce("_is_landed", F.lit(False)).alias("_is_landed")
    match = F.struct("at", F.col("_id").alias("id"), "event", BATCH, RECORD_AT, is_landed)
    return changes.groupBy(*ON, "_row", "_stream", "_position", pair.alias("_pair")).agg(
        F.max(F.when(F.col("_is_new"), match)).alias("_coming"),
        F.max(F.when(~F.col("_is_new"), match)).alias("_leaving"),
    )


def _late(is_late: Column, row_id: Column, batch: Column) -> list[Column]:
    """Of what came late: topic, batch, closing and cause; null for anything else."""
    place = F.concat_ws("/", row_id["_topic"], row_id["_epoch"], row_id["_partition"])
    clock = F.try_element_at("_clocks", place)
    disorder = F.coalesce(F.try_element_at("_disorder_us", row_id["_topic"]), F.lit(0))
    in_time = F.unix_micros(RECORD_AT) - disorder <= F.unix_micros("_closed_at")
    why = (
        F.when(F.col("_drained"), "drained")
        .when(clock.isNull() | (clock < F.col("_closed_at")), "idle_advance")
        .when(F.coalesce(in_time, F.lit(False)), "lag")
        .otherwise("producer_delay")
    )
    return [
        F.when(is_late, row_id["_topic"]).alias("_late_topic"),
        F.when(is_late, batch).alias("batch"),
        F.col("_closed_at"),
        F.when(is_late, why).alias("cause"),
    ]


def _with_lateness(told: DataFrame, began: DataFrame) -> DataFrame:
    known = began.select(F.col("topic").alias("_late_topic"), "batch", "_watermark")
    missed_by = F.unix_micros("_watermark") - F.unix_micros("_closed_at")
    return told.join(F.broadcast(known), on=["_late_topic", "batch"], how="left").withColumn("missed_by_us", missed_by)


def _as_lines(told: DataFrame) -> DataFrame:
    """The columns of the ledger, of their types; what a line does not say is null."""
    has = set(told.columns)
    wanted = {"interval": INTERVAL, "publication": PUBLICATION, "subject": SUBJECT, "stream": "_stream"}
    values = {name: F.col(source) for name, source in wanted.items() if source in has}
    if "_row" in has:
        values |= {"event_time": F.col("_row.at"), **_id_columns("", F.col("_row.id"))}
        values |= _id_columns("gone_", F.col("_gone"))
    for side in ("appeared", "vanished"):
        if f"_{side}" in has:
            values |= {f"{side}_at": F.col(f"_{side}.at"), **_id_columns(f"{side}_", F.col(f"_{side}.id"))}
    values |= {name: F.col(name) for name in LATE.names if name in has}
    return told.select(
        *[
            values.get(field.name, F.lit(None)).cast(SPARK_TYPES[field.type]).alias(field.name)
            for field in LATE
            if field.name != "pass"
        ]
    )


def _id_columns(prefix: str, row_id: Column) -> dict[str, Column]:
    return {f"{prefix}{c.removeprefix('_')}": row_id[c] for c in ROW_ID}


def _pin(row_id: Column) -> Column:
    return F.coalesce(F.try_element_at("_pins", row_id["_topic"]), F.lit(0))


def _leaving(is_landed: Column) -> Column:
    return F.when(is_landed, "winner_changed").otherwise("erased")


def _among(column: str, names: list[str]) -> Column:
    return any_of([F.col(column) == name for name in names])
