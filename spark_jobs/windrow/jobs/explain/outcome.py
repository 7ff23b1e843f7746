"""Where a left row stands: published, or the one reason why it is not (rules 8, 12, 17 and 22)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windrow.columns import ERASED, PUBLICATION
from windrow.config.conditions import predicate
from windrow.jobs.explain.case import Case
from windrow.jobs.explain.words import above_pin_words, clock_words, range_words, row_text
from windrow.semantics.close import closes_at, is_closed
from windrow.semantics.explain import row_at, unmatched_inner, winner_of
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import blocks
from windrow.semantics.records import RowId, is_canary, unreadable_for
from windrow.semantics.reference import JoinedRow, passes
from windrow.text import short_instant_text, shown_instant


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
    found = _outcome_at_pins(case, computed)
    if case.not_whole and case.standing is None and not case.training_row:
        return found._replace(
            why=f"{found.why}; its interval cannot be planned under this pipeline file: {case.not_whole}"
        )
    return found


def _outcome_at_pins(case: Case, computed: JoinedRow | None) -> Outcome:
    left, p = case.left, case.pipeline
    if case.training_row:
        return Outcome("published", f"published, in publication {case.training_row[PUBLICATION]}")
    if left.quarantined == ERASED:
        return Outcome("erased", "its key was erased: row id and times are all that is left, and it is in no interval")
    if reason := unreadable_for(left, case.spec.left):
        return Outcome("quarantined", f"quarantined at landing: {reason}; it is in no interval")
    if left.event_at is None or not passes(left, case.spec.left.where):
        return Outcome("filtered", f"left out by where: {p.left.where}; it is in no interval")
    if is_canary(left, case.spec.left):
        return Outcome("canary", f"a canary: {range_words(p)}; it is counted, and is no training row")
    if case.interval is None:
        return Outcome("before_start", f"before the pipeline's start {shown_instant(p.start)}: it is in no interval")
    if winner := winner_of(case.records, case.spec.left, left, case.settled_pins):
        return Outcome("duplicate", _retry_words(winner))
    if case.standing is None:
        return _unpublished(case, case.interval)
    return _left_out(case, case.interval, case.standing["number"], computed)


def _left_out(case: Case, interval: Interval, publication: int, computed: JoinedRow | None) -> Outcome:
    """Return why a publication of its interval does not have the row."""
    left = case.left
    above = left.batch - case.pins.get(left.row_id.topic, 0)
    if above > 0:
        late = f"late: it {above_pin_words(above)} of publication {publication}. A rebuild of {interval} "
        newest = case.clock.pins
        if row_at(case.records, case.newest_spec, left, newest):
            return Outcome("late_left", late + "publishes it")
        return Outcome("late_left", late + f"does not publish it either: {_not_emitted_words(case, newest)}")
    if not case.is_same_config:  # its own file decided, and that is not known
        return Outcome(
            "missing", f"publication {publication} was made under another pipeline file, and did not publish it"
        )
    if computed is None:
        return Outcome("unpaired", f"left out: {_not_emitted_words(case, case.pins)}")
    if not case.is_where_known:
        where = "; ".join(s.where for s in case.pipeline.streams if s.where and not predicate(s.where, s.columns))
        return Outcome(
            "filtered", f"not published; most likely left out by where, which only Spark can evaluate: {where}"
        )
    return Outcome(
        "missing",
        f"it should be in the training table and is not: `windrow verify {case.pipeline.name} --interval "
        f"{short_instant_text(interval.start)}` compares the whole interval",
    )


def _not_emitted_words(case: Case, pins: Mapping[str, int]) -> str:
    """Return why the join does not emit the row at these pins: a retry, an inner stream, or a batch above them."""
    left = case.left
    if left.batch > pins.get(left.row_id.topic, 0):
        return "the clock does not have its batch yet, the next `windrow land` adds it"
    if winner := winner_of(case.records, case.spec.left, left, pins):
        return _retry_words(winner)
    inner = unmatched_inner(left, case.records, case.spec, pins)
    return f"no match in {' and '.join(inner)}, which {'are' if len(inner) > 1 else 'is'} joined as inner"


def _retry_words(winner: RowId) -> str:
    return f"a retry: {row_text(winner)} is the same event and stands for it"


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
