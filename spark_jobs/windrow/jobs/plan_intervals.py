"""plan: what a rebuild of a range would replace, publish for the first time and leave alone, and why. No Spark.

The plans are recorded under the run's key, with reason and name; `join --planned`, `check` and `publish` carry them
out. With --dry-run nothing is recorded. A second call of the same run finds its plans and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any, Literal

from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, judgements, plans, publications
from windrow.jobs.decision import decision
from windrow.jobs.options import DryRun, Everything, From, PipelineName, Reason, RunKey, To, Who
from windrow.jobs.planning import interval_at, known, record, why_open
from windrow.jobs.run import BadRequest, Context, WindowStillOpen, context, job
from windrow.outcomes import NothingToDo
from windrow.semantics.close import is_closed
from windrow.semantics.intervals import Interval, intervals_between, on_grid
from windrow.semantics.plan import Plan

TOLD = 200
"""Lines that a task's result carries; the rest is counted."""

Deed = Literal["replace", "publish", "leave"]


@dataclass(frozen=True)
class Line:
    """What a rebuild does to one interval, and why."""

    interval: Interval
    deed: Deed
    why: str
    publication: int | None
    """the one that stands"""
    rows: int | None
    newer: Mapping[str, int]
    """topic → batches landed since its pin"""
    changes: Mapping[str, int]
    """kind of change → lines of the late ledger, as far as it has been extended"""

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {**vars(self), "interval": self.interval.start}


@dataclass(frozen=True)
class Survey:
    """A range, looked at: its lines, and what their plans are made of."""

    lines: tuple[Line, ...]
    seen: clocks.Observation
    register: list[dict[str, Any]]

    @property
    def chosen(self) -> list[Interval]:
        """The intervals that are worked on."""
        return [line.interval for line in self.lines if line.deed != "leave"]

    @property
    def counts(self) -> dict[str, int]:
        """How many intervals have which deed."""
        return dict(Counter(line.deed for line in self.lines))


def survey(ctx: Context, begin: datetime, end: datetime, *, everything: bool = False) -> Survey:
    """Look at every interval of `[begin, end)`; with `everything` none is left alone.

    Raises:
        WindowStillOpen: the range reaches past the frontier.
        BadRequest: its bounds are not interval bounds.
    """
    first, last = _bounds(ctx, begin, end)
    register, seen = known(ctx)
    if not is_closed(last, seen.frontier(ctx.pipeline)):
        raise WindowStillOpen(f"the range reaches past what is closed: {why_open(ctx, last, seen)}")
    intervals = list(intervals_between(first.start, last.end, ctx.pipeline.interval))
    standing = publications.standing(register)
    changes = ledger_table.summary(ctx.home, [i.start for i in intervals])
    holes = [i for i in intervals if i.start not in standing]
    blocked = judgements.blocked_intervals(ctx.home, holes)
    lines = []
    for interval in intervals:
        row = standing.get(interval.start)
        plan = Plan.from_json(row["plan"]) if row else None
        newer = {t: n - plan.pins.get(t, 0) for t, n in seen.pins.items() if n > plan.pins.get(t, 0)} if plan else {}
        deed, why = _deed(ctx, row, plan, newer, interval.start in blocked, everything)
        number, rows = (row["number"], row["rows"]) if row else (None, None)
        lines.append(Line(interval, deed, why, number, rows, newer, changes.get(interval.start, {})))
    return Survey(tuple(lines), seen, register)


def plan_range(
    ctx: Context,
    run: str,
    begin: datetime,
    end: datetime,
    why: plans.Asked | None = None,
    *,
    everything: bool = False,
) -> tuple[Plan, ...]:
    """Record plans for `[begin, end)` with new pins (rule 16); a retry gets the recorded ones.

    Raises:
        WindowStillOpen, BadRequest: see `survey`.
        NothingToDo: nothing in the range can change.
    """
    if recorded := recorded_range(ctx, run, begin, end):
        return recorded
    found = survey(ctx, begin, end, everything=everything)
    return record_survey(ctx, run, found, why)


def recorded_range(ctx: Context, run: str, begin: datetime, end: datetime) -> tuple[Plan, ...]:
    """The plans that the run has recorded for the range; none if it has recorded none."""
    recorded = plans.of_run(ctx.home, run)
    if recorded and not (begin <= recorded[0].interval.start and recorded[-1].interval.end <= end):
        raise BadRequest(
            f"run {run!r} has plans from {recorded[0].interval.start} to {recorded[-1].interval.end}; another range is "
            "another run"
        )
    return recorded


def record_survey(ctx: Context, run: str, found: Survey, why: plans.Asked | None) -> tuple[Plan, ...]:
    """Record the plans of what was looked at."""
    if not found.chosen:
        raise NothingToDo(
            f"all {len(found.lines)} intervals stand as a rebuild would make them: {found.lines[0].why}. --all makes "
            "them again"
        )
    return record(ctx, run, found.chosen, found.seen, found.register, drained=False, asked=why)


def _bounds(ctx: Context, begin: datetime, end: datetime) -> tuple[Interval, Interval]:
    if end <= begin:
        raise BadRequest(f"the range ends at {end}, at or before it begins at {begin}")
    first = interval_at(ctx, begin)
    if not on_grid(end, ctx.pipeline.interval):
        raise BadRequest(f"no interval of {ctx.pipeline.name} ends at {end}: they are {ctx.pipeline.interval} long")
    return first, interval_at(ctx, end - ctx.pipeline.interval)


def _deed(
    ctx: Context,
    row: Mapping[str, Any] | None,
    plan: Plan | None,
    newer: Mapping[str, int],
    is_blocked: bool,
    everything: bool,
) -> tuple[Deed, str]:
    if row is None or plan is None:
        return "publish", "its last candidate was blocked" if is_blocked else "it has no publication"
    code = version("windrow")
    reasons = [
        *(f"{topic}: {n} batches newer" for topic, n in newer.items()),
        *(["the pipeline file was another"] if plan.config_hash != ctx.pipeline.config_hash else []),
        *([f"made by version {row['code_version']}, now {code}"] if row["code_version"] != code else []),
        *(["the end of the stream was declared"] if plan.drained else []),
    ]
    if reasons:
        return "replace", "; ".join(reasons)
    same = "published at these very pins, file and version"
    return ("replace", f"{same}, made again on request") if everything else ("leave", same)


def listing(found: Survey | Sequence[Plan], told: int | None = None) -> dict[str, Any]:
    """What was looked at, or what a retry finds recorded, for programs."""
    if not isinstance(found, Survey):
        return {"recorded": [plan.interval.start for plan in found[:told]], "counts": {"recorded": len(found)}}
    lines = sorted(found.lines, key=lambda line: (line.deed == "leave", line.interval))
    return {
        "pins": found.seen.pins,
        "counts": found.counts,
        "rows_replaced": sum(line.rows or 0 for line in found.lines if line.deed == "replace"),
        "intervals": [line.to_dict() for line in lines[:told]],
        "not_listed": max(0, len(lines) - told) if told is not None else 0,
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
    """Plan the range, and return what is replaced, published and left alone; a retry returns what is recorded."""
    ctx, why = context(pipeline), decision("a rebuild", reason, who)
    request = {"run": run, "from": begin, "to": end, "dry_run": dry_run, **why._asdict()}
    recorded = () if dry_run else recorded_range(ctx, run, begin, end)
    if recorded:
        return {**request, **listing(recorded, TOLD)}
    found = survey(ctx, begin, end, everything=everything)
    if not dry_run:
        record_survey(ctx, run, found, why)
    return {**request, **listing(found, TOLD)}


main = job(execute)
