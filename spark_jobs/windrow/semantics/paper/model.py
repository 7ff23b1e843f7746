"""A pipeline's whole life on paper: produce, land, clock, close, publish, rebuild; in memory, without Spark.

    log of a partition ──land──▶ landed, in batches ──clock──▶ W, pins ──plan──▶ publish ──▶ training rows
    (`landings`) ─────────────────────────────────────────────────────▶ (here) ───────────────────────────▶

It keeps plans and publications; `clock`, `close`, `plan` and `reference` compute everything else. Scenarios and
generated histories run on it, and Kafka, Spark and Delta must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from windrow.columns import ERASED
from windrow.semantics.clock import NotCaughtUp, PartitionClock, current, drain, holder
from windrow.semantics.close import frontier, is_closed, may_be_forced
from windrow.semantics.erasure.keys import Erased, Mode, hash_of
from windrow.semantics.intervals import Interval, interval_of, intervals_between, utc
from windrow.semantics.ledger import Line, Newer, ledger
from windrow.semantics.paper.account import Tally, account
from windrow.semantics.paper.erased import left_in
from windrow.semantics.paper.landings import Landings, Rules
from windrow.semantics.plan import Plan
from windrow.semantics.records import JoinSpec, Record, emptied_all
from windrow.semantics.reference import Joined, JoinedRow, event_clocks, landed_once, reference_join
from windrow.semantics.waiting import Decision, Grid, Landed, Part, decide, is_behind

SECRET = b"on paper there is nothing to hide"
MOST_INTERVALS = 5_000
"""A range of more intervals is refused, because it would take minutes in memory."""


class NotClosed(Exception):
    """An interval is not closed yet. Waiting helps. (Product: `WindowStillOpen`.)"""


class Outdated(Exception):
    """The interval has a newer publication than the plan knows. A retry does not help. (Product: `Superseded`.)"""


@dataclass(frozen=True)
class Publication:
    """An interval that was made visible."""

    number: int
    plan: Plan
    joined: Joined


class Model(Landings):
    """One pipeline. Every method is one event in its life."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self.plans: dict[str, tuple[Plan, ...]] = {}
        self.publications: list[Publication] = []
        self._at: dict[object, tuple[list[Record], JoinSpec]] = {}  # a cache, see `_as_of`

    # ---- state

    @property
    def holder(self) -> PartitionClock | None:
        """The partition that decides the watermark."""
        return holder(self.clocks)

    @property
    def frontier(self) -> datetime | None:
        """Event time before which every interval is closed; None without a watermark."""
        return frontier(self.watermark, self.rules.spec.after, self.rules.spec.grace)

    @property
    def standing(self) -> dict[Interval, Publication]:
        """The newest publication of each interval: what the training table holds."""
        return {p.plan.interval: p for p in self.publications}

    @property
    def rows(self) -> tuple[JoinedRow, ...]:
        """The training table in row order."""
        return tuple(row for _, p in sorted(self.standing.items()) for row in p.joined.rows)

    # ---- events

    def plan(
        self, run: str, chosen: Sequence[Interval] | None = None, *, drained: bool = False, forced: bool = False
    ) -> tuple[Plan, ...]:
        """Return the recorded plans of a run (a retry), or record plans of `chosen` or of all closed unpublished ones.

        With these come the intervals that the bounds on what waits force (rule 24).

        Args:
            drained: plan all that was served, closed or not: there will be no more records.
            forced: a person publishes `chosen` before it is closed; its rows become unknown/forced.

        Raises:
            NotClosed: a chosen interval is not closed, and nobody forces it, or no left row behind it has landed.
            NotCaughtUp: a drain while records have not been landed.
        """
        if run in self.plans:
            return self.plans[run]
        if drained:
            drain(self.clocks)
            if self.has_unlanded:
                raise NotCaughtUp("cannot drain while the broker has records that have not landed")
        is_bounded = self.rules.waiting.policy == "force" and chosen is None and not drained
        by_bounds = self.decision.forced if is_bounded else ()
        closed = [i for i in self._closed(drained) if i not in self.standing]
        intervals = [*closed, *by_bounds] if chosen is None else chosen
        for interval in intervals:
            is_free = drained or ((forced or by_bounds) and may_be_forced(interval, self._newest_left_at()))
            if not is_free and not is_closed(interval, self.frontier):
                raise NotClosed(f"{interval} is open: the frontier is {self.frontier}")
        self.plans[run] = tuple(self._plan(run, interval, drained) for interval in intervals)
        return self.plans[run]

    def publish(self, plan: Plan) -> Publication:
        """Carry out a plan, and return its publication; a plan that is published already is not published again.

        Raises:
            Outdated: the interval has a newer publication than the plan knows.
        """
        for done in self.publications:
            if done.plan.id == plan.id:
                return done
        standing = self.standing.get(plan.interval)
        if plan.supersedes != (standing.number if standing else None):
            raise Outdated(f"{plan.interval} was published again since plan {plan.id} of run {plan.run} was made")
        joined = self.joined(plan)
        joined.balance.check()
        self.publications.append(Publication(len(self.publications) + 1, plan, joined))
        return self.publications[-1]

    def publish_all(self, plans: Sequence[Plan]) -> tuple[Publication, ...]:
        """Carry out the plans of a run, each by itself: an outdated one does not stop the others.

        Raises:
            Outdated: all of them are outdated.
        """
        done, outdated = [], []
        for plan in plans:
            try:
                done.append(self.publish(plan))
            except Outdated as refused:
                outdated.append(refused)
        if outdated and not done:
            raise outdated[0]
        return tuple(done)

    def killed_run(self, plans: Sequence[Plan], point: str, nth: int) -> None:
        """Carry out a run that dies at a crash point: while publishing its nth plan, or before publishing anything."""
        done = nth + point.startswith("publish.after") if point.startswith("publish.") else 0
        for plan in plans[:done]:
            self.publish(plan)

    def erase(self, keys: Sequence[Mapping[str, Any]], mode: Mode = "delete") -> None:
        """Erase keys: their records count no more, whenever they land, and their published rows leave (rule 22).

        Args:
            keys: values by left column, of the same columns.
        """
        hashes = frozenset(filter(None, (hash_of(SECRET, key) for key in keys)))
        self.erased += (Erased(SECRET, tuple(sorted(keys[0])), hashes, mode),)
        spec = replace(self.rules.spec, erased=self.erased)
        self.publications = [replace(p, joined=left_in(p.joined, spec)) for p in self.publications]

    # ---- results

    def joined(self, plan: Plan) -> Joined:
        """The reference join of a plan: a function of its pins, whatever has landed since."""
        landed, spec = self._as_of(plan.pins, plan.drained)
        forced = plan.is_forced(self.rules.spec.after, self.rules.spec.grace)
        return reference_join(landed, replace(spec, forced=forced), plan.interval, plan.pins)

    def spec_at(self, pins: Mapping[str, int], drained: bool = False) -> JoinSpec:
        """The rules, with event clocks and gaps as known at the pins."""
        return self._as_of(pins, drained)[1]

    def late(self) -> dict[Interval, tuple[Line, ...]]:
        """The late ledger of every standing publication, complete up to the newest pins."""
        spec = self.spec_at(self.pins)
        landed = emptied_all(landed_once(self.landed, self.pins)[0], spec)
        of = {r.row_id: r for r in landed if r.quarantined != ERASED}
        found = {}
        for interval, p in sorted(self.standing.items()):
            newer = Newer(of, p.plan.pins, self.watermark_at)
            found[interval] = ledger(p.joined, self.rebuilt(p), spec, newer)
        return found

    def rebuilt(self, publication: Publication) -> Joined:
        """The interval of a publication at the newest pins."""
        return self.joined(replace(publication.plan, pins=self.pins, watermark=self.clocks))

    def account(self) -> Tally:
        """Account for every record of the left topics, as if everything closed now were published."""
        return account(self.landed, self.spec_at(self.pins), self.pins, self.frontier)

    @property
    def decision(self) -> Decision:
        """How much waits, and what the bounds decide (rule 24): every landed row counts where its event time is."""
        spec = self.rules.spec
        landed, _ = landed_once(self.landed, self.pins)
        parts = tuple(Part(1, 0, *[r.event_at] * 2) for r in landed if r.event_at is not None and not r.quarantined)
        passed = frozenset(interval.start for interval in self.standing)
        grid = Grid(utc(spec.start), spec.interval, self.frontier, passed)
        return decide(
            Landed(parts, self._newest_left_at(), is_behind(current(self.clocks), self.pins)),
            grid,
            self.rules.waiting,
            MOST_INTERVALS,
        )

    # ---- parts

    def _as_of(self, pins: Mapping[str, int], drained: bool) -> tuple[list[Record], JoinSpec]:
        """Records landed by the pins, one per offset, and the rules then. Cached, only to save time."""
        counts = len(self.landed), len(self.lost), len(self.remade), len(self.erased)
        known = (tuple(sorted(pins.items())), drained, *counts)
        if known not in self._at:
            landed, _ = landed_once(self.landed, pins)
            spec = replace(
                self.rules.spec,
                event_clocks=event_clocks(landed, pins, self.rules.out_of_orderness, self.rules.spec.streams),
                gaps=self.gaps_at(landed, pins),
                drained=drained,
                erased=self.erased,
            )
            self._at[known] = (landed, spec)
        return self._at[known]

    def _closed(self, drained: bool) -> Iterable[Interval]:
        """Closed intervals from the start on; with `drained`, at least up to the newest left row."""
        spec = self.rules.spec
        until = self.frontier
        if drained:
            served = self._newest_left_at()
            ends = [interval_of(served, spec.start, spec.interval).end] if served and served >= utc(spec.start) else []
            until = max([*ends, *([until] if until else [])], default=None)
        if until is None:
            return []
        if (until - utc(spec.start)) / spec.interval > MOST_INTERVALS:
            raise ValueError(f"more than {MOST_INTERVALS} intervals of {spec.interval} are closed: make them longer")
        return intervals_between(spec.start, until, spec.interval)

    def _newest_left_at(self) -> datetime | None:
        """Newest trusted event time of the left topics."""
        newest = (c.newest_at for c in self.clocks if c.topic in self.rules.spec.left.topics)
        return max((at for at in newest if at is not None), default=None)

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
