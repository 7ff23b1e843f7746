"""plan: record the plans of a rebuild, and list what it replaces, publishes or leaves alone, and why. No Spark.

The plans are recorded under the run's key, with reason and name; `join --planned`, `check` and `publish` carry them
out. With --dry-run nothing is recorded. A second call of the same run finds its plans and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windrow.jobs.decision import decision
from windrow.jobs.options import DryRun, Everything, From, PipelineName, Reason, RunKey, To, Who
from windrow.jobs.plan.survey import Survey, record_survey, recorded_range, survey
from windrow.jobs.run import context, job
from windrow.semantics.plan import Plan

MOST_LISTED = 200
"""Intervals that a task's result lists; the rest is counted."""


def listing(found: Survey | Sequence[Plan], most: int | None = None) -> dict[str, Any]:
    """Return a survey, or the plans that a retry finds recorded, as plain values for programs.

    Args:
        most: how many intervals are listed; default is all of them. Those that are left alone come last.
    """
    if not isinstance(found, Survey):
        return {"recorded": [plan.interval.start for plan in found[:most]], "counts": {"recorded": len(found)}}
    lines = sorted(found.lines, key=lambda line: (line.action == "leave", line.interval))
    return {
        "pins": found.clock.pins,
        "counts": found.counts,
        "rows_replaced": sum(line.rows or 0 for line in found.lines if line.action == "replace"),
        "intervals": [line.to_dict() for line in lines[:most]],
        "not_listed": max(0, len(lines) - most) if most is not None else 0,
    }


def execute(
    pipeline: PipelineName,
    run: RunKey,
    begin: From,
    end: To,
    reason: Reason,
    who: Who = None,
    everything: Everything = False,
    dry_run: DryRun = False,
) -> Mapping[str, Any]:
    """Plan the range, and return what is replaced, published and left alone; a retry returns what is recorded.

    Raises:
        BadRequest: the bounds are not interval bounds, or the reason is empty.
        WindowStillOpen: the range ends after the frontier.
    """
    ctx, why = context(pipeline), decision("a rebuild", reason, who)
    request = {"run": run, "from": begin, "to": end, "dry_run": dry_run, **why._asdict()}
    recorded = () if dry_run else recorded_range(ctx, run, begin, end)
    if recorded:
        return {**request, **listing(recorded, MOST_LISTED)}
    found = survey(ctx, begin, end, everything=everything)
    if not dry_run:
        record_survey(ctx, run, found, why)
    return {**request, **listing(found, MOST_LISTED)}


main = job(execute)
