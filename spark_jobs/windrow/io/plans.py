"""Plans of runs: recorded before work starts, found again by a retry.

A run is one try of a DAG run, of a backfill or of a command; its key does not hold the try number, so a retry
finds what was recorded. A cleared run has another key, and so new plans with new pins.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from windrow.config import Pipeline
from windrow.io import small
from windrow.io.locks import held
from windrow.places import Places
from windrow.schemas import PLANS
from windrow.semantics.plan import Plan


def of_run(pipeline: Pipeline, places: Places, run: str) -> tuple[Plan, ...]:
    """The recorded plans of a run, oldest interval first; none if it has recorded none."""
    rows = small.read(places.table(pipeline.name, "plans"), filters=[("run", "=", run)])
    return tuple(sorted((Plan.from_json(row["plan"]) for row in rows), key=lambda plan: plan.interval.start))


def last_of_interval(pipeline: Pipeline, places: Places, start: datetime) -> Plan | None:
    """The plan of an interval that was recorded last."""
    rows = small.read(places.table(pipeline.name, "plans"), filters=[("interval", "=", start)])
    last = max(rows, key=lambda row: row["recorded_at"], default=None)
    return Plan.from_json(last["plan"]) if last else None


def record(pipeline: Pipeline, places: Places, plans: Iterable[Plan], now: datetime) -> tuple[Plan, ...]:
    """Record the plans of a run in one commit; if the run has some already, those stand."""
    plans = tuple(plans)
    with held(places.lock(pipeline.name, "plans")):
        recorded = of_run(pipeline, places, plans[0].run)
        if recorded:
            return recorded
        rows = [
            {
                "run": plan.run,
                "plan_id": plan.id,
                "interval": plan.interval.start,
                "plan": plan.to_json(),
                "recorded_at": now,
            }
            for plan in plans
        ]
        small.append_once(places.table(pipeline.name, "plans"), PLANS, rows)
        return plans
