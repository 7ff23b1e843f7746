"""What is on record about the intervals before a run's: the standing publications and their measures. No rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from windrow.io.registers import measures, publications
from windrow.jobs.run import Context
from windrow.quality.comparison import HISTORY, EarlierInterval, volumes_of
from windrow.quality.history import Earlier
from windrow.quality.volume import recent_before, same_hour_before
from windrow.semantics.plan import Plan

_COLUMNS = ("number", "interval", "config_hash", "plan_id", "verdict", "positive", "negative", "unknown")
LOOKED_AT = 4 * HISTORY
"""Earlier publications among which a label rate's history is looked for: those without complete rows do not count."""


def earlier_intervals(ctx: Context, waiting: Sequence[Plan]) -> dict[datetime, EarlierInterval]:
    """Return what readers see before the last of these plans' intervals, by interval start.

    Args:
        waiting: plans to be judged, at least one.
    """
    first, last = min(plan.interval.start for plan in waiting), max(plan.interval.start for plan in waiting)
    compared = {s for plan in waiting for s in (*recent_before(plan.interval), *same_hour_before(plan.interval))}
    standing = _standing(ctx, min(compared), first)
    before = [start for start in sorted(standing) if start < first][-LOOKED_AT:]
    between = [start for start in standing if first <= start < last]
    wanted = sorted({*before, *between, *(compared & standing.keys())})
    plans = [(standing[start]["plan_id"], start) for start in wanted]
    found = measures.comparable(ctx.home, plans)
    return {
        start: EarlierInterval(
            standing[start]["config_hash"],
            Earlier.of(standing[start], numbers.get("positive_complete")),
            volumes_of(numbers),
        )
        for start in wanted
        for numbers in (found.get(standing[start]["plan_id"], {}),)
    }


def _standing(ctx: Context, since: datetime, first: datetime) -> dict[datetime, dict[str, Any]]:
    """Return the standing publications of intervals from `since` on, and at least `LOOKED_AT` before `first`.

    Where there are not so many, every one is returned. The whole register is read only where intervals are missing.
    """
    standing = publications.standing(publications.since(ctx.home, since, _COLUMNS))
    if sum(start < first for start in standing) < LOOKED_AT:
        standing = publications.standing(publications.registered(ctx.home, _COLUMNS))
    return standing
