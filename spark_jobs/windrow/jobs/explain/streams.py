"""Right rows of one stream that matched the row, and those that nearly did. Computed from the case alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from windrow.config import RightStream
from windrow.io.landing.landed_rows import row_id_of
from windrow.jobs.explain.case import Case
from windrow.jobs.explain.words import miss_words, row_text
from windrow.semantics.close import closes_at
from windrow.semantics.explain import Batch, Verdict, verdicts
from windrow.semantics.intervals import shifted
from windrow.semantics.records import Record, Right

MOST_MISSES = 20
"""Near misses of a stream that are listed, the nearest first; the others are counted."""


class Matches(NamedTuple):
    """Verdicts about the right rows of one stream."""

    matched: list[Verdict]
    """in row order"""
    missed: list[Verdict]
    """the nearest first"""


def matches_of(case: Case, stream: RightStream) -> Matches:
    """Return the stream's right rows as matches and near misses; for a published row, the published array decides.

    Returns:
        Matches in row order, and all other right rows of the case, each with the reason why it is none of them.
    """
    right = _rules(case, stream)
    in_training = {row_id_of(element) for element in case.training_row[stream.name]} if case.training_row else None
    matched, missed = [], []
    newest = case.clock.pins
    for verdict in verdicts(case.left, case.records, case.spec, right, case.pins, newest, _lateness(case)):
        is_match = verdict.kind == "matched" if in_training is None else verdict.record.row_id in in_training
        if is_match:
            matched.append(verdict)
        elif verdict.kind == "matched":  # published without it: a `where` that only Spark evaluates may leave it out
            needs_spark = stream.where is not None and right.where is None
            missed.append(Verdict(verdict.record, "filtered" if needs_spark else "not_published"))
        else:
            missed.append(verdict)
    return Matches(sorted(matched, key=lambda v: v.record.order), missed)


def stream_values(case: Case, stream: RightStream, found: Matches, all_columns: bool) -> dict[str, Any]:
    """Return what the answer says about a stream, as plain values.

    Args:
        all_columns: whether the payload of right rows is shown too.
    """
    at, window = case.left.event_at, stream.window
    return {
        "role": stream.role,
        "join": stream.join,
        "take": stream.take,
        "window": [shifted(at, -window.before), shifted(at, window.after)] if at else None,
        "matched": [_right_row(v.record, case, stream, all_columns) for v in found.matched],
        "near_misses": [
            {
                **_right_row(v.record, case, stream, all_columns),
                "kind": v.kind,
                "missed_by": v.missed_by,
                "batches": v.batches,
                "winner": row_text(v.winner) if v.winner else None,
                "why": miss_words(v, stream),
            }
            for v in found.missed[:MOST_MISSES]
        ],
        "more_near_misses": max(0, len(found.missed) - MOST_MISSES),
        "where_needs_spark": bool(stream.where) and _rules(case, stream).where is None,
    }


def _rules(case: Case, stream: RightStream) -> Right:
    return next(right for right in case.spec.right if right.name == stream.name)


def _lateness(case: Case) -> dict[Batch, timedelta | None]:
    """Return for each batch above its pin how far the watermark had passed the closing of the interval before it.

    None where the watermark had not come to the closing, or is not known.
    """
    if case.interval is None:
        return {}
    closing = closes_at(case.interval, case.pipeline.after, case.pipeline.grace)
    return {batch: at - closing if at and at >= closing else None for batch, at in case.watermarks.items()}


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
