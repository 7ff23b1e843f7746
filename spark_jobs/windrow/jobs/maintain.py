"""maintenance: few files where many were, dead files and old reports away. Changes no row.

An unsafe retention is refused before anything is done. Killed anywhere, the next run goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from windrow.io.training import maintenance as tables
from windrow.jobs.run import BadRequest, Context, job
from windrow.jobs.spark import spark_for
from windrow.quality import pages, summary
from windrow.text import parse_duration

RETENTION = timedelta(days=30)
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job `maintenance`; returns its exit code."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--retention", default=f"{RETENTION.days}d", help="how long dead files stay, at least 7d")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        try:
            return maintain(ctx, parse_duration(args.retention))
        except ValueError as refused:  # no duration, or an unsafe one
            raise BadRequest(str(refused)) from None

    return job(__doc__ or "", declare, execute, argv)
