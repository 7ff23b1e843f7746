"""Landing and the clock, in memory: the first half of a pipeline's life on paper.

    log of a partition ──land──▶ landed, in batches ──clock──▶ W, pins
                       (killed here: the batch stays, the clock learns of it at the next landing)

Topics may get partitions, be re-created, lose offsets, or not answer. Rules 2, 5, 6, 7, 12 and 13.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.clock import IdlePolicy, PartitionClock, Progress, advance, latest, topic_clock, watermark
from windrow.semantics.erasure.keys import Erased
from windrow.semantics.intervals import shifted
from windrow.semantics.landing.host_clock import refuse_clock_that_went_back
from windrow.semantics.records import REASONS, Gap, JoinSpec, Record, RowId, emptied, moves_no_clock, unreadable_for
from windrow.semantics.reference import landed_once, passes
from windrow.semantics.waiting import Bounds

PartitionId = tuple[str, int]
"""(topic, partition number)"""


@dataclass(frozen=True)
class Rules:
    """The rules of the rows and of the clock. `spec` has no event clocks, gaps or drain: a plan adds them."""

    spec: JoinSpec
    partitions: Mapping[str, int]
    out_of_orderness: Mapping[str, timedelta]
    idle: IdlePolicy
    stamped: frozenset[str] = frozenset()
    """Topics whose records carry the broker's own time (LogAppendTime); an event time ahead of it is not trusted."""
    compacted: frozenset[str] = frozenset()
    """Topics that are compacted, and accepted: the gaps of records that are lost are recorded by landing itself."""
    waiting: Bounds = field(default_factory=Bounds)
    """How much may wait for the clock (rule 24)."""


@dataclass(frozen=True)
class Sent:
    """A record as its producer sent it.

    `defect`: why no stream can read it. `unreadable`: as in `Record`. `is_lost`: retention or compaction deletes it
    before it is read.
    """

    event_at: datetime | None
    values: Mapping[str, Any]
    record_at: datetime | None = None
    defect: str | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    is_lost: bool = False


class Landings:
    """The topics of one pipeline and what has landed of them. Every method is one event in its life."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.partitions = dict(rules.partitions)
        self.epoch = dict.fromkeys(sorted(rules.partitions), 0)
        self.log: dict[PartitionId, list[Sent]] = {partition: [] for partition in self.partition_ids}
        self.position: dict[PartitionId, int] = dict.fromkeys(self.partition_ids, 0)
        self.landed: list[Record] = []
        self.batches: dict[str, int] = dict.fromkeys(sorted(rules.partitions), 0)  # the newest committed batch
        self.pins: dict[str, int] = dict(self.batches)  # the newest batch that the clock knows
        self.clocks: tuple[PartitionClock, ...] = ()
        self.unclocked: dict[str, datetime] = {}  # topics whose last batch was committed by a killed landing
        self.watermark_at: dict[tuple[str, int], datetime | None] = {}
        self.landed_at: datetime | None = None  # landing time of the newest observation
        self.erased: tuple[Erased, ...] = ()
        self.lost: list[tuple[RowId, int, datetime]] = []  # with the batch and the time of accepting the gap
        self.unseen_ends: dict[str, list[PartitionClock]] = {}  # topics made again: their last clocks before it
        self.remade: list[tuple[int, Gap]] = []  # gaps of topics that were made again, with their batch

    @property
    def partition_ids(self) -> tuple[PartitionId, ...]:
        """Every partition of every topic, sorted."""
        return tuple((topic, p) for topic in sorted(self.partitions) for p in range(self.partitions[topic]))

    @property
    def watermark(self) -> datetime | None:
        """The watermark of the newest observation; None before a partition has a clock."""
        return watermark(self.clocks)

    @property
    def has_unlanded(self) -> bool:
        """Whether a partition has records of which the clock does not say that they have landed."""
        known = {clock.identity: clock.next_offset for clock in self.clocks}
        return any(len(self.log[t, p]) > known.get((t, self.epoch[t], p), 0) for t, p in self.partition_ids)

    def produce(self, partition: PartitionId, sent: Sent) -> RowId:
        """Append a record to the log of its partition, and return its row id."""
        self.log[partition].append(sent)
        return RowId(partition[0], self.epoch[partition[0]], partition[1], len(self.log[partition]) - 1)

    def add_partitions(self, topic: str, count: int) -> None:
        """Give the topic `count` partitions from now on; the new ones are read from their start."""
        for partition in [(topic, p) for p in range(self.partitions[topic], count)]:
            self.log[partition], self.position[partition] = [], 0
        self.partitions[topic] = count

    def recreate(self, topic: str) -> None:
        """Delete and re-create a topic: in its new epoch every offset is a new row.

        What the old one got after its last landing is not known: the next landing records a gap (rule 13).
        """
        self.unseen_ends[topic] = [c for c in self.clocks if c.topic == topic]
        self.epoch[topic] += 1
        for partition in self._of(topic):
            self.log[partition], self.position[partition] = [], 0

    def land(self, now: datetime, *, unseen: Mapping[PartitionId, int] | None = None) -> None:
        """Land everything from the log, then advance the clock.

        Args:
            unseen: by partition, how many more records the broker holds that this landing does not read (its lag).

        Raises:
            ClockWentBack: the host's clock is not to be trusted; the records wait.
        """
        self._refuse_clock_that_went_back(now)
        for topic in self.batches:
            self._land(topic, now)
        self._observe(now, unseen or {})

    def land_unanswered(self, now: datetime) -> None:
        """Land without an answer from the broker: nothing changes, not even the clock."""

    def land_killed(self, now: datetime, topics: Iterable[str]) -> None:
        """Land, but be killed after these topics are committed and before the clock is advanced."""
        self._refuse_clock_that_went_back(now)
        for topic in topics:
            batch = self.batches[topic]
            self._land(topic, now)
            if self.batches[topic] > batch:
                self.unclocked[topic] = now

    def reconsider(self, now: datetime) -> None:
        """Judge the quarantined records of the present topics again; those that can be read now land as a new batch.

        Raises:
            ClockWentBack: the host's clock is not to be trusted.
        """
        self._refuse_clock_that_went_back(now)
        landed, _ = landed_once(self.landed, self.batches)
        for topic, batch in list(self.batches.items()):
            here = (topic, self.epoch[topic])
            bad = [r for r in landed if r.quarantined and (r.row_id.topic, r.row_id.epoch) == here]
            bad = [r for r in bad if emptied(r, replace(self.rules.spec, erased=self.erased)) is r]  # no bytes to judge
            sent = [self.log[topic, r.row_id.partition][r.row_id.offset] for r in bad]
            again = [self._judged(s, r.row_id, batch + 1, now, is_again=True) for s, r in zip(sent, bad, strict=True)]
            readable = [replace(a, reconsidered=r.batch) for a, r in zip(again, bad, strict=True) if not a.quarantined]
            if readable:
                self.watermark_at[topic, batch + 1] = self.watermark
                self.batches[topic], self.landed_at = batch + 1, now
                self.landed += readable
                self._clock(topic, now, {})
        self.pins = dict(self.batches)

    def replay(self, partition: PartitionId, first: int, now: datetime) -> None:
        """Land the offsets from `first` on again, as a reader whose position was reset would."""
        self._commit(partition[0], now, [(partition, o) for o in range(first, self.position[partition])])
        self._observe(now, {})

    def _refuse_clock_that_went_back(self, now: datetime) -> None:
        before = [self.landed_at] if self.landed_at else []
        refuse_clock_that_went_back(now, before, self.rules.spec.max_skew)

    def _of(self, topic: str) -> list[PartitionId]:
        return [partition for partition in self.partition_ids if partition[0] == topic]

    def _land(self, topic: str, now: datetime) -> None:
        fresh = [(p, o) for p in self._of(topic) for o in range(self.position[p], len(self.log[p]))]
        self._commit(topic, now, fresh)
        for partition in self._of(topic):
            self.position[partition] = len(self.log[partition])

    def _observe(self, now: datetime, unseen: Mapping[PartitionId, int]) -> None:
        """Advance the clock after a landing, also after an empty one; pins are the batches that it knows.

        The batch of a killed landing is observed first, as of its own landing time.
        """
        for topic, killed_at in self.unclocked.items():
            self._clock(topic, killed_at, {})
        for topic in self.batches:
            self._clock(topic, now, unseen)
        self.unclocked, self.pins, self.landed_at = {}, dict(self.batches), now

    def _clock(self, topic: str, now: datetime, unseen: Mapping[PartitionId, int]) -> None:
        before = [c for c in self.clocks if c.topic == topic]
        known = {c.identity: c for c in before}
        landed, _ = landed_once(self.landed, self.batches)
        after = []
        for partition in self._of(topic):
            here = (topic, self.epoch[topic], partition[1])
            mine = [r for r in landed if _partition_of(r.row_id) == here and not self._moves_no_clock(r)]
            after.append(
                advance(
                    known.get(here),
                    Progress(
                        *here,
                        next_offset=self.position[partition],
                        end_offset=self.position[partition] + unseen.get(partition, 0),
                        newest_at=max((r.event_at for r in mine if r.event_at is not None), default=None),
                        landed_at=now,
                    ),
                    out_of_orderness=self.rules.out_of_orderness[topic],
                    idle=self.rules.idle,
                    topic_clock=topic_clock(before),
                )
            )
        others = [c for c in self.clocks if c.topic != topic]
        self.clocks = tuple(sorted([*others, *after], key=lambda c: c.identity))

    def _moves_no_clock(self, record: Record) -> bool:
        return moves_no_clock(record, self.rules.spec.streams)

    def _commit(self, topic: str, now: datetime, offsets: Sequence[tuple[PartitionId, int]]) -> None:
        ends = self.unseen_ends.pop(topic, [])
        if not offsets and not ends:
            return
        self.watermark_at[topic, self.batches[topic] + 1] = self.watermark
        self.batches[topic] += 1
        until = shifted(now, self.rules.spec.max_skew)
        for clock in ends:
            known_until = latest(clock.newest_at, clock.clock_at)
            begin = None if known_until is None else shifted(known_until, -self.rules.out_of_orderness[topic])
            self.remade.append((self.batches[topic], Gap(topic, begin, until)))
        for partition, offset in offsets:
            sent, row_id = self.log[partition][offset], RowId(topic, self.epoch[topic], partition[1], offset)
            if sent.is_lost:
                self.lost.append((row_id, self.batches[topic], now))
            else:
                self.landed.append(self._judged(sent, row_id, self.batches[topic], now))

    def _judged(self, sent: Sent, row_id: RowId, batch: int, now: datetime, *, is_again: bool = False) -> Record:
        """Quarantine by rules 7 and 12, as landing does. An event time ahead of its landing is not trusted.

        A topic may be stamped only since a record was written, so one that is judged again is never trusted beyond now.

        Each stream judges by its own columns; what one of them can read is landed.
        """
        spec = self.rules.spec
        event_at, reason = sent.event_at, None
        trusted_until = (sent.record_at or now) if row_id.topic in self.rules.stamped else now
        latest_at = shifted(min(trusted_until, now) if is_again else trusted_until, spec.max_skew)
        if event_at is not None and event_at > latest_at:
            event_at, reason = None, "event_time_ahead"
        record = Record(row_id, batch, event_at, sent.values, sent.record_at, unreadable=sent.unreadable)
        judged = [(s, unreadable_for(record, s)) for s in spec.streams if row_id.topic in s.topics]
        meant = [why for s, why in judged if why or passes(record, s.where)]
        if reason is None and meant:
            reason = sent.defect or (None if None in meant else min(filter(None, meant), key=REASONS.index))
        return replace(record, quarantined=reason)

    def gaps_at(self, landed: Sequence[Record], pins: Mapping[str, int]) -> tuple[Gap, ...]:
        """Accepted gaps at the pins: from the newest event before the lost offset to the first one after it (rule 13).

        Both bounds are widened by the out-of-orderness, because the lost event may have been that far out of order. The
        first one after it may be a late one: the lost event was logged before it, so it happened at most `max_skew`
        after its record time. For the same reason a gap never reaches further than `max_skew` beyond the time at which
        it was accepted. Canaries bound no gap, as they move no clock.
        """
        gaps = []
        for lost, batch, accepted_at in self.lost:
            if batch > pins[lost.topic]:
                continue
            disorder = self.rules.out_of_orderness[lost.topic]
            here = [r for r in landed if _partition_of(r.row_id) == _partition_of(lost)]
            good = [r for r in here if not self._moves_no_clock(r)]
            good = [r for r in good if r.reconsidered is None]  # what it was then stays the bound of the gap
            known = {r.row_id: (r.event_at, r.record_at or r.event_at) for r in good if r.event_at is not None}
            earlier = [at for row_id, (at, _) in known.items() if row_id < lost]
            later = [times for row_id, times in sorted(known.items()) if row_id > lost]
            start_at = shifted(max(earlier), -disorder) if earlier else None
            trusted_until, skew = shifted(accepted_at, self.rules.spec.max_skew), self.rules.spec.max_skew
            behind = [max(shifted(event_at, disorder), shifted(record_at, skew)) for event_at, record_at in later]
            end_at = min([trusted_until, *behind[:1]])
            gaps.append(Gap(lost.topic, start_at, end_at))
        gaps += [gap for batch, gap in self.remade if batch <= pins[gap.topic]]
        return tuple(dict.fromkeys(gaps))


def _partition_of(row_id: RowId) -> tuple[str, int, int]:
    return (row_id.topic, row_id.epoch, row_id.partition)
