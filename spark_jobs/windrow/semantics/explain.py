"""Why a left row has these labels: one verdict for every right row that matched it, or nearly did.

           before          after
        |<-------->|<---------------->|
    -x--[----o-----+------o-----------]---x------> event time of right rows with the row's key
     |   matched  l.t  matched            |
     before the window, by this much      after the window, by this much

A right row inside the window that did not match has another reason: it landed above the pin (`late`), the clock does
not have its batch yet (`unclocked`), it is a retry of another row (`duplicate`), was left out by `where` (`filtered`)
or by `take` (`not_taken`), could not be read (`quarantined`), or has a key that only looks the same (`near_key`). What
matches is decided by the functions of `reference_join`, on the few records that can meet this row. Whether the row
itself is emitted makes no difference: a late, unpaired or repeated row has its matches too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.semantics.intervals import Interval, interval_of, utc
from windrow.semantics.match import key_of
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId, event_of, is_canary, unreadable_for
from windrow.semantics.reference import (
    JoinedRow,
    could_have_matched,
    landed_once,
    matches_of,
    passes,
    reference_join,
    side_of,
    standing_for,
    taken,
)

ZERO = timedelta(0)
EVERY_BATCH = 2**62
"""A pin above every batch."""
Kind = Literal[
    "matched",
    "not_taken",
    "late",
    "unclocked",
    "before_window",
    "after_window",
    "duplicate",
    "filtered",
    "quarantined",
    "near_key",
    "not_published",
]
"""`not_published`: it matches, and the published row lacks it. Only a look into the training table shows that."""
Batch = tuple[str, int]
"""topic, batch number"""


@dataclass(frozen=True)
class Verdict:
    """What became of one right row."""

    record: Record
    kind: Kind
    missed_by: timedelta | None = None
    """outside the window: how far, in event time; late: how far the watermark was past the interval's closing"""
    batches: int | None = None
    """number of batches above the pin, for a row that landed above it"""
    winner: RowId | None = None
    """the row that is kept for the same event instead of this one"""
    reason: str | None = None
    """why the stream cannot read the record"""
    is_in_rebuild: bool = False
    """late: whether the row of a rebuild at the newest pins has it"""
    is_near_key: bool = False
    """quarantined: whether its key only looks the same"""


def interval_holding(left: Record, stream: Left, start: datetime, length: timedelta) -> Interval | None:
    """The interval that a left row belongs to; None if it is unreadable, left out by `where` or before `start`."""
    if left.event_at is None or unreadable_for(left, stream) or left.event_at < utc(start):
        return None
    return interval_of(left.event_at, start, length) if passes(left, stream.where) else None


def outside(left_at: datetime, right_at: datetime, before: timedelta, after: timedelta) -> timedelta:
    """Distance from the window to a right row: negative before it, positive after it, zero inside.

    >>> noon = datetime.fromisoformat("2026-11-01T12:00:00+00:00")
    >>> outside(noon, noon + timedelta(seconds=61), timedelta(0), timedelta(minutes=1))
    datetime.timedelta(seconds=1)
    """
    distance = utc(right_at) - utc(left_at)
    return max(ZERO, distance - after) or min(ZERO, distance + before)


def row_at(records: Iterable[Record], spec: JoinSpec, left: Record, pins: Mapping[str, int]) -> JoinedRow | None:
    """The row as the reference join makes it at these pins; None if the join does not emit it.

    Args:
        records: every record of the left row's event, and all that could match it.
        pins: topic → last batch that the join reads.
    """
    interval = interval_holding(left, spec.left, spec.start, spec.interval)
    if interval is None:
        return None
    rows = reference_join(records, spec, interval, pins).rows
    return next((row for row in rows if row.row_id == left.row_id), None)


def winner_of(records: Iterable[Record], stream: Left | Right, row: Record, pins: Mapping[str, int]) -> RowId | None:
    """The row that is kept for the same event at the pins; None if it is this row (rule 11)."""
    winner = _winners(records, stream, pins).get(event_of(stream, row.values, row.event_at))
    return None if winner == row.row_id else winner


def _winners(records: Iterable[Record], stream: Left | Right, pins: Mapping[str, int]) -> dict[Any, RowId]:
    """Event → the row that is kept for it at the pins, for events with an id."""
    landed, _ = landed_once(records, pins)
    rows = side_of(landed, stream, lambda at: True).rows
    return {event: r.row_id for r in rows if (event := event_of(stream, r.values, r.event_at))}


def unmatched_inner(
    left: Record, records: Iterable[Record], spec: JoinSpec, pins: Mapping[str, int]
) -> tuple[str, ...]:
    """The `inner` streams without a match for a left row at the pins; one of them leaves the row out (rule 8)."""
    landed, _ = landed_once(records, pins)
    return tuple(r.name for r in spec.right if r.join == "inner" and not _matches(left, landed, spec, r))


def verdicts(
    left: Record,
    records: Iterable[Record],
    spec: JoinSpec,
    right: Right,
    pins: Mapping[str, int],
    newest: Mapping[str, int] | None = None,
    lateness: Mapping[Batch, timedelta | None] | None = None,
) -> tuple[Verdict, ...]:
    """One verdict for every record of the stream that matched the row or nearly did, the nearest in event time first.

    Args:
        records: as for `row_at`, and the records that nearly match it.
        newest: the pins that a rebuild would have now; None: every batch.
        lateness: for each batch above its pin, how far the watermark was past the interval's closing when it landed.
    """
    records, newest = list(records), newest or dict.fromkeys(pins, EVERY_BATCH)
    landed, _ = landed_once(records, pins)
    matching = _matches(left, landed, spec, right)
    kept = {match.row_id for match in taken(matching, right.take)}
    is_any_late = any(r.batch > pins.get(r.row_id.topic, 0) for r in records if r.row_id.topic in right.topics)
    rebuilt = row_at(records, spec, left, newest) if is_any_late else None
    in_rebuild = {match.row_id for match in rebuilt.matches[right.name]} if rebuilt else set()
    winners = _winners(records, right, pins)
    found: dict[RowId, Verdict] = {}
    ours = [r for r in records if r.row_id.topic in right.topics]
    landed_later = [r for r in ours if r.batch > pins.get(r.row_id.topic, 0)]
    of_stream = [*standing_for([r for r in ours if r.batch <= pins.get(r.row_id.topic, 0)]), *landed_later]
    for r in sorted(of_stream, key=lambda r: (r.row_id, r.batch)):
        topic = r.row_id.topic
        if r.row_id in found or r.row_id == left.row_id:  # of several landings of an offset, the first counts
            continue
        verdict = _verdict(left, r, right, spec, max(0, r.batch - pins.get(topic, 0)))
        if verdict and verdict.kind == "late" and r.batch > newest.get(topic, 0):
            verdict = Verdict(r, "unclocked")
        elif verdict and verdict.kind == "late":
            missed_by = (lateness or {}).get((topic, r.batch))
            verdict = replace(verdict, missed_by=missed_by, is_in_rebuild=r.row_id in in_rebuild)
        elif verdict and verdict.kind == "matched" and r.row_id not in kept:
            winner = winners.get(event_of(right, r.values, r.event_at), r.row_id)
            verdict = Verdict(r, "not_taken") if winner == r.row_id else Verdict(r, "duplicate", winner=winner)
        if verdict:
            found[r.row_id] = verdict
    return tuple(sorted(found.values(), key=lambda v: (_distance(left, v), v.record.row_id)))


def _matches(left: Record, landed: list[Record], spec: JoinSpec, right: Right) -> tuple[Record, ...]:
    """Every match of a left row in one stream, before `take`, whether or not the row itself is emitted.

    Those of a canary are canaries.
    """
    if left.event_at is None:
        return ()
    side = side_of(landed, right, lambda at: True)
    return matches_of(left, side.canaries if is_canary(left, spec.left) else side.rows, spec.left, right)


def _verdict(left: Record, r: Record, right: Right, spec: JoinSpec, above: int) -> Verdict | None:
    """The verdict by key, `where` and time alone; None for a record that neither matches nor nearly matches.

    Args:
        above: how many batches above its pin the record landed.
    """
    ours, theirs = (key_of(row.values, s.key) for row, s in ((left, spec.left), (r, right)))
    is_alike = _is_key_alike(left, r, spec.left, right)
    if reason := unreadable_for(r, right):
        is_same = ours is not None and ours == theirs
        may_match = left.event_at is not None and could_have_matched(left.event_at, r, right, spec.max_skew)
        if not may_match or ours is None or not (is_same or is_alike):
            return None
        return Verdict(r, "quarantined", batches=above or None, reason=reason, is_near_key=not is_same)
    if left.event_at is None or r.event_at is None or ours is None or theirs is None:
        return None
    by = outside(left.event_at, r.event_at, right.before, right.after)
    is_read = passes(r, right.where)
    if ours != theirs:
        return Verdict(r, "near_key") if by == ZERO and is_read and is_alike else None
    if by:
        kind: Kind = "before_window" if by < ZERO else "after_window"
        return Verdict(r, kind, abs(by), above or None) if is_read else None
    if not is_read:
        return Verdict(r, "filtered")
    return Verdict(r, "late", batches=above) if above else Verdict(r, "matched")


def plain_text(value: Any) -> str:
    """A key value as a person compares it: as text, without case, outer blanks and leading zeros.

    >>> plain_text(" AB "), plain_text("007"), plain_text(7), plain_text("0")
    ('ab', '7', '7', '0')
    """
    text = str(value).strip().lower()
    return (text.lstrip("0") or "0") if text.isdigit() else text


def _is_key_alike(left: Record, r: Record, ours: Left, theirs: Right) -> bool:
    """Whether the keys look the same as `plain_text`, whatever their types."""
    pairs = [(left.values.get(a), r.values.get(b)) for a, b in zip(ours.key, theirs.key, strict=True)]
    return all(a is not None and b is not None and plain_text(a) == plain_text(b) for a, b in pairs)


def _distance(left: Record, verdict: Verdict) -> tuple[bool, timedelta]:
    """Sort key by distance in event time; records without an event time come last."""
    at = verdict.record.event_at
    return (at is None, abs(at - left.event_at) if at and left.event_at else ZERO)
