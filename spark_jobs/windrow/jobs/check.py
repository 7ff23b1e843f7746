"""check: Great Expectations judges the measures of a run's candidates. No Spark, no rows.

    read      measures of the candidates, counts of earlier publications
    compute   a judgement of each candidate, and its report
    write     judged measures, in one commit

A blocked interval stays a candidate and does not hold the others of its run back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from windrow.io.delta import crash_points
from windrow.io.registers import judgements, measures, publications
from windrow.jobs.options import OptionalIntervalStart, PipelineName, RunKey
from windrow.jobs.plan.planning import recorded_plans
from windrow.jobs.run import Context, context, job
from windrow.outcomes import Blocked
from windrow.quality.history import Earlier, label_rate_history
from windrow.semantics.judgement import may_publish
from windrow.semantics.plan import Plan

HISTORY = 24
"""Number of earlier publications that a label rate is compared with."""
LOOKED_AT = 4 * HISTORY
"""Earlier publications among which these are looked for: those without a row with a complete list do not count."""


class Published(NamedTuple):
    """An earlier publication."""

    interval: datetime
    config_hash: str
    counts: Earlier


class Refusal(NamedTuple):
    """Why a candidate is blocked, for a person, and the report that shows it."""

    why: str
    report: str


def check(ctx: Context, planned: Sequence[Plan]) -> dict[str, Refusal]:
    """Judge every plan that has not passed before; returns the refusals by plan id, empty where all pass."""
    judged = judgements.of_plans(ctx.home, planned)
    waiting = [plan for plan in planned if not may_publish(judgements.verdict(judged.get(plan.id, [])))]
    refused = _judge(ctx, waiting) if waiting else {}
    crash_points.point("check.after_verdict")
    return refused


def _judge(ctx: Context, waiting: Sequence[Plan]) -> dict[str, Refusal]:
    """Judge the candidates of these plans and record it; return the refusals by plan id."""
    from windrow.quality import report  # Great Expectations takes seconds to import
    from windrow.quality.gate import Gate
    from windrow.quality.suites import suites_for
    from windrow.quality.verdicts import explain_failure

    numbers = measures.by_plan(ctx.home, waiting)
    history = _history(ctx, waiting)
    gate = Gate(suites_for(ctx.places.expectations, ctx.pipeline.suite))
    judged = [
        gate.judge(
            {**numbers[plan.id], **_against_history(plan, numbers[plan.id], history)},
            pipeline=ctx.pipeline.name,
            interval=plan.interval,
            plan=plan.id,
            report_folder=ctx.home.reports,
            judged_at=ctx.now(),
        )
        for plan in waiting
    ]
    crash_points.point("check.before_verdict")
    judgements.record(ctx.home, [row for judgement in judged for row in report.rows(judgement)])
    blocked = (judgement for judgement in judged if not judgement.may_publish)
    return {judgement.plan: Refusal(explain_failure(judgement), str(judgement.report)) for judgement in blocked}


def _history(ctx: Context, waiting: Sequence[Plan]) -> list[Published]:
    """Return the publications that readers see before the last of these plans' intervals, oldest first."""
    columns = ("number", "interval", "config_hash", "plan_id", "verdict", "positive", "negative", "unknown")
    standing = publications.standing(publications.registered(ctx.home, columns))
    first, last = min(plan.interval.start for plan in waiting), max(plan.interval.start for plan in waiting)
    before = [start for start in sorted(standing) if start < first][-LOOKED_AT:]
    wanted = [standing[start] for start in (*before, *(start for start in sorted(standing) if first <= start < last))]
    complete = measures.values(ctx.home, "positive_complete", [(row["plan_id"], row["interval"]) for row in wanted])
    return [
        Published(row["interval"], row["config_hash"], Earlier.of(row, complete.get(row["plan_id"]))) for row in wanted
    ]


def _against_history(
    plan: Plan, numbers: Mapping[str, float | None], history: Sequence[Published]
) -> dict[str, float | None]:
    """Return the measures that compare the label rate with earlier intervals of the same config."""
    earlier = [
        one.counts
        for one in history
        if one.interval < plan.interval.start and one.config_hash == plan.config_hash and any(one.counts[:2])
    ]
    counts = (int(numbers.get(name) or 0) for name in ("positive_complete", "negative"))
    found = label_rate_history(earlier[-HISTORY:], *counts)
    return {"label_rate_history": found.mean, "label_rate_z": found.z}


def execute(pipeline: PipelineName, run: RunKey, interval: OptionalIntervalStart = None) -> Mapping[str, Any]:
    """Judge the candidates of a run. With its own interval it fails only if that one is blocked."""
    ctx = context(pipeline)
    planned = recorded_plans(ctx, run, first="join")
    blocked = check(ctx, planned)
    own = [plan.id for plan in planned if interval is None or plan.interval.start == interval]
    if stopped := [blocked[plan_id] for plan_id in own if plan_id in blocked]:
        raise Blocked("\n".join(refusal.why for refusal in stopped), stopped[0].report)
    passed = [plan.interval.start for plan in planned if plan.id not in blocked]
    return {"passed": passed, "blocked": [refusal.why for refusal in blocked.values()]}


main = job(execute)
