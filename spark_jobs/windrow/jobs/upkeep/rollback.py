"""rollback: publish the rows of an earlier publication of an interval again, in one commit.

    publication 3 of the interval ── rollback to 1 ──▶ publication 7: rows, counts, pins and verdict of 1

Rows of a key that was erased since are left out. Where a row of another key has a match of such a key the rollback is
refused: only a rebuild makes the row without the match (rule 22). It is a publication like any other: numbered and
registered with reason and name, and a rebuild of the interval that was planned before it is refused. Its plan is that
of the earlier one, so that verify and the late ledger stay true.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import PUBLICATION, ROW_ID
from windrow.home import Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.io.landing import erased
from windrow.io.registers import configs, erasures, publications
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
from windrow.transforms.erased import matches_of_erased


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
        HoldsErased: a row of it has a match of a key that was erased since.
        ErasedColumnGone: keys were erased by a column that the pipeline file lacks.
    """
    interval = interval_at(ctx, at)
    numbers = [row["number"] for row in publications.repaired(ctx.home) if row["interval"] == at]
    if number not in numbers:
        raise BadRequest(f"{interval} has no publication {number}; it has {', '.join(map(str, numbers)) or 'none'}")
    spark = spark_for(f"rollback {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    with held(ctx.home.lock(Table.TRAINING)):
        erasures.require_covered(ctx.home)
        seen = tables.at(ctx.home.table(Table.TRAINING))  # before what is looked at: the commit follows this version
        erased_since = erasures.watch(ctx.home)
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
        _refuse_erased_matches(spark, ctx, rows, earlier)
        earlier = {**earlier, "rows": rows.count()}
        numbered = rows.withColumn(PUBLICATION, F.lit(new).cast("bigint"))
        made = _register_row(ctx, earlier, new, why)
        row = publication.commit(ctx.home, interval, made, lambda: numbered, seen=seen, last_look=erased_since)
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


def _refuse_erased_matches(spark: SparkSession, ctx: Context, rows: DataFrame, earlier: Row) -> None:
    """Fail where a row has a match of an erased key, under the present pipeline file or that of the publication."""
    keys = erased.keys_of(spark, ctx.home)
    if keys is None:
        return
    then = configs.of_hash(ctx.home, earlier["config_hash"])  # its streams and its left key may be others
    files = {one.config_hash: one for one in (ctx.pipeline, then) if one is not None}
    found = (matches_of_erased(rows, pipeline, keys, *ROW_ID) for pipeline in files.values())
    if then is None or any(matches is not None and not matches.isEmpty() for matches in found):
        interval = Interval(earlier["interval"], earlier["interval_end"])
        why = "cannot be searched: its pipeline file is not on record" if then is None else "have matches of such a key"
        raise erasures.HoldsErased(
            f"keys were erased, and rows of publication {earlier['number']} of {interval} {why}. Nothing was "
            "published. Rebuild the interval instead: that makes its rows without the erased keys."
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
