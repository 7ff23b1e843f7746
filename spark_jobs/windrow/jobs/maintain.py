"""maintenance: few files where many were, dead files and old reports away. Changes no row.

An unsafe retention is refused before anything is done. Killed anywhere, the next run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windrow.io.training import maintenance as tables
from windrow.jobs.options import RETENTION, PipelineName, Retention
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for
from windrow.quality import pages, summary

REPORTS = timedelta(days=90)
"""How long pages of reports stay."""


def maintain(ctx: Context, retention: timedelta) -> dict[str, Any]:
    """Outdated candidates, compaction, vacuum, reports; returns what went.

    Raises:
        RetentionUnsafe: before anything is done.
    """
    tables.require_safe(retention)
    now, name = ctx.now(), ctx.pipeline.name
    outdated = tables.discard_outdated(ctx.home)
    compacted = tables.compact(spark_for(f"maintain {name}", ctx.places, ctx.pipeline), ctx.home, now)
    deleted = tables.vacuum(ctx.home, retention)
    before, folder = (now - REPORTS).date(), ctx.places.reports(name)
    return {
        "outdated_candidates": outdated,
        "fewer_files": compacted,
        "deleted_files": deleted,
        "old_report_days": pages.forget(name, folder, before) + summary.forget(folder, before),
    }


def execute(pipeline: PipelineName, retention: Retention = RETENTION) -> Mapping[str, Any]:
    """Tidy up, and return what went."""
    return maintain(context(pipeline), retention)


main = job(execute)
