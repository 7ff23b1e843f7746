"""Sentences of `windrow explain`: about a state, a near miss, a clock. No table and no clock is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from windrow.config import Pipeline, RightStream
from windrow.semantics.clock import PartitionClock, holder
from windrow.semantics.explain import Verdict
from windrow.semantics.intervals import shifted
from windrow.semantics.records import JoinSpec, Record, RowId
from windrow.text import shown_duration, shown_instant


def row_text(row_id: RowId) -> str:
    """Return `topic/epoch/partition/offset`, as `windrow explain` takes it."""
    return f"{row_id.topic}/{row_id.epoch}/{row_id.partition}/{row_id.offset}"


def above_pin_words(batches: int) -> str:
    """Return how far above its pin something landed."""
    return f"landed {batches} batch{'' if batches == 1 else 'es'} above the pin"


def miss_words(verdict: Verdict, right: RightStream) -> str:
    """Return why one right row is not among the row's matches."""
    by = shown_duration(verdict.missed_by or timedelta(), exact=True)
    above = f", and {above_pin_words(verdict.batches)}" if verdict.batches else ""
    if verdict.kind == "before_window":
        return f"{by} before the window{above}"
    if verdict.kind == "after_window":
        return f"{by} after the window's end{above}"
    if verdict.kind == "late":
        behind = f"; the watermark was {by} beyond the closing when it came" if verdict.missed_by is not None else ""
        return f"late: it {above_pin_words(verdict.batches or 0)}{behind}. A rebuild takes it in"
    if verdict.kind == "duplicate":
        winner = row_text(verdict.winner) if verdict.winner else "another row"
        return f"a retry: {winner} is the same event and stands for it"
    if verdict.kind == "filtered":
        return f"left out by where: {right.where}"
    if verdict.kind == "not_taken":
        return f"matched, and left out by `take: {right.take}`"
    if verdict.kind == "quarantined":
        return f"quarantined: {verdict.reason}; it could have matched"
    return "its key reads the same and is not equal: keys are equal by type and value, to the letter"


def state_words(
    pipeline: Pipeline, spec: JoinSpec, left: Record, state: str, reason: str | None, labels: int
) -> list[str]:
    """Return sentences about the label state and its reason.

    Args:
        spec: rules of the join at the pins in question, with how far each label topic had come.
        labels: how many label rows matched.
    """
    lines = [
        {
            "positive": f"positive: {labels} label{'s' if labels != 1 else ''} matched",
            "negative": "negative: no label matched, and the label side was complete for the whole window",
        }.get(state, "unknown: no label matched, and whether there was one cannot be known")
    ]
    if reason is not None:
        may = "; the list may be incomplete" if state == "positive" and reason != "drained" else ""
        lines.append(f"{reason}: {_reason_words(reason, pipeline, left)}{may}")
    if reason in (None, "side_silent", "drained"):
        lines += [_progress_words(stream, spec, left) for stream in pipeline.label_streams]
    return lines


def clock_words(watermark: datetime | None, clocks: Sequence[PartitionClock], needed: datetime) -> str:
    """Return where the watermark is, how much it lacks to `needed`, and which partition holds it."""
    slowest = holder(clocks)
    who = f"{slowest.topic}/{slowest.partition}, {slowest.lag} records behind" if slowest else "nothing landed"
    if watermark is None:
        return f"it has not started, held by {who}"
    lacks = shown_duration(needed - watermark, exact=True)
    return f"it is at {shown_instant(watermark)} and lacks {lacks}, held by {who}"


def _reason_words(reason: str, pipeline: Pipeline, left: Record) -> str:
    """Return what a label reason (rule 10) means for this row."""
    if reason == "null_key":
        return f"a key column is null ({', '.join(n for n in pipeline.left.key if left.values.get(n) is None)})"
    return {
        "offset_gap": "offsets of a label topic were deleted before they were landed, or compacted away; the gap is on "
        "record (`windrow clock`), and its time touches this window",
        "label_quarantined": "a label of this key that could have matched could not be read",
        "side_silent": "no partition of a label topic has shown an event beyond the window's end; the clock passed it "
        "by idling only",
        "drained": "the end of the stream was declared, so its silence is an answer",
        "forced": "the interval was published by force before its window was complete",
    }.get(reason, "see docs/SEMANTICS.md, rule 10")


def _progress_words(stream: RightStream, spec: JoinSpec, left: Record) -> str:
    """Return how far the events of a label stream reach, compared with the end of the window of the row."""
    ends = shifted(left.event_at, stream.window.after) if left.event_at else None
    newest = [max((c for c in spec.event_clocks.get(t, ()) if c), default=None) for t in stream.topics]
    reached = None if None in newest else min((at for at in newest if at), default=None)
    is_beyond = reached is not None and ends is not None and reached > ends
    silence = "" if is_beyond or stream.silence == "unknown" else "; its silence is an answer (`silence: negative`)"
    return (
        f"events of {stream.name} reach to {shown_instant(reached, 'never')}, {'' if is_beyond else 'not '}beyond this "
        f"window's end {shown_instant(ends, 'never')}{silence}"
    )
