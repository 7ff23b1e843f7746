"""Accepted gaps: offsets that the broker deleted before they were landed, and that a person gave up (rule 13).

    offset      4        5 … 9        10            who accepted, when and why stands in the landing commit;
    event     newest   nobody knows   next          the clock carries it on, so that planning needs no scan
              before                  after

What was lost is taken to lie between its neighbours, as far out of order as the stream may be, and never ahead of the
moment at which it was given up by more than `max_skew`: that ends a gap after which nothing has landed yet. The bounds
are facts of the landed rows up to a pin, so a rebuild at the same pin sees the same gap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.registers import clocks
from windrow.outcomes import BadInput, NotReady
from windrow.semantics.records import Gap

_INSTANTS = ("newest_before", "next_after", "accepted_at")
_SPELLING = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d+):(?P<start>\d+)-(?P<until>\d+)")


class NoSuchGap(BadInput):
    """What was to be accepted is not what is lost. Trying again does not help."""


class ClockBehind(NotReady):
    """A plan knows more than the clock table: the clock was lost. Landing restores it from the landing commits."""


@dataclass(frozen=True)
class Lost:
    """Offsets `[start, until)` of a partition that nobody can read any more."""

    topic: str
    partition: int
    start: int
    until: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}:{self.start}-{self.until}"

    @classmethod
    def parse(cls, text: str) -> Lost:
        """`topic/partition:start-until`, as the failed landing prints it."""
        said = _SPELLING.fullmatch(text)
        if said is None or int(said["start"]) >= int(said["until"]):
            raise NoSuchGap(f"{text!r} is not a lost range such as feed.served/0:5-10; the failed landing prints it")
        return cls(said["topic"], int(said["partition"]), int(said["start"]), int(said["until"]))


@dataclass(frozen=True)
class AcceptedGap:
    """A lost range that a person gave up. `next_after` and `next_batch` are known once a record behind it landed."""

    lost: Lost
    epoch: int
    batch: int
    newest_before: datetime | None
    accepted_at: datetime
    who: str
    why: str
    next_after: datetime | None = None
    next_batch: int | None = None

    def ended(self, batch: int, event_at: datetime) -> AcceptedGap:
        """With the first good record behind it."""
        return replace(self, next_after=event_at, next_batch=batch)

    def seen_from(self, pin: int, pipeline: Pipeline) -> Gap:
        """Its bounds in event time, as far as they were known by a batch."""
        disorder = pipeline.out_of_orderness(self.lost.topic)
        end_at = self.accepted_at + pipeline.max_skew
        if self.next_after is not None and self.next_batch is not None and self.next_batch <= pin:
            end_at = min(end_at, self.next_after + disorder)
        start_at = None if self.newest_before is None else self.newest_before - disorder
        return Gap(self.lost.topic, start_at, end_at)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        texts = {name: at.isoformat() if (at := getattr(self, name)) else None for name in _INSTANTS}
        return {**vars(self), "lost": vars(self.lost), **texts}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> AcceptedGap:
        """What `to_dict` wrote."""
        instants = {name: datetime.fromisoformat(raw[name]) if raw[name] else None for name in _INSTANTS}
        return cls(**{**raw, "lost": Lost(**raw["lost"]), **instants})


def of_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[AcceptedGap, ...]:
    """The accepted gaps that rows of the `clock` table carry."""
    return tuple(AcceptedGap.from_dict(one) for row in rows if row["gap"] for one in json.loads(row["gap"]))


def to_text(gaps: Iterable[AcceptedGap]) -> str | None:
    """Gaps as the `clock` table holds them; null for none."""
    told = [gap.to_dict() for gap in gaps]
    return json.dumps(told, sort_keys=True) if told else None


def as_of(home: Home, pins: Mapping[str, int], lo: datetime, hi: datetime) -> tuple[Gap, ...]:
    """Gaps that were accepted by the pins and touch `[lo, hi]`.

    Raises:
        ClockBehind: the clock has not seen the pins.
    """
    return known_to(clocks.observe(home), home.pipeline, pins, lo, hi)


def known_to(
    seen: clocks.Observation, pipeline: Pipeline, pins: Mapping[str, int], lo: datetime, hi: datetime
) -> tuple[Gap, ...]:
    """The same, of an observation that is at hand."""
    behind = [topic for topic, pin in pins.items() if seen.pins.get(topic, 0) < pin]
    if behind:
        raise ClockBehind(
            f"the clock of {', '.join(behind)} is behind a plan: the clock table was lost or reset. "
            f"`windrow land {pipeline.name}` restores it from the landing commits; then run again."
        )
    known = (gap for gap in of_rows(seen.rows) if gap.batch <= pins.get(gap.lost.topic, 0))
    bounded = (gap.seen_from(pins[gap.lost.topic], pipeline) for gap in known)
    return tuple(
        g for g in bounded if (g.start_at is None or g.start_at <= hi) and (g.end_at is None or g.end_at >= lo)
    )
