"""maintenance: fewer files, no dead files and no old reports. Changes no row.

An unsafe retention is refused before anything is done. If the job is killed, the next run continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from windrow.home import Table
from windrow.io.delta.staging import remove_abandoned
from windrow.io.registers import publications, snapshots
from windrow.io.training import candidates, maintenance
from windrow.jobs.options import PipelineName, Retention
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for
from windrow.quality import pages, summary
from windrow.semantics.maintenance import HOUR, RETENTION, landing_pieces, outdated, require_safe, training_pieces

REPORTS = timedelta(days=90)
"""How long pages of reports are kept."""


def maintain(ctx: Context, retention: timedelta) -> dict[str, Any]:
    """Discard outdated candidates and what killed processes staged, compact, vacuum, remove old reports.

    Returns:
        `outdated_candidates` and `old_report_days`: numbers; `fewer_files` and `deleted_files`: numbers by table;
        `snapshots` and `snapshot_bytes`: how many are kept, and bytes that are there for them only.
    Raises:
        RetentionUnsafe: the retention is too short. Nothing was done.
    """
    require_safe(retention)
    now, name = ctx.now(), ctx.pipeline.name
    spark = spark_for(f"maintain {name}", ctx.places, ctx.pipeline)  # first: where there is none, nothing is done
    remove_abandoned(ctx.places.staging(name))
    discarded = discard_outdated(ctx)
    compacted = compact(ctx, spark, now - HOUR)
    deleted = maintenance.vacuum(ctx.home, retention)
    held = snapshots.held(ctx.home)
    before, folder = (now - REPORTS).date(), ctx.places.reports(name)
    return {
        "outdated_candidates": discarded,
        "fewer_files": compacted,
        "deleted_files": deleted,
        "snapshots": held.number,
        "snapshot_bytes": held.bytes,
        "old_report_days": pages.forget(name, folder, before) + summary.forget(folder, before),
    }


def discard_outdated(ctx: Context) -> int:
    """Remove the candidates of outdated plans, which publishing would refuse; return the number of these plans."""
    waiting = maintenance.waiting_plans(ctx.home)
    register = publications.registered(ctx.home, publications.IDENTITY) if waiting else []
    standing = publications.standing(register)
    plan_ids = outdated(waiting, {start: row["number"] for start, row in standing.items()})
    if plan_ids:
        candidates.discard(ctx.home, plan_ids)
    return len(plan_ids)


def compact(ctx: Context, spark: SparkSession, before: datetime) -> dict[str, int]:
    """Merge the files of hours and days that ended by `before`; return how many files fewer each table has.

    Args:
        before: files of later hours and days are left as they are.
    """
    fewer: dict[str, int] = {}
    for topic in ctx.pipeline.topics:
        pieces = landing_pieces(maintenance.landing_files(ctx.home, topic), before)
        path = ctx.home.landing(topic)
        fewer[f"landing/{topic}"] = sum(
            maintenance.compact(spark, ctx.home, path, Table.LANDING, piece, _host_now) for piece in pieces
        )
    pieces = training_pieces(maintenance.training_files(ctx.home), before)
    path = ctx.home.table(Table.TRAINING)
    fewer["training"] = sum(
        maintenance.compact(spark, ctx.home, path, Table.TRAINING, piece, _host_now) for piece in pieces
    )
    return fewer


def _host_now() -> datetime:
    """Return the time of the host, even where `ctx.now` is another clock: vacuum compares with the host's alone."""
    return datetime.now(UTC)


def execute(pipeline: PipelineName, retention: Retention = RETENTION) -> Mapping[str, Any]:
    """Run the maintenance, and return what it has removed."""
    return maintain(context(pipeline), retention)


main = job(execute)
