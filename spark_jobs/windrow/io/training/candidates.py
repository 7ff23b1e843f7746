"""Candidates: joined rows of an interval before they are published; readers of the training table do not see them.

One commit holds the candidates of all plans of a run. It is made once: a retry finds it and continues after it.
The files have the columns of the training table, with the publication number that is foreseen for them. If it gets this
number, publication adds these very files to the training table and writes no row a second time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import INTERVAL, PAIRED, PLAN, ROW_ORDER
from windrow.home import Home, Table
from windrow.io.delta import lookup, scan, tables
from windrow.io.delta.files import DataFile
from windrow.io.delta.locks import held
from windrow.io.delta.lookup import Range
from windrow.outcomes import NeedsPerson
from windrow.semantics.intervals import at_micros
from windrow.semantics.plan import Plan
from windrow.transforms.training import ColumnTypes

ROWS_PER_TASK = 100_000
"""About how many rows one task joins and writes, into one file; maintenance merges the files later."""


class CandidatesGone(NeedsPerson):
    """The candidates table is missing. A person puts it back, or clears the run."""


def are_written(home: Home, plans: Sequence[Plan]) -> bool:
    """Return whether the one commit with the candidates of these plans was made."""
    return tables.version_of(home.table(Table.CANDIDATES), _app_id(plans)) >= 1


def write(rows: DataFrame, path: str, plans: Sequence[Plan], rows_expected: int) -> None:
    """Write candidate rows of a run's plans in one commit, in row order within a file.

    Args:
        rows: candidate rows with the foreseen numbers (`transforms.training.candidate_rows`).
        path: location of the candidates table; created if missing.
        rows_expected: about how many rows there are; it decides the number of files.

    Raises:
        WriteSkipped: another writer has made the commit.
    """
    app_id = _app_id(plans)
    files = max(1, -(-rows_expected // ROWS_PER_TASK))
    # the plans of a run share pins, clock and config: one in full and the ids of the others describe them all
    message = {
        "windrow": "candidates",
        "plan": json.loads(plans[0].to_json()),
        "plans": [plan.id for plan in plans],
    }
    # rows of a plan belong to one task or a few; otherwise every task would write a file of every plan
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
        .option("delta.dataSkippingNumIndexedCols", "0")  # candidates are found by plan; publishing makes statistics
        .option("delta.writePartitionColumnsToParquet", "false")  # the training table has no such columns
        .save(path)
    )
    if tables.version_of(path, app_id) != 1:
        raise tables.WriteSkipped(f"{path}: the commit of {app_id} is not in the table. Run again.")


def read(spark: SparkSession, home: Home, plans: Sequence[Plan]) -> DataFrame:
    """Return candidate rows of plans, with `_paired` even where the table leaves it out because every row is paired.

    Raises:
        CandidatesGone: there is no candidates table.
    """
    path = home.table(Table.CANDIDATES)
    ids = [plan.id for plan in plans]
    rows = scan.rows(spark, path, *[_files_with(plan_id) for plan_id in ids])
    if rows is None:
        raise CandidatesGone(
            f"{path} is not there, but candidates in it were recorded. Put it back, or clear the run from its first "
            "task on: a new plan is joined anew."
        )
    paired = F.coalesce(PAIRED, F.lit(True)) if PAIRED in rows.columns else F.lit(True)
    return rows.where(F.col(PLAN).isin(ids)).withColumn(PAIRED, paired)


def files_of(home: Home, plans: Sequence[Plan]) -> tuple[dict[str, list[str]], ColumnTypes]:
    """Return the locations of the candidates' files by plan id, and the table's columns with their types.

    Returns:
        Two mappings: plan id → locations, empty where a plan has no rows; column → type as Spark writes it.
    """
    path = home.table(Table.CANDIDATES)
    table = lookup.opened(path)
    if table is None:
        return {plan.id: [] for plan in plans}, {}
    files = {plan.id: [f"{path}/{file}" for file in sorted(table.paths(_files_with(plan.id)))] for plan in plans}
    return files, {field.name: field.dataType.simpleString() for field in scan.spark_schema(table.table)}


def null_counts(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, int]]:
    """Return plan id → left column → number of nulls, from the footers of the files.

    A column without an exact number in every footer is absent and must be counted. Footers count unpaired rows too, so
    of a table with `_paired` only the columns without any null are returned.
    """
    files, columns = files_of(home, plans)
    counts = {}
    for plan_id, paths in files.items():
        by_file = [DataFile.read(path).null_counts for path in paths]
        known = [name for name in home.pipeline.left.columns if all(name in nulls for nulls in by_file)]
        totals = {name: sum(nulls[name] for nulls in by_file) for name in known}
        counts[plan_id] = {name: n for name, n in totals.items() if n == 0 or PAIRED not in columns}
    return counts


def collect(aggregates: Mapping[str, DataFrame]) -> dict[str, dict[Any, dict[str, Any]]]:
    """Collect small aggregates, all at the same time, because each takes more planning than work.

    Returns:
        Name of the aggregate → plan id, or interval start where it has no plan → the row as a dict.
    """

    def by_key(frame: DataFrame) -> dict[Any, dict[str, Any]]:
        if PLAN in frame.columns:
            return {row[PLAN]: row.asDict() for row in frame.collect()}
        # instants leave Spark as microseconds: a collected timestamp would be in the process's time zone
        rows = frame.withColumn(INTERVAL, F.unix_micros(INTERVAL)).collect()
        return {at_micros(row[INTERVAL]): row.asDict() for row in rows}

    with ThreadPoolExecutor(len(aggregates)) as pool:
        return dict(zip(aggregates, pool.map(by_key, aggregates.values()), strict=True))


def discard(home: Home, plan_ids: Sequence[str]) -> None:
    """Remove the rows of these plans from the table; vacuum deletes their files after the retention.

    Args:
        plan_ids: ids without rows do no harm.

    Raises:
        Locked: a join holds the candidates for too long.
    """
    with held(home.lock(Table.CANDIDATES)):
        table = tables.opened(home.table(Table.CANDIDATES))
        if table is not None and plan_ids:
            names = ", ".join(f"'{plan_id}'" for plan_id in plan_ids)
            table.delete(f"{PLAN} in ({names})")


def _app_id(plans: Sequence[Plan]) -> str:
    return f"windrow.join/{plans[0].id}"


def _files_with(plan_id: str) -> tuple[Range]:
    return (Range(PLAN, plan_id, plan_id),)
