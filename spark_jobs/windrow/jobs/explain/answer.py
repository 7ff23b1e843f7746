"""explain: why one left row has these labels, or why it is not published. No Spark, no scan of history.

    ROW ─▶ the landed row ─▶ its interval, windows, publications ─▶ what matched, what nearly did, and by how much
           (keyed look-up)    (register, plans, quality, clock)      (`semantics.explain`, at the standing pins)

What is published is read from the training table. The same is computed again from the landed rows, and the answer
says whether the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.columns import ARRIVED_AT, BATCH, PUBLICATION, REASON, ROW_ID, STATE
from windrow.io.landing.landed_rows import LandedRows, row_id_of
from windrow.jobs.explain.case import Case, read_case
from windrow.jobs.explain.outcome import outcome_of
from windrow.jobs.explain.question import Question, find_row
from windrow.jobs.explain.streams import matches_of, stream_values
from windrow.jobs.explain.words import row_text, state_words
from windrow.jobs.run import Context
from windrow.semantics.clock import holder
from windrow.semantics.close import closes_at, frontier
from windrow.semantics.explain import row_at, winner_of
from windrow.semantics.plan import Plan
from windrow.semantics.records import unreadable_for
from windrow.semantics.reference import JoinedRow


def explain(ctx: Context, question: Question) -> dict[str, Any]:
    """Return everything about one row as plain values; `windrow explain` prints it.

    Raises:
        BadRequest: no row, or more than one, answers to the question.
    """
    landed = LandedRows(ctx.home, all_columns=question.columns)
    row = find_row(ctx.home, landed, question)
    case = read_case(ctx.home, landed, row, near=question.near, all_columns=question.columns)
    return answer(case, question.columns)


def answer(case: Case, all_columns: bool) -> dict[str, Any]:
    """Return what follows from the case. The keys are those of `windrow explain --json`.

    Args:
        all_columns: show all columns of the rows instead of the short list.
    """
    pipeline = case.pipeline
    computed = row_at(case.records, case.spec, case.left, case.pins)
    outcome = outcome_of(case, computed)
    state, reason = _label_state(case, outcome.kind, computed)
    streams = pipeline.right if case.interval else ()  # a row that is in no interval is joined with nothing
    matches = {stream.name: matches_of(case, stream) for stream in streams}
    labels = sum(len(matches[stream.name].matched) for stream in pipeline.label_streams if stream in streams)
    return {
        "pipeline": pipeline.name,
        "row": _row(case, all_columns),
        "outcome": outcome.kind,
        "why": outcome.why,
        "interval": _interval(case),
        "clock": _clock(case),
        "label_state": state,
        "label_reason": reason,
        "because": state_words(case, outcome.kind, state, reason, labels),
        "streams": {s.name: stream_values(case, s, matches[s.name], all_columns) for s in streams},
        "duplicates": _duplicates(case),
        "publications": [_publication(case, row) for row in case.register],
        "expectations": _expectations(case),
        "late": case.ledger,
        "agrees": _agrees(case, computed),
        "looked": case.files,
    }


def _label_state(case: Case, outcome: str, computed: JoinedRow | None) -> tuple[str | None, str | None]:
    """Return the label state and its reason: as published, or as a publication now would have it; none while open."""
    if case.training_row:
        return _published_state(case)
    return (None, None) if outcome == "open" else _state(computed)


def _state(row: JoinedRow | None) -> tuple[str | None, str | None]:
    return (row.label_state, row.label_reason) if row else (None, None)


def _published_state(case: Case) -> tuple[str | None, str | None]:
    return (case.training_row[STATE], case.training_row[REASON]) if case.training_row else (None, None)


def _row(case: Case, all_columns: bool) -> dict[str, Any]:
    row, left = case.row, case.pipeline.left
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


def _interval(case: Case) -> dict[str, Any] | None:
    if case.interval is None:
        return None
    closing = closes_at(case.interval, case.pipeline.after, case.pipeline.grace)
    return {"start": case.interval.start, "end": case.interval.end, "closes_at": closing}


def _clock(case: Case) -> dict[str, Any]:
    """Return the watermark at the pins of the standing publication, or now, and which partition held it."""
    slowest = holder(case.partition_clocks)
    return {
        "of_publication": case.standing["number"] if case.standing else None,
        "plan": case.plan.id if case.plan else None,
        "pins": dict(case.pins),
        "watermark": case.watermark,
        "frontier": frontier(case.watermark, case.pipeline.after, case.pipeline.grace),
        "held_by": f"{slowest.topic}/{slowest.partition}" if slowest else None,
        "held_by_lag": slowest.lag if slowest else None,
        "drained": bool(case.plan and case.plan.drained),
    }


def _duplicates(case: Case) -> list[dict[str, Any]]:
    """Return the other landed rows with the event id of the row; `stands` marks the one that is kept (rule 11)."""
    stream = case.pipeline.left
    event_id = case.left.values.get(stream.event_id) if stream.event_id else None
    if stream.event_id is None or event_id is None:
        return []
    same = {
        r.row_id: r
        for r in sorted(case.records, key=lambda record: record.batch)  # one that was reconsidered stands for itself
        if r.row_id.topic in stream.topics and r.values.get(stream.event_id) == event_id
    }
    winner = winner_of(case.records, case.spec.left, case.left, case.settled_pins) or case.left.row_id
    others = [
        r
        for row_id, r in sorted(same.items())
        if row_id != case.left.row_id and unreadable_for(r, case.spec.left) is None
    ]
    return [{"id": row_text(r.row_id), "batch": r.batch, "stands": r.row_id == winner} for r in others]


def _publication(case: Case, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one publication of the interval of the row, whether it held the row, and with which label state."""
    plan = Plan.from_json(row["plan"])
    has_row = case.training_row is not None and case.training_row[PUBLICATION] == row["number"]
    is_computable = plan.config_hash == case.pipeline.config_hash and case.is_where_known
    then = row_at(case.records, case.spec_at(plan), case.left, plan.pins) if is_computable else None
    is_standing = case.standing is not None and row["number"] == case.standing["number"]
    state, reason = _published_state(case) if has_row else _state(then)
    labels = (len(then.matches[stream.name]) for stream in case.pipeline.label_streams) if then else None
    return {
        **{
            name: row[name] for name in ("number", "published_at", "verdict", "why", "overridden_by", "override_reason")
        },
        "training_version": row["training_version"],
        "plan": plan.id,
        "pins": dict(plan.pins),
        "held_row": has_row if has_row or is_standing else then is not None if is_computable else None,
        "label_state": state,
        "label_reason": reason,
        "labels": None if labels is None else sum(labels),
    }


def _expectations(case: Case) -> list[dict[str, Any]]:
    names = ("expectation", "metric", "value", "bound", "severity", "verdict", "report", "judged_at")
    return [{name: row[name] for name in names} for row in case.judgements]


def _agrees(case: Case, computed: JoinedRow | None) -> bool | None:
    """Return whether what is published is what the landed rows give; None where only Spark could tell."""
    plan, published = case.plan, case.training_row
    if plan is None or not case.is_where_known or not case.is_same_config:
        return None
    if published is None or computed is None:
        return published is None and computed is None
    ids = {name: [match.row_id for match in matches] for name, matches in computed.matches.items()}
    is_same = all([row_id_of(element) for element in published[name]] == ids[name] for name in ids)
    return is_same and _published_state(case) == _state(computed)
