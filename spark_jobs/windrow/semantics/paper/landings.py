"""What has landed, and the clock of it, in memory: the first half of a pipeline's life on paper.

    log of a partition ──land──▶ landed, in batches ──clock──▶ W, pins
                       (killed here: the batch stands, the clock learns of it at the next landing)

Topics may get partitions, be made again, lose offsets, or not answer. Rules 2, 5, 6, 7, 12 and 13.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.clock import IdlePolicy, PartitionClock, Progress, advance, topic_clock, watermark
from windrow.semantics.intervals import shifted
from windrow.semantics.match import key_of
from windrow.semantics.records import Gap, JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import landed_once, passes

Place = tuple[str, int]
"""topic, partition"""


@dataclass(frozen=True)
class Rules:
    """What gives rows their meaning, and the clock its pace. Event clocks, gaps and drain come in with a plan."""

    spec: JoinSpec
    partitions: Mapping[str, int]
    out_of_orderness: Mapping[str, timedelta]
    idle: IdlePolicy
    stamped: frozenset[str] = frozenset()
    """topics whose records carry the broker's own time (LogAppendTime): what is ahead of that is not trusted"""


@dataclass(frozen=True)
class Sent:
    """What a producer sent, before anyone judged it. `is_lost`: retention deletes it before it is read."""

    event_at: datetime | None
    values: Mapping[str, Any]
    record_at: datetime | None = None
    defect: str | None = None
    is_lost: bool = False


class Landings:
    """The topics of one pipeline and what has landed of them. Every method is one thing that happens."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.partitions = dict(rules.partitions)
        self.epoch = dict.fromkeys(sorted(rules.partitions), 0)
        self.log: dict[Place, list[Sent]] = {place: [] for place in self.places}
        self.position: dict[Place, int] = dict.fromkeys(self.places, 0)
        self.landed: list[Record] = []
        self.batches: dict[str, int] = dict.fromkeys(sorted(rules.partitions), 0)  # what has been committed
        self.pins: dict[str, int] = dict(self.batches)  # what the clock has been computed from
        self.clocks: tuple[PartitionClock, ...] = ()
        self.unclocked: dict[str, datetime] = {}  # topics whose last batch was committed by a killed landing
        self.watermark_at: dict[tuple[str, int], datetime | None] = {}
        self.lost: list[tuple[RowId, int, datetime]] = []  # and batch and time in which the gap was accepted

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((topic, p) for topic in sorted(self.partitions) for p in range(self.partitions[topic]))

    @property
    def watermark(self) -> datetime | None:
        return watermark(self.clocks)

    def produce(self, place: Place, sent: Sent) -> RowId:
        self.log[place].append(sent)
        return RowId(place[0], self.epoch[place[0]], place[1], len(self.log[place]) - 1)

    def add_partitions(self, topic: str, count: int) -> None:
        """The topic has `count` partitions from now on; the new ones are read from their start."""
        for place in [(topic, p) for p in range(self.partitions[topic], count)]:
            self.log[place], self.position[place] = [], 0
        self.partitions[topic] = count

    def recreate(self, topic: str) -> None:
        """The topic is deleted and made again: another epoch, in which every offset is another row."""
        self.epoch[topic] += 1
        for place in self._of(topic):
            self.log[place], self.position[place] = [], 0

    def land(self, now: datetime, *, unseen: Mapping[Place, int] | None = None) -> None:
        """All that the broker has, then the clock. `unseen`: what more it holds by partition, not landed now."""
        for topic in self.batches:
            self._land(topic, now)
        self._observe(now, unseen or {})

    def land_unanswered(self, now: datetime) -> None:
        """A landing run that gets no answer from the broker: nothing is known, so nothing moves."""

    def land_killed(self, now: datetime, topics: Iterable[str]) -> None:
        """A landing run that is killed when it has committed these topics, before the clock."""
        for topic in topics:
            batch = self.batches[topic]
            self._land(topic, now)
            if self.batches[topic] > batch:
                self.unclocked[topic] = now

    def replay(self, place: Place, first: int, now: datetime) -> None:
        """Land the offsets from `first` on again, as a reader whose position was reset would."""
        self._commit(place[0], now, [(place, o) for o in range(first, self.position[place])])
        self._observe(now, {})

    def _of(self, topic: str) -> list[Place]:
        return [place for place in self.places if place[0] == topic]

    def _land(self, topic: str, now: datetime) -> None:
        fresh = [(p, o) for p in self._of(topic) for o in range(self.position[p], len(self.log[p]))]
        self._commit(topic, now, fresh)
        for place in self._of(topic):
            self.position[place] = len(self.log[place])

    def _observe(self, now: datetime, unseen: Mapping[Place, int]) -> None:
        """The clock after a landing, also after one that landed nothing; pins are what it was computed from.

        A batch of a killed landing is clocked first, as of its own landing time.
        """
        for topic, killed_at in self.unclocked.items():
            self._clock(topic, killed_at, {})
        for topic in self.batches:
            self._clock(topic, now, unseen)
        self.unclocked, self.pins = {}, dict(self.batches)

    def _clock(self, topic: str, now: datetime, unseen: Mapping[Place, int]) -> None:
        before = [c for c in self.clocks if c.topic == topic]
        known = {c.identity: c for c in before}
        landed, _ = landed_once(self.landed, self.batches)
        after = []
        for place in self._of(topic):
            here = (topic, self.epoch[topic], place[1])
            mine = [r for r in landed if _partition(r.row_id) == here and not r.quarantined]
            after.append(
                advance(
                    known.get(here),
                    Progress(
                        *here,
                        next_offset=self.position[place],
                        end_offset=self.position[place] + unseen.get(place, 0),
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

    def _commit(self, topic: str, now: datetime, offsets: Sequence[tuple[Place, int]]) -> None:
        if not offsets:
            return
        self.watermark_at[topic, self.batches[topic] + 1] = self.watermark
        self.batches[topic] += 1
        for place, offset in offsets:
            sent, row_id = self.log[place][offset], RowId(topic, self.epoch[topic], place[1], offset)
            if sent.is_lost:
                self.lost.append((row_id, self.batches[topic], now))
            else:
                self.landed.append(self._judged(sent, row_id, self.batches[topic], now))

    def _judged(self, sent: Sent, row_id: RowId, batch: int, now: datetime) -> Record:
        """Rules 7 and 12, as landing applies them: an event ahead of its landing is not trusted."""
        spec = self.rules.spec
        event_at, reason = sent.event_at, None
        trusted_until = sent.record_at if row_id.topic in self.rules.stamped else now
        if event_at is not None and event_at > shifted(trusted_until or now, spec.max_skew):
            event_at, reason = None, "event_time_ahead"
        record = Record(row_id, batch, event_at, sent.values, sent.record_at)
        streams: tuple[Left | Right, ...] = (spec.left, *spec.right)
        readers = [s for s in streams if row_id.topic in s.topics and passes(record, s.where)]
        if reason is None and readers:
            useless = [isinstance(s, Right) and s.role == "label" and not key_of(sent.values, s.key) for s in readers]
            if sent.defect:
                reason = sent.defect
            elif event_at is None:
                reason = "event_time_missing"
            elif all(useless):  # a label without a key is nobody's; a feature without one is just unmatched
                reason = "null_key"
        return replace(record, quarantined=reason)

    def gaps_at(self, landed: Sequence[Record], pins: Mapping[str, int]) -> tuple[Gap, ...]:
        """Accepted gaps by the pins: from the newest event before one to the next event after it (rule 13).

        Both bounds are widened by the out-of-orderness, for what is lost may have been that far out of order. What
        was lost by a moment was not trusted beyond it: that ends a gap after which nothing has landed yet.
        """
        gaps = []
        for lost, batch, accepted_at in self.lost:
            if batch > pins[lost.topic]:
                continue
            disorder = self.rules.out_of_orderness[lost.topic]
            good = [r for r in landed if _partition(r.row_id) == _partition(lost) and not r.quarantined]
            known = {r.row_id: r.event_at for r in good if r.event_at is not None}
            earlier = [at for row_id, at in known.items() if row_id < lost]
            later = [at for row_id, at in sorted(known.items()) if row_id > lost]
            start_at = shifted(max(earlier), -disorder) if earlier else None
            trusted_until = shifted(accepted_at, self.rules.spec.max_skew)
            end_at = min(shifted(later[0], disorder), trusted_until) if later else trusted_until
            gaps.append(Gap(lost.topic, start_at, end_at))
        return tuple(dict.fromkeys(gaps))


def _partition(row_id: RowId) -> tuple[str, int, int]:
    return (row_id.topic, row_id.epoch, row_id.partition)
