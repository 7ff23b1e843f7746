"""rollback: an interval's rows as they stood after an earlier publication become visible again, in one commit.

    publication 3 of the interval ── rollback to 1 ──▶ publication 7: rows, counts, pins and verdict of 1

It is a publication like any other: numbered, registered with reason and name, and what a running rebuild of the
interval collides with. Its plan is the earlier one's, so that verify and the late ledger stay true.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windrow.io.registers import plans, publications
from windrow.io.training import versions
from windrow.jobs.decision import decision
from windrow.jobs.options import IntervalStart, PipelineName, Reason, RollbackTo, Who
from windrow.jobs.planning import interval_at
from windrow.jobs.publish import brief
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo


def rollback(ctx: Context, at: datetime, number: int, why: plans.Asked) -> dict[str, Any]:
    """Publish the rows of an earlier publication of the interval again; returns the register row.

    Raises:
        BadRequest: the interval has no such publication.
        NothingToDo: it stands.
        versions.VersionGone: its rows are not there any more.
    """
    interval = interval_at(ctx, at)
    numbers = [row["number"] for row in publications.repaired(ctx.home) if row["interval"] == at]
    if number not in numbers:
        raise BadRequest(f"{interval} has no publication {number}; it has {', '.join(map(str, numbers)) or 'none'}")
    spark = spark_for(f"rollback {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    row = versions.roll_back(spark, ctx.home, interval, number, why, ctx.now)
    if row is None:
        raise NothingToDo(f"the rows of publication {number} are those of {interval} that stand")
    return row


def execute(
    pipeline: PipelineName, interval: IntervalStart, to: RollbackTo, reason: Reason, who: Who = None
) -> Mapping[str, Any]:
    """Roll the interval back, and return its new publication."""
    why = decision("a rollback", reason, who)
    return {"publications": [brief(rollback(context(pipeline), interval, to, why))]}


main = job(execute)
