"""The `plans` table: plans of runs, recorded before work starts and found again by a retry. No Spark.

All tries of a run have the same key, so a retry finds what was recorded. A cleared run has another key, and therefore
new plans with new pins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from windrow.home import Home, Table
from windrow.io.delta import lookup, tables
from windrow.io.delta.locks import held
from windrow.io.registers import configs
from windrow.schemas import PLANS
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

BY_BOUNDS = "waiting: force"
"""Who wanted an interval that the bounds of the pipeline file force (rule 24): no person, so that a run stays a run."""


class Request(NamedTuple):
    """Why a person wants something published, and who it is; recorded with the publication."""

    reason: str
    who: str


def of_run(home: Home, run: str) -> tuple[Plan, ...]:
    """Return the recorded plans of a run, oldest interval first; empty before it has recorded any."""
    rows = tables.read(home.table(Table.PLANS), filters=[("run", "=", run)])
    return tuple(sorted((Plan.from_json(row["plan"]) for row in rows), key=lambda plan: plan.interval.start))


def of_ids(home: Home, plan_ids: Collection[str]) -> list[Plan]:
    """Return the recorded plans with these ids.

    Args:
        plan_ids: ids that are not on record are ignored.

    Returns:
        Plans in no order.
    """
    rows = tables.read(home.table(Table.PLANS), columns=["plan"], filters=[("plan_id", "in", sorted(plan_ids))])
    return [Plan.from_json(row["plan"]) for row in rows]


def last_of_interval(home: Home, start: datetime) -> Plan | None:
    """Return the plan of an interval that was recorded last, or None."""
    rows = tables.read(home.table(Table.PLANS), filters=[("interval", "=", start)])
    last = max(rows, key=lambda row: row["recorded_at"], default=None)
    return Plan.from_json(last["plan"]) if last else None


def of_interval(recorded: lookup.Lookup | None, start: datetime) -> list[dict[str, Any]]:
    """Return the rows about an interval, with the columns of `schemas.PLANS`, the newest first.

    Args:
        recorded: the table of plans, if there is one.
        start: start of the interval.
    """
    if recorded is None:
        return []
    rows = recorded.having(PLANS.names, "interval", start)
    return sorted(rows, key=lambda row: row["recorded_at"], reverse=True)


def origins(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, Any]]:
    """Return the register's columns about the origin of a publication, by plan id: `kind`, `reason`, `asked_by`.

    Reason and name are those of a rebuild or of a forced interval, otherwise None. Without a person it is no rebuild.
    """
    rows = tables.read(home.table(Table.PLANS), filters=tables.of_plans("plan_id", plans))
    known = {row["plan_id"]: (row.get("reason"), row.get("asked_by")) for row in rows}
    return {
        plan.id: {"kind": "rebuild" if reason and who != BY_BOUNDS else "train", "reason": reason, "asked_by": who}
        for plan in plans
        for reason, who in [known.get(plan.id, (None, None))]
    }


def record(
    home: Home,
    plans: Iterable[Plan],
    now: datetime,
    requests: Mapping[Interval, Request] | None = None,
) -> tuple[Plan, ...]:
    """Record the plans of a run in one commit and return them; if the run has recorded plans before, return those.

    Args:
        requests: why intervals are wanted, and by whom, where they are not just due.
    """
    plans = tuple(plans)
    with held(home.lock(Table.PLANS)):
        recorded = of_run(home, plans[0].run)
        if recorded:
            return recorded
        configs.keep(home, now)
        rows = [
            {
                "run": plan.run,
                "plan_id": plan.id,
                "interval": plan.interval.start,
                "plan": plan.to_json(),
                "recorded_at": now,
                "reason": wanted.reason if wanted else None,
                "asked_by": wanted.who if wanted else None,
            }
            for plan in plans
            for wanted in [(requests or {}).get(plan.interval)]
        ]
        path = home.table(Table.PLANS)
        is_first = tables.append_next(
            path, PLANS, rows, app_id="windrow.plans", is_done=lambda: bool(of_run(home, plans[0].run))
        )
        return plans if is_first else of_run(home, plans[0].run)
