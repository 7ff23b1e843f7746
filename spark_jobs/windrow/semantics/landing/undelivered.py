"""Undelivered offsets: those that transactions explain, and those that are a gap (rule 13).

    offsets          10  11  12  13  14  15
    broker's log    [a   a] [c] [b       b]    a: an aborted record, c: the marker of a transaction, b: a record
    delivered         -   -   -   b   -   b
    skipped           x   x   x                the log shows why it was not delivered
    unexplained                       x        no record and no marker: removed by compaction, or lost

Nothing is assumed: an offset counts as skipped only if the broker's log shows its marker or its aborted record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import ClockRow, latest
from windrow.semantics.landing.batch import Batch, Offsets
from windrow.semantics.landing.gaps import AcceptedGap, Lost

GAPS_PER_PARTITION = 16
"""Most gaps that one batch records for a partition: a join asks for each of them. Nearest ones are joined."""

WHO = "landing"
NO_RECORD = "the broker's log has neither a record nor a transaction marker at these offsets"
COMPACTED = "the topic is compacted, and the pipeline file accepts that (`compacted: accept`)"


class LogBatch(NamedTuple):
    """Header of a record batch in the broker's log."""

    start: int
    until: int
    records: int
    is_left_out: bool
    """a transaction marker, or records of an aborted transaction: `read_committed` does not deliver it"""

    @property
    def is_whole(self) -> bool:
        """Whether every offset of the batch has its record; compaction removes records and keeps the header."""
        return self.records == self.until - self.start


@dataclass(frozen=True)
class Explained:
    """What undelivered offsets of one partition are."""

    skipped: int = 0
    unexplained: int = 0
    gaps: tuple[Offsets, ...] = ()
    """ranges that hold all unexplained ones (see `gap_ranges`)"""

    def __add__(self, later: Explained) -> Explained:
        """Both, of which `later` has the greater offsets: the same as if they had been explained at once."""
        gaps = tuple(gap_ranges((*self.gaps, *later.gaps)))
        return Explained(self.skipped + later.skipped, self.unexplained + later.unexplained, gaps)


class Neighbours(NamedTuple):
    """Event times around a gap, in the batch that has it."""

    newest_before: datetime | None = None
    """newest trusted event time before the gap"""
    next_after: datetime | None = None
    """event time of the first good row behind the gap"""
    next_record_at: datetime | None = None
    """timestamp of that row's record"""


@dataclass(frozen=True)
class Account:
    """What the undelivered offsets of a landed batch are. It is a commit of the landing table, like the batch.

    `skipped` and `unexplained` are numbers of offsets by partition; `gaps` are the ranges of the unexplained ones.
    """

    batch: int
    skipped: Mapping[int, int] = field(default_factory=dict)
    unexplained: Mapping[int, int] = field(default_factory=dict)
    gaps: tuple[AcceptedGap, ...] = ()

    def to_json(self) -> str:
        """The account as the message of its commit."""
        return json.dumps({**vars(self), "gaps": [gap.to_dict() for gap in self.gaps], "windrow": "account"})

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Account:
        """The account that `to_json` wrote, parsed."""
        return cls(
            fields["batch"],
            {int(partition): number for partition, number in fields["skipped"].items()},
            {int(partition): number for partition, number in fields["unexplained"].items()},
            tuple(AcceptedGap.from_dict(gap) for gap in fields["gaps"]),
        )


class Committed(NamedTuple):
    """A batch as its commit records it."""

    batch: Batch
    rows: int | None
    """rows in the files that Spark has written, by the files; None where the commit does not record it"""
    account: Account | None = None
    """what its undelivered offsets are; None if it has no account (yet)"""


def explain(topic: str, partition: int, undelivered: Sequence[Offsets], log: Iterable[LogBatch]) -> Explained:
    """Divide undelivered offsets of a partition into skipped and unexplained ones.

    Args:
        undelivered: ranges without a row, in order.
        log: the broker's batches around them, in order.

    Raises:
        BalanceBroken: the broker has a committed record at such an offset, so it was lost while landing.
    """
    left_out: list[Offsets] = []
    present: list[Offsets] = []
    for one in log:
        if one.is_whole:
            (left_out if one.is_left_out else present).append((one.start, one.until))
    if not_landed := overlap(undelivered, present):
        start, until = not_landed[0]
        raise BalanceBroken(
            f"topic {topic} partition {partition}: the broker has the records at offsets [{start}, {until}), and the "
            f"landing table lacks at least {size(not_landed)} of its records. They were lost while landing. The batch "
            "is committed and must not be trusted: keep the table, and report this with its commit log."
        )
    skipped = overlap(undelivered, left_out)
    rest = without(undelivered, skipped)
    return Explained(size(skipped), size(rest), tuple(gap_ranges(rest)))


def joined(log: Iterable[LogBatch]) -> Iterator[LogBatch]:
    """Batches of the log as few: adjacent ones that are whole and of one kind are joined; others explain nothing.

    >>> marker, aborted, cut = LogBatch(2, 3, 1, True), LogBatch(3, 5, 2, True), LogBatch(5, 9, 1, True)
    >>> [(one.start, one.until, one.records) for one in joined([LogBatch(0, 2, 2, False), marker, aborted, cut])]
    [(0, 2, 2), (2, 5, 3)]
    """
    last: LogBatch | None = None
    for one in log:
        if not one.is_whole:
            continue
        if last and (last.until, last.is_left_out) == (one.start, one.is_left_out):
            last = LogBatch(last.start, one.until, last.records + one.records, one.is_left_out)
            continue
        if last:
            yield last
        last = one
    if last:
        yield last


def account_of(
    batch: Batch,
    previous: Iterable[ClockRow],
    explained: Mapping[int, Explained],
    neighbours: Mapping[tuple[int, Offsets], Neighbours],
    why: str,
) -> Account:
    """The account of a batch.

    Args:
        previous: the topic's rows of the clock before the batch.
        explained: by partition with undelivered offsets.
        neighbours: by partition and gap (see `gap_ranges`).
        why: what the unexplained offsets are taken for.
    """
    newest_at = {row["partition"]: row["newest_at"] for row in previous if row["topic_id"] == batch.topic_id}
    gaps = [
        AcceptedGap(
            Lost(batch.topic, partition, *gap),
            epoch=batch.epoch,
            batch=batch.number,
            newest_before=latest(newest_at.get(partition), around.newest_before),
            accepted_at=batch.landed_at,
            who=WHO,
            why=why,
            next_after=around.next_after,
            next_record_at=around.next_record_at,
            next_batch=None if around.next_after is None else batch.number,
            was_read=True,
        )
        for (partition, gap), around in sorted(neighbours.items())
    ]
    return Account(
        batch.number,
        {partition: one.skipped for partition, one in explained.items()},
        {partition: one.unexplained for partition, one in explained.items()},
        tuple(gaps),
    )


def gap_ranges(unexplained: Sequence[Offsets], most: int = GAPS_PER_PARTITION) -> list[Offsets]:
    """Ranges that hold all unexplained offsets, at most so many; the nearest are joined.

    >>> gap_ranges([(1, 2), (3, 5), (90, 91)], most=2)
    [(1, 5), (90, 91)]
    """
    between = sorted(range(1, len(unexplained)), key=lambda n: unexplained[n - 1][1] - unexplained[n][0])
    cuts = [0, *sorted(between[: most - 1]), len(unexplained)]
    return [(unexplained[first][0], unexplained[behind - 1][1]) for first, behind in pairwise(cuts) if first < behind]


def overlap(ranges: Sequence[Offsets], others: Sequence[Offsets]) -> list[Offsets]:
    """The parts that two lists of ranges share; both are in order and do not overlap within themselves.

    >>> overlap([(0, 4), (6, 9)], [(2, 7), (8, 20)])
    [(2, 4), (6, 7), (8, 9)]
    """
    shared, at, other = [], 0, 0
    while at < len(ranges) and other < len(others):
        start, until = max(ranges[at][0], others[other][0]), min(ranges[at][1], others[other][1])
        if start < until:
            shared.append((start, until))
        if ranges[at][1] <= others[other][1]:
            at += 1
        else:
            other += 1
    return shared


def without(ranges: Sequence[Offsets], removed: Sequence[Offsets]) -> list[Offsets]:
    """The parts of ranges that are not among removed parts of them (see `overlap`).

    >>> without([(0, 4), (6, 9)], [(1, 2), (6, 9)])
    [(0, 1), (2, 4)]
    """
    rest, at = [], 0
    for start, until in ranges:
        while at < len(removed) and removed[at][0] < until:
            if start < removed[at][0]:
                rest.append((start, removed[at][0]))
            start = removed[at][1]
            at += 1
        if start < until:
            rest.append((start, until))
    return rest


def size(ranges: Iterable[Offsets]) -> int:
    """Number of offsets in ranges."""
    return sum(until - start for start, until in ranges)
