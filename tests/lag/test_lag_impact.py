"""Spark's lag analysis gives exactly the outcomes of the event-by-event simulation, for every clock and every lag."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.generated import PARTITIONS, PIPELINE, SPAN, START, history, oracle_records, oracle_spec
from support.lag_traffic import (
    FASTEST,
    NEWEST,
    SERVED,
    SLOWEST,
    at,
    idle,
    partitions_of,
    scenarios,
    seconds,
    setting,
    traffic,
    wall,
)
from support.oracle import PINS, sent
from support.world import World
from windrow.io.lag.landed import LandedRecords
from windrow.io.registers import clocks
from windrow.jobs.lag.scenarios import SimulatedRange, simulate_plan, simulate_range
from windrow.semantics.intervals import micros
from windrow.semantics.lag.outcome import LagOutcome
from windrow.semantics.lag.request import AnalysableTime, LagRequest, RangeStillOpen
from windrow.semantics.lag.scenario import Lag, LagScenario, NotAnalysable
from windrow.semantics.lag.setting import Event
from windrow.semantics.lag.simulation import simulate
from windrow.semantics.match import key_of
from windrow.semantics.records import Record, RowId
from windrow.semantics.reference import landed_once, side_of
from windrow.transforms.lag import impact
from windrow.transforms.lag.arrivals import packed
from windrow.transforms.lag.events import EVENT_COLUMNS, rows_with_labels
from windrow.transforms.lag.plan import LagPlan, span_of_events
from windrow.transforms.lag.steps import routed

pytestmark = pytest.mark.spark

SECOND = 1_000_000


def plan_of(events: list[Event], seed: int, count: int, *, bucket: int, chunk: int) -> LagPlan:
    """Scenarios whose lags hit something, in buckets and chunks far finer than usual."""
    rules = setting(partitions_of(events))
    hitting = []
    for scenario in scenarios(seed, count):
        try:
            rules.lagging(scenario.lag)
        except NotAnalysable:
            continue
        hitting.append(scenario)
    return LagPlan(rules, tuple(hitting), micros(at(-100)), micros(at(300)), bucket, chunk)


def frames(spark: SparkSession, events: list[Event], plan: LagPlan) -> tuple[Any, Any]:
    """What `simulate_plan` takes: events and rows, spread over tasks without any order."""
    index = {place: n for n, place in enumerate(plan.partition_ids)}

    def move(event: Event) -> tuple[int, int, int, int]:
        return (index[event.partition_id], micros(event.event_at), micros(event.record_at), event.row_id.offset)

    def user(event: Event, stream: str) -> str | None:
        key = event.keys[stream]
        return None if key is None else str(key[0][1])

    left = [(*move(e), user(e, "served")) for e in events if "served" in e.keys]
    names = [stream.name for stream in plan.setting.labels]
    labels = [(*move(e), user(e, s), names.index(s)) for e in events for s in e.keys if s in names]
    moves = spark.createDataFrame([move(e) for e in events], EVENT_COLUMNS).repartition(3)
    rows = rows_with_labels(
        spark.createDataFrame(left, f"{EVENT_COLUMNS}, user string"),
        spark.createDataFrame(labels, f"{EVENT_COLUMNS}, user string, stream int"),
        ["user"],
        plan,
    )
    return moves, rows


def check(spark: SparkSession, events: list[Event], plan: LagPlan) -> list[LagOutcome]:
    """Compare every outcome with the simulation's, and return them."""
    found = simulate_plan(*frames(spark, events, plan), plan)
    for scenario, outcome in zip(plan.scenarios, found, strict=True):
        assert outcome == simulate(events, scenario, plan.setting), scenario
    return list(found)


@pytest.mark.parametrize(("seed", "bucket", "chunk"), [(1, 9 * SECOND, 25 * SECOND), (5, 60 * SECOND, 200 * SECOND)])
def test_every_outcome_is_that_of_the_simulation(spark: SparkSession, seed: int, bucket: int, chunk: int) -> None:
    events = traffic(seed, size=400)
    plan = plan_of(events, seed, 50, bucket=bucket, chunk=chunk)
    found = check(spark, events, plan)
    assert len({scenario.policy.kind for scenario in plan.scenarios}) >= 4
    assert sum(outcome.labels_lost > 0 for outcome in found) > len(found) // 3  # the traffic is hard enough
    assert any(outcome.rows_delayed for outcome in found)


def test_what_is_sent_to_chunks_does_not_grow_with_the_events_of_an_interval(spark: SparkSession) -> None:
    """Rows that close by intervals need the steps at which one ends; all steps of an hour would be its square."""

    def sent_for(size: int) -> int:
        events = traffic(1, size=size)
        plan = plan_of(events, 1, 30, bucket=60 * SECOND, chunk=200 * SECOND)
        by_minute = dict.fromkeys(replace(scenario, interval=seconds(60)) for scenario in plan.scenarios)
        plan = replace(plan, scenarios=tuple(by_minute))
        check(spark, events, plan)
        steps = impact.clock_steps(packed(frames(spark, events, plan)[0], plan), plan)
        return int(routed(steps, plan).selectExpr("sum(length(steps))").first()[0])

    assert sent_for(1600) < 1.5 * sent_for(400)


def test_one_partition_without_any_label_is_analysed_with_its_recall_unknown(spark: SparkSession) -> None:
    events = [event for event in traffic(2, size=400) if event.partition_id == (SERVED, 0, 0)]
    plan = plan_of(events, 8, 12, bucket=20 * SECOND, chunk=50 * SECOND)
    assert {outcome.recall for outcome in check(spark, events, plan)} == {None}


LANDED_AT = START + SPAN + timedelta(minutes=35)
END = START + SPAN


def landed_events(world: World, records: list[Any], first: datetime, last: datetime) -> list[Event]:
    """The records as the analysis should read them: trusted ones around the range, one row per event."""
    landed, _ = landed_once(oracle_records(records, landed_at=LANDED_AT), PINS)
    spec = oracle_spec(landed, PINS)
    sides = (
        ("served", side_of(landed, spec.left, lambda t: START <= t < END), spec.left.key),
        ("clicks", side_of(landed, spec.right[0], lambda t: True), spec.right[0].key),
    )
    keys: dict[RowId, dict[str, Any]] = {}
    for name, side, columns in sides:
        for row in side.rows:
            keys.setdefault(row.row_id, {})[name] = key_of(row.values, columns)

    def event(record: Record) -> Event:
        assert record.event_at is not None
        assert record.record_at is not None
        topic = record.row_id.topic.replace("t.", f"{world.name}.")
        return Event(
            replace(record.row_id, topic=topic), record.event_at, record.record_at, keys.get(record.row_id, {})
        )

    trusted = (r for r in landed if r.event_at is not None and r.quarantined is None)
    return [event(r) for r in trusted if r.event_at is not None and first <= r.event_at <= last]


@pytest.mark.kafka
def test_landed_topics_are_analysed_as_the_simulation_does_it(world: World, spark: SparkSession) -> None:
    ctx = world.pipeline(PIPELINE.replace("topic: t.", "topic: {t}."), now=LANDED_AT)
    pause = Lag.pause("right", START + timedelta(minutes=10), START + timedelta(minutes=20))
    lags = (
        None,
        Lag.constant("left", timedelta(minutes=3)),
        Lag.constant("clicks", timedelta(minutes=12), (0,)),
        pause,
    )
    policies = (SLOWEST, FASTEST, NEWEST, idle(60), wall(30))
    tried = [LagScenario(policy, lag) for policy in policies for lag in lags]
    tried += [LagScenario(SLOWEST, pause, interval=ctx.pipeline.interval), LagScenario(FASTEST, after=seconds(600))]

    def analyse(begin: datetime, end: datetime, sample: float = 1.0) -> SimulatedRange:
        seen = clocks.observe(ctx.home)
        start, interval = ctx.pipeline.start, ctx.pipeline.interval
        time = AnalysableTime(ctx.pipeline.name, start, interval, seen.frontier(ctx.pipeline))
        request = LagRequest(*time.range(begin, end), tuple(tried), (), (), sample)
        return simulate_range(LandedRecords(spark, ctx.home, seen.pins), seen.clocks, request)

    with pytest.raises(NotAnalysable, match="no watermark yet"):
        analyse(START, END)
    records = history(3, lefts=150)
    world.topics({topic.removeprefix("t."): n for topic, n in PARTITIONS.items()})
    world.produce(sent(records))
    world.land(ctx)
    for begin, end, condition, message in (
        (START, START, NotAnalysable, "is empty"),
        (END, START, NotAnalysable, "is empty"),
        (START, LANDED_AT, RangeStillOpen, "is open"),
        (START - SPAN, END, NotAnalysable, "starts at"),
    ):
        with pytest.raises(condition, match=message):
            analyse(begin, end)

    found = analyse(START, END)
    events = landed_events(world, records, *span_of_events(ctx.pipeline, tried, START, END))
    assert found.events == len(events)
    assert found.setting.partition_ids == partitions_of(events)
    assert list(found.outcomes) == tried
    for scenario, outcome in found.outcomes.items():
        assert outcome == simulate(events, scenario, found.setting), scenario
    assert found.outcomes[LagScenario(SLOWEST)].rows_total > 100
    assert found.outcomes[LagScenario(SLOWEST)].labels_total > 50

    del tried[1:]
    part, whole = analyse(START, END, sample=0.5).outcomes[tried[0]], found.outcomes[tried[0]]
    assert 0 < part.rows_total < whole.rows_total
    assert 0 < part.labels_total < whole.labels_total
    assert part.wait is not None
    assert whole.wait is not None
    assert part.wait.max <= whole.wait.max  # the clock is that of all events
