"""Candidates: joined rows of an interval that nobody reads yet, and the numbers by which they are judged.

One commit holds the candidates of all plans of a run. The commit is made once: a retry finds it and goes on.
The files are written as the training table's would be, with the publication number that they will get if nobody
else publishes first: then publication adds these very files, and writes no row a second time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from windrow.config import Pipeline
from windrow.config.column_types import parse_type
from windrow.home import Home, Table
from windrow.io.delta import crash_points, lookup, scan, tables
from windrow.io.delta.files import DataFile
from windrow.io.delta.locks import held
from windrow.io.delta.lookup import Range
from windrow.io.registers.clocks import Observation
from windrow.io.training import inputs
from windrow.outcomes import BadInput
from windrow.schemas import ELEMENT_TYPES, INTERVAL, MEASURES, PAIRED, PLAN, PUBLICATION, ROW_ORDER, TRAINING_TYPES
from windrow.semantics.balance import Balance, LeftBalance, RightBalance
from windrow.semantics.intervals import at_micros
from windrow.semantics.plan import Plan
from windrow.transforms import measure

ROWS_PER_TASK = 100_000
"""About as many rows are joined and written by one task, into one file; maintenance makes larger ones of them."""


class CandidatesGone(RuntimeError):
    """There is no candidates table any more."""


class LabelNotPublishable(BadInput):
    """A label expression has a type that not every reader knows. The pipeline file must change."""


def is_made(home: Home, plans: Sequence[Plan]) -> bool:
    """Whether the candidates and the measures of these plans are all there."""
    known = {row["plan"] for row in measures_of(home, plans)}
    return known >= {plan.id for plan in plans}


def measures_of(home: Home, plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Rows of `measures` of these plans."""
    filters = tables.of_plans("plan", plans)
    return tables.read(home.table(Table.MEASURES), filters=filters) if plans else []


def numbers_of(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, Any]]:
    """Measures by name, by plan id."""
    numbers: dict[str, dict[str, Any]] = {plan.id: {} for plan in plans}
    for row in measures_of(home, plans):
        numbers[row["plan"]][row["name"]] = row["value"]
    return numbers


def make(
    spark: SparkSession,
    home: Home,
    plans: tuple[Plan, ...],
    landing: Mapping[str, float | None],
    numbers: Mapping[str, int],
    rows_expected: int,
) -> None:
    """Join the plans' intervals, write the candidates in one commit, and measure them as written.

    `landing`: measures of the landing balance (see `landing_measures`). `numbers`: by plan id, the publication number
    that is foreseen for it. `rows_expected`: about how many left rows they have.
    """
    with held(home.lock(Table.CANDIDATES)):
        read = inputs.inputs(spark, home, plans)
        path = home.table(Table.CANDIDATES)
        app_id = f"windrow.join/{plans[0].id}"
        if tables.version_of(path, app_id) < 1:
            crash_points.point("join.before_commit")
            rows = inputs.joined(home.pipeline, plans, read)
            _refuse_unreadable(rows, home.pipeline)
            write(_as_published(rows, home.pipeline, plans, numbers), path, app_id, plans, rows_expected)
        crash_points.point("join.after_commit")
        if not is_made(home, plans):
            written = of_plans(spark, home, [plan.id for plan in plans])
            nulls = _nulls_of(home, plans)
            measured = _measures(home.pipeline, plans, read, written, landing, nulls)
            tables.append_once(home.table(Table.MEASURES), MEASURES, measured)
        read.release()
        crash_points.point("join.after_measures")


def of_plans(spark: SparkSession, home: Home, plan_ids: Sequence[str]) -> DataFrame:
    """Candidate rows of some plans, `_paired` and not."""
    path = home.table(Table.CANDIDATES)
    rows = scan.rows(spark, path, *[_of(plan_id) for plan_id in plan_ids])
    if rows is None:
        raise CandidatesGone(
            f"{path} is not there, but candidates in it were recorded. Put it back, or clear the run from its first "
            "task on: a new plan is joined anew."
        )
    paired = F.coalesce(PAIRED, F.lit(True)) if PAIRED in rows.columns else F.lit(True)
    return rows.where(F.col(PLAN).isin(list(plan_ids))).withColumn(PAIRED, paired)


def files_of(home: Home, plans: Sequence[Plan]) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """The candidates' files by plan id, without a session; and the table's columns, name → type in Spark's words."""
    path = home.table(Table.CANDIDATES)
    table = lookup.opened(path)
    if table is None:
        return {plan.id: [] for plan in plans}, {}
    files = {plan.id: [Path(path) / file for file in sorted(table.paths(_of(plan.id)))] for plan in plans}
    return files, {field.name: field.dataType.simpleString() for field in scan.spark_schema(table.table)}


def _of(plan_id: str) -> tuple[Range]:
    """The plan's files."""
    return (Range(PLAN, plan_id, plan_id),)


def discard(home: Home, plan_ids: Sequence[str]) -> None:
    """Take published candidates out of the table; their files go with the next vacuum."""
    with held(home.lock(Table.CANDIDATES)):
        table = tables.opened(home.table(Table.CANDIDATES))
        if table is not None and plan_ids:
            names = ", ".join(f"'{plan_id}'" for plan_id in plan_ids)
            table.delete(f"{PLAN} in ({names})")


def _as_published(
    rows: DataFrame, pipeline: Pipeline, plans: tuple[Plan, ...], numbers: Mapping[str, int]
) -> DataFrame:
    """Numbered; `_paired` only where it can be false."""
    by_plan = F.create_map(*[F.lit(x) for plan in plans for x in (plan.id, numbers[plan.id])])
    numbered = rows.withColumn(PUBLICATION, F.element_at(by_plan, F.col(PLAN)).cast("bigint"))
    return numbered if any(stream.join == "inner" for stream in pipeline.right) else numbered.drop(PAIRED)


def _refuse_unreadable(rows: DataFrame, pipeline: Pipeline) -> None:
    for name in pipeline.labels:
        kind = rows.schema[name].dataType.simpleString()
        try:
            parse_type(kind)
        except ValueError as problem:
            raise LabelNotPublishable(
                f"label {name!r} is of type {kind}: {problem}. Cast it in `labels:`, e.g. cast(... as double)."
            ) from None


def write(rows: DataFrame, path: str, app_id: str, plans: tuple[Plan, ...], rows_expected: int) -> None:
    """One commit of candidate rows, in row order within a file; `app_id` is in it, so that it is made once.

    Raises:
        WriteSkipped: another writer's commit has the id.
    """
    files = max(1, -(-rows_expected // ROWS_PER_TASK))
    # the plans of a run share pins, clock and file: one in full says all that the ids do not
    told = {"plan": json.loads(plans[0].to_json()), "plans": [plan.id for plan in plans]}
    message = {"windrow": "candidates", **told}
    # a plan's rows in one task, or in few: not a file of each plan from every task
    rows = rows.hint("rebalance", PLAN) if len(plans) > 1 else rows.coalesce(files)
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
        .option("delta.dataSkippingNumIndexedCols", "0")  # nobody looks by value; publishing makes statistics
        .option("delta.writePartitionColumnsToParquet", "false")  # they are no columns of the training table
        .save(path)
    )
    if tables.version_of(path, app_id) != 1:
        raise tables.WriteSkipped(f"{path}: the commit of {app_id} is not in the table. Run again.")


def _measures(
    pipeline: Pipeline,
    plans: tuple[Plan, ...],
    read: inputs.Inputs,
    written: DataFrame,
    landing: Mapping[str, float | None],
    nulls: Mapping[str, Mapping[str, int]],
) -> list[dict[str, Any]]:
    """`nulls`: by plan id, nulls of those columns that need not be counted."""
    uncounted = [name for name in pipeline.left.columns if any(name not in nulls.get(p.id, {}) for p in plans)]
    starts, length = [plan.interval.start for plan in plans], pipeline.interval
    aggregates: dict[tuple[str, ...], DataFrame] = {
        ("rows",): measure.candidate_measures(written, pipeline, uncounted),
        ("repeated",): measure.repeated_row_ids(written),
        ("left",): measure.left_counts(read.left, length),
    }
    disputed = {pipeline.left.name: measure.conflicts(read.left, starts, length)}
    for stream in pipeline.right:
        side = read.rights[stream.name]
        aggregates["right", stream.name] = measure.right_counts(side, written, stream, starts, length)
        disputed[stream.name] = measure.conflicts(side, starts, length)
    aggregates |= {("conflict", name): frame for name, frame in disputed.items() if frame is not None}
    counts = _collected(aggregates)
    rows = []
    for plan in plans:
        start, emitted = plan.interval.start, counts["rows",].get(plan.id, {})
        known = {f"nulls.{name}": count for name, count in nulls.get(plan.id, {}).items()}
        sides = {stream.name: counts["right", stream.name].get(start, {}) for stream in pipeline.right}
        left = counts["left",].get(start, {})
        conflict = {name: counts.get(("conflict", name), {}).get(start, {}).get("conflict", 0) for name in disputed}
        numbers = {
            **_of_rows(pipeline, {**known, **emitted}),
            "schema_differences": schema_differences(written.schema, pipeline),
            "duplicate_row_ids": counts["repeated",].get(plan.id, {}).get("duplicate_row_ids", 0),
            **_balance(emitted, left, sides).measures(),
            "left_filtered": left.get("left_filtered", 0),
            "left_conflict": conflict[pipeline.left.name],
            **{f"{name}.conflict": conflict[name] for name in sides},
            **landing,
        }
        rows += [
            {"plan": plan.id, "interval": start, "name": name, "value": None if v is None else float(v)}
            for name, v in numbers.items()
        ]
    return rows


def _nulls_of(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, int]]:
    """By plan id, nulls of the left columns that the footers of its files tell; rows without their pair count as any.

    A leaf of a nested column is null also where the column is not, so they tell only if there is none.
    """
    files, columns = files_of(home, plans)
    if PAIRED in columns:
        return {}
    told = {}
    for plan_id, paths in files.items():
        by_file = [DataFile.read(path).null_counts for path in paths]
        known = [name for name in home.pipeline.left.columns if all(name in nulls for nulls in by_file)]
        told[plan_id] = {name: sum(nulls[name] for nulls in by_file) for name in known}
    return told


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

    def collected(frame: DataFrame) -> dict[Any, dict[str, Any]]:
        if PLAN in frame.columns:
            return {row[PLAN]: row.asDict() for row in frame.collect()}
        rows = frame.withColumn(INTERVAL, F.unix_micros(INTERVAL)).collect()
        return {at_micros(row[INTERVAL]): row.asDict() for row in rows}

    with ThreadPoolExecutor(len(aggregates)) as pool:
        return dict(zip(aggregates, pool.map(collected, aggregates.values()), strict=True))
