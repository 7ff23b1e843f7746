"""Live rows plus late ledger against a rebuild: which rows differ, and in which columns. Never a value.

    published ─▶ without the rows that the ledger removes; matches and states as it changes them ─┐
    ledger ────▶ rows that it adds: as they were rebuilt                                          ├▶ equal?
    rebuilt ──────────────────────────────────────────────────────────────────────────────────────┘

The ledger names rows and matches, not values: everything that it does not name must have the published value.
Therefore a row that it does not name is not looked at where both sides have the same hash of it (`in_question`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import ARRIVED_AT, ELEMENT_META, EVENT_TIME, INTERVAL, REASON, ROW_ID, STATE
from windrow.config import Pipeline, RightStream
from windrow.transforms.expressions import value_of

DIFFERENT = "_different"
ONLY_PUBLISHED, ONLY_REBUILT, ONLY_LEDGER = "only published", "only rebuilt", "only in the ledger"


def in_question(published: DataFrame, ledger: DataFrame, rebuilt: DataFrame) -> DataFrame:
    """Ids of the rows that `differences` looks at: those that the ledger names, and those that the two sides differ in.

    Only row ids and hashes are sorted for it. Mostly they leave few whole rows to compare.

    Args:
        published: training rows, as `content.row_hashes` returns them.
        ledger: their lines that count.
        rebuilt: candidate rows that would be published, likewise.
    Returns:
        `_id`, once each.
    """
    new = rebuilt.select("_id", F.col("_hash").alias("_new"))
    both = published.select("_id", "_hash").join(new, on="_id", how="full_outer")
    unlike = both.where(~F.col("_hash").eqNullSafe(F.col("_new"))).select("_id")
    named, gone = (ledger.select(_id(prefix).alias("_id")) for prefix in ("", "gone_"))
    return unlike.unionByName(named).unionByName(gone).distinct()


def differences(
    published: DataFrame, ledger: DataFrame, rebuilt: DataFrame, ids: DataFrame, pipeline: Pipeline
) -> DataFrame:
    """One row for each left row that the ledger does not explain.

    Args:
        published: training rows.
        ledger: their lines that count.
        rebuilt: candidate rows that would be published.
        ids: result of `in_question`.
    Returns:
        `_interval`, `_id` (a row id), `_event_time`, `_different`: names of columns, or one of the `ONLY_…`.
    """
    leaving = ledger.where(F.col("gone_topic").isNotNull()).select(_id("gone_").alias("_id")).distinct()
    # a line about a whole row has no stream and no state; where a row only leaves, it names itself as gone
    is_coming = (
        F.col("stream").isNull() & F.col("state_after").isNull() & ~F.coalesce(_id("") == _id("gone_"), F.lit(False))
    )
    coming = ledger.where(is_coming).select(_id("").alias("_id"), F.lit(True).alias("_is_coming")).distinct()
    published, rebuilt = (
        rows.withColumn("_id", F.struct(*ROW_ID)).join(ids, on="_id", how="left_semi") for rows in (published, rebuilt)
    )
    old = published.join(leaving, on="_id", how="left_anti")
    new = rebuilt.select("_id", F.struct(*rebuilt.columns).alias("_new"))
    # outer joins throughout, so that an id on any one side stays visible
    sides = (
        old.withColumn("_is_old", F.lit(True))
        .join(new, on="_id", how="full_outer")
        .join(coming, on="_id", how="full_outer")
        .join(_changes(ledger), on="_id", how="full_outer")
    )
    applied = _applied(sides, pipeline)
    start = F.coalesce(INTERVAL, F.col(f"_new.{INTERVAL}"), "_ledger_interval").alias(INTERVAL)
    at = F.coalesce(EVENT_TIME, F.col(f"_new.{EVENT_TIME}")).alias(EVENT_TIME)
    return applied.select(start, "_id", at, _differs(pipeline).alias(DIFFERENT)).where(F.size(DIFFERENT) > 0)


def _differs(pipeline: Pipeline) -> Column:
    """Names of the columns in which the published row with its ledger differs from the rebuilt row; else empty."""
    is_old, is_new = F.col("_is_old").isNotNull(), F.col("_new").isNotNull()
    is_coming = F.col("_is_coming").isNotNull()
    return (
        F.when(~is_new & is_old, F.array(F.lit(ONLY_PUBLISHED)))
        .when(~is_new & (is_coming | F.col("_is_changed")), F.array(F.lit(ONLY_LEDGER)))
        .when(is_new & ~is_old & ~is_coming, F.array(F.lit(ONLY_REBUILT)))
        .when(is_new & is_old & is_coming, F.array(F.lit(ONLY_LEDGER)))
        .when(is_new & is_old, F.array_compact(F.array(*_different_columns(pipeline))))
        .otherwise(F.array().cast("array<string>"))
    )


def _changes(ledger: DataFrame) -> DataFrame:
    """One row per left row with changes: its added and removed matches, and its state after them."""

    def matches(side: str) -> Column:
        match = F.struct("stream", _id(f"{side}_").alias("id"))
        return F.collect_list(F.when(F.col(f"{side}_topic").isNotNull(), match)).alias(f"_{side}")

    state = F.when(F.col("state_after").isNotNull(), F.struct("state_after", "reason_after"))
    return (
        ledger.where(F.col("stream").isNotNull() | F.col("state_after").isNotNull())
        .groupBy(_id("").alias("_id"), F.col("interval").alias("_ledger_interval"))
        # one line per row carries the state, so the maximum is that line's
        .agg(matches("appeared"), matches("vanished"), F.max(state).alias("_state"))
        .withColumn("_has_changes", F.lit(True))
    )


def _applied(sides: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The published rows with matches and states as the ledger changes them; the labels follow from these."""
    rows = sides.withColumn("_is_changed", F.col("_has_changes").isNotNull())
    is_changed = F.col("_is_changed")
    for stream in pipeline.right:
        rows = rows.withColumn(stream.name, F.when(is_changed, _with_changes(stream)).otherwise(F.col(stream.name)))
    state = F.col("_state")
    rows = rows.withColumn(STATE, F.coalesce(state["state_after"], F.col(STATE))).withColumn(
        REASON, F.when(state.isNotNull(), state["reason_after"]).otherwise(F.col(REASON))
    )
    for name, expression in pipeline.labels.items():
        label = F.when(F.col(STATE) != "unknown", value_of(expression))
        rows = rows.withColumn(name, F.when(is_changed, label).otherwise(F.col(name)))
    return rows


def _with_changes(stream: RightStream) -> Column:
    """The published matches without the removed ones, and with the added ones as they were rebuilt; in row order."""

    def ids(side: str) -> Column:
        of_stream = F.filter(f"_{side}", lambda match: match["stream"] == stream.name)
        return F.transform(of_stream, lambda match: match["id"])

    leaving, coming = ids("vanished"), ids("appeared")
    kept = F.filter(stream.name, lambda match: ~F.array_contains(leaving, _match_id(match)))
    new = F.filter(F.col(f"_new.{stream.name}"), lambda match: F.array_contains(coming, _match_id(match)))
    return F.array_sort(F.concat(kept, new))


def _match_id(match: Column) -> Column:
    return F.struct(*[match[name].alias(name) for name in ROW_ID])


def _different_columns(pipeline: Pipeline) -> list[Column]:
    """For each public column that is not an audit column: its name where the two sides differ, else null."""
    pairs = {name: (F.col(name), F.col(f"_new.{name}")) for name in (EVENT_TIME, INTERVAL, STATE, REASON)}
    for name, kind in pipeline.left.columns.items():
        old, new = F.col(name), F.col(f"_new.{name}")
        pairs[name] = (F.to_json(old), F.to_json(new)) if "map<" in kind else (old, new)  # Spark cannot compare maps
    for stream in pipeline.right:
        pairs[stream.name] = (_unaudited(F.col(stream.name), stream), _unaudited(F.col(f"_new.{stream.name}"), stream))
    pairs |= {name: (F.col(name), F.col(f"_new.{name}")) for name in pipeline.labels}
    return [F.when(~old.eqNullSafe(new), F.lit(name)) for name, (old, new) in pairs.items()]


def _unaudited(matches: Column, stream: RightStream) -> Column:
    """The matches without the arrival time, which may differ between two publications (rule 15)."""
    names = [name for name in (*ELEMENT_META, *stream.columns) if name != ARRIVED_AT]
    return F.transform(matches, lambda match: F.struct(*[match[name].alias(name) for name in names]))


def _id(prefix: str) -> Column:
    """A row id of a line, with the field names of the landing tables.

    >>> line = spark.sql("select 't' as gone_topic, 0 as gone_epoch, 1 as gone_partition, 7 as gone_offset")
    >>> line.select(_id("gone_").alias("id")).show()
    +------------+
    |          id|
    +------------+
    |{t, 0, 1, 7}|
    +------------+
    <BLANKLINE>
    """
    return F.struct(*[F.col(f"{prefix}{name.removeprefix('_')}").alias(name) for name in ROW_ID])
