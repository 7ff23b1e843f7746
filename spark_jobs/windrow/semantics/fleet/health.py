"""Health of a pipeline: what its tables say, as findings in words, and one status, which is the worst of them.

    failing    a person   a table or the file cannot be used, landing has stopped, a run failed
    blocked    a person   expectations keep an interval back
    silent     a person   a topic that is read to its end gives no events
    held       a person   one partition keeps the clock back
    late       a person   an interval is older than promised, and has no publication; more waits than the file allows;
                          or nothing is published because `start` is long before the first row
    paused     nobody     its DAGs are paused, or nothing has landed yet
    healthy    nobody     the rest; closed intervals may wait for the next run

What is promised: an interval is published `interval + after + grace + out_of_orderness + slack` after its start at the
latest, by the clock on the wall. A paused DAG explains a landing that stands still and everything that follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum

from windrow.semantics.clock import PartitionClock, holder
from windrow.semantics.intervals import Interval, shifted
from windrow.semantics.waiting import Decision, Policy, Waiting
from windrow.text import counted, rounded_duration, short_instant_text, shown_duration, shown_instant, size_text


class Status(IntEnum):
    """Status of a pipeline, from the best to the worst; `words` is for people."""

    HEALTHY = 0, "healthy"
    PAUSED = 1, "paused"
    LATE = 2, "late"
    HELD = 3, "held"
    SILENT = 4, "silent"
    BLOCKED = 5, "blocked"
    FAILING = 6, "failing"

    words: str

    def __new__(cls, value: int, words: str) -> Status:
        """Make a member with its words."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member

    @property
    def needs_person(self) -> bool:
        """Whether it stays as it is until a person does something."""
        return self > Status.PAUSED


@dataclass(frozen=True)
class Finding:
    """One thing about a pipeline, with its figures and the next move."""

    status: Status
    cause: str
    """what is the case, with figures"""
    move: str = ""
    """the next move of a person, in whole sentences"""
    about: str = ""
    """the topic or DAG that it is about, where a pipeline may have several findings with this status"""

    @property
    def text(self) -> str:
        """Cause and next move."""
        return f"{self.cause}. {self.move}" if self.move else self.cause


@dataclass(frozen=True)
class Topic:
    """What is known of a topic at the newest landing."""

    name: str
    newest_at: datetime | None
    """its newest trusted event; None before the first"""
    lag: int
    """records that wait to be landed, over all partitions"""
    patience: timedelta | None
    """how long it may give no event; None for a topic that may be silent (`silence: negative`, features)"""


@dataclass(frozen=True)
class Terms:
    """What a pipeline file lets people expect."""

    interval: timedelta = timedelta(days=1)
    closing: timedelta = timedelta()
    """`after + grace`: watermark beyond the end of an interval at which it closes"""
    out_of_orderness: timedelta = timedelta()
    """the largest of its topics"""
    slack: timedelta = timedelta()
    """for landing, idling and the run"""
    start: datetime | None = None
    idle_mode: str = "caught_up"

    @property
    def promise(self) -> timedelta:
        """Age of an interval's start at which it is published at the latest."""
        return self.interval + self.closing + self.out_of_orderness + self.slack


@dataclass(frozen=True)
class Seen:
    """What the tables of a pipeline say. Instants are in UTC."""

    name: str
    terms: Terms = Terms()
    landed_at: datetime | None = None
    """end of the newest landing"""
    watermark: datetime | None = None
    clocks: Sequence[PartitionClock] = ()
    held_since: datetime | None = None
    """landing since which the clock of the slowest partition has not moved, as far as was looked back"""
    topics: Sequence[Topic] = ()
    published_until: datetime | None = None
    """end of the newest interval with a publication"""
    verdict: str | None = None
    """of the publication of this interval"""
    why: str | None = None
    unpublished: Sequence[Interval] = ()
    """closed intervals without a publication, oldest first"""
    blocked: Mapping[datetime, str] = field(default_factory=dict)
    """those of them that a judgement blocked: start → why"""
    broken: str | None = None
    """why the file or the tables cannot be read"""
    far_start: tuple[str, str] | None = None
    """cause and move, where nothing is published before a person corrects or confirms `start`"""
    late_start: tuple[str, str] | None = None
    """cause and move, where every left row so far is before `start`"""
    policy: Policy = "wait"
    """what the pipeline file says of what waits beyond its bounds"""
    waiting: Decision | None = None
    """what has landed and is neither closed nor published, and what the bounds decide; None before the first landing"""
    snapshots: int = 0
    """snapshots of the training table that are kept"""
    snapshot_bytes: int = 0
    """bytes of past versions that are there for them only"""
    paused: Sequence[str] = ()
    """DAGs that are paused, as far as is known"""
    failed: Mapping[str, datetime | None] = field(default_factory=dict)
    """DAGs whose newest ended run failed, as far as is known → start of that run's interval, if it has one"""


STOPPED = timedelta(minutes=30)
"""A landing that has not run for this long, and for two intervals, has stopped."""
WAITING = "waiting"
"""What a finding is about that says how much waits beyond the bounds of the pipeline file."""
SLACK = timedelta(minutes=15)
"""What landing and a run may take in addition to what the pipeline file makes them wait for."""


def findings(seen: Seen, now: datetime) -> list[Finding]:
    """Return what is to be said about a pipeline, the worst first; empty where all is well."""
    if seen.broken:
        return [Finding(Status.FAILING, seen.broken)]
    if seen.paused or seen.landed_at is None:
        moving = _paused(seen)
    else:
        moving = [
            *_failed(seen),
            *_stopped(seen, now),
            *_silent(seen),
            *_held(seen),
            *_late(seen, now),
            *_waiting(seen),
        ]
    found = [*moving, *_far_start(seen), *_late_start(seen), *_blocked(seen), *_unpublished(seen)]
    return sorted(found, key=lambda finding: -finding.status)


def status(found: Iterable[Finding]) -> Status:
    """Return the status of a pipeline with these findings."""
    return max((finding.status for finding in found), default=Status.HEALTHY)


def age(seen: Seen, now: datetime) -> timedelta | None:
    """Return how old the newest publication is: the time since the end of its interval; None without one."""
    return None if seen.published_until is None else now - seen.published_until


def is_held(seen: Seen) -> bool:
    """Whether the slowest partition is further back than waiting for stragglers, idling and landing explain."""
    behind = _behind(seen)
    if behind is None:
        return bool(seen.clocks)
    return behind > seen.terms.out_of_orderness + seen.terms.slack


def next_unpublished(seen: Seen) -> datetime | None:
    """Return the start of the oldest interval that no judgement blocks and that has no publication."""
    after = seen.published_until or seen.terms.start
    known = [interval.start for interval in seen.unpublished if interval.start not in seen.blocked]
    while after is not None and after in seen.blocked:
        after = shifted(after, seen.terms.interval)
    return min([*known, *([after] if after else [])], default=None)


def override_move(name: str, start: datetime) -> str:
    """Return what a person does about a blocked interval."""
    command = f"windrow override {name} --interval {short_instant_text(start)} --reason …"
    return f"Mend the cause and clear its run, or publish it as it is: `{command}`"


def holder_reason(clocks: Iterable[PartitionClock], idle_mode: str) -> str:
    """Return a sentence about which partition holds the clock, and what moves it."""
    slowest = holder(clocks)
    if slowest is None:
        return "nothing has landed yet"
    name = f"{slowest.topic}/{slowest.partition}"
    if slowest.lag:
        return f"held by {name}: {counted(slowest.lag, 'record')} behind its end; landing moves it"
    if slowest.newest_at is None and idle_mode == "wait":
        return f"held by {name}: it never had a record, and `idle: wait` keeps it from moving"
    if idle_mode == "wait":
        return f"held by {name}: read to its end; a newer event moves it (`idle: wait`)"
    return f"held by {name}: read to its end; a newer event moves it, or idling at the next landing"


def _paused(seen: Seen) -> list[Finding]:
    if seen.landed_at is None:
        return [Finding(Status.PAUSED, f"nothing has landed yet: `windrow land {seen.name}`, or unpause its DAG")]
    dags = " and ".join(seen.paused)
    return [Finding(Status.PAUSED, f"{dags} {'is' if len(seen.paused) == 1 else 'are'} paused: unpause to go on")]


def _failed(seen: Seen) -> list[Finding]:
    """Failed runs, but for those of training that a blocked interval or a far `start` explains."""

    def is_explained(dag: str, start: datetime | None) -> bool:
        begins = seen.terms.start
        is_before = start is not None and begins is not None and start < begins
        return dag == f"{seen.name}.training" and (start in seen.blocked or seen.far_start is not None or is_before)

    return [
        Finding(
            Status.FAILING,
            f"the newest run of {dag} failed",
            "Its log says why: fix that and clear the run",
            about=dag,
        )
        for dag, start in seen.failed.items()
        if not is_explained(dag, start)
    ]


def _stopped(seen: Seen, now: datetime) -> list[Finding]:
    assert seen.landed_at is not None
    age = now - seen.landed_at
    if age <= max(STOPPED, 2 * seen.terms.interval):
        return []
    return [
        Finding(
            Status.FAILING,
            f"landed last {shown_duration(age)} ago",
            f"Does {seen.name}.land run? Kafka deletes records by its retention, landed or not",
            about=f"{seen.name}.land",
        )
    ]


def _silent(seen: Seen) -> list[Finding]:
    """A topic with records to land is not silent, whatever the event times of what has landed."""
    assert seen.landed_at is not None
    found = []
    for topic in seen.topics:
        if topic.patience is None or topic.lag:
            continue
        if topic.newest_at is None:
            cause, move = f"{topic.name} never had a readable event", "Does its producer write, and to this topic?"
        elif seen.landed_at - topic.newest_at > topic.patience:
            ago = shown_duration(seen.landed_at - topic.newest_at)
            cause = (
                f"{topic.name} is silent: its newest event is of {shown_instant(topic.newest_at)}, {ago} before the "
                "newest landing"
            )
            move = "Does its producer run?"
        else:
            continue
        found.append(Finding(Status.SILENT, cause, move, about=topic.name))
    return found


def _held(seen: Seen) -> list[Finding]:
    if not is_held(seen):
        return []
    behind = _behind(seen)
    stands = "has not started" if behind is None else f"is {shown_duration(behind)} behind"
    since = f", since {shown_instant(seen.held_since)}" if seen.held_since else ""
    return [
        Finding(
            Status.HELD,
            f"the clock {stands}, {holder_reason(seen.clocks, seen.terms.idle_mode)}{since}",
            f"`windrow clock {seen.name}` shows every partition",
        )
    ]


def _behind(seen: Seen) -> timedelta | None:
    slowest = holder(seen.clocks)
    if seen.landed_at is None or slowest is None or slowest.clock_at is None:
        return None
    return seen.landed_at - slowest.clock_at


def _late(seen: Seen, now: datetime) -> list[Finding]:
    oldest = next_unpublished(seen)
    if seen.far_start or oldest is None or now - oldest <= seen.terms.promise:
        return []
    return [
        Finding(
            Status.LATE,
            f"the interval of {shown_instant(oldest)} has no publication after {shown_duration(now - oldest)}; "
            f"promised are {shown_duration(seen.terms.promise)}",
            f"Does {seen.name}.training run? `windrow train {seen.name}`",
        )
    ]


def _far_start(seen: Seen) -> list[Finding]:
    return [Finding(Status.LATE, *seen.far_start)] if seen.far_start else []


def _late_start(seen: Seen) -> list[Finding]:
    """No fault: a pipeline may be there before the rows that it is to have."""
    return [Finding(Status.HEALTHY, *seen.late_start)] if seen.late_start else []


def waiting_text(waiting: Waiting) -> str:
    """Return how much waits, in words.

    Args:
        waiting: of a pipeline with a landing.
    """
    old = f", the oldest interval for {rounded_duration(waiting.age)}" if waiting.age else ""
    return f"about {counted(waiting.rows, 'landed row')} ({size_text(waiting.bytes)}) wait for the clock{old}"


def _waiting(seen: Seen) -> list[Finding]:
    """More waits than the file allows: a person is told unless the policy waits, or the next run forces intervals."""
    if seen.waiting is None or not seen.waiting.exceeded:
        return []
    beyond, name = seen.waiting, seen.name
    oldest = f"the oldest interval is {beyond.waiting.oldest}"
    cause = f"more waits for the clock than the pipeline file allows: {', '.join(beyond.exceeded)}; {oldest}"
    clock = f"`windrow clock {name}` names the partition that holds it"
    if seen.policy == "wait":
        return [Finding(Status.HEALTHY, cause, f"Nothing is lost; {clock}", about=WAITING)]
    if beyond.forced:
        number = counted(len(beyond.forced), "interval")
        move = f"The next run of {name}.training publishes {number} before they close, or `windrow train {name}`"
        return [Finding(Status.HEALTHY, cause, move, about=WAITING)]
    if seen.policy == "force":
        why = "Nothing is forced while records wait to be landed, or before a left event behind the interval has landed"
        return [Finding(Status.LATE, cause, f"{why}; {clock}", about=WAITING)]
    start = short_instant_text(beyond.waiting.oldest.start)
    command = f"windrow train {name} --interval {start} --force --reason …"
    move = f"{clock[0].upper()}{clock[1:]}: mend that side, or publish without its labels: `{command}`"
    return [Finding(Status.LATE, cause, move, about=WAITING)]


def _blocked(seen: Seen) -> list[Finding]:
    if not seen.blocked:
        return []
    oldest = min(seen.blocked)
    return [
        Finding(
            Status.BLOCKED,
            f"{counted(len(seen.blocked), 'interval')} blocked, the oldest of {shown_instant(oldest)}: "
            f"{seen.blocked[oldest]}",
            override_move(seen.name, oldest),
        )
    ]


def _unpublished(seen: Seen) -> list[Finding]:
    waiting = [interval for interval in seen.unpublished if interval.start not in seen.blocked]
    if not waiting or seen.far_start:
        return []
    return [
        Finding(
            Status.HEALTHY,
            f"{counted(len(waiting), 'closed interval')} without a publication, the oldest {waiting[0]}: the next run "
            f"of {seen.name}.training takes them along, or `windrow train {seen.name}`",
        )
    ]
