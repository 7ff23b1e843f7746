"""A pipeline's whole life on paper: produce, land, clock, close, publish, rebuild, in memory and without Spark.

    log of a partition ──land──▶ landed, in batches ──clock──▶ W, pins ──plan──▶ publish ──▶ training rows
                       (crash here: the batch stands, the clock learns of it at the next landing)

It holds the landed records and the publications, and asks `clock`, `close`, `plan` and `reference` for
everything else. Scenarios and generated histories run on it; Kafka, Spark and Delta must agree with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.account import Account, account
from windrow.semantics.clock import IdlePolicy, PartitionClock, advance, drain, holder, topic_clock, watermark
from windrow.semantics.close import frontier, is_closed
from windrow.semantics.history import Gap, JoinSpec, Left, Record, Right, RowId
from windrow.semantics.intervals import Interval, interval_of, intervals_between, shifted, utc
from windrow.semantics.late import Line, Newer, ledger
from windrow.semantics.plan import Plan
from windrow.semantics.reference import Joined, JoinedRow, event_clocks, landed_once, passes, reference_join

Place = tuple[str, int]
"""topic, partition"""
MOST_INTERVALS = 5_000


class WindowStillOpen(Exception):
    """An interval is not closed yet. Waiting helps."""


class Superseded(Exception):
    """The interval has a newer publication than the plan knows. Trying again does not help."""


@dataclass(frozen=True)
class Rules:
    """What gives rows their meaning, and the clock its pace. Event clocks, gaps and drain come in with a plan."""

    spec: JoinSpec
    partitions: Mapping[str, int]
    out_of_orderness: Mapping[str, timedelta]
    idle: IdlePolicy

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((topic, p) for topic in sorted(self.partitions) for p in range(self.partitions[topic]))


@dataclass(frozen=True)
class Sent:
    """What a producer sent, before anyone judged it. `is_lost`: retention deletes it before it is read."""

    event_at: datetime | None
    values: Mapping[str, Any]
    record_at: datetime | None = None
    defect: str | None = None
    is_lost: bool = False


@dataclass(frozen=True)
class Publication:
    """An interval made visible."""

    number: int
    plan: Plan
    joined: Joined


class Model:
    """One pipeline. Every method is one thing that happens to it."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.log: dict[Place, list[Sent]] = {place: [] for place in rules.places}
        self.position: dict[Place, int] = dict.fromkeys(rules.places, 0)
        self.landed: list[Record] = []
        self.batches: dict[str, int] = dict.fromkeys(sorted(rules.partitions), 0)  # what has been committed
        self.pins: dict[str, int] = dict(self.batches)  # what the clock has been computed from
        self.clocks: tuple[PartitionClock, ...] = ()
        self.watermark_at: dict[tuple[str, int], datetime | None] = {}
        self.plans: dict[str, tuple[Plan, ...]] = {}
        self.publications: list[Publication] = []
        self.lost: list[tuple[Place, int, int]] = []  # place, offset, batch in which the gap was accepted
        self._at: dict[object, tuple[list[Record], JoinSpec]] = {}  # see `_as_of`

    # ---- what has been

    @property
    def watermark(self) -> datetime | None:
        return watermark(self.clocks)

    @property
    def holder(self) -> PartitionClock | None:
        return holder(self.clocks)

    @property
    def frontier(self) -> datetime | None:
        return frontier(self.watermark, self.rules.spec.after, self.rules.spec.grace)

    @property
    def standing(self) -> dict[Interval, Publication]:
        """The last publication of each interval: what the training table holds."""
        return {p.plan.interval: p for p in self.publications}

    @property
    def rows(self) -> tuple[JoinedRow, ...]:
        """The training table in row order."""
        return tuple(row for _, p in sorted(self.standing.items()) for row in p.joined.rows)

    # ---- what happens

    def produce(self, place: Place, sent: Sent) -> RowId:
        self.log[place].append(sent)
        return RowId(place[0], 0, place[1], len(self.log[place]) - 1)

    def land(
        self, now: datetime, *, unseen: Mapping[Place, int] | None = None, unreachable: Collection[str] = ()
    ) -> None:
        """All that the broker has, then the clock.

        `unseen`: what more it holds by partition, not landed now. `unreachable`: topics that could not be asked.
        """
        for topic in self.batches:
            if topic not in unreachable:
                self.commit(topic, now)
        self.observe(now, unseen or {}, unreachable)

    def commit(self, topic: str, now: datetime) -> None:
        """One landing commit of one topic; without `observe` after it, the landing run was killed there."""
        fresh = [(p, o) for p in self._of(topic) for o in range(self.position[p], len(self.log[p]))]
        self._commit(topic, now, fresh)
        for place in self._of(topic):
            self.position[place] = len(self.log[place])

    def replay(self, place: Place, first: int, now: datetime) -> None:
        """Land the offsets from `first` on again, as a reader whose position was reset would."""
        self._commit(place[0], now, [(place, o) for o in range(first, self.position[place])])
        self.observe(now)

    def observe(
        self, now: datetime, unseen: Mapping[Place, int] | None = None, unreachable: Collection[str] = ()
    ) -> None:
        """The clock after a landing, also after one that landed nothing; pins are what it was computed from."""
        known = {(c.topic, c.partition): c for c in self.clocks}
        landed, _ = landed_once(self.landed, self.batches)
        seen = []
        for place in self.rules.places:
            topic, partition = place
            if topic in unreachable:
                nothing = PartitionClock(topic, 0, partition, 0, 0, None, None)
                seen.append(known.get(place, nothing))
                continue
            mine = [r for r in landed if (r.row_id.topic, r.row_id.partition) == place and not r.quarantined]
            seen.append(
                advance(
                    known.get(place),
                    topic=topic,
                    epoch=0,
                    partition=partition,
                    next_offset=self.position[place],
                    end_offset=len(self.log[place]) + (unseen or {}).get(place, 0),
                    newest_at=max((r.event_at for r in mine if r.event_at is not None), default=None),
                    landed_at=now,
                    out_of_orderness=self.rules.out_of_orderness[topic],
                    idle=self.rules.idle,
                    topic_clock=topic_clock(c for c in self.clocks if c.topic == topic),
                )
            )
        self.clocks, self.pins = tuple(seen), dict(self.batches)

    def plan(self, run: str, chosen: Sequence[Interval] | None = None, *, drained: bool = False) -> tuple[Plan, ...]:
        """The plans of a run: the recorded ones for a retry; else of `chosen`, or of all closed and unpublished.

        Raises:
            WindowStillOpen: one that was chosen is not closed.
            NotCaughtUp: a drain while records wait.
        """
        if run in self.plans:
            return self.plans[run]
        if drained:
            drain(self.clocks)
        intervals = [i for i in self._closed(drained) if i not in self.standing] if chosen is None else chosen
        for interval in intervals:
            if not drained and not is_closed(interval, self.frontier):
                raise WindowStillOpen(f"{interval} is open: the frontier is {self.frontier}")
        self.plans[run] = tuple(self._plan(run, interval, drained) for interval in intervals)
        return self.plans[run]

    def publish(self, plan: Plan) -> Publication:
        """Carry out a plan. A plan that is carried out already is left alone; an outdated one is refused."""
        for done in self.publications:
            if done.plan.id == plan.id:
                return done
        standing = self.standing.get(plan.interval)
        if plan.supersedes != (standing.number if standing else None):
            raise Superseded(f"{plan.interval} was published again since plan {plan.id} of run {plan.run} was made")
        joined = self.joined(plan)
        joined.balance.check()
        self.publications.append(Publication(len(self.publications) + 1, plan, joined))
        return self.publications[-1]

    # ---- what it comes to

    def joined(self, plan: Plan) -> Joined:
        """What the reference join makes of a plan: a function of its pins, whatever has landed since."""
        landed, spec = self._as_of(plan.pins, plan.drained)
        return reference_join(landed, spec, plan.interval, plan.pins)

    def spec_at(self, pins: Mapping[str, int], drained: bool = False) -> JoinSpec:
        """The rules with what was known of the label side at the pins."""
        return self._as_of(pins, drained)[1]

    def late(self) -> dict[Interval, tuple[Line, ...]]:
        """The late ledger of every standing publication, complete up to the newest pins."""
        landed, _ = landed_once(self.landed, self.pins)
        of = {r.row_id: r for r in landed}
        found = {}
        for interval, p in sorted(self.standing.items()):
            newer = Newer(of, p.plan.pins, self.watermark_at)
            found[interval] = ledger(p.joined, self.rebuilt(p), self.spec_at(self.pins), newer)
        return found

    def rebuilt(self, publication: Publication) -> Joined:
        """The interval of a publication at the newest pins."""
        return self.joined(replace(publication.plan, pins=self.pins))

    def account(self) -> Account:
        """Where every record of the left topics went, if all that is closed now were published."""
        return account(self.landed, self.spec_at(self.pins), self.pins, self.frontier)

    # ---- parts of these

    def _as_of(self, pins: Mapping[str, int], drained: bool) -> tuple[list[Record], JoinSpec]:
        """What had landed by the pins, each offset once, and the rules then. Kept, only to save time."""
        known = (tuple(sorted(pins.items())), drained, len(self.landed), len(self.lost))
        if known not in self._at:
            landed, _ = landed_once(self.landed, pins)
            clocks = event_clocks(landed, pins, self.rules.out_of_orderness)
            spec = replace(self.rules.spec, event_clocks=clocks, gaps=self._gaps(landed, pins), drained=drained)
            self._at[known] = (landed, spec)
        return self._at[known]

    def _of(self, topic: str) -> Iterable[Place]:
        return [place for place in self.rules.places if place[0] == topic]

    def _commit(self, topic: str, now: datetime, offsets: Sequence[tuple[Place, int]]) -> None:
        if not offsets:
            return
        self.watermark_at[topic, self.batches[topic] + 1] = self.watermark
        self.batches[topic] += 1
        for place, offset in offsets:
            sent = self.log[place][offset]
            if sent.is_lost:
                self.lost.append((place, offset, self.batches[topic]))
            else:
                row_id = RowId(topic, 0, place[1], offset)
                self.landed.append(self._judged(sent, row_id, self.batches[topic], now))

    def _judged(self, sent: Sent, row_id: RowId, batch: int, now: datetime) -> Record:
        """Rules 7 and 12, as landing applies them: an event ahead of its landing is not trusted."""
        spec = self.rules.spec
        event_at, reason = sent.event_at, None
        if event_at is not None and event_at > shifted(now, spec.max_skew):
            event_at, reason = None, "event_time_ahead"
        record = Record(row_id, batch, event_at, sent.values, sent.record_at)
        streams: tuple[Left | Right, ...] = (spec.left, *spec.right)
        readers = [s for s in streams if row_id.topic in s.topics and passes(record, s.where)]
        if reason is None and readers:
            keys = [r.key for r in spec.right if r in readers]
            if sent.defect:
                reason = sent.defect
            elif event_at is None:
                reason = "event_time_missing"
            elif keys and any(sent.values.get(c) is None for key in keys for c in key):
                reason = "null_key"
        return replace(record, quarantined=reason)

    def _closed(self, drained: bool) -> Iterable[Interval]:
        spec = self.rules.spec
        until = self.frontier
        if drained:
            served = [c.newest_at for c in self.clocks if c.topic in spec.left.topics and c.newest_at]
            ends = [interval_of(at, spec.start, spec.interval).end for at in served if at >= utc(spec.start)]
            until = max([*ends, *([until] if until else [])], default=None)
        if until is None:
            return []
        if (until - utc(spec.start)) / spec.interval > MOST_INTERVALS:
            raise ValueError(f"more than {MOST_INTERVALS} intervals of {spec.interval} are closed: make them longer")
        return intervals_between(spec.start, until, spec.interval)

    def _plan(self, run: str, interval: Interval, drained: bool) -> Plan:
        standing = self.standing.get(interval)
        return Plan(
            pipeline="model",
            run=run,
            interval=interval,
            pins=self.pins,
            config_hash="model",
            watermark=self.clocks,
            drained=drained,
            supersedes=standing.number if standing else None,
        )

    def _gaps(self, landed: Sequence[Record], pins: Mapping[str, int]) -> tuple[Gap, ...]:
        """Accepted gaps by the pins: from the newest event before one to the next event after it (rule 13).

        Both bounds are widened by the out-of-orderness, for what is lost may have been that far out of order.
        """
        gaps = []
        for place, offset, batch in self.lost:
            if batch > pins[place[0]]:
                continue
            disorder = self.rules.out_of_orderness[place[0]]
            known = {r.row_id.offset: r.event_at for r in landed if (r.row_id.topic, r.row_id.partition) == place}
            earlier = [at for n, at in known.items() if n < offset and at is not None]
            later = [at for n, at in sorted(known.items()) if n > offset and at is not None]
            start_at = shifted(max(earlier), -disorder) if earlier else None
            gaps.append(Gap(place[0], start_at, shifted(later[0], disorder) if later else None))
        return tuple(dict.fromkeys(gaps))
