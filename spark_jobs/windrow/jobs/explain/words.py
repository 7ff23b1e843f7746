"""What `windrow explain` found out, in words: a state, a miss, a clock. No tables, no time of day."""

from __future__ import annotations

from datetime import datetime, timedelta

from windrow.config import Pipeline, RightStream
from windrow.semantics.explain import Verdict
from windrow.semantics.intervals import MICROSECOND, shifted
from windrow.semantics.records import JoinSpec, Record, RowId


def row_text(row_id: RowId) -> str:
    """`topic/epoch/partition/offset`, as `windrow explain` takes it."""
    return f"{row_id.topic}/{row_id.epoch}/{row_id.partition}/{row_id.offset}"


def instant_words(at: datetime | None) -> str:
    """`2026-11-01 00:10:00Z`; fractions only where there are any."""
    if at is None:
        return "never"
    text = f"{at:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{at:%f}".rstrip("0") + "Z" if at.microsecond else f"{text}Z"


def span_words(length: timedelta) -> str:
    """`1h 2m 3.5s`, to the microsecond."""
    micros = abs(length) // MICROSECOND
    seconds, micros = divmod(micros, 1_000_000)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    if seconds or micros or not any(parts):
        parts.append(f"{seconds}{fraction}s")
    return " ".join(part for part in parts if part)


def miss_words(verdict: Verdict, right: RightStream) -> str:
    """Why one right row is not among the row's matches."""
    r, by = verdict.record, span_words(verdict.missed_by or timedelta())
    above = f", and landed {verdict.batches} batches above the pin" if verdict.batches else ""
    if verdict.kind == "before_window":
        return f"{by} before the window{above}"
    if verdict.kind == "after_window":
        return f"{by} after the window's end{above}"
    if verdict.kind == "late":
        behind = f"; the watermark was {by} beyond the closing when it came" if verdict.missed_by is not None else ""
        return f"late: it landed {verdict.batches} batches above the pin{behind}. A rebuild takes it in"
    if verdict.kind == "duplicate":
        winner = row_text(verdict.winner) if verdict.winner else "another row"
        return f"a retry: {winner} is the same event and stands for it"
    if verdict.kind == "filtered":
        return f"left out by where: {right.where}"
    if verdict.kind == "not_taken":
        return f"matched, and left out by `take: {right.take}`"
    if verdict.kind == "quarantined":
        return f"quarantined: {r.quarantined}; it could have matched"
    return "its key reads the same and is not equal: keys are equal by type and value, to the letter"


def state_words(
    pipeline: Pipeline, spec: JoinSpec, left: Record, state: str, reason: str | None, labels: int
) -> list[str]:
    """The label state and its reason, for a person who wonders."""
    if state == "positive":
        told = [f"positive: {labels} label{'s' if labels != 1 else ''} matched"]
    elif state == "negative":
        told = ["negative: no label matched, and the label side was complete for the whole window"]
    else:
        told = ["unknown: no label matched, and it cannot be said that there was none"]
    if reason is not None:
        may = "; the list may be incomplete" if state == "positive" and reason != "drained" else ""
        told.append(f"{reason}: {_reason_words(reason, pipeline, left)}{may}")
    for stream in pipeline.label_streams:
        told += [_heard_words(stream, spec, left)] if reason in (None, "side_silent", "drained") else []
    return told


def _reason_words(reason: str, pipeline: Pipeline, left: Record) -> str:
    if reason == "null_key":
        return f"a key column is null ({', '.join(n for n in pipeline.left.key if left.values.get(n) is None)})"
    return {
        "offset_gap": "offsets of a label topic were deleted before they were landed, the gap was accepted, and its "
        "time touches this window",
        "label_quarantined": "a label of this key that could have matched could not be read",
        "side_silent": "no partition of a label topic has shown an event beyond the window's end; the clock passed it "
        "by idling only",
        "drained": "the end of the stream was declared, so its silence is an answer",
        "forced": "the interval was published by force before its window was complete",
    }.get(reason, "see docs/SEMANTICS.md, rule 10")


def _heard_words(stream: RightStream, spec: JoinSpec, left: Record) -> str:
    ends = shifted(left.event_at, stream.window.after) if left.event_at else None
    clocks = [max((c for c in spec.event_clocks.get(t, ()) if c), default=None) for t in stream.topics]
    heard = None if None in clocks else min((c for c in clocks if c), default=None)
    beyond = heard is not None and ends is not None and heard > ends
    silence = "" if beyond or stream.silence == "unknown" else "; its silence is an answer (`silence: negative`)"
    relation = "beyond" if beyond else "not beyond"
    return (
        f"{stream.name} was heard until {instant_words(heard)}, {relation} this window's end {instant_words(ends)}"
        f"{silence}"
    )
