"""Sentences of `windrow explain`: about a state, a near miss, a clock. No table and no clock is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from windrow.config import Pipeline, RightStream
from windrow.jobs.explain.case import Case
from windrow.semantics.clock import PartitionClock, holder
from windrow.semantics.explain import Verdict
from windrow.semantics.intervals import shifted
from windrow.semantics.labels import DRAINED, FORCED, LABEL_QUARANTINED, NULL_KEY, OFFSET_GAP, SIDE_SILENT
from windrow.semantics.records import RowId
from windrow.text import counted, shown_duration, shown_instant


def row_text(row_id: RowId) -> str:
    """Return `topic/epoch/partition/offset`, as `windrow explain` takes it."""
    return f"{row_id.topic}/{row_id.epoch}/{row_id.partition}/{row_id.offset}"


def above_pin_words(batches: int) -> str:
    """Return how far above its pin something landed."""
    return f"landed {counted(batches, 'batch', 'batches')} above the pin"


def range_words(pipeline: Pipeline) -> str:
    """Return which keys the pipeline file keeps for canaries."""
    ranges = pipeline.canary.keys.items() if pipeline.canary else ()
    texts = [
        f"{name} {'begins with ' + r if isinstance(r, str) else f'is from {r[0]} to {r[1]}'}" for name, r in ranges
    ]
    return f"its {' and '.join(texts)}, which the pipeline file keeps for canaries"


def miss_words(verdict: Verdict, right: RightStream) -> str:
    """Return why one right row is not among the row's matches.

    Args:
        verdict: of a right row that is not a match.
        right: its stream.
    """
    by = shown_duration(verdict.missed_by or timedelta(), exact=True)
    above = f", and {above_pin_words(verdict.batches)}" if verdict.batches else ""
    if verdict.kind == "late":
        return f"late: it {above_pin_words(verdict.batches or 0)}{_behind_words(verdict.missed_by)}. A rebuild " + (
            "takes it in" if verdict.is_in_rebuild else "leaves it out too"
        )
    if verdict.kind == "duplicate":
        winner = row_text(verdict.winner) if verdict.winner else "another row"
        return f"a retry: {winner} is the same event and stands for it"
    if verdict.kind == "quarantined":
        could = "its key reads the same" if verdict.is_near_key else "it could have matched"
        return f"quarantined: {verdict.reason}; {could}{above}"
    return {
        "before_window": f"{by} before the window{above}",
        "after_window": f"{by} after the window's end{above}",
        "unclocked": "matches, and the clock does not have its batch yet: the next `windrow land` adds it",
        "filtered": f"left out by where: {right.where}",
        "not_taken": f"matched, and left out by `take: {right.take}`",
        "not_published": "it matches, and the training table has the row without it",
        "near_key": "its key reads the same and is not equal: keys are equal by type and value, to the letter",
    }[verdict.kind]


def _behind_words(missed_by: timedelta | None) -> str:
    """Return where the watermark was when a late row came, compared with the closing of the interval."""
    if missed_by is None:
        return ""
    return f"; the watermark was {shown_duration(missed_by, exact=True)} beyond the closing when it came"


def state_words(case: Case, outcome: str, state: str | None, reason: str | None, labels: int) -> list[str]:
    """Return sentences about the label state and its reason, at the pins of the case.

    Args:
        outcome: where the row stands (`outcome_of`).
        labels: how many label rows matched.
    """
    found = f"{counted(labels, 'label')} matched"
    if outcome == "open":
        return [f"no label state yet, because the interval is open: {found} so far", *_progress_lines(case)]
    if state is None:
        return []
    head = {
        "positive": f"positive: {found}",
        "negative": "negative: no label matched, and the label side counts as complete for the whole window",
    }.get(state, "unknown: no label matched, and whether there was one cannot be known")
    now = "" if outcome == "published" else "as the landed rows give it, not published: "
    lines = [now + head]
    if reason is not None:
        may = "; the list may be incomplete" if state == "positive" and reason != DRAINED else ""
        lines.append(f"{reason}: {_reason_words(reason, case)}{may}")
    return lines + (_progress_lines(case) if reason in (None, SIDE_SILENT, DRAINED) else [])


def clock_words(watermark: datetime | None, clocks: Sequence[PartitionClock], needed: datetime) -> str:
    """Return where the watermark is, how much it lacks to `needed`, and which partition holds it.

    Args:
        watermark: None before the clock has started.
        clocks: of every partition.
        needed: where the watermark must be.
    """
    slowest = holder(clocks)
    if slowest is None:
        return "it has not started, because nothing has landed"
    who = f"{slowest.topic}/{slowest.partition}, {counted(slowest.lag, 'record')} behind"
    if watermark is None:
        return f"it has not started, held by {who}"
    lacks = shown_duration(needed - watermark, exact=True)
    return f"it is at {shown_instant(watermark)} and lacks {lacks}, held by {who}"


def _reason_words(reason: str, case: Case) -> str:
    """Return what a label reason (rule 10) means for this row."""
    if reason == NULL_KEY:
        missing = [name for name in case.pipeline.left.key if case.left.values.get(name) is None]
        return f"a key column is null ({', '.join(missing)})"
    return {
        OFFSET_GAP: "offsets of a label topic were deleted before they were landed, or compacted away; the gap is on "
        "record (`windrow clock`), and its time touches this window",
        LABEL_QUARANTINED: "a label of this key that could have matched could not be read",
        SIDE_SILENT: "a label topic has no event later than this window's end, on any partition, so silence looks "
        "like an outage",
        DRAINED: "the end of the stream was declared, so its silence is an answer",
        FORCED: "the interval was published by force before its window was complete",
    }.get(reason, "see docs/SEMANTICS.md, rule 10")


def _progress_lines(case: Case) -> list[str]:
    """Return for each label stream and topic whether its events reach beyond the end of the window of the row."""
    left_at = case.left.event_at
    return [
        _progress_words(stream, topic, case.spec.event_clocks.get(topic, ()), left_at)
        for stream in case.pipeline.label_streams
        for topic in stream.topics
        if left_at is not None
    ]


def _progress_words(stream: RightStream, topic: str, event_clocks: Iterable[datetime | None], left_at: datetime) -> str:
    ends = shifted(left_at, stream.window.after)
    reached = max((clock for clock in event_clocks if clock), default=None)
    if reached is None:
        return f"{stream.name}: no event of {topic} has landed"
    is_beyond = "" if reached > ends else "not "
    silence = "; its silence is an answer (`silence: negative`)" if is_beyond and stream.silence == "negative" else ""
    return (
        f"{stream.name}: the newest event of {topic}, less its out-of-orderness, is at {shown_instant(reached)}, "
        f"{is_beyond}beyond this window's end {shown_instant(ends)}{silence}"
    )
