"""The product under the verbs of `semantics.paper.model`: what happens on paper happens to Kafka, Spark and Delta too.

    scenario, history ──▶ Followed ──▶ Model     on paper
                              └──────▶ Product   real broker, windrow.jobs, Delta tables
                                          └─ compared with paper after every landing and publication

After a kill (see `side_by_side`) the next verb finds only what is in the tables, as a new process would.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from support.broken.compaction import COMPACTING, offsets_of, produce_one_by_one, until_compacted
from support.side_by_side import Killed, doomed_landing, dying, lagging
from support.world import World
from windrow.config.streams import Erase
from windrow.home import Table
from windrow.io.landing import broker
from windrow.io.registers import clocks, plans, publications
from windrow.io.registers.plans import Request
from windrow.jobs import land, run
from windrow.jobs.check import check
from windrow.jobs.erasure import erase
from windrow.jobs.join import make_candidates
from windrow.jobs.landing.reconsider import reconsider_once
from windrow.jobs.plan.planning import plan_all, plan_interval
from windrow.jobs.plan.survey import plan_range
from windrow.jobs.publish import publish
from windrow.jobs.run import Context
from windrow.jobs.spark import spark_for
from windrow.outcomes import NothingToDo
from windrow.places import Places
from windrow.scenarios.kafka import pipeline_file, record_of
from windrow.semantics import publication
from windrow.semantics.balance import Balance
from windrow.semantics.clock import NotCaughtUp
from windrow.semantics.erasure.keys import Mode
from windrow.semantics.intervals import Interval
from windrow.semantics.landing.batch import Reconsidered
from windrow.semantics.landing.gaps import GivenUp, Lost
from windrow.semantics.landing.host_clock import ClockWentBack
from windrow.semantics.landing.offsets import OffsetsGone
from windrow.semantics.paper.landings import PartitionId, Rules, Sent
from windrow.semantics.paper.model import Model, NotClosed, Outdated, Publication
from windrow.semantics.plan import Plan

REFUSED: Mapping[type[Exception], tuple[type[Exception], ...]] = {
    NotClosed: (run.WindowStillOpen,),
    NotCaughtUp: (NotCaughtUp,),
    Outdated: (publication.Superseded, NothingToDo),
}
"""A refusal on paper, and the errors with which the product refuses the same."""


class Followed(Model):
    """A pipeline on paper that the product follows step by step; raises AssertionError where it does not."""

    def __init__(self, rules: Rules, world: World) -> None:
        super().__init__(rules)
        self.product = Product(world, rules)

    def produce(self, place: PartitionId, sent: Sent) -> Any:
        self.product.produce(place, sent, len(self.log[place]))
        return super().produce(place, sent)

    def add_partitions(self, topic: str, count: int) -> None:
        super().add_partitions(topic, count)
        self.product.add_partitions(topic, count)

    def recreate(self, topic: str) -> None:
        super().recreate(topic)
        self.product.recreate(topic, self.partitions[topic])

    def land(self, now: datetime, *, unseen: Mapping[PartitionId, int] | None = None) -> None:
        try:
            super().land(now, unseen=unseen)
        except ClockWentBack:
            with pytest.raises(ClockWentBack):
                self.product.land(now, unseen or {})
            self.product.has_the_clock_of(self)
            raise
        self.product.land(now, unseen or {})
        self.product.has_the_clock_of(self)

    def reconsider(self, now: datetime) -> None:
        super().reconsider(now)
        self.product.reconsider(now)
        self.product.has_the_clock_of(self)

    def erase(self, keys: Sequence[Mapping[str, Any]], mode: Mode = "delete") -> None:
        super().erase(keys, mode)
        self.product.erase(keys, mode)
        self.product.has_the_rows_of(self)

    def land_unanswered(self, now: datetime) -> None:
        super().land_unanswered(now)
        self.product.land_unanswered(now)
        self.product.has_the_clock_of(self)

    def land_killed(self, now: datetime, topics: Iterable[str]) -> None:
        topics = tuple(topics)
        super().land_killed(now, topics)
        self.product.land_killed(now, topics)
        self.product.has_the_clock_of(self)

    def replay(self, place: PartitionId, first: int, now: datetime) -> None:
        """The product keeps an offset from landing twice: where its clock is lost, landing finds its position again."""
        super().replay(place, first, now)
        self.product.replay(place[0], self.batches[place[0]], now)
        self.product.has_the_clock_of(self)

    def plan(
        self, run: str, chosen: Sequence[Interval] | None = None, *, drained: bool = False, forced: bool = False
    ) -> tuple[Plan, ...]:
        if run in self.plans:
            self.product.has_recorded(self.plans[run], run)
            return super().plan(run)
        try:
            planned = super().plan(run, chosen, drained=drained, forced=forced)
        except (NotClosed, NotCaughtUp) as refusal:
            with pytest.raises(REFUSED[type(refusal)]):
                self.product.plan(run, chosen, drained, forced)
            raise
        self.product.plan(run, chosen, drained, forced)
        self.product.has_recorded(planned, run)
        return planned

    def publish_all(self, plans: Sequence[Plan]) -> tuple[Publication, ...]:
        try:
            done = super().publish_all(plans)
        except Outdated:
            with pytest.raises(REFUSED[Outdated]):
                self.product.publish(plans)
            raise
        if plans:
            self.product.publish(plans)
            self.product.has_the_rows_of(self)
        return done

    def killed_run(self, plans: Sequence[Plan], point: str, nth: int) -> None:
        super().killed_run(plans, point, nth)
        self.product.killed_run(plans, point, nth)
        self.product.has_the_rows_of(self)


class Product:
    """One pipeline file, its topics and its tables. Topics carry the world's name in front."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.world, self.rules = world, rules
        settings = {topic: {"message_timestamp_type": "LogAppendTime"} for topic in rules.stamped}
        settings |= dict.fromkeys(rules.compacted, COMPACTING)
        for topic, count in rules.partitions.items():
            world.topics({topic: count}, **settings.get(topic, {}))
        self.ctx = world.pipeline(pipeline_file(rules, "followed", "{t}.{topic}"), rules.spec.start)
        self.admin = AdminClient({"bootstrap.servers": world.places.kafka})
        self.waiting: list[tuple[PartitionId, Sent]] = []
        self.unlanded: set[str] = set()
        self.lost: dict[PartitionId, tuple[int, int]] = {}
        self.erasures: list[str] = []
        self.replayed: list[tuple[str, int]] = []  # batches that are on paper alone

    # ---- verbs

    def produce(self, place: PartitionId, sent: Sent, offset: int) -> None:
        self.waiting.append((place, sent))
        self.unlanded.add(place[0])
        if sent.is_lost and place[0] not in self.rules.compacted:
            first, _ = self.lost.get(place, (offset, offset))
            self.lost[place] = (first, offset + 1)

    def add_partitions(self, topic: str, count: int) -> None:
        self._flush()
        for future in self.admin.create_partitions([NewPartitions(self.named(topic), count)]).values():
            future.result(30)
        _until(lambda: len(self._described(topic).partitions) == count)

    def recreate(self, topic: str, partitions: int) -> None:
        self._flush()
        for future in self.admin.delete_topics([self.named(topic)]).values():
            future.result(30)
        _until(lambda: self._created(topic, partitions))  # the name is free some time after the deletion

    def land(self, now: datetime, unseen: Mapping[PartitionId, int]) -> None:
        self._flush()
        ctx = self._at(now)
        given_up = GivenUp(tuple(self._delete_what_is_lost()), "test", "retention was too short")
        if given_up.lost:
            with pytest.raises(OffsetsGone):
                next(land.land(ctx))
        with lagging({(self.named(topic), p): n for (topic, p), n in unseen.items()}):
            next(land.land(ctx, given_up=given_up))
        self.unlanded = set()

    def reconsider(self, now: datetime) -> None:
        ctx = self._at(now)
        spark = spark_for("reconsider", ctx.places, ctx.pipeline)
        reconsider_once(spark, ctx, Reconsidered("ann", "the clock was wrong"))

    def erase(self, keys: Sequence[Mapping[str, Any]], mode: Mode) -> None:
        rule = Erase(by=tuple(keys[0]), mode=mode)
        ctx = replace(self.ctx, pipeline=self.ctx.pipeline.model_copy(update={"erase": rule}))
        asked = [",".join(f"{name}={value}" for name, value in key.items()) for key in keys]
        erase.erase(ctx, f"erasure {len(self.erasures)}", asked, who="ann")
        self.erasures += asked

    def land_unanswered(self, now: datetime) -> None:
        self._flush()
        ctx = self._at(now)
        with pytest.raises(broker.BrokerUnreachable):
            next(land.land(replace(ctx, places=replace(ctx.places, kafka="127.0.0.1:9"))))

    def land_killed(self, now: datetime, topics: Collection[str]) -> None:
        """Topics with something new die behind their commit, the others as soon as their offsets are planned."""
        self._flush()
        committed = self.unlanded & set(topics)
        points = dict.fromkeys(map(self.named, self.rules.partitions), "land.offsets_planned")
        points |= dict.fromkeys(map(self.named, committed), "land.after_commit")
        with doomed_landing(points), pytest.raises(Killed):
            next(land.land(self._at(now)))
        self.unlanded -= committed

    def plan(self, key: str, chosen: Sequence[Interval] | None, drained: bool, forced: bool) -> None:
        if forced:
            (interval,) = chosen or ()
            plan_interval(self.ctx, key, interval.start, "publish", 1, Request("it cannot wait", "ann"))
        elif chosen is None:
            self._flush()
            plan_all(self.ctx, key, most=10_000, drain=drained)
        elif chosen:
            plan_range(self.ctx, key, chosen[0].start, chosen[-1].end, everything=True)

    def publish(self, planned: Sequence[Plan]) -> None:
        """Candidates, gate and publication of a run's plans; what is already done is skipped."""
        mine = plans.of_run(self.ctx.home, planned[0].run)
        make_candidates(self.ctx, mine)
        assert not check(self.ctx, mine), "the gate blocked"
        publish(self.ctx, mine)

    def killed_run(self, planned: Sequence[Plan], point: str, nth: int) -> None:
        with dying(point, nth if point.startswith("publish.") else 0), pytest.raises(Killed):
            self.publish(planned)

    def replay(self, topic: str, batch: int, now: datetime) -> None:
        self.replayed.append((topic, batch))
        shutil.rmtree(self.ctx.home.table(Table.CLOCK))
        self.land(now, {})

    # ---- what must be the same

    def has_the_clock_of(self, paper: Model) -> None:
        seen = clocks.observe(self.ctx.home)
        _same("pins", self._bare_pins(seen.pins), self._landed(paper.pins) if seen.rows else {})
        found = {replace(clock, topic=self._bare(clock.topic)) for clock in seen.clocks}
        _same("clocks", sorted(found, key=str), sorted(paper.clocks, key=str))
        _same("watermark", seen.watermark, paper.watermark)
        _same("frontier", seen.frontier(self.ctx.pipeline), paper.frontier)

    def has_recorded(self, planned: Sequence[Plan], key: str) -> None:
        recorded = plans.of_run(self.ctx.home, key)
        found = [_essence(p, self._bare_pins(p.pins)) for p in recorded]
        _same(f"plans of {key}", found, [_essence(p, self._landed(p.pins)) for p in planned])

    def has_the_rows_of(self, paper: Model) -> None:
        """Rows in served order, and the whole register with its balance."""
        _same("rows", self.rows(), [_row(row) for row in paper.rows])
        register = publications.repaired(self.ctx.home)
        _same("publications", [row["number"] for row in register], [p.number for p in paper.publications])
        for row, p in zip(register, paper.publications, strict=True):
            recorded = Plan.from_json(row["plan"])
            found = _essence(recorded, self._bare_pins(recorded.pins))
            _same("plan", found, _essence(p.plan, self._landed(p.plan.pins)))
            counted = Balance.from_measures(json.loads(row["balance"]), p.joined.balance.right)
            _same(f"balance of {p.plan.interval}", counted, p.joined.balance)

    def rows(self) -> list[Any]:
        if not Path(self.ctx.home.table(Table.TRAINING)).exists():
            return []
        right = [r.name for r in self.rules.spec.right]
        labels = [r.name for r in self.rules.spec.labels]
        found = []
        for row in self.world.training(self.ctx):
            met = {name: [self._row_id(m) for m in row[name]] for name in right}
            state = (row["label_state"], row["label_reason"])
            if labels:
                seen = any(met[name] for name in labels)
                assert row["seen"] == (None if state[0] == "unknown" else seen), "a derived label of an unknown state"
            found.append((self._row_id(row), row["_event_time"], met, state))
        return found

    # ---- parts of these

    def named(self, topic: str) -> str:
        return f"{self.world.name}.{topic}"

    def _bare(self, topic: str) -> str:
        return topic.removeprefix(f"{self.world.name}.")

    def _bare_pins(self, pins: Mapping[str, int]) -> dict[str, int]:
        return {self._bare(topic): pin for topic, pin in pins.items()}

    def _landed(self, pins: Mapping[str, int]) -> dict[str, int]:
        """Pins of the paper in the product's batches."""
        return {t: pin - sum(topic == t and batch <= pin for topic, batch in self.replayed) for t, pin in pins.items()}

    def _row_id(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (self._bare(row["_topic"]), row["_epoch"], row["_partition"], row["_offset"])

    def _at(self, now: datetime) -> Context:
        self.ctx = replace(self.ctx, now=lambda: now)
        return self.ctx

    def _flush(self) -> None:
        records = [record_of(place, s) for place, s in self.waiting if place[0] not in self.rules.compacted]
        self.world.produce([(r.topic, r.partition, r.value, r.timestamp) for r in records])
        for place in dict.fromkeys(place for place, _ in self.waiting if place[0] in self.rules.compacted):
            self._compact(place, [sent for at, sent in self.waiting if at == place])
        self.waiting = []

    def _compact(self, place: PartitionId, waiting: Sequence[Sent]) -> None:
        """A lost record has the key of the next one that is not, so that compaction removes it."""
        assert not waiting[-1].is_lost, "compaction keeps the last record of a key"
        bootstrap, topic = self.world.places.kafka, self.named(place[0])
        known = offsets_of(bootstrap, topic, place[1])
        first = known[-1] + 1 if known else 0
        offsets = [first + n for n, sent in enumerate(waiting) if not sent.is_lost]
        records = [record_of(place, sent) for sent in waiting]
        key_of = [str(next(o for o in offsets if o >= first + n)) for n in range(len(waiting))]
        keyed = [(key, r.partition, r.value, r.timestamp) for key, r in zip(key_of, records, strict=True)]
        produce_one_by_one(bootstrap, topic, keyed)
        if any(sent.is_lost for sent in waiting[:-1]):
            until_compacted(bootstrap, topic, place[1], [*known, *offsets])

    def _delete_what_is_lost(self) -> Iterator[Lost]:
        for (topic, partition), (first, until) in self.lost.items():
            gone = TopicPartition(self.named(topic), partition, until)
            for future in self.admin.delete_records([gone]).values():
                future.result(30)
            yield Lost(self.named(topic), partition, first, until)
        self.lost = {}

    def _created(self, topic: str, partitions: int) -> bool:
        try:
            self.world.topics({topic: partitions})
        except KafkaException:
            return False
        return True

    def _described(self, topic: str) -> broker.Topic:
        return broker.describe(self.ctx.places.kafka, [self.named(topic)])[self.named(topic)]


def _same(what: str, found: Any, on_paper: Any) -> None:
    if found != on_paper:
        raise AssertionError(f"{what}\n  on paper  {on_paper}\n  found     {found}")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _row(row: Any) -> Any:
    def row_id(x: Any) -> tuple[Any, ...]:
        return (x.row_id.topic, x.row_id.epoch, x.row_id.partition, x.row_id.offset)

    met = {name: [row_id(m) for m in found] for name, found in row.matches.items()}
    return (row_id(row), row.event_at, met, (row.label_state, row.label_reason))


def _essence(plan: Plan, pins: Mapping[str, int]) -> Any:
    return (plan.run, plan.interval, pins, plan.drained, plan.supersedes)


def world_at(session_places: Places, folder: Path, name: str) -> World:
    """A home of its own on the session's broker, for topics that begin with `name`."""
    (folder / "pipelines").mkdir()
    places = replace(session_places, home=folder / "home", pipelines=(folder / "pipelines",), spark_master="local[2]")
    return World(places, name)
