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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from windrow.outcomes import BadInput
from windrow.semantics.clock import ClockRow, latest
from windrow.semantics.records import Gap

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
"""Stands in `gap_from` for a gap without a lower bound."""

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
    return tuple(AcceptedGap.from_dict(gap) for row in rows if row["gap"] for gap in json.loads(row["gap"]))


def gaps_text(gaps: Iterable[AcceptedGap]) -> str | None:
    """Gaps as the `gap` column of the `clock` table holds them; None if there is no gap."""
    texts = [gap.to_dict() for gap in gaps]
    return json.dumps(texts, sort_keys=True) if texts else None


def newest_of(gaps: Iterable[AcceptedGap]) -> tuple[AcceptedGap, ...]:
    """Each gap once, as the last of the same gap says.

    Args:
        gaps: oldest observation first.
    """
    return tuple({gap.key: gap for gap in gaps}.values())


def recorded_once(rows: Iterable[ClockRow], before: Sequence[ClockRow], number: int) -> list[ClockRow]:
    """The rows of an observation without the gaps that ended in an earlier one: those stay on record there.

        observation     7      8       9      10
        a gap         open   open    ended     -

    So what a landing writes does not grow with the gaps there ever were. `gaps_since` is the first observation that
    has to be read for the topic's gaps. A release that has no such column wrote all gaps into each observation: the
    first one after it still repeats them.

    Args:
        rows: of an observation, with all gaps of `before`.
        before: of the observation before it.
        number: of the observation.
    """
    rows = list(rows)
    since = {row["topic"]: row["gaps_since"] for row in before if row.get("gaps_since") is not None}
    on_record = {gap for row in before if row["topic"] in since for gap in gaps_of([row]) if gap.has_ended}
    since = {row["topic"]: number for row in rows if row["gap"]} | since

    def recorded(row: ClockRow) -> ClockRow:
        gaps = [gap for gap in gaps_of([row]) if gap not in on_record]
        return {
            **row,
            "gap": gaps_text(gaps),
            "gaps_since": since.get(row["topic"]),
            "gap_from": min((gap.newest_before or LONG_AGO for gap in gaps), default=None),
            "gap_until": max((gap.accepted_at for gap in gaps), default=None),
        }

    return [recorded(row) for row in rows]
