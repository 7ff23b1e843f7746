"""Where a left row stands: published, or in the one place that every other row is in (rule 8, 12, 17)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.columns import PUBLICATION
from windrow.io.landing.landed_rows import Row
from windrow.io.registers import clocks, judgements, plans
from windrow.jobs.explain.case import Case
from windrow.jobs.explain.words import row_text
from windrow.jobs.run import Context
from windrow.semantics.clock import holder
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.explain import winner_of
from windrow.semantics.judgement import blocks
from windrow.semantics.plan import Plan
from windrow.semantics.records import JoinSpec
from windrow.semantics.reference import JoinedRow, passes


def outcome_of(
    ctx: Context,
    case: Case,
    spec: JoinSpec,
    pins: Mapping[str, int],
    standing: Mapping[str, Any] | None,
    published: Row | None,
    computed: JoinedRow | None,
    seen: clocks.Observation,
) -> tuple[str, str]:
    """Where the row stands, in a word and in a sentence."""
    left, p = case.left, ctx.pipeline
    if published:
        return "published", f"published, in publication {published[PUBLICATION]}"
    if left.quarantined:
        return "quarantined", f"quarantined at landing: {left.quarantined}; it is in no interval"
    if left.event_at is None or not passes(left, spec.left.where):
        return "filtered", f"left out by where: {p.left.where}"
    if left.event_at < p.start:
        return "before_start", f"before the pipeline's start {p.start.isoformat()}: it is in no interval"
    everything = dict.fromkeys(p.topics, 2**62)
    if winner := winner_of(case.records, spec.left, left, pins if standing else everything):
        return "duplicate", f"a retry: {row_text(winner)} is the same event and stands for it"
    if standing is None:
        return _unpublished(ctx, case, seen)
    above = left.batch - pins.get(left.row_id.topic, 0)
    if above > 0:
        return "late_left", (
            f"late: it landed {above} batches above the pin of publication {standing['number']}. "
            f"A rebuild of {case.interval} publishes it"
        )
    if computed is None:
        lacking = ", ".join(r.name for r in spec.right if r.join == "inner")
        return "unpaired", f"left out: an inner stream has no match for it ({lacking})"
    if p.left.where and spec.left.where is None:
        return "filtered", f"not published; most likely left out by where, which only Spark can judge: {p.left.where}"
    return "missing", "it should be in the training table and is not: `windrow verify` compares the whole interval"


def _unpublished(ctx: Context, case: Case, seen: clocks.Observation) -> tuple[str, str]:
    assert case.interval is not None
    p, interval = ctx.pipeline, case.interval
    needed = closes_at(interval, p.after, p.grace)
    if not is_closed(interval, seen.frontier(p)):
        slowest = holder(seen.clocks)
        who = f"{slowest.topic}/{slowest.partition}, {slowest.lag} records behind" if slowest else "nothing landed"
        mark = seen.watermark
        lacks = f" and lacks {needed - mark}" if mark else ""
        return "open", (
            f"its interval {interval} is open: it closes when the watermark is at {needed.isoformat()}; it is at "
            f"{mark.isoformat() if mark else 'nothing'}{lacks}, held by {who}"
        )
    plan = last_plan(ctx, case)
    judged = judgements.of_plans(ctx.home, [plan]).get(plan.id, []) if plan else []
    failed = [row for row in judged if blocks(row["verdict"], row["severity"])]
    if failed:
        names = ", ".join(f"{row['expectation']}({row['metric']})" for row in failed)
        return "blocked", f"its candidate is blocked by {names}; the report: {failed[0]['report']}"
    return "closed", f"its interval {interval} is closed and not published yet: `windrow train {p.name}`"


def last_plan(ctx: Context, case: Case) -> Plan | None:
    return plans.last_of_interval(ctx.home, case.interval.start) if case.interval else None
