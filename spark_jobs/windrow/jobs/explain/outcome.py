"""Where a left row stands: published, or the one reason why it is not (rules 8, 12 and 17)."""

from __future__ import annotations

from typing import NamedTuple

from windrow.columns import PUBLICATION
from windrow.jobs.explain.case import Case
from windrow.jobs.explain.words import above_pin_words, clock_words, row_text
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.explain import winner_of
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import blocks
from windrow.semantics.records import unreadable_for
from windrow.semantics.reference import JoinedRow, passes
from windrow.text import shown_instant

ALL_BATCHES = 2**62
"""A pin above every batch."""


class Outcome(NamedTuple):
    """Where a row stands."""

    kind: str
    """a word for programs"""
    why: str
    """a sentence for people"""


def outcome_of(case: Case, computed: JoinedRow | None) -> Outcome:
    """Return where the row stands; the first outcome that applies counts.

    Args:
        computed: the row as the reference join makes it at the case's pins, None where it does not emit it.
    """
    left, p = case.left, case.pipeline
    if case.training_row:
        return Outcome("published", f"published, in publication {case.training_row[PUBLICATION]}")
    if reason := unreadable_for(left, case.spec.left):
        return Outcome("quarantined", f"quarantined at landing: {reason}; it is in no interval")
    if left.event_at is None or case.interval is None or not passes(left, case.spec.left.where):
        return Outcome("filtered", f"left out by where: {p.left.where}")
    if left.event_at < p.start:
        return Outcome("before_start", f"before the pipeline's start {shown_instant(p.start)}: it is in no interval")
    pins = case.pins if case.standing else dict.fromkeys(p.topics, ALL_BATCHES)
    if winner := winner_of(case.records, case.spec.left, left, pins):
        return Outcome("duplicate", f"a retry: {row_text(winner)} is the same event and stands for it")
    if case.standing is None:
        return _unpublished(case, case.interval)
    return _left_out(case, case.interval, case.standing["number"], computed)


def _left_out(case: Case, interval: Interval, publication: int, computed: JoinedRow | None) -> Outcome:
    """Return why a publication of its interval does not have the row."""
    left, spec, where = case.left, case.spec, case.pipeline.left.where
    above = left.batch - case.pins.get(left.row_id.topic, 0)
    if above > 0:
        return Outcome(
            "late_left",
            f"late: it {above_pin_words(above)} of publication {publication}. A rebuild of {interval} publishes it",
        )
    if computed is None:
        inner = ", ".join(right.name for right in spec.right if right.join == "inner")
        return Outcome("unpaired", f"left out: an inner stream has no match for it ({inner})")
    if where and spec.left.where is None:
        return Outcome(
            "filtered", f"not published; most likely left out by where, which only Spark can evaluate: {where}"
        )
    return Outcome(
        "missing", "it should be in the training table and is not: `windrow verify` compares the whole interval"
    )


def _unpublished(case: Case, interval: Interval) -> Outcome:
    """Return what the interval of the row waits for."""
    p = case.pipeline
    if not is_closed(interval, case.clock.frontier(p)):
        needed = closes_at(interval, p.after, p.grace)
        progress = clock_words(case.clock.watermark, case.clock.clocks, needed)
        return Outcome(
            "open",
            f"its interval {interval} is open: it closes when the watermark is at {shown_instant(needed)}; {progress}",
        )
    if failed := [row for row in case.judgements if blocks(row["verdict"], row["severity"])]:
        names = ", ".join(f"{row['expectation']}({row['metric']})" for row in failed)
        return Outcome("blocked", f"its candidate is blocked by {names}; the report: {failed[0]['report']}")
    return Outcome("closed", f"its interval {interval} is closed and not published yet: `windrow train {p.name}`")
