"""publish: every passed candidate of a run becomes visible, one atomic commit per interval.

    read      verdicts, measures, and what the register has already
    compute   register columns; the balance is checked here, exactly
    write     for each plan:  lock ─▶ number n+1 ─▶ compare with the standing publication ─▶ one commit ─▶ unlock
    discard   the published candidates

Spark starts only where rows must be written again or compared for the late ledger; with WINDROW_WITHOUT_SPARK=1 the
job ends with exit code 50 there, and publications that it has made by then stand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

from windrow.home import Table
from windrow.io.delta import crash_points
from windrow.io.delta.locks import held
from windrow.io.delta.staging import Staged
from windrow.io.registers import configs, erasures, judgements, measures, plans, publications
from windrow.io.training import candidates, publication
from windrow.io.training.publication import Row, Standing
from windrow.jobs import ledger
from windrow.jobs.options import PipelineName, RunKey
from windrow.jobs.plan.planning import recorded_plans
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.semantics.balance import Balance, BalanceBroken
from windrow.semantics.judgement import may_publish
from windrow.semantics.plan import Plan
from windrow.semantics.publication import Superseded, foreseen_numbers, refuse_erased, refuse_superseded
from windrow.transforms.numbers import canary_columns
from windrow.transforms.training import training_rows

AT_ONCE = 100
"""Intervals whose files one Spark job writes, where files must be written again."""


def publish(
    ctx: Context,
    planned: Sequence[Plan],
    *,
    override: tuple[str, str] | None = None,
    each: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Publish the plans that passed the check; return their register rows, oldest interval first.

    Args:
        planned: all plans of a run.
        override: (who, why); blocked candidates are published too, and both are recorded with them.
        each: called with the register row of every publication as soon as it is made.

    Raises:
        BadRequest: a plan has not been judged.
        BalanceBroken: the counts do not add up; no override publishes that.
        CandidateErased: a candidate held rows of a key that was erased since.
        NothingToDo: other runs have published every one of the intervals since.
        Superseded: the same, where a plan was to replace a publication.
    """
    # read
    judged = judgements.of_plans(ctx.home, planned)
    if not override and (unjudged := [plan for plan in planned if plan.id not in judged]):
        raise BadRequest(f"{unjudged[0].interval} has not been judged, or its verdict was lost: the check comes first")
    ready = [p for p in planned if override or may_publish(judgements.verdict(judged[p.id]))]
    done = _published_before(ctx, ready)
    missing = [plan for plan in ready if plan.id not in done]
    for plan in missing:
        refuse_erased(plan, erasures.discarded(ctx.home))
    # compute
    columns = _register_columns(ctx, missing, judged, override) if missing else {}
    # write
    rows, superseded = list(done.values()), []
    for outcome in _publish_each(ctx, missing, columns):
        if isinstance(outcome, Superseded):  # does not stop the other intervals
            superseded.append(outcome)
        else:
            rows.append(outcome)
            each(outcome)
    # discard those of all ready plans: a try that was killed after its last commit has not discarded its own
    candidates.discard(ctx.home, [plan.id for plan in ready])
    if superseded and not rows:
        if all(plan.supersedes is None for plan in missing):
            raise NothingToDo(str(superseded[0]))
        raise superseded[0]
    for refusal in superseded:
        print(f"left alone: {refusal}", file=sys.stderr)
    return sorted(rows, key=lambda row: row["interval"])


def _published_before(ctx: Context, ready: Sequence[Plan]) -> dict[str, Row]:
    """Return the register rows of plans that an earlier try has published, by plan id."""
    ids = {plan.id for plan in ready}
    rows = publications.of_intervals(ctx.home, [plan.interval.start for plan in ready])
    # a rollback has the plan of the publication that it repeats; the least number is the plan's own
    newest_first = sorted(rows, key=lambda row: row["number"], reverse=True)
    return {row["plan_id"]: row for row in newest_first if row["plan_id"] in ids}


def _register_columns(
    ctx: Context,
    missing: Sequence[Plan],
    judged: Mapping[str, Sequence[Mapping[str, Any]]],
    override: tuple[str, str] | None,
) -> dict[str, Row]:
    """Return the columns of the register that are known before a plan gets its number, by plan id.

    Raises:
        BalanceBroken: the measures of a plan do not add up.
    """
    numbers, origins = measures.by_plan(ctx.home, missing), plans.origins(ctx.home, missing)
    who, why = override or (None, None)
    streams = {of: _right_streams(ctx, of) for of in {plan.config_hash for plan in missing}}
    columns = {}
    for plan in missing:
        balance = Balance.from_measures(numbers[plan.id], streams[plan.config_hash])
        balance.check()
        if numbers[plan.id].get("landing_imbalance"):
            raise BalanceBroken(f"{plan.interval}: the counts of what was landed do not add up; its report names them")
        judgement = judged.get(plan.id, [])
        columns[plan.id] = {
            **publications.columns_of(plan),
            "code_version": version("windrow"),
            "rows": balance.left.emitted,
            "left_landed": balance.left.landed,
            "left_duplicate": balance.left.duplicate,
            "left_unpaired": balance.left.unpaired,
            **{name: int(numbers[plan.id][name] or 0) for name in ("positive", "negative", "unknown")},
            **canary_columns(numbers[plan.id]),
            "balance": balance.to_json(),
            "verdict": "overridden" if override else judgements.verdict(judgement, is_empty=not balance.left.emitted),
            "overridden_by": who,
            "override_reason": why,
            "report": judgement[0]["report"] if judgement else None,
            "why": judgements.why(judgement, is_empty=not balance.left.emitted) if judgement else None,
            **origins[plan.id],
        }
    return columns


def _right_streams(ctx: Context, config_hash: str) -> list[str]:
    """Return the right streams of the pipeline file under which a candidate was joined, which may be an earlier one."""
    joined_under = configs.of_hash(ctx.home, config_hash) or ctx.pipeline
    return [stream.name for stream in joined_under.right]


def _publish_each(ctx: Context, missing: Sequence[Plan], columns: Mapping[str, Row]) -> Iterator[Row | Superseded]:
    """Publish plans one by one; yields the register row of each, or that another run was faster."""
    standing = Standing(ctx.home, [plan.interval.start for plan in missing])
    both = publications.Opened(ctx.home)
    waiting = list(missing)
    while waiting:
        foreseen = foreseen_numbers(waiting[:AT_ONCE], publications.last_number(ctx.home))
        with ExitStack() as until_committed:
            staged = _staged_files(ctx, foreseen, columns, until_committed)
            fields = publication.fields_of_candidates(ctx.home)  # after the files were written: it has all of theirs
            for plan, number in foreseen.items():
                waiting.remove(plan)
                try:
                    row = _publish_one(ctx, plan, columns[plan.id], standing, both, fields, staged.get(plan.id))
                except Superseded as refused:
                    yield refused
                    break  # its number is free again, so the others get other numbers than foreseen
                yield row
                if row["number"] != number:  # another run has published in between: the others get other numbers
                    break


def _staged_files(
    ctx: Context, foreseen: Mapping[Plan, int], columns: Mapping[str, Row], until_committed: ExitStack
) -> dict[str, Staged]:
    """Return the files to publish, by plan id, of plans that have rows: the candidate's own, or new ones from one job.

    Args:
        until_committed: keeps new files until it is closed.
    """
    filled = {plan: number for plan, number in foreseen.items() if columns[plan.id]["rows"]}
    staged = publication.own_files(ctx.home, filled)
    if others := {plan: number for plan, number in filled.items() if plan.id not in staged}:
        written = publication.write_files(ctx.home, _training_rows(ctx, others), others)
        staged |= until_committed.enter_context(written)
    return staged


def _publish_one(
    ctx: Context,
    plan: Plan,
    columns: Row,
    standing: Standing,
    both: publications.Opened,
    fields: list[StructField],
    staged: Staged | None,
) -> Row:
    """Publish the candidate of a plan under the lock; return its register row.

    Raises:
        Superseded: the interval has a newer publication than the plan knows.
    """
    crash_points.point("publish.before_lock")
    with held(ctx.home.lock(Table.TRAINING)):
        number = publications.repair(ctx.home, both) + 1  # with the training table: the commit follows this version
        training = publication.create_if_missing(ctx.home, fields, both.training)
        present = standing.of(plan.interval.start, number - 1)
        if present is not None and present["plan_id"] == plan.id:  # by another try of this run
            return present
        refuse_superseded(plan, present["number"] if present else None)
        refuse_erased(plan, erasures.discarded(ctx.home))
        row = {**columns, "number": number, "published_at": ctx.now()}
        rows = partial(_training_rows, ctx, {plan: number})
        row = publication.commit(ctx.home, plan.interval, row, rows, staged, seen=training, register=both.register)
        standing.add(row)
        return row


def _training_rows(ctx: Context, numbers: Mapping[Plan, int]) -> DataFrame:
    """Return the training rows of the candidates of these plans, with their publication numbers; needs Spark."""
    spark = spark_for(f"publish {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    rows = candidates.read(spark, ctx.home, list(numbers))
    return training_rows(rows, {plan.id: number for plan, number in numbers.items()})


def brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a register row that a DAG run or a person is shown."""
    names = ("number", "interval", "rows", "positive", "negative", "unknown", "verdict", "why", "training_version")
    return {name: row[name] for name in names}


def execute(pipeline: PipelineName, run: RunKey) -> Mapping[str, Any]:
    """Publish the passed candidates of a run, and extend the late ledger.

    Raises:
        BadRequest: the run has recorded no plan, or one was not judged.
        BalanceBroken: the counts do not add up.
        NothingToDo: the check has blocked every interval of the run.
        NothingToDo, Superseded: other runs have published every one of the intervals since.
        NeedsSpark: files must be written again, and Spark is switched off.
        LedgerNotExtended: it is published, and the late ledger is behind.
    """
    ctx = context(pipeline)
    rows = publish(ctx, recorded_plans(ctx, run, first="join"))
    if not rows:
        raise NothingToDo("the check has blocked every interval of this run: nothing is published")
    ledger.extend_after_publication(ctx)
    return {"publications": [brief(row) for row in rows]}


main = job(execute)
