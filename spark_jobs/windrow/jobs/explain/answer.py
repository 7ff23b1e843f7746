"""explain: why one left row has these labels, or why it is not published. No Spark, no scan of history.

    ROW ─▶ the landed row ─▶ its interval, windows, publications ─▶ what matched, what nearly did, and by how much
           (keyed look-up)    (register, plans, quality, clock)      (`semantics.explain`, at the standing pins)

What is published is read from the training table; the same is reasoned out again from the landed rows, and the
answer says whether the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from windrow.columns import ARRIVED_AT, BATCH, EVENT_TIME, INTERVAL, OBSERVED_UNTIL, PUBLICATION, REASON, ROW_ID, STATE
from windrow.config import Pipeline, RightStream
from windrow.home import Table
from windrow.io.delta import lookup, tables
from windrow.io.delta.lookup import Range, all_of, equal
from windrow.io.landing.landed_rows import LandedRows, Row, row_id_of
from windrow.io.ledger import table as ledger_table
from windrow.io.registers import clocks, judgements, publications
from windrow.jobs.explain.case import Case, case_of, gaps_at, interval_at
from windrow.jobs.explain.outcome import last_plan, outcome_of
from windrow.jobs.explain.question import Question, find
from windrow.jobs.explain.words import miss_words, row_text, state_words
from windrow.jobs.run import Context
from windrow.semantics.clock import PartitionClock, holder, watermark
from windrow.semantics.close import closes_at, frontier
from windrow.semantics.explain import Verdict, row_at, verdicts, winner_of
from windrow.semantics.intervals import Interval, shifted
from windrow.semantics.plan import Plan
from windrow.semantics.records import JoinSpec, Record, Right
from windrow.semantics.reference import JoinedRow

MOST_MISSES = 20
"""Near misses that are told of each stream, the nearest first; the others are counted."""


def explain(ctx: Context, asked: Question) -> dict[str, Any]:
    """Everything about one row, as plain values; `windrow explain` prints it.

    Raises:
        BadRequest: no row, or more than one, answers to the question.
    """
    landed = LandedRows(ctx.home, all_columns=asked.columns)
    row = find(ctx, landed, asked)
    register = _publications(ctx, interval_at(ctx.pipeline, row[EVENT_TIME]))
    standing = register[-1] if register else None
    plan = Plan.from_json(standing["plan"]) if standing else None
    case = case_of(ctx, landed, row, asked.near, plan.pins if plan else {})
    seen = clocks.observe(ctx.home)
    vector, pins = (plan.watermark, plan.pins) if plan else (seen.clocks, seen.pins)
    spec = case.spec(vector, bool(plan and plan.drained), gaps_at(ctx, case, pins))
    computed = row_at(case.records, spec, case.left, pins)
    published, training = _published(ctx, case, asked.columns)
    outcome, why = outcome_of(ctx, case, spec, pins, standing, published, computed, seen)
    state = (published[STATE], published[REASON]) if published else _state(computed)
    told = {s.name: _stream(ctx, case, s, spec, pins, published, asked.columns) for s in ctx.pipeline.right}
    labels = sum(len(told[s.name]["matched"]) for s in ctx.pipeline.label_streams)
    return {
        "pipeline": ctx.pipeline.name,
        "row": _row(ctx.pipeline, case, asked.columns),
        "outcome": outcome,
        "why": why,
        "interval": _interval(ctx.pipeline, case),
        "clock": _clock(ctx.pipeline, vector, plan, standing, pins),
        "label_state": state[0],
        "label_reason": state[1],
        "because": state_words(ctx.pipeline, spec, case.left, state[0], state[1], labels) if state[0] else [],
        "streams": told,
        "duplicates": _duplicates(ctx.pipeline, case, spec, pins),
        "publications": [_publication(ctx, case, one, published) for one in register],
        "expectations": _expectations(ctx, plan or last_plan(ctx, case)),
        "late": ledger_table.of_row(ctx.home, case.left.row_id),
        "agrees": _agrees(case, published, computed, plan),
        "looked": {**landed.looked, **({"training": training} if training else {})},
    }


def _publications(ctx: Context, interval: Interval | None) -> list[dict[str, Any]]:
    """Every publication of the row's interval, by number; what a killed run did not register is registered."""
    if interval is None:
        return []
    training, register = (ctx.home.table(table) for table in (Table.TRAINING, Table.PUBLICATIONS))
    if tables.version_of(training, publications.APP_ID) > tables.version_of(register, publications.APP_ID):
        publications.repaired(ctx.home)
    rows = publications.of_interval(ctx.home, interval.start)
    return sorted(rows, key=lambda row: row["number"])


def _published(ctx: Context, case: Case, all_columns: bool) -> tuple[Row | None, dict[str, int] | None]:
    """The row as readers see it, and how many files of the training table were opened for it."""
    table = lookup.opened(ctx.home.table(Table.TRAINING))
    if table is None or case.interval is None:
        return None, None
    at, start = case.left.event_at, case.interval.start
    names = [STATE, REASON, OBSERVED_UNTIL, PUBLICATION, *[s.name for s in ctx.pipeline.right], *ctx.pipeline.labels]
    wanted = all_of([equal(EVENT_TIME, at), *[equal(name, case.row[name]) for name in ROW_ID]])
    payload = list(ctx.pipeline.left.columns) if all_columns else []
    rows = table.read([*names, *payload], wanted, [Range(INTERVAL, start, start), Range(EVENT_TIME, at, at)])
    return (rows[0] if rows else None), table.looked


def _state(row: JoinedRow | None) -> tuple[str | None, str | None]:
    return (row.label_state, row.label_reason) if row else (None, None)


def _stream(
    ctx: Context,
    case: Case,
    stream: RightStream,
    spec: JoinSpec,
    pins: Mapping[str, int],
    published: Row | None,
    all_columns: bool,
) -> dict[str, Any]:
    right = next(r for r in spec.right if r.name == stream.name)
    told = verdicts(case.left, case.records, spec, right, pins, _lateness(ctx, case, right, pins))
    in_training = {row_id_of(element) for element in published[stream.name]} if published else None
    matched: list[Verdict] = []
    misses: list[Verdict] = []
    for v in told:
        stands = v.kind == "matched" if in_training is None else v.record.row_id in in_training
        if not stands and v.kind == "matched":  # published without it: only a `where` that Spark alone judges does that
            v = Verdict(v.record, "filtered")
        (matched if stands else misses).append(v)
    at, window = case.left.event_at, stream.window
    return {
        "role": stream.role,
        "join": stream.join,
        "take": stream.take,
        "window": [shifted(at, -window.before), shifted(at, window.after)] if at else None,
        "matched": [_right_row(v.record, case, stream, all_columns) for v in _in_row_order(matched)],
        "near_misses": [
            {
                **_right_row(v.record, case, stream, all_columns),
                "kind": v.kind,
                "missed_by": v.missed_by,
                "batches": v.batches,
                "winner": row_text(v.winner) if v.winner else None,
                "why": miss_words(v, stream),
            }
            for v in misses[:MOST_MISSES]
        ],
        "more_near_misses": max(0, len(misses) - MOST_MISSES),
        "where_needs_spark": bool(stream.where) and right.where is None,
    }


def _in_row_order(told: Sequence[Verdict]) -> list[Verdict]:
    return sorted(told, key=lambda v: v.record.order)


def _right_row(record: Record, case: Case, stream: RightStream, all_columns: bool) -> dict[str, Any]:
    at = record.event_at
    shown = stream.columns if all_columns else [*stream.key, *([stream.event_id] if stream.event_id else [])]
    return {
        "id": row_text(record.row_id),
        "event_time": at,
        "from_row": at - case.left.event_at if at and case.left.event_at else None,
        "batch": record.batch,
        "values": {name: record.values.get(name) for name in shown},
    }


def _lateness(
    ctx: Context, case: Case, right: Right, pins: Mapping[str, int]
) -> dict[tuple[str, int], timedelta | None]:
    """Of each batch above its pin, how far the watermark was beyond the interval's closing before it landed."""
    if case.interval is None:
        return {}
    above = {
        (r.row_id.topic, r.batch)
        for r in case.records
        if r.row_id.topic in right.topics and r.batch > pins.get(r.row_id.topic, 0)
    }
    closing = closes_at(case.interval, ctx.pipeline.after, ctx.pipeline.grace)
    return {batch: (at - closing if (at := _watermark_before(ctx, *batch)) else None) for batch in above}


def _watermark_before(ctx: Context, topic: str, batch: int) -> datetime | None:
    path = ctx.home.table(Table.CLOCK)
    held = tables.read(path, ["observation"], [("topic", "=", topic), ("batch", "=", batch)])
    number = min((row["observation"] for row in held), default=0) - 1
    rows = tables.read(path, filters=[("observation", "=", number)]) if number >= 0 else []
    return clocks.Observation(number, ctx.pipeline.topics, tuple(rows)).watermark if rows else None


def _row(p: Pipeline, case: Case, all_columns: bool) -> dict[str, Any]:
    row, left = case.row, p.left
    return {
        "id": row_text(case.left.row_id),
        **{name.removeprefix("_"): row[name] for name in ROW_ID},
        "event_time": case.left.event_at,
        "batch": row[BATCH],
        "arrived_at": row[ARRIVED_AT],
        "record_at": case.left.record_at,
        "key": {name: row.get(name) for name in left.key},
        "event_id": row.get(left.event_id) if left.event_id else None,
        "values": {name: row.get(name) for name in left.columns} if all_columns else None,
    }


def _interval(p: Pipeline, case: Case) -> dict[str, Any] | None:
    if case.interval is None:
        return None
    closing = closes_at(case.interval, p.after, p.grace)
    return {"start": case.interval.start, "end": case.interval.end, "closes_at": closing}


def _clock(
    p: Pipeline,
    vector: Sequence[PartitionClock],
    plan: Plan | None,
    standing: Mapping[str, Any] | None,
    pins: Mapping[str, int],
) -> dict[str, Any]:
    """The watermark at the pins of the standing publication, or now, and who held it."""
    slowest = holder(vector)
    mark = watermark(vector)
    return {
        "of_publication": standing["number"] if standing else None,
        "plan": plan.id if plan else None,
        "pins": dict(pins),
        "watermark": mark,
        "frontier": frontier(mark, p.after, p.grace),
        "held_by": f"{slowest.topic}/{slowest.partition}" if slowest else None,
        "held_by_lag": slowest.lag if slowest else None,
        "drained": bool(plan and plan.drained),
    }


def _duplicates(p: Pipeline, case: Case, spec: JoinSpec, pins: Mapping[str, int]) -> list[dict[str, Any]]:
    """Other landed rows with the row's event id; of those with its event time too, one stands (rule 11)."""
    event_id = case.left.values.get(p.left.event_id) if p.left.event_id else None
    same = {
        r.row_id: r
        for r in case.records
        if r.row_id.topic in p.left.topics and event_id is not None and r.values.get(p.left.event_id or "") == event_id
    }
    winner = winner_of(case.records, spec.left, case.left, pins) or case.left.row_id
    others = [r for row_id, r in sorted(same.items()) if row_id != case.left.row_id and not r.quarantined]
    return [{"id": row_text(r.row_id), "batch": r.batch, "stands": r.row_id == winner} for r in others]


def _publication(ctx: Context, case: Case, row: Mapping[str, Any], published: Row | None) -> dict[str, Any]:
    """One publication of the row's interval, and whether and how it held the row."""
    plan = Plan.from_json(row["plan"])
    stands = published is not None and published[PUBLICATION] == row["number"]
    same = plan.config_hash == ctx.pipeline.config_hash and case.judged
    spec = case.spec(plan.watermark, plan.drained, gaps_at(ctx, case, plan.pins)) if same else None
    then = row_at(case.records, spec, case.left, plan.pins) if spec else None
    state = (published[STATE], published[REASON]) if published and stands else _state(then)
    return {
        **{name: row[name] for name in ("number", "published_at", "verdict", "overridden_by", "override_reason")},
        "training_version": row["training_version"],
        "plan": plan.id,
        "pins": dict(plan.pins),
        "held_row": True if stands else None if spec is None else then is not None,
        "label_state": state[0],
        "label_reason": state[1],
        "labels": sum(len(then.matches[s.name]) for s in ctx.pipeline.label_streams) if then else None,
    }


def _expectations(ctx: Context, plan: Plan | None) -> list[dict[str, Any]]:
    if plan is None:
        return []
    names = ("expectation", "metric", "value", "bound", "severity", "verdict", "report", "judged_at")
    rows = judgements.of_plans(ctx.home, [plan]).get(plan.id, [])
    return [{name: row[name] for name in names} for row in rows]


def _agrees(case: Case, published: Row | None, computed: JoinedRow | None, plan: Plan | None) -> bool | None:
    """Whether what is published is what the landed rows say; None where that cannot be told without Spark."""
    if plan is None or not case.judged or plan.config_hash != case.pipeline.config_hash:
        return None
    if published is None or computed is None:
        return published is None and computed is None
    ids = {name: [m.row_id for m in met] for name, met in computed.matches.items()}
    same = all([row_id_of(e) for e in published[name]] == ids[name] for name in ids)
    return same and (published[STATE], published[REASON]) == _state(computed)
