"""check: Great Expectations judges the measures of a run's candidates. No Spark, no rows.

A blocked interval stays a candidate and does not hold the others of its run back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from windrow.io.delta import crash_points
from windrow.io.registers import judgements, plans, publications
from windrow.io.training import candidates
from windrow.jobs.options import OptionalIntervalStart, PipelineName, RunKey
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.outcomes import Blocked
from windrow.semantics.plan import Plan

HISTORY = 24
"""How many earlier publications a label rate is compared with."""


class Refusal(NamedTuple):
    """Why a candidate is blocked, for a person, and the report that shows it."""

    why: str
    report: str


def check(ctx: Context, planned: tuple[Plan, ...]) -> dict[str, Refusal]:
    """Judge every plan that is not judged yet; returns what stands in the way, by plan id (empty: nothing)."""
    judged = judgements.of_plans(ctx.home, planned)
    waiting = [plan for plan in planned if plan.id not in judged or judgements.standing(judged[plan.id]) == "blocked"]
    refused = _judge(ctx, waiting) if waiting else {}
    crash_points.point("check.after_verdict")
    return refused


def _judge(ctx: Context, waiting: list[Plan]) -> dict[str, Refusal]:
    from windrow.quality import report  # Great Expectations takes seconds to import
    from windrow.quality.gate import Gate, explain_failure
    from windrow.quality.suites import suites_for

    measured = candidates.numbers_of(ctx.home, waiting)
    columns = ("number", "interval", "config_hash", "positive", "negative")
    history = publications.standing(publications.registered(ctx.home, columns))
    gate = Gate(suites_for(ctx.places.expectations, ctx.pipeline.suite))
    refused: dict[str, Refusal] = {}
    rows = []
    for plan in waiting:
        numbers = measured[plan.id]
        judgement = gate.judge(
            {**numbers, **_against_history(plan, numbers, history)},
            pipeline=ctx.pipeline.name,
            interval=plan.interval,
            plan=plan.id,
            report_folder=ctx.home.reports,
            judged_at=ctx.now(),
        )
        rows += report.rows(judgement)
        if not judgement.may_publish:
            refused[plan.id] = Refusal(explain_failure(judgement), str(judgement.report))
    crash_points.point("check.before_verdict")
    judgements.record(ctx.home, rows)
    return refused


def _against_history(
    plan: Plan, numbers: Mapping[str, float | None], history: Mapping[datetime, Mapping[str, Any]]
) -> dict[str, float | None]:
    from windrow.quality.history import label_rate_history

    earlier = [
        (row["positive"], row["negative"])
        for start, row in sorted(history.items())
        if start < plan.interval.start and row["config_hash"] == plan.config_hash
    ][-HISTORY:]
    found = label_rate_history(earlier, *(int(numbers.get(n) or 0) for n in ("positive", "negative")))
    return {"label_rate_history": found.mean, "label_rate_z": found.z}


def execute(pipeline: PipelineName, run: RunKey, interval: OptionalIntervalStart = None) -> Mapping[str, Any]:
    """Judge the candidates of a run. With its own interval it fails only if that one is blocked."""
    ctx = context(pipeline)
    planned = plans.of_run(ctx.home, run)
    if not planned:
        raise BadRequest(f"run {run!r} has recorded no plan; the join comes first")
    blocked = check(ctx, planned)
    own = {plan.id for plan in planned if interval is None or plan.interval.start == interval}
    if stopped := [blocked[plan_id] for plan_id in own if plan_id in blocked]:
        raise Blocked("\n".join(refusal.why for refusal in stopped), stopped[0].report)
    passed = [plan.interval.start for plan in planned if plan.id not in blocked]
    return {"passed": passed, "blocked": [refusal.why for refusal in blocked.values()]}


main = job(execute)
