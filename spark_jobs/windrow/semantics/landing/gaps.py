"""Gaps: offsets that were never landed, because a person gave them up or nothing explains them (rule 13).

    offset            4          5 … 9           10          who accepted the gap, when and why is part of the
    event time     newest       unknown         next         landing commit; the clock table repeats it, so that
                   before                       after        planning reads no landing table

          newest before                           next after       its record's timestamp
    -----------+--------------------------------------+-------------------+-------------> time
     |<------->|                                      |<------->|         |<-------->|
      out-of-   the lost events were in here:          out-of-             max_skew   ▲
      orderness       [start_at, end_at]               orderness                      end_at: the later of both

The record behind a gap may itself be a late one, so its event time alone bounds nothing. But the lost records were
logged before it, and no event is further ahead of its log than `max_skew`. In the same way a lost event cannot have
been further ahead than `max_skew` of the moment at which the gap was accepted: that ends a gap after which nothing has
landed yet. Both bounds depend only on rows landed up to a pin, so a rebuild at the same pin computes the same gap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.outcomes import BadInput
from windrow.semantics.clock import ClockRow, latest
from windrow.semantics.records import Gap

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
"""Stands in `gap_from` for a gap without a lower bound."""

CARRIED = 20
"""Newest gaps of a topic that each observation has, whatever there were before."""

_EARLIER = {"earlier": True}
"""Stands among the gaps of a row where earlier rows have others. An earlier release knows no such rows, and fails."""
_INSTANTS = ("newest_before", "next_after", "next_record_at", "accepted_at")
_RANGE = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+):(?P<start>\d+)-(?P<until>\d+)")


class NoSuchGap(BadInput):
    """The range to be given up is not lost. A retry does not help."""


@dataclass(frozen=True)
class Lost:
    """Offsets `[start, until)` of a partition that nobody can read any more.

    An empty range means: from `start` on, nobody knows how many.
    """

    topic: str
    partition: int
    start: int
    until: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}:{self.start}-{self.until if self.start < self.until else '?'}"

    @classmethod
    def parse(cls, text: str) -> Lost:
        """Parse `topic/partition:start-until`, the form that a failed landing prints.

        >>> Lost.parse("feed.served/0:5-10")
        Lost(topic='feed.served', partition=0, start=5, until=10)

        Raises:
            NoSuchGap: the text has another form, or the range is empty.
        """
        found = _RANGE.fullmatch(text)
        if found is None or int(found["start"]) >= int(found["until"]):
            raise NoSuchGap(f"{text!r} is not a lost range such as feed.served/0:5-10; the failed landing prints it")
        return cls(found["topic"], int(found["partition"]), int(found["start"]), int(found["until"]))


@dataclass(frozen=True)
class GivenUp:
    """Lost ranges that a person gives up, with the person's name and reason."""

    lost: tuple[Lost, ...] = ()
    who: str = ""
    why: str = ""


NOTHING = GivenUp()


@dataclass(frozen=True)
class AcceptedGap:
    """A lost range that a person gave up, or that landing recorded by itself (`who` is `landing`).

    `batch` is the batch that recorded it. `was_read` marks a gap that landing found by itself: its offsets are among
    those that the batch read. `next_after` and `next_record_at` are the event time and the timestamp of the first good
    record behind the gap, and `next_batch` the batch that landed it; they are None until there is one. Gaps that an
    earlier version ended have no `next_record_at`: they stay as their publications know them.
    """

    lost: Lost
    epoch: int
    batch: int
    newest_before: datetime | None
    accepted_at: datetime
    who: str
    why: str
    next_after: datetime | None = None
    next_batch: int | None = None
    was_read: bool = False
    next_record_at: datetime | None = None

    @property
    def key(self) -> tuple[Lost, int, int]:
        """What makes it the same gap before and after it has ended."""
        return self.lost, self.epoch, self.batch

    @property
    def has_ended(self) -> bool:
        """Whether a record behind it has landed: nothing of it changes any more."""
        return self.next_batch is not None

    def ended(self, batch: int, event_at: datetime, record_at: datetime) -> AcceptedGap:
        """The gap with event time and timestamp of the first good record behind it."""
        return replace(self, next_after=event_at, next_record_at=record_at, next_batch=batch)

    def at_pin(self, pin: int, out_of_orderness: timedelta, max_skew: timedelta) -> Gap:
        """The event times that the lost records may have had, from what had landed up to a batch.

        Args:
            pin: the last batch that counts; a record behind the gap that landed later does not end it.
            out_of_orderness: of the gap's topic.
        """
        end_at = self.accepted_at + max_skew
        if self.next_after is not None and self.next_batch is not None and self.next_batch <= pin:
            logged_until = None if self.next_record_at is None else self.next_record_at + max_skew
            end_at = min(end_at, latest(self.next_after + out_of_orderness, logged_until) or end_at)
        start_at = None if self.newest_before is None else self.newest_before - out_of_orderness
        return Gap(self.lost.topic, start_at, end_at)

    def to_dict(self) -> dict[str, Any]:
        """The gap as plain JSON values."""
        texts = {name: at.isoformat() if (at := getattr(self, name)) else None for name in _INSTANTS}
        return {**vars(self), "lost": vars(self.lost), **texts}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> AcceptedGap:
        """The gap that `to_dict` wrote."""
        instants = {name: datetime.fromisoformat(text) if (text := raw.get(name)) else None for name in _INSTANTS}
        return cls(**{**raw, "lost": Lost(**raw["lost"]), **instants})


def gaps_of(rows: Iterable[ClockRow]) -> tuple[AcceptedGap, ...]:
    """The accepted gaps in the `gap` column of rows of the `clock` table, in the order of the rows."""
    return tuple(AcceptedGap.from_dict(gap) for row in rows for gap in _entries(row) if gap != _EARLIER)


def have_earlier(rows: Iterable[ClockRow]) -> set[str]:
    """The topics of which rows of the `clock` table lack gaps, which are in earlier rows."""
    return {row["topic"] for row in rows if _EARLIER in _entries(row)}


def gaps_text(gaps: Iterable[AcceptedGap], *, has_earlier: bool = False) -> str | None:
    """Gaps as the `gap` column of the `clock` table holds them; None if there is no gap.

    Args:
        has_earlier: whether earlier rows have others.
    """
    texts = [*([_EARLIER] if has_earlier else []), *(gap.to_dict() for gap in gaps)]
    return json.dumps(texts, sort_keys=True) if texts else None


def by_partition(gaps: Iterable[AcceptedGap], partitions: Collection[int]) -> dict[int, list[AcceptedGap]]:
    """Gaps of a topic by the partition whose row has each.

    A topic that was created again may have fewer partitions: its first one then has the gaps of the others.
    """
    found: dict[int, list[AcceptedGap]] = {}
    for gap in gaps:
        partition = gap.lost.partition if gap.lost.partition in partitions else min(partitions)
        found.setdefault(partition, []).append(gap)
    return found


def newest_of(gaps: Iterable[AcceptedGap]) -> tuple[AcceptedGap, ...]:
    """Each gap once, as the last of the same gap says.

    Args:
        gaps: oldest observation first.
    """
    return tuple({gap.key: gap for gap in gaps}.values())


def recorded_once(
    rows: Iterable[ClockRow], before: Sequence[ClockRow], number: int, carried: int = CARRIED
) -> list[ClockRow]:
    """The rows of an observation, without the oldest gaps of a topic that has very many: earlier rows have those.

        observation           7      8       9      10     11
        a gap               open   open    ended   ended    -      while `carried` or fewer are newer
        bounds of the row    yes     -      yes      -      -

    So what a landing writes does not grow with the gaps there ever were. The bounds of a row are those of the gaps
    that it is the first to have, or to have as ended: only such rows have to be read. `gaps_since` is the first
    observation with bounds. A release without that column wrote none, so the first observation after it has all gaps
    as new.

    Args:
        rows: of an observation, with all gaps of `before`.
        before: of the observation before it.
        number: of the observation.
        carried: how many gaps of a topic rows have at least.
    """
    rows = list(rows)
    since = {row["topic"]: row["gaps_since"] for row in before if row.get("gaps_since") is not None}
    known = {gap for row in before if row["topic"] in since for gap in gaps_of([row])}
    of_topic = {topic: [row for row in rows if row["topic"] == topic] for topic in since}
    left_out = {gap for own in of_topic.values() for gap in _left_out(own, known, carried)}
    earlier = have_earlier(before) | {gap.lost.topic for gap in left_out}
    since = {row["topic"]: number for row in rows if row["gap"]} | since
    first = {row["topic"]: row["partition"] for row in reversed(rows)}

    def recorded(row: ClockRow) -> ClockRow:
        gaps = [gap for gap in gaps_of([row]) if gap not in left_out]
        new = [gap for gap in gaps if gap not in known]
        has_earlier = row["topic"] in earlier and row["partition"] == first[row["topic"]]
        return {
            **row,
            "gap": gaps_text(gaps, has_earlier=has_earlier),
            "gaps_since": since.get(row["topic"]),
            "gap_from": min((gap.newest_before or LONG_AGO for gap in new), default=None),
            "gap_until": max((gap.accepted_at for gap in new), default=None),
        }

    return [recorded(row) for row in rows]


def _left_out(rows: Sequence[ClockRow], known: Container[AcceptedGap], carried: int) -> list[AcceptedGap]:
    """The oldest gaps of a topic that an earlier row has as they are for good, so that `carried` others stay."""
    gaps = [(gap, row["epoch"]) for row in rows for gap in gaps_of([row])]
    final = [gap for gap, epoch in gaps if gap in known and (gap.has_ended or gap.epoch != epoch)]
    oldest = sorted(final, key=lambda gap: (gap.accepted_at, gap.lost.partition, gap.lost.start))
    return oldest[: max(0, len(gaps) - carried)]


def _entries(row: ClockRow) -> list[dict[str, Any]]:
    return json.loads(row["gap"]) if row["gap"] else []
