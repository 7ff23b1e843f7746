"""Candidates: joined rows of an interval that nobody reads yet, and the numbers by which they are judged.

One commit holds the candidates of all plans of a run. The commit is made once: a retry finds it and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.config import Pipeline
from windrow.config.column_types import parse_type
from windrow.io import crash, frames, small
from windrow.io.clocks import Observation
from windrow.io.locks import held
from windrow.places import Places
from windrow.schemas import ELEMENT_TYPES, INTERVAL, MEASURES, PLAN, ROW_ORDER, TRAINING_TYPES
from windrow.semantics.balance import Balance, LeftBalance, RightBalance
from windrow.semantics.plan import Plan
from windrow.transforms import measure


class LabelNotPublishable(ValueError):
    """A label expression has a type that not every reader knows. The pipeline file must change."""


def is_made(pipeline: Pipeline, places: Places, plans: Sequence[Plan]) -> bool:
    """Whether the candidates and the measures of these plans are all there."""
    known = {row["plan"] for row in measures_of(pipeline, places, plans)}
    return known >= {plan.id for plan in plans}


def measures_of(pipeline: Pipeline, places: Places, plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Rows of `measures` of these plans."""
    return small.read(places.table(pipeline.name, "measures"), filters=small.of_plans("plan", plans))


def make(
    spark: SparkSession,
    pipeline: Pipeline,
    places: Places,
    plans: tuple[Plan, ...],
    landing: Mapping[str, float | None],
) -> None:
    """Join the plans' intervals, write the candidates in one commit, and measure them as written.

    `landing`: measures of the landing balance (see `landing_measures`).
    """
    with held(places.lock(pipeline.name, "candidates")):
        read = frames.inputs(spark, pipeline, places, plans)
        path = places.table(pipeline.name, "candidates")
        app_id = f"windrow.join/{plans[0].id}"
        if small.version_of(path, app_id) < 1:
            crash.point("join.before_commit")
            rows = frames.joined(pipeline, plans, read)
            _refuse_unreadable(rows, pipeline)
            _write(rows, path, app_id, plans)
        crash.point("join.after_commit")
        if not is_made(pipeline, places, plans):
            written = of_plans(spark, pipeline, places, [plan.id for plan in plans])
            measured = _measures(pipeline, plans, read, written, landing)
            small.append_once(places.table(pipeline.name, "measures"), MEASURES, measured)
        read.release()
        crash.point("join.after_measures")


def of_plans(spark: SparkSession, pipeline: Pipeline, places: Places, plan_ids: Sequence[str]) -> DataFrame:
    """Candidate rows of some plans, `_paired` and not."""
    path = places.table(pipeline.name, "candidates")
    return spark.read.format("delta").load(path).where(F.col(PLAN).isin(list(plan_ids)))


def discard(pipeline: Pipeline, places: Places, plan_ids: Sequence[str]) -> None:
    """Take published candidates out of the table; their files go with the next vacuum."""
    with held(places.lock(pipeline.name, "candidates")):
        table = small.opened(places.table(pipeline.name, "candidates"))
        if table is not None and plan_ids:
            names = ", ".join(f"'{plan_id}'" for plan_id in plan_ids)
            table.delete(f"{PLAN} in ({names})")


def _refuse_unreadable(rows: DataFrame, pipeline: Pipeline) -> None:
    for name in pipeline.labels:
        kind = rows.schema[name].dataType.simpleString()
        try:
            parse_type(kind)
        except ValueError as problem:
            raise LabelNotPublishable(
                f"label {name!r} is of type {kind}: {problem}. Cast it in `labels:`, e.g. cast(... as double)."
            ) from None


def _write(rows: DataFrame, path: str, app_id: str, plans: tuple[Plan, ...]) -> None:
    message = {"windrow": "candidates", "plans": [json.loads(plan.to_json()) for plan in plans]}
    (
        rows.sortWithinPartitions(PLAN, *ROW_ORDER)
        .write.format("delta")
        .mode("append")
        .partitionBy(PLAN)
        .option("mergeSchema", "true")
        .option("txnAppId", app_id)
        .option("txnVersion", "1")
        .option("userMetadata", json.dumps(message, sort_keys=True))
        .option("delta.setTransactionRetentionDuration", "interval 30 days")
        .save(path)
    )
    if small.version_of(path, app_id) != 1:
        raise small.WriteSkipped(f"{path}: the commit of {app_id} is not in the table. Run again.")


def _measures(
    pipeline: Pipeline,
    plans: tuple[Plan, ...],
    read: frames.Inputs,
    written: DataFrame,
    landing: Mapping[str, float | None],
) -> list[dict[str, Any]]:
    starts, length = [plan.interval.start for plan in plans], pipeline.interval
    aggregates: dict[tuple[str, ...], DataFrame] = {
        ("rows",): measure.candidate_measures(written, pipeline),
        ("repeated",): measure.repeated_row_ids(written),
        ("left",): measure.left_counts(read.left, starts, length),
        ("left conflict",): measure.conflicts(read.left, pipeline.left, starts, length),
    }
    for stream in pipeline.right:
        side = read.rights[stream.name]
        aggregates["right", stream.name] = measure.right_counts(side, written, stream, starts, length)
        aggregates["right conflict", stream.name] = measure.conflicts(side, stream, starts, length)
    counts = _collected(aggregates)
    rows = []
    for plan in plans:
        start, emitted = plan.interval.start, counts["rows",].get(plan.id, {})
        sides = {stream.name: counts["right", stream.name].get(start, {}) for stream in pipeline.right}
        left = counts["left",].get(start, {})
        numbers = {
            **_of_rows(pipeline, emitted),
            "schema_differences": schema_differences(written.schema, pipeline),
            "duplicate_row_ids": counts["repeated",].get(plan.id, {}).get("duplicate_row_ids", 0),
            **_balance(emitted, left, sides).measures(),
            "left_filtered": left.get("left_filtered", 0),
            "left_conflict": counts["left conflict",].get(start, {}).get("conflict", 0),
            **{f"{name}.conflict": counts["right conflict", name].get(start, {}).get("conflict", 0) for name in sides},
            **landing,
        }
        rows += [
            {"plan": plan.id, "interval": start, "name": name, "value": None if v is None else float(v)}
            for name, v in numbers.items()
        ]
    return rows


def schema_differences(found: StructType, pipeline: Pipeline) -> int:
    """How many columns that the pipeline file promises are missing or of another type."""
    elements = {
        stream.name: ",".join(f"{name}:{kind}" for name, kind in {**ELEMENT_TYPES, **stream.columns}.items())
        for stream in pipeline.right
    }
    promised = {
        **pipeline.left.columns,
        **{name: f"array<struct<{fields}>>" for name, fields in elements.items()},
        **TRAINING_TYPES,
    }
    kinds = {field.name: field.dataType.simpleString() for field in found}
    missing = [name for name in pipeline.labels if name not in kinds]
    return len(missing) + sum(kinds.get(name) != kind for name, kind in promised.items())


def _of_rows(pipeline: Pipeline, counts: Mapping[str, int]) -> dict[str, float | None]:
    """Counts and rates of one candidate; a rate over no rows is null."""
    rows = counts.get("rows", 0)
    names = [
        "positive", "negative", "unknown", "rows_outside_interval", "labels_outside_window",
        "labels_out_of_order", "null_arrays", "state_contradictions", "null_event_time", "null_row_id",
    ]  # fmt: skip
    reasons = [name for name in counts if name.startswith("unknown.")]
    known = counts.get("positive", 0) + counts.get("negative", 0)
    nulls = {f"null_rate.{c}": _rate(counts.get(f"nulls.{c}", 0), rows) for c in pipeline.left.columns}
    payload = [nulls[f"null_rate.{c}"] for c in pipeline.left.columns if c not in pipeline.left.key]
    return {
        **{name: counts.get(name, 0) for name in (*names, *reasons)},
        "label_rate": _rate(counts.get("positive", 0), known),
        "unknown_rate": _rate(counts.get("unknown", 0), rows),
        "left_key_null_rate": _rate(counts.get("left_keyless", 0), rows),
        **nulls,
        "null_rate_max": max((r for r in payload if r is not None), default=None),
    }


def _rate(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _balance(rows: Mapping[str, int], left: Mapping[str, int], right: Mapping[str, Mapping[str, int]]) -> Balance:
    counts = ("read", "matched", "unmatched", "duplicate", "filtered")
    return Balance(
        LeftBalance(
            landed=left.get("left_landed", 0),
            emitted=rows.get("rows", 0),
            duplicate=left.get("left_duplicate", 0),
            unpaired=rows.get("left_unpaired", 0),
        ),
        {name: RightBalance(**{c: side.get(c, 0) for c in counts}) for name, side in right.items()},
    )


def landing_measures(seen: Observation) -> dict[str, float | None]:
    """The landing balance of all topics, from the first offset on."""
    total = {n: sum(row[n] for row in seen.rows) for n in ("read", "landed", "quarantined", "skipped")}
    imbalance = total["read"] - total["landed"] - total["quarantined"] - total["skipped"]
    return {
        **{f"landing_{name}": value for name, value in total.items()},
        "landing_imbalance": imbalance,
        "landing_quarantine_rate": _rate(total["quarantined"], total["landed"] + total["quarantined"]),
        "landing_duplicate_row_ids": sum(max(0, -row["skipped"]) for row in seen.rows),
    }


def _collected(aggregates: Mapping[tuple[str, ...], DataFrame]) -> dict[tuple[str, ...], dict[Any, dict[str, Any]]]:
    """Small aggregates by plan or by interval start, computed side by side: each is more planning than work.

    Instants leave Spark as microseconds: a collected timestamp would be in the process's zone.
    """
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def collected(frame: DataFrame) -> dict[Any, dict[str, Any]]:
        if PLAN in frame.columns:
            return {row[PLAN]: row.asDict() for row in frame.collect()}
        rows = frame.withColumn(INTERVAL, F.unix_micros(INTERVAL)).collect()
        return {epoch + timedelta(microseconds=row[INTERVAL]): row.asDict() for row in rows}

    with ThreadPoolExecutor(len(aggregates)) as pool:
        return dict(zip(aggregates, pool.map(collected, aggregates.values()), strict=True))
