"""The account of a whole history: every record of the left topics is counted exactly once.

read = replayed + quarantined + erased + filtered + canary + before_start + open + emitted + duplicate + unpaired

by offset ──▶ replayed   by content ──▶ quarantined, erased, filtered, canary   by time ──▶ before_start, open
                                                                        the rest, interval by interval ──▶
                                                                        emitted, duplicate, unpaired
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from windrow.columns import ERASED
from windrow.semantics.close import is_closed
from windrow.semantics.intervals import Interval, interval_of, intervals_between, utc
from windrow.semantics.records import JoinSpec, Record, emptied_all, is_canary, unreadable_for
from windrow.semantics.reference import landed_once, passes, reference_join, side_of


def closed_intervals(
    records: Iterable[Record], spec: JoinSpec, pins: Mapping[str, int], frontier: datetime | None
) -> Iterator[Interval]:
    """Every closed interval from `start` to the last one with a left row, empty ones included."""
    landed, _ = landed_once(records, pins)
    served_at = [r.event_at for r in side_of(landed, spec.left, lambda t: t >= utc(spec.start)).rows]
    if frontier is None or not served_at:
        return
    last = interval_of(max(t for t in served_at if t is not None), spec.start, spec.interval)
    for interval in intervals_between(spec.start, last.end, spec.interval):
        if is_closed(interval, frontier):
            yield interval


@dataclass(frozen=True)
class Tally:
    """What became of the records of the left topics: disjoint counts that add up to `read`.

    `quarantined` includes records that other streams of the topic can read, but not the left one.
    """

    read: int
    replayed: int = 0
    quarantined: int = 0
    filtered: int = 0
    canary: int = 0
    before_start: int = 0
    open: int = 0
    emitted: int = 0
    duplicate: int = 0
    unpaired: int = 0
    erased: int = 0


def account(records: Iterable[Record], spec: JoinSpec, pins: Mapping[str, int], frontier: datetime | None) -> Tally:
    """Account for all records of the left topics landed by the pins, with every closed interval joined.

    Args:
        pins: by topic, the newest batch that takes part.
    """
    records = list(records)
    landed, replayed = landed_once((r for r in records if r.row_id.topic in spec.left.topics), pins)
    landed = emptied_all(landed, spec)
    good = [r for r in landed if unreadable_for(r, spec.left) is None]
    chosen = [r for r in good if passes(r, spec.left.where)]
    kept = [r for r in chosen if not is_canary(r, spec.left)]
    served = [r for r in kept if r.order[0] >= utc(spec.start)]
    still_open = [r for r in served if not is_closed(interval_of(r.order[0], spec.start, spec.interval), frontier)]
    joined = [
        reference_join(records, spec, i, pins).balance.left for i in closed_intervals(records, spec, pins, frontier)
    ]
    return Tally(
        read=len(landed) + replayed,
        replayed=replayed,
        quarantined=len(landed) - len(good) - sum(r.quarantined == ERASED for r in landed),
        filtered=len(good) - len(chosen),
        canary=len(chosen) - len(kept),
        before_start=len(kept) - len(served),
        open=len(still_open),
        emitted=sum(b.emitted for b in joined),
        duplicate=sum(b.duplicate for b in joined),
        unpaired=sum(b.unpaired for b in joined),
        erased=sum(r.quarantined == ERASED for r in landed),
    )
