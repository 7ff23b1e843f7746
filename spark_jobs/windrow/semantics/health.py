"""Health of a pipeline: what its tables say, as findings in words, and whether a person must do something.

    blocked interval           a person: mend the cause and clear the run, or override
    table that cannot be read  a person: the message says which file, and how it is restored
    closed, not published      the next run takes it along
    landing that has stopped   somebody should look
    nothing landed yet         nothing to do

The worst finding is the state of the pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum

from windrow.semantics.intervals import Interval
from windrow.text import counted, short_instant_text, shown_duration, shown_instant


class State(IntEnum):
    """State of a pipeline, from the best to the worst; `words` is for people."""

    FINE = 0, "fine"
    WAITING = 1, "waiting"
    LOOK = 2, "look at it"
    PERSON = 3, "needs a person"

    words: str

    def __new__(cls, value: int, words: str) -> State:
        """Make a member with its words."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member


@dataclass(frozen=True)
class Finding:
    """One thing about a pipeline, with the next move."""

    state: State
    text: str


@dataclass(frozen=True)
class Seen:
    """What the tables of a pipeline say. Instants are in UTC."""

    name: str
    interval: timedelta
    landed_at: datetime | None = None
    """end of the newest landing"""
    watermark: datetime | None = None
    published_until: datetime | None = None
    """end of the last interval with a publication"""
    verdict: str | None = None
    """of the newest publication"""
    why: str | None = None
    unpublished: Sequence[Interval] = ()
    """closed intervals without a publication, oldest first"""
    blocked: Mapping[datetime, str] = field(default_factory=dict)
    """those of them that a judgement blocked: start → why"""
    broken: str | None = None
    """why the tables cannot be read"""
    snapshots: int = 0
    """snapshots of the training table that are kept"""
    snapshot_bytes: int = 0
    """bytes of past versions that are there for them only"""


STOPPED = timedelta(minutes=30)
"""A landing that has not run for this long, and for two intervals, has stopped."""


def findings(seen: Seen, now: datetime) -> list[Finding]:
    """Return what is to be said about a pipeline, the worst first; empty where all is well."""
    found = [*_broken(seen), *_blocked(seen), *_stopped(seen, now), *_unpublished(seen)]
    return sorted(found, key=lambda finding: -finding.state)


def state(found: Sequence[Finding]) -> State:
    """Return the state of a pipeline with these findings."""
    return max((finding.state for finding in found), default=State.FINE)


def _broken(seen: Seen) -> list[Finding]:
    return [Finding(State.PERSON, seen.broken)] if seen.broken else []


def _blocked(seen: Seen) -> list[Finding]:
    if not seen.blocked:
        return []
    oldest = min(seen.blocked)
    return [
        Finding(
            State.PERSON,
            f"{counted(len(seen.blocked), 'interval')} blocked, the oldest of {shown_instant(oldest)}: "
            f"{seen.blocked[oldest]}. Mend the cause and clear its run, or publish it as it is: "
            f"`windrow override {seen.name} --interval {short_instant_text(oldest)} --reason …`",
        )
    ]


def _stopped(seen: Seen, now: datetime) -> list[Finding]:
    if seen.broken:
        return []
    if seen.landed_at is None:
        return [Finding(State.WAITING, f"nothing has landed yet: `windrow land {seen.name}`, or unpause its DAG")]
    age = now - seen.landed_at
    if age <= max(STOPPED, 2 * seen.interval):
        return []
    return [
        Finding(
            State.LOOK,
            f"landed last {shown_duration(age)} ago: does {seen.name}.land run? Kafka deletes records by its "
            "retention, landed or not",
        )
    ]


def _unpublished(seen: Seen) -> list[Finding]:
    waiting = [interval for interval in seen.unpublished if interval.start not in seen.blocked]
    if not waiting:
        return []
    return [
        Finding(
            State.WAITING,
            f"{counted(len(waiting), 'closed interval')} without a publication, the oldest {waiting[0]}: the next run "
            f"of {seen.name}.training takes them along, or `windrow train {seen.name}`",
        )
    ]
