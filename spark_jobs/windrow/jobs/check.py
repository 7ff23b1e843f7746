"""check: Great Expectations judges the measures of a run's candidates. No Spark, no rows.

    read      measures of the candidates, counts of earlier intervals
              a sample of the candidates, counted by bucket                               (`jobs.drift`)
    compute   a judgement of each candidate, and its report
    write     how columns are distributed; judged measures, in one commit

A blocked interval stays a candidate and does not hold the others of its run back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from windrow.io.delta import crash_points
from windrow.io.registers import judgements, measures
from windrow.jobs.drift import Distributions
from windrow.jobs.earlier import earlier_intervals
from windrow.jobs.options import OptionalIntervalStart, PipelineName, RunKey
from windrow.jobs.plan.planning import recorded_plans
from windrow.jobs.run import Context, context, job
from windrow.outcomes import Blocked
from windrow.quality.comparison import as_earlier, compared
from windrow.semantics.judgement import may_publish, with_reason
from windrow.semantics.plan import Plan
from windrow.text import shown_instant

LISTED = 200
"""Intervals that the result of the job lists one by one; its log lists all."""


class Refusal(NamedTuple):
    """Why a candidate is blocked, for a person, and the report that shows it."""

    why: str
    report: str
    may_override: bool = True
    """whether a person may publish it all the same"""


class Judged(NamedTuple):
    """The verdict on one interval, in one line, and the page that shows it."""

    interval: datetime
    verdict: str
    why: str | None
    report: str

    def __str__(self) -> str:
        return f"{shown_instant(self.interval)}  {with_reason(self.verdict, self.why)}  {self.report}"


class Checked(NamedTuple):
    """What a run of the check found, by plan id."""

    judged: dict[str, Judged]
    """every plan, oldest interval first"""
    refused: dict[str, Refusal]
    """those that are blocked"""


def check(ctx: Context, planned: Sequence[Plan]) -> dict[str, Refusal]:
    """Judge every plan that has not passed before; returns the refusals by plan id, empty where all pass."""
    return judge(ctx, planned).refused


def judge(ctx: Context, planned: Sequence[Plan]) -> Checked:
    """Judge every plan that has not passed before; returns the verdicts on all of them.

    Args:
        planned: all plans of a run; their candidates have been measured.

    Returns:
        Verdicts of all plans, and the refusals among those that were judged now.
    """
    known = judgements.of_plans(ctx.home, planned)
    waiting = [plan for plan in planned if not may_publish(judgements.verdict(known.get(plan.id, [])))]
    numbers = measures.by_plan(ctx.home, planned)
    judged, refused = _judge(ctx, planned, waiting, numbers) if waiting else ({}, {})
    crash_points.point("check.after_verdict")
    known |= judged
    in_order = sorted(planned, key=lambda plan: plan.interval.start)
    return Checked({plan.id: _judged(plan, known[plan.id], numbers[plan.id]) for plan in in_order}, refused)


def _judged(plan: Plan, rows: Sequence[Mapping[str, Any]], numbers: Mapping[str, float | None]) -> Judged:
    """Return the verdict that the rows of a plan in the table `quality` state."""
    is_empty = numbers.get("rows") == 0
    verdict, why = (found(rows, is_empty=is_empty) for found in (judgements.verdict, judgements.why))
    return Judged(plan.interval.start, str(verdict), why, rows[0]["report"] if rows else "")


def _judge(
    ctx: Context,
    planned: Sequence[Plan],
    waiting: Sequence[Plan],
    numbers: Mapping[str, Mapping[str, float | None]],
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Refusal]]:
    """Judge the waiting ones of a run's plans, oldest interval first, and record it.

    Returns:
        The judged measures and the refusals, by plan id.
    """
    from windrow.quality import pages, report  # Great Expectations takes seconds to import
    from windrow.quality.gate import Gate
    from windrow.quality.suites import suites_for
    from windrow.quality.verdicts import explain_failure

    # read
    earlier, distributions = earlier_intervals(ctx, waiting), Distributions(ctx, waiting)
    # compute; the gate writes the pages of each judgement as it makes it
    gate = Gate(suites_for(ctx.places.expectations, ctx.pipeline.expectations))
    to_judge = {plan.id for plan in waiting}
    rows: dict[str, list[dict[str, Any]]] = {}
    refused: dict[str, Refusal] = {}
    for plan in sorted(planned, key=lambda plan: plan.interval.start):
        found = numbers[plan.id]
        if plan.id in to_judge:
            judgement = gate.judge(
                {
                    **found,
                    **compared(ctx.pipeline, plan, found, earlier),
                    **distributions.measures(plan),
                },
                pipeline=ctx.pipeline.name,
                interval=plan.interval,
                plan=plan.id,
                report_folder=ctx.home.reports,
                judged_at=ctx.now(),
                is_listed=False,
            )
            rows[plan.id] = report.rows(judgement)
            if not judgement.may_publish:
                why = explain_failure(judgement)
                refused[plan.id] = Refusal(why, str(judgement.report), judgement.may_override)
                continue
        # what may be published is history for the next one, as if it were published already
        earlier[plan.interval.start] = as_earlier(plan, found)
        distributions.accept(plan)
    pages.write_lists(ctx.pipeline.name, ctx.home.reports, (plan.interval.start.date() for plan in waiting))
    # write
    crash_points.point("check.before_verdict")
    distributions.record()
    judgements.record(ctx.home, [row for judged in rows.values() for row in judged])
    return rows, refused


def execute(pipeline: PipelineName, run: RunKey, interval: OptionalIntervalStart = None) -> Mapping[str, Any]:
    """Judge the candidates of a run. With its own interval it fails only if that one is blocked.

    Raises:
        BadRequest: the run has recorded no plan.
        Blocked: an interval of the run is blocked; with `interval`, this one.
    """
    ctx = context(pipeline)
    planned = recorded_plans(ctx, run, first="join")
    checked = judge(ctx, planned)
    for one in checked.judged.values():
        print(one)
    judged = {"judged": [one._asdict() for one in list(checked.judged.values())[:LISTED]]}
    own = [plan.id for plan in planned if interval is None or plan.interval.start == interval]
    if stopped := [checked.refused[plan_id] for plan_id in own if plan_id in checked.refused]:
        may_override = any(refusal.may_override for refusal in stopped)
        message = "\n".join(refusal.why for refusal in stopped)
        raise Blocked(message, stopped[0].report, may_override=may_override, **judged)
    passed = [plan.interval.start for plan in planned if plan.id not in checked.refused]
    blocked = [refusal.why for refusal in checked.refused.values()]
    index = str(ctx.home.reports / "data_docs" / "index.html")
    report = checked.judged[own[0]].report if len(own) == 1 else index
    return {"passed": passed, "blocked": blocked, "report": report, **judged}


main = job(execute)
