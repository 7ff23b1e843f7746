"""Time left until the broker deletes records that have not landed, by partition: a lower bound, from what landings saw.

    oldest offset                 next offset              end offset
    ----+-----------------------------+------------------------+---->  one partition, at the newest landing
        |  landed; deleted any time   |  waits to be landed    |
        '-- pace of deletion -->

By age: the record at the next offset was written after any landing that saw the partition end at or before it. It is
kept for `retention.ms` from then on. By pace: where records wait, the oldest offset comes nearer by as much as it did
between two landings. The smaller bound counts. A partition without waiting records is safe by pace, whatever its oldest
offset does: there is nothing to lose but what comes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.semantics.alerts.conditions import Condition, Holding
from windrow.semantics.clock import ClockRow
from windrow.text import shown_duration

PACED = 256
"""Landings over which the pace of deletion is taken: a longer time would hide that it has become faster."""
ENDANGERED = 0.25
"""Share of the retention that is left when a person is told."""


@dataclass(frozen=True)
class TimeLeft:
    """How long the broker keeps the oldest record of a partition that has not landed."""

    row: ClockRow
    """newest row of the clock"""
    left: timedelta
    of: timedelta
    """the whole retention"""

    @property
    def is_endangered(self) -> bool:
        """Whether a person should be told."""
        return self.left < ENDANGERED * self.of


def time_left(newest: Sequence[ClockRow], earlier: Iterable[ClockRow], now: datetime) -> list[TimeLeft]:
    """Return the time left of each partition for which it is known, the least share first.

    Args:
        newest: rows of the newest observation of the clock.
        earlier: rows of earlier ones.
    """
    before: dict[tuple[str, int, int], list[ClockRow]] = {}
    for row in earlier:
        before.setdefault((row["topic"], row["epoch"], row["partition"]), []).append(row)
    found = []
    for row in newest:
        known = [row, *before.get((row["topic"], row["epoch"], row["partition"]), ())]
        bounds = [bound for bound in (_by_age(known, now), _by_pace(known, now)) if bound]
        if bounds:
            found.append(min(bounds, key=_share))
    return sorted(found, key=_share)


def of_retention(name: str, left: Iterable[TimeLeft]) -> list[Holding]:
    """Return a condition for each topic of which a partition is endangered, with the figures of the worst.

    Args:
        name: of the pipeline.
        left: what `time_left` returns.
    """
    worst: dict[str, TimeLeft] = {}
    for one in left:
        if one.is_endangered:
            worst.setdefault(one.row["topic"], one)
    return [Holding(Condition.RETENTION, topic, _cause(one), _move(name)) for topic, one in sorted(worst.items())]


def _by_age(known: Sequence[ClockRow], now: datetime) -> TimeLeft | None:
    """The bound by the setting of the topic; None where it deletes nothing by age, or no landing was near enough."""
    row, seconds = known[0], known[0].get("retention_s")
    seen = [one["landed_at"] for one in known if one["end_offset"] <= row["next_offset"]]
    if seconds is None or not seen:
        return None
    of = timedelta(seconds=seconds)
    return TimeLeft(row, of - (now - max(seen)), of)


def _by_pace(known: Sequence[ClockRow], now: datetime) -> TimeLeft | None:
    """The bound by how fast the oldest offset comes nearer; None where nothing waits, or it stands still."""
    row = known[0]
    since = row.get("observation", 0) - PACED
    seen = [one for one in known if one.get("observation", 0) >= since and one.get("oldest_offset") is not None]
    if row["end_offset"] <= row["next_offset"] or not seen or seen[0] is not row:
        return None
    first = min(seen, key=lambda one: one["landed_at"])
    took, deleted = row["landed_at"] - first["landed_at"], row["oldest_offset"] - first["oldest_offset"]
    if deleted <= 0:
        return None
    left, whole = (took * ((row[at] - row["oldest_offset"]) / deleted) for at in ("next_offset", "end_offset"))
    return TimeLeft(row, left - (now - row["landed_at"]), whole)


def _share(one: TimeLeft) -> float:
    return one.left / one.of if one.of else 0.0


def _cause(one: TimeLeft) -> str:
    row = one.row
    waiting = max(0, row["end_offset"] - row["next_offset"])
    oldest = "unknown" if row.get("oldest_offset") is None else f"{row['oldest_offset']:,}"
    end = f"in {shown_duration(one.left)}" if one.left > timedelta() else "now, or has begun to"
    return (
        f"the broker deletes records of {row['topic']}/{row['partition']} that have not landed {end}, at the earliest: "
        f"it keeps them for {shown_duration(one.of)}. At the newest landing the oldest offset was {oldest}, the next "
        f"to land {row['next_offset']:,}, and {waiting:,} waited"
    )


def _move(name: str) -> str:
    return (
        f"Make {name}.land run (its log, the broker), or lengthen `retention.ms` of the topic until it has caught up. "
        "What is deleted before it lands is lost"
    )
