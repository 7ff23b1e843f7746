"""Publication: a candidate becomes visible in one atomic commit that replaces exactly its interval.

    lock ─▶ look again (fence) ─▶ number n+1 ─▶ one commit to training ─▶ read it back ─▶ register ─▶ unlock

The number is the transaction version of the training table, so it only grows, also when an older interval is
rebuilt. A plan that knows of an older publication than the standing one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline
from windrow.io import candidates, crash, publications, small
from windrow.io.locks import held
from windrow.places import Places
from windrow.schemas import DATE, EVENT_TIME, INTERVAL, PAIRED, PLAN, PUBLICATION, TRAINING_META
from windrow.semantics.plan import Plan


class Superseded(RuntimeError):
    """The interval was published by somebody else since this plan was made. A new plan is needed."""


def publish(
    spark: SparkSession,
    pipeline: Pipeline,
    places: Places,
    plan: Plan,
    facts: Mapping[str, Any],
    now: Callable[[], datetime],
) -> dict[str, Any]:
    """Publish the candidate of a plan; returns its register row. A plan that is published is left alone.

    Args:
        facts: counts, balance, verdict, report and who overrode, as columns of `publications`.
    Raises:
        Superseded: the interval has a newer publication than the plan knows.
    """
    with held(places.lock(pipeline.name, "training")):
        number = publications.repair(pipeline, places) + 1
        standing = publications.published(pipeline, places, plan.interval.start)
        if standing is not None and standing["plan_id"] == plan.id:
            return standing
        known = standing["number"] if standing is not None else None
        if known != plan.supersedes:
            raise Superseded(
                f"{plan.interval} has publication {known}, but plan {plan.id} was made when it had "
                f"{plan.supersedes}: another run was faster. Nothing was written; clear the run or run the "
                "command again for a new plan."
            )
        row = {
            **facts,
            "number": number,
            "interval": plan.interval.start,
            "interval_end": plan.interval.end,
            "plan": plan.to_json(),
            "plan_id": plan.id,
            "run": plan.run,
            "config_hash": plan.config_hash,
            "published_at": now(),
        }
        crash.point("publish.before_commit")
        version = _replace_interval(_rows(spark, pipeline, places, plan, number), places, pipeline, plan, row)
        crash.point("publish.after_commit")
        row["training_version"] = version
        publications.register(pipeline, places, row)
        crash.point("publish.after_register")
        return row


def _rows(spark: SparkSession, pipeline: Pipeline, places: Places, plan: Plan, number: int) -> DataFrame:
    staged = candidates.of_plans(spark, pipeline, places, [plan.id]).where(F.col(PAIRED))
    columns = [c for c in staged.columns if c not in TRAINING_META and c not in (PLAN, PAIRED)]
    payload = [c for c in columns if not c.startswith("_all_")]
    added = {
        PUBLICATION: F.lit(number).cast("bigint"),
        DATE: F.to_date(INTERVAL),
    }
    return staged.select(*payload, *[added.get(c, F.col(c)).alias(c) for c in TRAINING_META])


def _replace_interval(rows: DataFrame, places: Places, pipeline: Pipeline, plan: Plan, row: Mapping[str, Any]) -> int:
    """One commit; returns the table's version. Read back, because Delta skips known versions in silence."""
    path = places.table(pipeline.name, "training")
    if small.opened(path) is None:
        _create(rows, path, [key for key in pipeline.left.key if _has_statistics(pipeline.left.columns[key])])
    start = plan.interval.start
    exactly = f"{DATE} = DATE'{start:%Y-%m-%d}' AND {INTERVAL} = TIMESTAMP'{start:%Y-%m-%d %H:%M:%S.%f}'"
    (
        rows.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", exactly)
        .option("mergeSchema", "true")
        .option("txnAppId", publications.APP_ID)
        .option("txnVersion", str(row["number"]))
        .option("userMetadata", publications.to_json(row))
        .save(path)
    )
    last = next(small.commits(path), None)
    if last is None or publications.from_json(last.message)["plan_id"] != plan.id:
        raise small.WriteSkipped(
            f"{path}: publication {row['number']} is not the last commit after it was written. Do not trust "
            "this interval; run again, and look for a writer that does not take the lock."
        )
    return last.version


def _has_statistics(kind: str) -> bool:
    """Whether Delta keeps a minimum and a maximum for a column of this type."""
    return kind in ("string", "tinyint", "smallint", "int", "bigint", "date", "timestamp") or kind.startswith("decimal")


def _create(rows: DataFrame, path: str, key: Sequence[str]) -> None:
    """An empty table first: partitioned by UTC date, with statistics where readers filter."""
    (
        rows.limit(0)
        .write.format("delta")
        .mode("append")
        .partitionBy(DATE)
        .option("delta.enableDeletionVectors", "false")
        .option("delta.dataSkippingStatsColumns", ",".join((INTERVAL, EVENT_TIME, *key)))
        .save(path)
    )
