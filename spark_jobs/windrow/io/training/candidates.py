"""Candidates: joined rows of an interval before they are published; readers of the training table do not see them.

One commit holds the candidates of all plans of a run. It is made once: a retry finds it and continues after it.
The files have the columns of the training table, with the publication number that is foreseen for them. If it gets this
number, publication adds these very files to the training table and writes no row a second time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from windrow.columns import FILE, INTERVAL, PAIRED, PLACE_TYPES, PLAN, ROW_ORDER
from windrow.home import Home, Table
from windrow.io.delta import appending, lookup, scan, store, tables
from windrow.io.delta.files import DataFile
from windrow.io.delta.locks import held
from windrow.io.delta.lookup import Range
from windrow.io.delta.session import threads
from windrow.io.registers import erasures
from windrow.io.training import payload, shares
from windrow.outcomes import NeedsPerson
from windrow.places import umask_of
from windrow.semantics.intervals import at_micros
from windrow.semantics.plan import Plan
from windrow.transforms.training import ColumnTypes

ROWS_PER_TASK = 100_000
"""About how many rows one task joins and writes, into one file; maintenance merges the files later."""


BYTES_OF_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS_OF_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
MOST_ROWS_OF_BATCH = 10_000
"""Spark's default; who has set it higher has batches weighed."""
_PROPERTIES = {
    **tables.REGISTER,
    "delta.setTransactionRetentionDuration": "interval 30 days",
    "delta.dataSkippingNumIndexedCols": "0",  # candidates are found by plan; publishing makes statistics
    "delta.writePartitionColumnsToParquet": "false",  # for an earlier release; the training table has no such columns
}


class CandidatesGone(NeedsPerson):
    """The candidates table is missing. A person puts it back, or clears the run."""


def are_written(home: Home, plans: Sequence[Plan]) -> bool:
    """Return whether the one commit with the candidates of these plans was made."""
    return tables.version_of(home.table(Table.CANDIDATES), _app_id(plans)) >= 1


def write(
    rows: DataFrame,
    path: str,
    plans: Sequence[Plan],
    rows_expected: int,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Write candidate rows of a run's plans in one commit, in row order within a file.

    Args:
        rows: candidate rows with the foreseen numbers (`transforms.training.candidate_rows`).
        path: location of the candidates table; created if missing.
        rows_expected: about how many rows there are; it decides the number of files.
        last_look: see `appending.commit`.

    Raises:
        WriteSkipped: another writer has made the commit.
    """
    table = appending.prepare(path, rows.schema, properties=_PROPERTIES, by=PLAN)
    written = appending.written(_in_order(rows, plans, rows_expected), path, table, PLAN)
    _commit(path, table, plans, written, last_look)


def write_with_payload(
    rows: DataFrame,
    schema: StructType,
    home: Home,
    path: str,
    plans: Sequence[Plan],
    rows_expected: int,
    *,
    are_small: bool = False,
    last_look: Callable[[], None] | None = None,
) -> None:
    """Write candidate rows as `write` does, from rows that were joined without payload: Python workers add it.

    Args:
        rows: candidate rows without payload, with the place of each left row and the foreseen numbers.
        schema: columns of whole candidate rows (`transforms.payload.with_payload`).
        path: location of the candidates table; it is created if it is missing, and gets columns that it lacks.
        rows_expected: about how many rows there are; it decides the number of files.
        are_small: whether a row without payload has a few kilobytes at most, whatever row it is.
        last_look: see `appending.commit`.

    Raises:
        WriteSkipped: another writer has made the commit.
        PythonException: a landing file does not have the rows that Spark has read there, or is damaged.
    """
    left = home.pipeline.left
    table = appending.prepare(path, schema, properties=_PROPERTIES, by=PLAN)
    fields = to_arrow_schema(StructType([field for field in schema if field.name != PLAN]), timezone="UTC")
    work = payload.Work(
        landing={topic: home.landing(topic) for topic in left.topics},
        candidates=path,
        schema=pa.schema([pa.field(field.name, field.type) for field in fields]),  # Delta's columns may all be null
        payload=tuple(left.columns),
        has_erased=erasures.are_any(home),
        umask=umask_of(os.environ),
    )
    added = [field.name for field in schema if field.name not in left.columns]
    ordered = _near(rows, home, plans, rows_expected).sortWithinPartitions(*ROW_ORDER).select(*added, *PLACE_TYPES)
    with without_byte_limit(rows.sparkSession) if are_small else nullcontext():
        written = ordered.mapInArrow(partial(payload.write, work), payload.WRITTEN).collect()
    _commit(path, table, plans, {row["written"]: row[PLAN] for row in written}, last_look)


@contextmanager
def without_byte_limit(spark: SparkSession) -> Iterator[None]:
    """Let Spark hand batches of small rows to Python workers without weighing them: their number alone bounds them.

    Spark computes the bytes of a batch anew for every row, of every vector in it, which takes longer than filling them.
    """
    before = spark.conf.get(BYTES_OF_BATCH)
    if int(spark.conf.get(_ROWS_OF_BATCH) or 0) in range(1, MOST_ROWS_OF_BATCH + 1):
        spark.conf.set(BYTES_OF_BATCH, str(2**31 - 1))
    try:
        yield
    finally:
        spark.conf.set(BYTES_OF_BATCH, str(before))


def _in_order(rows: DataFrame, plans: Sequence[Plan], rows_expected: int) -> DataFrame:
    # rows of a plan belong to one task or a few; otherwise every task would write a file of every plan
    few = rows.hint("rebalance", PLAN) if len(plans) > 1 else rows.coalesce(_files(rows_expected))
    return few.sortWithinPartitions(PLAN, *ROW_ORDER)


def _near(rows: DataFrame, home: Home, plans: Sequence[Plan], rows_expected: int) -> DataFrame:
    """Return the rows so that those of a task are in few landing files, or a row group is read by few tasks."""
    if len(plans) > 1:
        divided = shares.shares_of(home, plans, rows.sparkSession.sparkContext.defaultParallelism)
        return rows.repartitionById(divided.count, shares.task_of(divided, home.pipeline.interval))
    if _is_shuffled(rows):  # otherwise a task would read every landing file
        return rows.repartition(_files(rows_expected), FILE)
    return rows.coalesce(_files(rows_expected))


def _files(rows_expected: int) -> int:
    return max(1, -(-rows_expected // ROWS_PER_TASK))


def _is_shuffled(rows: DataFrame) -> bool:
    """Return whether left rows leave the task that reads them, because right rows are too many to be sent to each."""
    plan = rows._jdf.queryExecution().executedPlan().toString()
    return "SortMergeJoin" in plan or "ShuffledHashJoin" in plan


def _message(plans: Sequence[Plan]) -> str:
    # the plans of a run share pins, clock and config: one in full and the ids of the others describe them all
    message = {
        "windrow": "candidates",
        "plan": json.loads(plans[0].to_json()),
        "plans": [plan.id for plan in plans],
    }
    return json.dumps(message, sort_keys=True)


def _commit(
    path: str,
    table: DeltaTable,
    plans: Sequence[Plan],
    written: Mapping[str, str | None],
    last_look: Callable[[], None] | None = None,
) -> None:
    """Add files that are there already to the table, in the one commit of these plans.

    Args:
        table: what `prepare` has returned.
        written: path relative to the table → plan id.
    """
    appending.commit(
        path,
        table,
        written,
        app_id=_app_id(plans),
        version=1,
        message=_message(plans),
        by=PLAN,
        last_look=last_look,
    )


def read(spark: SparkSession, home: Home, plans: Sequence[Plan]) -> DataFrame:
    """Return candidate rows of plans, with `_paired` even where the table leaves it out because every row is paired.

    Raises:
        CandidatesGone: there is no candidates table.
    """
    path = home.table(Table.CANDIDATES)
    ids = [plan.id for plan in plans]
    rows = scan.rows(spark, path, *[_files_with(plan_id) for plan_id in ids])
    if rows is None:
        raise _gone(path)
    paired = F.coalesce(PAIRED, F.lit(True)) if PAIRED in rows.columns else F.lit(True)
    return rows.where(F.col(PLAN).isin(ids)).withColumn(PAIRED, paired)


def names_of(home: Home, plans: Sequence[Plan]) -> tuple[dict[str, list[str]], ColumnTypes]:
    """Return the candidates' files by plan id, as paths relative to the table, and the table's columns.

    Returns:
        Two mappings: plan id → paths, empty where a plan has no rows; column → type as Spark writes it.

    Raises:
        CandidatesGone: there is no candidates table.
    """
    path = home.table(Table.CANDIDATES)
    table = lookup.opened(path)
    if table is None:
        raise _gone(path)
    files = {plan.id: sorted(table.paths(_files_with(plan.id))) for plan in plans}
    return files, {field.name: field.dataType.simpleString() for field in scan.spark_schema(table.table)}


def files_of(home: Home, plans: Sequence[Plan]) -> tuple[dict[str, list[str]], ColumnTypes]:
    """Return what `names_of` does, with the files' locations; where there is no table, nothing."""
    path = home.table(Table.CANDIDATES)
    try:
        names, columns = names_of(home, plans)
    except CandidatesGone:
        return {plan.id: [] for plan in plans}, {}
    return {plan_id: [f"{path}/{name}" for name in found] for plan_id, found in names.items()}, columns


def null_counts(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, int]]:
    """Return plan id → left column → number of nulls, from the footers of the files.

    A column without an exact number in every footer is absent and must be counted. Footers count unpaired rows too, so
    of a table with `_paired` only the columns without any null are returned.
    """
    files, columns = files_of(home, plans)
    counts = {}
    for plan_id, paths in files.items():
        by_file = [file.null_counts for file in store.each(paths, DataFile.read)]
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

    with threads(len(aggregates)) as pool:
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
        if table is not None:
            names = ", ".join(f"'{plan_id}'" for plan_id in plan_ids)
            tables.ensure(
                table,
                lambda: {entry[PLAN] for entry in table.partitions()}.isdisjoint(plan_ids),
                lambda: table.delete(f"{PLAN} in ({names})"),
            )


def _app_id(plans: Sequence[Plan]) -> str:
    return f"windrow.join/{plans[0].id}"


def _gone(path: str) -> CandidatesGone:
    return CandidatesGone(
        f"{path} is not there, but candidates in it were recorded. Put it back, or clear the run from its first "
        "task on: a new plan is joined anew."
    )


def _files_with(plan_id: str) -> tuple[Range]:
    return (Range(PLAN, plan_id, plan_id),)
