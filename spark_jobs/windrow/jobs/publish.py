"""publish: every passed candidate of a run becomes visible, one atomic commit an interval.

Spark starts only where rows must be written again, or looked at for the late ledger; with WINDROW_WITHOUT_SPARK=1 the
job ends with exit code 50 there, and what it has published until then stands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from windrow.io.registers import judgements, plans, publications
from windrow.io.training import candidates, publication
from windrow.jobs import ledger
from windrow.jobs.options import PipelineName, RunKey
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.semantics.balance import Balance
from windrow.semantics.plan import Plan


def publish(
    ctx: Context,
    planned: tuple[Plan, ...],
    *,
    override: tuple[str, str] | None = None,
    each: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """Publish the plans that passed, or with `override` = (who, why) a blocked one; returns register rows.

    Raises:
        BalanceBroken: the counts do not add up; nothing overrides that.
        NothingToDo, Superseded: every one of the intervals was published by somebody else since; the second where
            a publication was to be replaced.
    """
    judged = judgements.of_plans(ctx.home, planned)
    if not override and (unjudged := [plan for plan in planned if plan.id not in judged]):
        raise BadRequest(f"{unjudged[0].interval} has not been judged, or its verdict was lost: the check comes first")
    ready = [p for p in planned if override or judgements.standing(judged.get(p.id, [])) != "blocked"]
    rows = [row for plan in ready if (row := _already(ctx, plan))]
    missing = [plan for plan in ready if plan.id not in {row["plan_id"] for row in rows}]
    facts = _facts(ctx, missing, judged, override)
    outdated: list[publication.Superseded] = []
    if missing:
        name = f"publish {ctx.pipeline.name}"
        outcomes = publication.publish_all(
            lambda: spark_for(name, ctx.places, ctx.pipeline), ctx.home, missing, facts, ctx.now
        )
        for outcome in outcomes:
            if isinstance(outcome, publication.Superseded):  # intervals do not block each other
                outdated.append(outcome)
                continue
            rows.append(outcome)
            each(outcome)
    # all of them: one that was killed after its last commit has not come this far
    candidates.discard(ctx.home, [plan.id for plan in ready])
    if outdated and not rows:
        if all(plan.supersedes is None for plan in missing):
            raise NothingToDo(str(outdated[0]))
        raise outdated[0]
    for why in outdated:
        print(f"left alone: {why}", file=sys.stderr)
    return sorted(rows, key=lambda row: row["interval"])


def _already(ctx: Context, plan: Plan) -> dict[str, Any] | None:
    rows = publications.of_interval(ctx.home, plan.interval.start)
    return next((row for row in rows if row["plan_id"] == plan.id), None)


def _facts(
    ctx: Context,
    ready: Sequence[Plan],
    judged: Mapping[str, Sequence[Mapping[str, Any]]],
    override: tuple[str, str] | None,
) -> dict[str, dict[str, Any]]:
    """What the register says about each plan besides its identity. The balance is checked here, exactly."""
    measured = candidates.numbers_of(ctx.home, ready)
    facts = {}
    for plan in ready:
        numbers = measured[plan.id]
        balance = Balance.from_measures(numbers, [stream.name for stream in ctx.pipeline.right])
        balance.check()
        judgement = judged.get(plan.id, [])
        facts[plan.id] = {
            "code_version": version("windrow"),
            "rows": balance.left.emitted,
            "left_landed": balance.left.landed,
            "left_duplicate": balance.left.duplicate,
            "left_unpaired": balance.left.unpaired,
            **{name: int(numbers[name] or 0) for name in ("positive", "negative", "unknown")},
            "balance": balance.to_json(),
            "verdict": "overridden" if override else judgements.standing(judgement),
            "overridden_by": override[0] if override else None,
            "override_reason": override[1] if override else None,
            "report": judgement[0]["report"] if judgement else None,
        }
    return facts


def brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a DAG or a person wants to see of a publication."""
    names = ("number", "interval", "rows", "positive", "negative", "unknown", "verdict", "training_version")
    return {name: row[name] for name in names}


def execute(pipeline: PipelineName, run: RunKey) -> Mapping[str, Any]:
    """Publish what passed of a run, and extend the late ledger."""
    ctx = context(pipeline)
    planned = plans.of_run(ctx.home, run)
    if not planned:
        raise BadRequest(f"run {run!r} has recorded no plan; the join comes first")
    rows = publish(ctx, planned)
    ledger.extend_after_publication(ctx)
    return {"publications": [brief(row) for row in rows]}


main = job(execute)
