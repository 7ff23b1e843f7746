"""Live rows plus late ledger against a rebuild: which rows differ, and in which columns. Never a value.

    published ─▶ without what the ledger says leaves, its matches and states as the ledger says they are now ─┐
    ledger ────▶ what comes: taken as it was rebuilt                                                          ├▶ equal
    rebuilt ──────────────────────────────────────────────────────────────────────────────────────────────────┘

The ledger names rows and matches, and is taken at its word: what it does not name must be as published, to the value.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.columns import ARRIVED_AT, ELEMENT_META, EVENT_TIME, INTERVAL, REASON, ROW_ID, STATE
from windrow.config import Pipeline, RightStream

DIFFERENT = "_different"
ONLY_PUBLISHED, ONLY_REBUILT, ONLY_TOLD = "only published", "only rebuilt", "only in the ledger"


def differences(published: DataFrame, ledger: DataFrame, rebuilt: DataFrame, pipeline: Pipeline) -> DataFrame:
    """One row for each left row that the ledger does not explain.

    Args:
        published: training rows. ledger: their lines that count. rebuilt: candidate rows that would be published.
    Returns:
        `_interval`, `_id` (a row id), `_event_time`, `_different`: names of columns, or what is there on one side only.
    """
    row = _id("")
    leaving = ledger.where(F.col("gone_topic").isNotNull()).select(_id("gone_").alias("_id")).distinct()
    comes = F.col("stream").isNull() & F.col("state_after").isNull() & ~F.coalesce(row == _id("gone_"), F.lit(False))
    coming = ledger.where(comes).select(row.alias("_id"), F.lit(True).alias("_comes")).distinct()
    old = published.withColumn("_id", F.struct(*ROW_ID)).join(leaving, on="_id", how="left_anti")
    new = rebuilt.select(F.struct(*ROW_ID).alias("_id"), F.struct(*rebuilt.columns).alias("_new"))
    met = (
        old.withColumn("_is_old", F.lit(True))
        .join(new, on="_id", how="full_outer")
        .join(coming, on="_id", how="full_outer")
        .join(_changes(ledger), on="_id", how="full_outer")
    )
    met = _applied(met, pipeline)
    is_old, is_new = F.col("_is_old").isNotNull(), F.col("_new").isNotNull()
    told = F.col("_comes").isNotNull() | F.col("_is_changed")
    found = (
        F.when(~is_new & is_old, F.array(F.lit(ONLY_PUBLISHED)))
        .when(~is_new & told, F.array(F.lit(ONLY_TOLD)))
        .when(is_new & ~is_old & F.col("_comes").isNull(), F.array(F.lit(ONLY_REBUILT)))
        .when(is_new & is_old & F.col("_comes").isNotNull(), F.array(F.lit(ONLY_TOLD)))
        .when(is_new & is_old, F.array_compact(F.array(*_columns(pipeline))))
        .otherwise(F.array().cast("array<string>"))
    )
    start = F.coalesce(INTERVAL, F.col(f"_new.{INTERVAL}"), "_told_interval").alias(INTERVAL)
    at = F.coalesce(EVENT_TIME, F.col(f"_new.{EVENT_TIME}")).alias(EVENT_TIME)
    return met.select(start, "_id", at, found.alias(DIFFERENT)).where(F.size(DIFFERENT) > 0)


def _changes(ledger: DataFrame) -> DataFrame:
    """By left row: matches that come and leave, and the state that it has then."""

    def matches(side: str) -> Column:
        match = F.struct("stream", _id(f"{side}_").alias("id"))
        return F.collect_list(F.when(F.col(f"{side}_topic").isNotNull(), match)).alias(f"_{side}")

    state = F.when(F.col("state_after").isNotNull(), F.struct("state_after", "reason_after"))
    return (
        ledger.where(F.col("stream").isNotNull() | F.col("state_after").isNotNull())
        .groupBy(_id("").alias("_id"), F.col("interval").alias("_told_interval"))
        .agg(matches("appeared"), matches("vanished"), F.max(state).alias("_state"))
        .withColumn("_has_changes", F.lit(True))
    )


def _applied(met: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Published rows with the ledger's word on matches and states in them; labels follow from these."""
    rows = met.withColumn("_is_changed", F.col("_has_changes").isNotNull())
    is_changed = F.col("_is_changed")
    for stream in pipeline.right:
        rows = rows.withColumn(stream.name, F.when(is_changed, _with_changes(stream)).otherwise(F.col(stream.name)))
    to = F.col("_state")
    rows = rows.withColumn(STATE, F.coalesce(to["state_after"], F.col(STATE))).withColumn(
        REASON, F.when(to.isNotNull(), to["reason_after"]).otherwise(F.col(REASON))
    )
    for name, expression in pipeline.labels.items():
        follows = F.when(F.col(STATE) != "unknown", F.expr(expression))
        rows = rows.withColumn(name, F.when(is_changed, follows).otherwise(F.col(name)))
    return rows


def _with_changes(stream: RightStream) -> Column:
    def ids(side: str) -> Column:
        mine = F.filter(f"_{side}", lambda x: x["stream"] == stream.name)
        return F.transform(mine, lambda x: x["id"])

    gone, come = ids("vanished"), ids("appeared")
    kept = F.filter(stream.name, lambda e: ~F.array_contains(gone, _element_id(e)))
    new = F.filter(F.col(f"_new.{stream.name}"), lambda e: F.array_contains(come, _element_id(e)))
    return F.array_sort(F.concat(kept, new))


def _element_id(e: Column) -> Column:
    return F.struct(*[e[c].alias(c) for c in ROW_ID])


def _columns(pipeline: Pipeline) -> list[Column]:
    """For each public column that is no audit column, its name where the two sides differ."""
    pairs = {name: (F.col(name), F.col(f"_new.{name}")) for name in (EVENT_TIME, INTERVAL, STATE, REASON)}
    for name, kind in pipeline.left.columns.items():
        plain = (F.col(name), F.col(f"_new.{name}"))
        pairs[name] = (F.to_json(plain[0]), F.to_json(plain[1])) if "map<" in kind else plain  # maps do not compare
    for stream in pipeline.right:
        pairs[stream.name] = (_unaudited(F.col(stream.name), stream), _unaudited(F.col(f"_new.{stream.name}"), stream))
    pairs |= {name: (F.col(name), F.col(f"_new.{name}")) for name in pipeline.labels}
    return [F.when(~one.eqNullSafe(other), F.lit(name)) for name, (one, other) in pairs.items()]


def _unaudited(matches: Column, stream: RightStream) -> Column:
    names = [name for name in (*ELEMENT_META, *stream.columns) if name != ARRIVED_AT]
    return F.transform(matches, lambda e: F.struct(*[e[name].alias(name) for name in names]))


def _id(prefix: str) -> Column:
    """A row id of a line, in the landing tables' words."""
    return F.struct(*[F.col(f"{prefix}{name.removeprefix('_')}").alias(name) for name in ROW_ID])
