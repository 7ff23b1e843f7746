"""Landing batches as their commits tell them: the truth about which offsets are in a landing table.

The batch number is the transaction version of the landing table, so a batch is committed once or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from windrow.io.delta import tables
from windrow.io.landing.gaps import AcceptedGap

APP_ID = "windrow.landing"


@dataclass(frozen=True)
class Batch:
    """One landing commit, as it is written into the commit itself."""

    topic: str
    topic_id: str
    epoch: int
    number: int
    landed_at: datetime
    ranges: Mapping[int, tuple[int, int, int]]
    """partition → (first offset, offset after the last, end offset of the partition)"""
    gaps: tuple[AcceptedGap, ...] = ()

    @property
    def is_committed(self) -> bool:
        """Whether there is something to commit: records, or the acceptance of a gap."""
        return bool(self.gaps) or any(until > start for start, until, _ in self.ranges.values())

    @property
    def size(self) -> int:
        """Offsets that it covers."""
        return sum(until - start for start, until, _ in self.ranges.values())

    def to_json(self) -> str:
        """What the commit carries."""
        gaps = [gap.to_dict() for gap in self.gaps]
        return json.dumps({**vars(self), "landed_at": self.landed_at.isoformat(), "gaps": gaps, "windrow": "landing"})

    @classmethod
    def from_json(cls, text: str) -> Batch:
        """The batch that `to_json` wrote."""
        seen = json.loads(text)
        seen.pop("windrow")
        return cls(
            **{
                **seen,
                "landed_at": datetime.fromisoformat(seen["landed_at"]),
                "ranges": {int(p): tuple(r) for p, r in seen["ranges"].items()},
                "gaps": tuple(AcceptedGap.from_dict(gap) for gap in seen.get("gaps", ())),
            }
        )


def committed(path: str, number: int) -> tuple[Batch, int | None] | None:
    """The landing commit with this batch number and the rows that its writer says it wrote; or None."""
    for commit in tables.commits(path):
        batch = Batch.from_json(commit.message)
        if batch.number <= number:
            return (batch, commit.rows) if batch.number == number else None
    return None
