"""override: a person publishes a blocked interval; name and reason stay in its publication.

A broken balance cannot be overridden: rows were lost or doubled, whatever a person decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windrow.io.registers import judgements, measures, plans, publications
from windrow.jobs.decision import decision
from windrow.jobs.ledger import extend_after_publication
from windrow.jobs.options import IntervalStart, PipelineName, Reason, Who
from windrow.jobs.plan.far_start import refuse_far_start
from windrow.jobs.plan.planning import interval_at
from windrow.jobs.publish import brief, publish
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.semantics.judgement import may_publish
from windrow.semantics.plan import Plan
from windrow.text import shown_instant


def override(ctx: Context, at: datetime, who: str, why: str) -> dict[str, Any]:
    """Publish the blocked candidate of an interval; a repetition of the same override is allowed.

    Args:
        at: start of the interval.
        who: who decides.
        why: the reason, which is recorded with the publication.

    Returns:
        The row of the register.

    Raises:
        BadRequest: no interval starts there, it has no candidate, or its last candidate is published, was not judged
            or was not blocked.
        BalanceBroken: the counts do not add up.
        FarStart: nothing is published yet, and `start` is long before the first row.
    """
    planned = plans.last_of_interval(ctx.home, interval_at(ctx, at).start)
    if planned is None:
        raise BadRequest(f"no candidate of the interval at {shown_instant(at)}; `windrow train` makes one")
    if not measures.are_recorded(ctx.home, (planned,)):
        raise BadRequest(
            f"no candidate of the interval at {shown_instant(at)}: the run {planned.run} has planned it and has not "
            "joined it yet; wait for that run, or clear it"
        )
    if not _is_published(ctx, planned, who, why):
        _refuse_unblocked(ctx, planned)
        refuse_far_start(ctx.home)
    return publish(ctx, (planned,), override=(who, why))[0]


def _is_published(ctx: Context, planned: Plan, who: str, why: str) -> bool:
    """Whether the same override has published the candidate before.

    Raises:
        BadRequest: it is published, but not by this override.
    """
    of_plan = [
        row for row in publications.of_interval(ctx.home, planned.interval.start) if row["plan_id"] == planned.id
    ]
    for row in of_plan:
        if (row["overridden_by"], row["override_reason"]) != (who, why):
            raise BadRequest(
                f"{planned.interval} has no blocked candidate: the last one is publication {row['number']} "
                f"({row['verdict']}). Nothing was recorded; `windrow rebuild` makes the interval again"
            )
    return bool(of_plan)


def _refuse_unblocked(ctx: Context, planned: Plan) -> None:
    judged = judgements.of_plans(ctx.home, (planned,)).get(planned.id)
    if judged is None:
        raise BadRequest(f"the candidate of {planned.interval} has not been judged: the check comes first")
    verdict = judgements.verdict(judged)
    if may_publish(verdict):
        raise BadRequest(
            f"the candidate of {planned.interval} was not blocked ({verdict}), so there is nothing to override; "
            f"`windrow train {ctx.pipeline.name}` publishes it"
        )


def execute(pipeline: PipelineName, interval: IntervalStart, reason: Reason, who: Who) -> Mapping[str, Any]:
    """Publish the interval's blocked candidate, and return the publication with who decided and why.

    Raises:
        BadRequest: there is no name or no reason, or the interval has no candidate that was judged, blocked and not
            published.
        BalanceBroken: the counts do not add up.
        LedgerNotExtended: it is published, and the late ledger is behind.
    """
    if not who:  # a form in Airflow was sent by a person, who is not the user of this process
        raise BadRequest("an override needs the name of who decides: it is recorded with the publication")
    ctx, decided = context(pipeline), decision("an override", reason, who)
    row = override(ctx, interval, decided.who, decided.reason)
    extend_after_publication(ctx)
    shown = {name: row[name] for name in ("overridden_by", "override_reason", "report")}
    return {"publications": [{**brief(row), **shown}], "report": row["report"]}


main = job(execute)
