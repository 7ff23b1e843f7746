"""override: a person publishes a blocked interval; name and reason stay in its publication.

A broken balance cannot be overridden: rows were lost or doubled, whatever a person decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windrow.io.registers import measures, plans, publications
from windrow.jobs.decision import decision
from windrow.jobs.options import IntervalStart, PipelineName, Reason, Who
from windrow.jobs.plan.planning import interval_at
from windrow.jobs.publish import brief, publish
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.semantics.plan import Plan
from windrow.text import shown_instant


def override(ctx: Context, at: datetime, who: str, why: str) -> dict[str, Any]:
    """Publish the last candidate of the interval that starts at `at`; returns the register row.

    Raises:
        BadRequest: no interval starts there, it has no candidate, or its last candidate is published.
        BalanceBroken: the counts do not add up.
    """
    planned = plans.last_of_interval(ctx.home, interval_at(ctx, at).start)
    if planned is None or not measures.are_recorded(ctx.home, (planned,)):
        raise BadRequest(f"no candidate of the interval at {shown_instant(at)}; `windrow train` makes one")
    _refuse_published(ctx, planned, who, why)
    return publish(ctx, (planned,), override=(who, why))[0]


def _refuse_published(ctx: Context, planned: Plan, who: str, why: str) -> None:
    """Refuse to override a candidate that is published already; a retry of the same override is no other request."""
    for row in publications.of_interval(ctx.home, planned.interval.start):
        is_same = (row["overridden_by"], row["override_reason"]) == (who, why)
        if row["plan_id"] == planned.id and not is_same:
            raise BadRequest(
                f"{planned.interval} has no blocked candidate: the last one is publication {row['number']} "
                f"({row['verdict']}). Nothing was recorded; `windrow rebuild` makes the interval again"
            )


def execute(pipeline: PipelineName, interval: IntervalStart, reason: Reason, who: Who) -> Mapping[str, Any]:
    """Publish the interval's blocked candidate, and return the publication with who decided and why."""
    if not who:  # a form in Airflow was sent by a person, who is not the user of this process
        raise BadRequest("an override needs the name of who decides: it is recorded with the publication")
    decided = decision("an override", reason, who)
    row = override(context(pipeline), interval, decided.who, decided.reason)
    shown = {name: row[name] for name in ("overridden_by", "override_reason", "report")}
    return {"publications": [{**brief(row), **shown}], "report": row["report"]}


main = job(execute)
