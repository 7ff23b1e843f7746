"""Survey of a range: what a rebuild would replace, publish for the first time or leave alone, and why. No Spark.

range ─▶ survey: one line per interval ─▶ record_survey: plans for those that are replaced or published
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any, Literal

from windrow.io.ledger import table as ledger_table
from windrow.io.registers import judgements, plans, publications
from windrow.io.registers.clocks import Observation
from windrow.io.registers.plans import Request
from windrow.jobs.plan.far_start import refuse_far_start
from windrow.jobs.plan.planning import Known, interval_at, record, why_open
from windrow.jobs.run import BadRequest, Context, WindowStillOpen
from windrow.jobs.size import estimated, remember_size
from windrow.outcomes import NothingToDo
from windrow.semantics.close import is_closed
from windrow.semantics.intervals import Interval, intervals_between, on_grid
from windrow.semantics.plan import Plan
from windrow.text import counted, duration_text, shown_instant

Action = Literal["replace", "publish", "leave"]


@dataclass(frozen=True)
class SurveyLine:
    """What a rebuild does to one interval, and why."""

    interval: Interval
    action: Action
    why: str
    publication: int | None
    """number of the standing one"""
    rows: int | None
    newer: Mapping[str, int]
    """topic → batches landed since its pin"""
    changes: Mapping[str, int]
    """kind of change → lines of the late ledger, as far as it has been extended"""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the field names of `--json`: `action` is called `deed` there."""
        fields = {**vars(self), "interval": self.interval.start}
        return {"deed": fields.pop("action"), **fields}


@dataclass(frozen=True)
class Survey:
    """The lines of a range, and the clock and register that they were found with."""

    lines: tuple[SurveyLine, ...]
    clock: Observation
    published: publications.Grid

    @property
    def chosen(self) -> list[Interval]:
        """Intervals that are replaced or published."""
        return [line.interval for line in self.lines if line.action != "leave"]

    @property
    def counts(self) -> dict[str, int]:
        """Number of intervals by action."""
        return dict(Counter(line.action for line in self.lines))


def survey(ctx: Context, begin: datetime, end: datetime, *, everything: bool = False) -> Survey:
    """Survey every interval of `[begin, end)`.

    Args:
        everything: replace also the intervals that a rebuild cannot change.

    Raises:
        WindowStillOpen: the range ends after the frontier.
        BadRequest: its bounds are not interval bounds.
    """
    first, last = _bounds(ctx, begin, end)
    known = Known(ctx)
    published = known.published
    standing = publications.standing(publications.between(ctx.home, first.start, last.end))
    clock = known.clock
    if not is_closed(last, clock.frontier(ctx.pipeline)):
        raise WindowStillOpen(f"the range reaches past what is closed: {why_open(ctx, last, clock)}")
    intervals = list(intervals_between(first.start, last.end, ctx.pipeline.interval))
    changes = ledger_table.summary(ctx.home, [i.start for i in intervals])
    blocked = judgements.blocked_intervals(ctx.home, [i for i in intervals if i.start not in standing])
    lines = []
    for interval in intervals:
        row = standing.get(interval.start)
        plan = Plan.from_json(row["plan"]) if row else None
        newer = _newer_batches(plan, clock.pins) if plan else {}
        if row is None or plan is None:
            why = "its last candidate was blocked" if interval.start in blocked else "it has no publication"
            action: Action = "publish"
        else:
            action, why = _replace_or_leave(ctx, row, plan, newer, everything, is_changed=interval.start in changes)
        number, rows = (row["number"], row["rows"]) if row else (None, None)
        lines.append(SurveyLine(interval, action, why, number, rows, newer, changes.get(interval.start, {})))
    return Survey(tuple(lines), clock, published)


def plan_range(
    ctx: Context,
    run: str,
    begin: datetime,
    end: datetime,
    request: Request | None = None,
    *,
    everything: bool = False,
) -> tuple[Plan, ...]:
    """Record plans for `[begin, end)` with new pins (rule 16), and return them; a retry gets the recorded ones.

    Args:
        run: key under which the plans are recorded.
        request: who asks for it and why, for the register.
        everything: also intervals since whose publication nothing has landed.

    Raises:
        WindowStillOpen, BadRequest: see `survey`.
        NothingToDo: a rebuild would change no interval of the range.
    """
    if recorded := recorded_range(ctx, run, begin, end):
        return recorded
    return record_survey(ctx, run, survey(ctx, begin, end, everything=everything), request)


def recorded_range(ctx: Context, run: str, begin: datetime, end: datetime) -> tuple[Plan, ...]:
    """Return the plans that the run has recorded for the range; empty before it has recorded any.

    The next driver is made for their size.

    Raises:
        BadRequest: its plans are of another range.
    """
    recorded = plans.of_run(ctx.home, run)
    if recorded and not (begin <= recorded[0].interval.start and recorded[-1].interval.end <= end):
        raise BadRequest(
            f"run {run!r} has plans from {shown_instant(recorded[0].interval.start)} to "
            f"{shown_instant(recorded[-1].interval.end)}; another range is another run"
        )
    return _for_next_driver(ctx, recorded)


def record_survey(ctx: Context, run: str, found: Survey, request: Request | None) -> tuple[Plan, ...]:
    """Record plans for the chosen intervals of a survey, and return them. The next driver is made for their size.

    Args:
        run: key under which the plans are recorded.
        request: who asks for it and why, for the register.

    Raises:
        NothingToDo: it has chosen none.
        FarStart: nothing is published yet, and `start` is long before the first row.
    """
    refuse_far_start(ctx.home)
    if not found.chosen:
        raise NothingToDo(
            f"nothing differs from a rebuild in {counted(len(found.lines), 'interval')}: {found.lines[0].why}. "
            "--all makes them again"
        )
    requests = dict.fromkeys(found.chosen, request) if request else {}
    return _for_next_driver(ctx, record(ctx, run, found.chosen, found.clock, found.published, requests, drained=False))


def _for_next_driver(ctx: Context, planned: tuple[Plan, ...]) -> tuple[Plan, ...]:
    if planned:
        remember_size(ctx.home, estimated(ctx.home, planned).rows)
    return planned


def _bounds(ctx: Context, begin: datetime, end: datetime) -> tuple[Interval, Interval]:
    if end <= begin:
        raise BadRequest(f"the range ends at {shown_instant(end)}, at or before it begins at {shown_instant(begin)}")
    first = interval_at(ctx, begin)
    if not on_grid(end, ctx.pipeline.interval):
        length = duration_text(ctx.pipeline.interval)
        raise BadRequest(f"no interval of {ctx.pipeline.name} ends at {shown_instant(end)}: they are {length} long")
    return first, interval_at(ctx, end - ctx.pipeline.interval)


def _newer_batches(plan: Plan, pins: Mapping[str, int]) -> dict[str, int]:
    newer = {topic: pin - plan.pins.get(topic, 0) for topic, pin in pins.items()}
    return {topic: count for topic, count in newer.items() if count > 0}


def _replace_or_leave(
    ctx: Context, row: Mapping[str, Any], plan: Plan, newer: Mapping[str, int], everything: bool, *, is_changed: bool
) -> tuple[Action, str]:
    code = version("windrow")
    reasons = [
        *(f"{topic}: {counted(n, 'batch', 'batches')} newer" for topic, n in newer.items()),
        *(["the pipeline file was another"] if plan.config_hash != ctx.pipeline.config_hash else []),
        *([f"made by version {row['code_version']}, now {code}"] if row["code_version"] != code else []),
        *(["the end of the stream was declared"] if plan.drained else []),
    ]
    if not reasons and is_changed:  # keys were erased, which changes no pin
        reasons = ["the late ledger names what a rebuild changes"]
    if reasons:
        return "replace", "; ".join(reasons)
    same = "published at these very pins, file and version"
    return ("replace", f"{same}, made again on request") if everything else ("leave", same)
