"""The counts of candidates as they were written, taken by Spark or by Python workers.

    spark   the JVM reads what is counted of each row
    files   workers read the files of the plans, each once, and Spark sums what they have counted (`counting`)

Both give the same counts. The second way is taken by a join that takes payload from files (`ways`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import INTERVAL, PLAN, ROW_ID
from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.training import candidates, counting
from windrow.schemas import spark_ddl
from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.plan import Plan
from windrow.transforms.counted import (
    BITS,
    IDS,
    MATCHED,
    ROWS,
    WHAT,
    WORD,
    Asked,
    Labels,
)
from windrow.transforms.measure import Written, every_match, written_of

TASKS = 4
"""Tasks per core, at most: each has several files."""


@contextmanager
def of_candidates(
    spark: SparkSession,
    home: Home,
    plans: Sequence[Plan],
    nulls: Mapping[str, Mapping[str, int]],
    *,
    by_workers: bool,
) -> Iterator[Written]:
    """Count the candidates of plans, for as long as the counts are in use.

    Args:
        nulls: by plan id, nulls of left columns that are known; only the others are counted.
        by_workers: whether Python workers count.

    Raises:
        CandidatesGone: there is no candidates table.
    """
    uncounted = [name for name in home.pipeline.left.columns if any(name not in nulls.get(p.id, {}) for p in plans)]
    if not by_workers:
        yield written_of(candidates.read(spark, home, plans), home.pipeline, uncounted)
        return
    work = counting.Work(home.table(Table.CANDIDATES), _tasks(spark, home, plans), asked_of(home.pipeline, uncounted))
    found = taken(spark, work).persist()
    try:
        yield summed(found, work.asked)
    finally:
        found.unpersist()


def taken(spark: SparkSession, work: counting.Work) -> DataFrame:
    """Return what workers count of candidate files (`counting.COUNTED`); each use of it counts anew."""
    tasks = spark.range(0, len(work.files), 1, len(work.files))
    return tasks.mapInArrow(partial(counting.count_files, work), spark_ddl(counting.COUNTED))


def _tasks(spark: SparkSession, home: Home, plans: Sequence[Plan]) -> tuple[counting.Files, ...]:
    names, _ = candidates.names_of(home, plans)
    files = [(plan_id, name) for plan_id, found in names.items() for name in found]
    count = max(1, min(len(files), TASKS * spark.sparkContext.defaultParallelism))
    return tuple(tuple(files[n::count]) for n in range(count))


def summed(found: DataFrame, asked: Asked) -> Written:
    """Return the counts of candidates from those of their parts.

    Args:
        found: `counting.COUNTED`.
    """

    def words(what: str, *others: str) -> DataFrame:
        return found.where(F.col(WHAT) == what).select(*others, *ROW_ID[:-1], WORD, BITS)

    counters = [F.sum(F.when(F.col(WHAT) == name, F.col(ROWS))).alias(name) for name in asked.counters]
    matched = {one.column: words(f"{MATCHED}{one.column}", INTERVAL) for one in asked.streams}
    return Written(found.where(F.col(BITS).isNull()).groupBy(PLAN).agg(*counters), words(IDS, PLAN, ROWS), matched)


def asked_of(pipeline: Pipeline, uncounted: Collection[str]) -> Asked:
    """Return what workers count of the candidates of a pipeline.

    Args:
        uncounted: left columns whose nulls are not known yet.
    """
    labels = {stream.name for stream in pipeline.label_streams}
    streams = [
        Labels(
            stream.name,
            every_match(stream),
            stream.window.before // MICROSECOND,
            stream.window.after // MICROSECOND,
            is_label=stream.name in labels,
        )
        for stream in pipeline.right
    ]
    return Asked(
        pipeline.interval // MICROSECOND,
        tuple(streams),
        tuple(pipeline.left.key),
        tuple(pipeline.labels),
        tuple(uncounted),
    )
