"""How columns of candidates are distributed, compared with earlier intervals or a pinned publication. No Spark.

    read      a sample of each candidate                                              (`io.training.sampled`)
              histograms of what readers see: recent intervals, the same hour of earlier days, or the pinned publication
    compute   how far each column has moved                                           (`semantics.drift`)
    write     histograms and distances, in one commit                                 (`io.registers.distributions`)

A column without earlier histograms (new, of another kind, or of a pipeline that has just begun) is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windrow.home import Table
from windrow.io.delta import lookup
from windrow.io.registers import distributions, publications
from windrow.io.training import sampled
from windrow.jobs.run import Context
from windrow.quality.volume import recent_before, same_hour_before
from windrow.semantics.drift import Drift, Histogram, Kind, drift, from_one
from windrow.semantics.plan import Plan

NAMED = 10
"""Columns whose distances are measures, the farthest ones; the table has all of them."""

Histograms = Mapping[tuple[str, Kind], Histogram]
"""(column, kind) → rows by bucket."""


class Distributions:
    """Histograms of a run's candidates and of what they are compared with; it is kept for one round of judging."""

    def __init__(self, ctx: Context, waiting: Sequence[Plan]) -> None:
        self._ctx = ctx
        self._kinds = ctx.pipeline.drift_kinds
        self._rows: list[dict[str, Any]] = []
        self._pinned: Histograms | None = None
        self._earlier: dict[datetime, Histograms] = {}
        if not self._kinds:
            return
        self._candidates = lookup.opened(ctx.home.table(Table.CANDIDATES))  # once for all plans
        if ctx.pipeline.drift and ctx.pipeline.drift.reference is not None:
            self._pinned = _of_publication(ctx, ctx.pipeline.drift.reference)
            return
        starts = {at for plan in waiting for at in (*recent_before(plan.interval), *same_hour_before(plan.interval))}
        rows = publications.of_intervals(ctx.home, sorted(starts), ("number", "interval", "plan_id", "verdict"))
        standing = publications.standing(rows)
        trusted = {row["plan_id"]: at for at, row in standing.items() if row["verdict"] != "overridden"}
        found = distributions.of_plans(ctx.home, trusted, standing)
        self._earlier = {trusted[plan]: histograms for plan, histograms in found.items()}

    def measures(self, plan: Plan) -> dict[str, float | None]:
        """Return how far the columns of a candidate have moved, as measures; none where the file compares no column."""
        if not self._kinds:
            return {}
        now = sampled.histograms(self._candidates, plan.id, self._kinds)
        moved = {name: self._drift(plan, name, histogram) for name, histogram in now.items()}
        for name, histogram in now.items():
            self._rows.append(self._row(plan, name, histogram, moved[name]))
        psis = {name: one.psi for name, one in moved.items() if one.psi is not None}
        distances = {name: one.ks for name, one in moved.items() if one.ks is not None}
        return {**_farthest("drift_psi", psis), **_farthest("drift_ks", distances)}

    def accept(self, plan: Plan) -> None:
        """Take a candidate that may be published as an earlier interval of the next ones."""
        own = {
            (row["column"], row["kind"]): dict(zip(row["buckets"], row["rows"], strict=True))
            for row in self._rows
            if row["plan"] == plan.id
        }
        if own:
            self._earlier[plan.interval.start] = own

    def record(self) -> None:
        """Write what was counted and found."""
        if self._rows:
            distributions.record(self._ctx.home, self._rows)

    def _drift(self, plan: Plan, name: str, now: Histogram) -> Drift:
        kind = self._kinds[name]
        if self._pinned is not None:
            pinned = self._pinned.get((name, kind))
            return Drift() if pinned is None else from_one(pinned, now, kind)
        references = [
            [one[name, kind] for start in starts if (one := self._earlier.get(start)) and (name, kind) in one]
            for starts in (recent_before(plan.interval), same_hour_before(plan.interval))
        ]
        return drift(references, now, kind)

    def _row(self, plan: Plan, name: str, histogram: Histogram, moved: Drift) -> dict[str, Any]:
        buckets = sorted(histogram)
        return {
            "plan": plan.id,
            "interval": plan.interval.start,
            "column": name,
            "kind": self._kinds[name],
            "psi": moved.psi,
            "ks": moved.ks,
            "recorded_at": self._ctx.now(),
            "buckets": buckets,
            "rows": [histogram[bucket] for bucket in buckets],
        }


def _of_publication(ctx: Context, number: int) -> Histograms:
    """Histograms of the publication that the file names; none where it does not exist or was not counted."""
    row = publications.of_number(ctx.home, number)
    if row is None:
        return {}
    return distributions.of_plans(ctx.home, [row["plan_id"]], [row["interval"]]).get(row["plan_id"], {})


def _farthest(name: str, moved: Mapping[str, float]) -> dict[str, float | None]:
    """The greatest distance, and the columns that are farthest; the first is null where no column is compared."""
    first = sorted(moved.items(), key=lambda item: (-item[1], item[0]))[:NAMED]
    return {f"{name}_max": first[0][1] if first else None, **{f"{name}.{column}": value for column, value in first}}
