"""rollback: publish the rows of an earlier publication of an interval again, in one commit.

    publication 3 of the interval ── rollback to 1 ──▶ publication 7: rows, counts, pins and verdict of 1

Rows of a key that was erased since are left out (rule 22). It is a publication like any other: numbered and registered
with reason and name, and a rebuild of the interval that was planned before it is refused. Its plan is that of the
earlier one, so that verify and the late ledger stay true.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import functions as F

from windrow.columns import PUBLICATION
from windrow.home import Table
from windrow.io.delta.locks import held
from windrow.io.landing import erased
from windrow.io.registers import erasures, publications
from windrow.io.registers.plans import Request
from windrow.io.training import publication, versions
from windrow.io.training.publication import Row
from windrow.jobs.decision import decision
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.options import IntervalStart, PipelineName, Reason, RollbackTo, Who
from windrow.jobs.plan.planning import interval_at
from windrow.jobs.publish import brief
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.intervals import Interval
from windrow.text import counted


def rollback(ctx: Context, at: datetime, number: int, why: Request) -> Row:
    """Publish the rows of an earlier publication of the interval again; return the register row.

    The late ledger is extended: what had landed since the earlier publication is late for it again.

    Args:
        at: start of the interval.
        number: the earlier publication.
    Raises:
        BadRequest: the interval has no such publication.
        NothingToDo: its rows stand.
        versions.VersionGone: its rows were vacuumed.
        LedgerNotExtended: it is published and on record, and the ledger is behind.
        BalanceBroken: its version does not hold as many rows as were published.
    """
    interval = interval_at(ctx, at)
    numbers = [row["number"] for row in publications.repaired(ctx.home) if row["interval"] == at]
    if number not in numbers:
        raise BadRequest(f"{interval} has no publication {number}; it has {', '.join(map(str, numbers)) or 'none'}")
    spark = spark_for(f"rollback {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    with held(ctx.home.lock(Table.TRAINING)):
        new = publications.repair(ctx.home) + 1
        register = publications.of_intervals(ctx.home, [at])
        standing = max(register, key=lambda row: row["number"])
        if number in (standing["number"], standing["rolled_back_to"]):
            raise NothingToDo(f"the rows of publication {number} are those of {interval} that stand")
        earlier = next(row for row in register if row["number"] == number)
        version = versions.version_with(ctx.home, register, earlier)
        rows = versions.intervals_at(spark, ctx.home, [at], version)
        _refuse_other_count(interval, version, rows.count(), earlier, erasures.remaining(ctx.home))
        rows = erased.published(spark, ctx.home, rows)
        earlier = {**earlier, "rows": rows.count()}
        numbered = rows.withColumn(PUBLICATION, F.lit(new).cast("bigint"))
        row = publication.commit(ctx.home, interval, _register_row(ctx, earlier, new, why), lambda: numbered)
    extend_after_publication(ctx)
    return row


def _refuse_other_count(
    interval: Interval, version: int, found: int, earlier: Row, remaining: Mapping[int, int]
) -> None:
    if found not in (earlier["rows"], remaining.get(earlier["number"])):
        raise BalanceBroken(
            f"{interval}: version {version} of the training table holds {counted(found, 'row')} of it, and publication "
            f"{earlier['number']} had {earlier['rows']}. Nothing was changed; look who wrote to the table."
        )


def _register_row(ctx: Context, earlier: Row, new: int, why: Request) -> Row:
    return {
        **{name: value for name, value in earlier.items() if name != "training_version"},
        "number": new,
        "run": f"rollback__{new}",
        "kind": "rollback",
        "reason": why.reason,
        "asked_by": why.who,
        "rolled_back_to": earlier["number"],
        "published_at": ctx.now(),
    }


def execute(
    pipeline: PipelineName, interval: IntervalStart, to: RollbackTo, reason: Reason, who: Who = None
) -> Mapping[str, Any]:
    """Roll the interval back, and return its new publication.

    Raises:
        BadRequest: the interval has no such publication, or the reason is empty.
        Condition: the others of `rollback`.
    """
    why = decision("a rollback", reason, who)
    return {"publications": [brief(rollback(context(pipeline), interval, to, why))]}


main = job(execute)
