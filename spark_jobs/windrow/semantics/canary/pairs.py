"""What became of the pairs of an interval: the reference that the measures of canaries must agree with.

    acknowledged       left row ─────── label          a pair counts in the interval of its left row
    landed by the pin     ●                ◆
    joined                └── key, window ─┘           matched; else the pair is lost

A pair whose label was not acknowledged is none: nothing was promised to it. Which side was lost is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from windrow.semantics.balance import rate
from windrow.semantics.intervals import Interval
from windrow.semantics.records import JoinSpec, Record
from windrow.semantics.reference import landed_once, matches_of, side_of


@dataclass(frozen=True)
class Pair:
    """A label that the broker has acknowledged, and the event time of its left row, which names the pair.

    The label's own time tells it from a record that has its offset because the broker lost what it had acknowledged.
    """

    stream: str
    served_at: datetime
    topic: str
    partition: int
    offset: int
    event_time: datetime


@dataclass(frozen=True)
class Pairs:
    """Acknowledged pairs of one label stream, and those of them that the join has found."""

    sent: int
    matched: int

    @property
    def recall(self) -> float | None:
        """Share of the pairs that arrived; None without a pair."""
        return rate(self.matched, self.sent)


def pairs_of(
    acknowledged: Iterable[Pair], records: Iterable[Record], spec: JoinSpec, interval: Interval, pins: Mapping[str, int]
) -> dict[str, Pairs]:
    """Count the pairs of an interval by label stream.

    Args:
        records: everything that has landed.
        pins: by topic, the newest batch that takes part.
    """
    landed, _ = landed_once(records, pins)
    rows = side_of(landed, spec.left, interval.contains).canaries
    pairs = [pair for pair in acknowledged if interval.contains(pair.served_at)]
    counted = {}
    for right in spec.labels:
        labels = side_of(landed, right, lambda t: True).canaries
        found = {
            Pair(right.name, row.order[0], m.row_id.topic, m.row_id.partition, m.row_id.offset, m.order[0])
            for row in rows
            for m in matches_of(row, labels, spec.left, right)
        }
        mine = [pair for pair in pairs if pair.stream == right.name]
        counted[right.name] = Pairs(len(mine), sum(pair in found for pair in mine))
    return counted
