"""Why a left row has these labels: one verdict for every right row that matched it, or nearly did.

           before          after
        |<-------->|<---------------->|
    -x--[----o-----+------o-----------]---x------> event time of right rows with the row's key
     |   matched  l.t  matched            |
     before the window, by this much      after the window, by this much

What stands inside the window and did not match has another reason: it landed above the pin (`late`), is a retry
of another row (`duplicate`), was left out by `where` (`filtered`) or by `take` (`not_taken`), could not be read
(`quarantined`), or has a key that only looks the same (`near_key`). The join itself is `reference_join`, asked
about the few rows that can meet this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.semantics.intervals import interval_of, shifted, utc
from windrow.semantics.match import key_of, matches
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import JoinedRow, landed_once, passes, reference_join, side_of

ZERO = timedelta(0)
Kind = Literal[
    "matched", "not_taken", "late", "before_window", "after_window", "duplicate", "filtered", "quarantined", "near_key"
]
Batch = tuple[str, int]
"""topic, batch number"""


@dataclass(frozen=True)
class Verdict:
    """What became of one right row.

    missed_by: outside the window, how far in event time; late, how far the watermark was beyond the interval's
    closing when its batch came. batches: above the pin. winner: the row of the same event that stands instead.
    """

    record: Record
    kind: Kind
    missed_by: timedelta | None = None
    batches: int | None = None
    winner: RowId | None = None


def outside(left_at: datetime, right_at: datetime, before: timedelta, after: timedelta) -> timedelta:
    """How far beyond the window a right row is: negative before it, positive after it, zero inside.

    >>> noon = datetime.fromisoformat("2026-11-01T12:00:00+00:00")
    >>> outside(noon, noon + timedelta(seconds=61), timedelta(0), timedelta(minutes=1))
    datetime.timedelta(seconds=1)
    """
    distance = utc(right_at) - utc(left_at)
    return max(ZERO, distance - after) or min(ZERO, distance + before)


def row_at(records: Iterable[Record], spec: JoinSpec, left: Record, pins: Mapping[str, int]) -> JoinedRow | None:
    """The row as the reference join makes it at these pins; None where it does not emit it.

    `records`: every record of the left row's event, and all that could match it.
    """
    if left.event_at is None or left.quarantined or left.event_at < utc(spec.start):
        return None
    interval = interval_of(left.event_at, spec.start, spec.interval)
    rows = reference_join(records, spec, interval, pins).rows
    return next((row for row in rows if row.row_id == left.row_id), None)


def winner_of(records: Iterable[Record], stream: Left | Right, row: Record, pins: Mapping[str, int]) -> RowId | None:
    """The row that stands for the same event at the pins, where that is another one (rule 11)."""
    stands = _standing(records, stream, pins).get(_event(stream, row))
    return None if stands == row.row_id else stands


def _standing(records: Iterable[Record], stream: Left | Right, pins: Mapping[str, int]) -> dict[Any, RowId]:
    """Event → the row that stands for it at the pins, of events with an id."""
    landed, _ = landed_once(records, pins)
    rows = side_of(landed, stream, lambda at: True).rows
    return {event: r.row_id for r in rows if (event := _event(stream, r))}


def _event(stream: Left | Right, row: Record) -> tuple[Any, datetime | None] | None:
    event_id = row.values.get(stream.event_id) if stream.event_id else None
    return None if event_id is None else (event_id, row.event_at)


def verdicts(
    left: Record,
    records: Iterable[Record],
    spec: JoinSpec,
    right: Right,
    pins: Mapping[str, int],
    watermark_at: Mapping[Batch, timedelta | None] | None = None,
) -> tuple[Verdict, ...]:
    """One verdict for every record of the stream that says something about the row, by distance and row order.

    `watermark_at`: of a batch above its pin, how far the watermark was beyond the interval's closing as it came.
    """
    records = list(records)
    found = row_at(records, spec, left, pins)
    taken = {m.row_id for m in found.matches[right.name]} if found else set()
    standing = _standing(records, right, pins)
    told: dict[RowId, Verdict] = {}
    for r in sorted((r for r in records if r.row_id.topic in right.topics), key=lambda r: (r.row_id, r.batch)):
        if r.row_id in told or r.row_id == left.row_id:
            continue
        above = r.batch - pins.get(r.row_id.topic, 0)
        verdict = _verdict(left, r, right, spec, above)
        if verdict and verdict.kind == "late":
            lateness = (watermark_at or {}).get((r.row_id.topic, r.batch))
            verdict = Verdict(r, "late", lateness, above)
        elif verdict and verdict.kind == "matched" and r.row_id not in taken:
            winner = standing.get(_event(right, r), r.row_id)
            verdict = Verdict(r, "not_taken") if winner == r.row_id else Verdict(r, "duplicate", winner=winner)
        if verdict:
            told[r.row_id] = verdict
    return tuple(sorted(told.values(), key=lambda v: (_distance(left, v), v.record.row_id)))


def _verdict(left: Record, r: Record, right: Right, spec: JoinSpec, above: int) -> Verdict | None:
    """By key, `where` and time alone; None where it says nothing about the row."""
    ours, theirs = (key_of(row.values, s.key) for row, s in ((left, spec.left), (r, right)))
    if r.quarantined:
        near = ours is not None and (ours == theirs or _reads_alike(left, r, spec.left, right))
        meant = right.where is None or right.where(r.values) is not False
        return Verdict(r, "quarantined") if near and meant and _may_match(left, r, right, spec) else None
    if left.event_at is None or r.event_at is None or ours is None or theirs is None:
        return None
    by = outside(left.event_at, r.event_at, right.before, right.after)
    if ours != theirs:
        near = by == ZERO and passes(r, right.where) and _reads_alike(left, r, spec.left, right)
        return Verdict(r, "near_key") if near else None
    if by:
        kind: Kind = "before_window" if by < ZERO else "after_window"
        return Verdict(r, kind, abs(by), above if above > 0 else None) if passes(r, right.where) else None
    if not passes(r, right.where):
        return Verdict(r, "filtered")
    return Verdict(r, "late") if above > 0 else Verdict(r, "matched")


def said(value: Any) -> str:
    """A key value as a person would compare it: as text, without case, outer blanks and leading zeros."""
    text = str(value).strip().lower()
    return (text.lstrip("0") or "0") if text.isdigit() else text


def _reads_alike(left: Record, r: Record, ours: Left, theirs: Right) -> bool:
    pairs = [(left.values.get(a), r.values.get(b)) for a, b in zip(ours.key, theirs.key, strict=True)]
    return all(a is not None and b is not None and said(a) == said(b) for a, b in pairs)


def _may_match(left: Record, bad: Record, right: Right, spec: JoinSpec) -> bool:
    """By its own time where that is trusted; else because nothing is logged before it has happened."""
    if left.event_at is None:
        return False
    if bad.event_at is not None:
        return matches(left.event_at, bad.event_at, right.before, right.after)
    return bad.record_at is None or shifted(left.event_at, -right.before) <= shifted(bad.record_at, spec.max_skew)


def _distance(left: Record, verdict: Verdict) -> tuple[bool, timedelta]:
    at = verdict.record.event_at
    return (at is None, abs(at - left.event_at) if at and left.event_at else ZERO)
