"""interval: all that is on record about one interval: plans, verdicts, publications. No Spark, no lock.

read      plans, judgements and publications of the interval, its lines of the late ledger, the newest clock
compute   its state, as a cell of the strip has it                                            (`semantics.fleet.strip`)

Tables are read for the interval alone, however long the history is; nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import lookup
from windrow.io.ledger import table as ledger
from windrow.io.registers import clocks, judgements, plans, publications, recent
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.fleet.strip import Cell, cells
from windrow.semantics.intervals import Interval, interval_of, on_grid
from windrow.semantics.judgement import Verdict, may_publish
from windrow.semantics.plan import Plan


@dataclass(frozen=True)
class Judgement:
    """What a gate said of the candidate of a plan."""

    judged_at: datetime
    verdict: Verdict
    why: str | None
    report: str
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    """columns of `schemas.QUALITY`, one row per measure"""


@dataclass(frozen=True)
class Planned:
    """A plan of the interval, and what came of it."""

    plan: Plan
    recorded_at: datetime
    reason: str | None
    asked_by: str | None
    is_forced: bool
    judged: Sequence[Judgement]
    """the newest first"""
    publication: int | None
    """number of what was published by it"""


@dataclass(frozen=True)
class Story:
    """One interval, and all that is on record about it."""

    interval: Interval
    cell: Cell
    closes_at: datetime
    """watermark at which it closes"""
    watermark: datetime | None
    planned: Sequence[Planned]
    """the newest first"""
    published: Sequence[Mapping[str, Any]]
    """register rows, the newest first; the first one stands"""
    late: Mapping[str, int]
    """what a rebuild would change, by kind, as the late ledger knows it"""
    is_closed: bool

    @property
    def may_override(self) -> bool:
        """Whether a decision could publish it: the candidate that was made last is blocked, and not published."""
        last = next(iter(self.planned), None)
        if last is None or not last.judged or last.publication is not None:
            return False
        return not may_publish(last.judged[0].verdict)


def story(home: Home, start: datetime, known: recent.Recent | None = None) -> Story | None:
    """Return what is on record about the interval that starts at `start`.

    None where no interval starts there: neither by the pipeline file as it is nor by an earlier one that made plans.

    Args:
        start: an instant, in UTC.
        known: what this process has read before; it is extended.

    Raises:
        TableDamaged: a table cannot be read.
    """
    pipeline, known = home.pipeline, known or recent.Recent()
    published = sorted(publications.complete_of_interval(home, start), key=lambda row: -row["number"])
    recorded = plans.of_interval(lookup.opened(home.table(Table.PLANS)), start)
    made = [Plan.from_json(row["plan"]) for row in recorded]
    known_plans = [*made, *(Plan.from_json(row["plan"]) for row in published if row["plan"])]
    if known_plans:
        interval = known_plans[0].interval
    elif start >= pipeline.start and on_grid(start, pipeline.interval):
        interval = interval_of(start, pipeline.start, pipeline.interval)
    else:
        return None
    judged = _judged(judgements.of_interval(lookup.opened(home.table(Table.QUALITY)), start), published)
    clock = clocks.observe(home)
    frontier, standing = clock.frontier(pipeline), {row["interval"]: row for row in published[:1]}
    newest = recent.newest(recent.grid(home, known).starts)
    around = [interval]
    if newest is not None and newest > interval.start:  # a later publication makes a closed interval a hole
        around.append(interval_of(newest, pipeline.start, pipeline.interval))
        standing.setdefault(around[1].start, {"verdict": "", "kind": ""})
    cell = cells(around, standing, {start} if _is_blocked(judged) else (), frontier)[0]
    numbers = {row["plan_id"]: row["number"] for row in published}
    return Story(
        interval=interval,
        cell=cell,
        closes_at=closes_at(interval, pipeline.after, pipeline.grace),
        watermark=clock.watermark,
        planned=[
            Planned(
                plan=plan,
                recorded_at=row["recorded_at"],
                reason=row.get("reason"),
                asked_by=row.get("asked_by"),
                is_forced=plan.is_forced(pipeline.after, pipeline.grace),
                judged=judged.get(plan.id, ()),
                publication=numbers.get(plan.id),
            )
            for row, plan in zip(recorded, made, strict=True)
        ],
        published=published,
        late=_late(home, start, published),
        is_closed=is_closed(interval, frontier),
    )


def _judged(rows: Iterable[Mapping[str, Any]], published: Sequence[Mapping[str, Any]]) -> dict[str, list[Judgement]]:
    """Judgements by plan id, the newest of a plan first; all rows of one have the same plan and time."""
    empty = {row["plan_id"] for row in published if not row["rows"]}
    grouped: dict[tuple[str, datetime], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["plan"], row["judged_at"]].append(row)
    found: dict[str, list[Judgement]] = defaultdict(list)
    for (plan, judged_at), own in sorted(grouped.items(), key=lambda item: item[0][1], reverse=True):
        is_empty = plan in empty
        verdict, why = judgements.verdict(own, is_empty=is_empty), judgements.why(own, is_empty=is_empty)
        found[plan].append(Judgement(judged_at, verdict, why, own[0]["report"] or "", own))
    return found


def _is_blocked(judged: Mapping[str, Sequence[Judgement]]) -> bool:
    """Whether the newest judgement keeps the interval back."""
    newest = max((ones[0] for ones in judged.values()), key=lambda one: one.judged_at, default=None)
    return newest is not None and not may_publish(newest.verdict)


def _late(home: Home, start: datetime, published: Sequence[dict[str, Any]]) -> dict[str, int]:
    if not published:
        return {}
    return ledger.summary(home, [start], standing={start: published[0]}).get(start, {})
