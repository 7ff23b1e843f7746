"""A landing batch: the offsets of one topic that one commit brings into its landing table.

   begin            start              until            end
----+-----------------+------------------+---------------+----> offsets of a partition
    | landed before   | this batch       | left for the  |
    | (or deleted)    | [start, until)   | next batch    |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.semantics.clock import Progress
from windrow.semantics.landing.gaps import AcceptedGap

Offsets = tuple[int, int]
"""Offsets [start, until) of a partition."""


@dataclass(frozen=True)
class Partition:
    """Readable offsets [begin, end) of a partition at the moment when the broker was asked.

    Behind `end` begin records of an open transaction, up to `log_end`. They are to be landed too, so they count as lag.
    """

    number: int
    begin: int
    end: int
    log_end: int | None = None
    """offset behind the last record of any kind; None where it is not known to be another one than `end`"""

    @property
    def known_end(self) -> int:
        """Offset behind the last record that the broker has, readable or not."""
        return max(self.end, self.log_end or 0)


@dataclass(frozen=True)
class Topic:
    """A topic as the broker knows it. Another id under the same name is another topic."""

    name: str
    id: str
    partitions: tuple[Partition, ...]
    is_compacted: bool = False
    """whether its cleanup policy contains `compact`: the broker removes records whose key has a newer one"""
    is_stamped: bool = False
    """whether the broker stamps its records with its own time (LogAppendTime)"""
    retention: timedelta | None = None
    """how long the broker keeps records at least, by its setting; None where it deletes none by age"""


@dataclass(frozen=True)
class Reconsidered:
    """Who had the quarantined rows of a topic judged again, and why."""

    who: str
    why: str


@dataclass(frozen=True)
class Batch:
    """One landing commit, as the commit itself records it."""

    topic: str
    topic_id: str
    epoch: int
    """counts the topics that had this name, from 0"""
    number: int
    """counts the commits of the landing table, from 1"""
    landed_at: datetime
    ranges: Mapping[int, tuple[int, int, int]]
    """partition → (first offset, offset after the last, end offset of the partition, open transactions included)"""
    gaps: tuple[AcceptedGap, ...] = ()
    reconsidered: Reconsidered | None = None
    """set where the rows are quarantined ones that can be read now: such a batch takes no offsets"""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit: no offsets, no gap to accept, and nothing reconsidered."""
        return not self.gaps and self.size == 0 and self.reconsidered is None

    @property
    def size(self) -> int:
        """Number of offsets in the batch. Not every offset is a record: transaction markers take offsets too."""
        return sum(until - start for start, until, _ in self.ranges.values())

    def progress(self, partition: int, newest_at: datetime | None) -> Progress:
        """How far a partition is landed after the batch.

        Args:
            newest_at: newest trusted event time of the partition in the batch.
        """
        _, until, end = self.ranges[partition]
        return Progress(self.topic, self.epoch, partition, until, end, newest_at, self.landed_at)

    def to_json(self) -> str:
        """The batch as the message of its commit."""
        gaps = [gap.to_dict() for gap in self.gaps]
        fields = {**vars(self), "landed_at": self.landed_at.isoformat(), "gaps": gaps, "windrow": "landing"}
        del fields["reconsidered"]  # earlier versions do not know it: they read every other batch
        if self.reconsidered is not None:
            fields["reconsidered"] = vars(self.reconsidered)
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Batch:
        """The batch that `to_json` wrote."""
        fields = json.loads(text)
        fields.pop("windrow")
        return cls(
            **{
                **fields,
                "landed_at": datetime.fromisoformat(fields["landed_at"]),
                "ranges": {int(p): tuple(r) for p, r in fields["ranges"].items()},
                "gaps": tuple(AcceptedGap.from_dict(gap) for gap in fields.get("gaps", ())),
                "reconsidered": Reconsidered(**fields["reconsidered"]) if "reconsidered" in fields else None,
            }
        )
