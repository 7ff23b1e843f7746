"""A lag analysis of a range of the landing tables: what is read, how it is cut, and the outcomes. Writes nothing.

Rows are the left rows of `[begin, end)`; a sample of them keeps every row of a key. Clocks see every trusted event of
every topic from the first label that could match until well behind the last window, sampled or not: the outcome of
a sample is that of these rows in the whole. An event that never got that far cannot be told from one that is yet to
come: rows whose close lies behind what is read count as open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.config import Pipeline, Stream
from windrow.home import Home
from windrow.io.delta import scan
from windrow.io.registers import clocks
from windrow.io.training import inputs
from windrow.schemas import ARRIVED_AT, BATCH, EVENT_TIME, QUARANTINED, RECORD_AT
from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import micros, shifted
from windrow.semantics.lag.scenario import Outcome, Scenario, Unusable
from windrow.semantics.lag.setting import LabelStream, Place, Setting
from windrow.transforms.lag import impact
from windrow.transforms.lag.delays import sampled
from windrow.transforms.lag.plan import LagPlan
from windrow.transforms.streams import rows_of

EVENTS_A_BUCKET = 200_000
ROWS_A_CHUNK = 50_000
BEHIND = timedelta(hours=1)
"""How much event time is read behind the end of the last window: there the events are that close it."""


@dataclass(frozen=True)
class Analysis:
    """The outcomes in the order of the scenarios, and what they are about.

    events: that moved clocks. silent: partitions that hold a clock in production and had no event here, so that no
    policy waits for them.
    """

    outcomes: Mapping[Scenario, Outcome]
    setting: Setting
    begin: datetime
    end: datetime
    events: int
    silent: tuple[Place, ...]


@dataclass(frozen=True)
class _Read:
    """One read of the range, for all scenarios."""

    spark: SparkSession
    home: Home
    pins: Mapping[str, int]
    begin: datetime
    end: datetime


def analyse(
    spark: SparkSession,
    home: Home,
    scenarios: Sequence[Scenario],
    begin: datetime,
    end: datetime,
    *,
    sample: float = 1.0,
) -> Analysis:
    """What each scenario would have done to the left rows of `[begin, end)`.

    Raises:
        Unusable: the range is empty, open or before the pipeline's start, nothing has landed, a lag hits nothing.
    """
    seen = clocks.observe(home)
    _refuse(home.pipeline, seen.frontier(home.pipeline), scenarios, begin, end, sample)
    read = _Read(spark, home, seen.pins, begin, end)
    moves = _moves(read, scenarios)
    counted = _counted(moves)
    if not counted:
        raise Unusable(f"no event of {home.pipeline.name} lies in or around [{begin}, {end}): nothing to analyse")
    plan = _plan(read, tuple(dict.fromkeys(scenarios)), counted)
    rows = _rows(read, plan, sample)
    outcomes = family(_indexed(moves, plan), rows, plan)
    holding = {p.identity for p in seen.clocks if isinstance(p, PartitionClock)}
    return Analysis(
        dict(zip(plan.scenarios, outcomes, strict=True)),
        plan.setting,
        begin,
        end,
        sum(counted.values()),
        tuple(sorted(holding - counted.keys())),
    )


def family(moves: DataFrame, rows: DataFrame, plan: LagPlan) -> tuple[Outcome, ...]:
    """All scenarios of a plan, from `lag_arrivals.MOVES` and `lag_verdicts.ROWS`; in the plan's order.

    Events and steps are kept on disk while they are read a second time.
    """
    packs = impact.packs_of(moves, plan).persist(StorageLevel.DISK_ONLY)
    found = impact.clock_steps(packs, plan).persist(StorageLevel.DISK_ONLY)
    try:
        return impact.outcomes((row.asDict() for row in impact.impact(found, rows, plan).collect()), plan)
    finally:
        found.unpersist()
        packs.unpersist()


def setting_of(pipeline: Pipeline, places: Sequence[Place]) -> Setting:
    """The pipeline as the analysis sees it."""
    right = tuple(sorted({topic for stream in pipeline.right for topic in stream.topics}))
    return Setting(
        left=pipeline.left.name,
        labels=tuple(LabelStream(s.name, s.window.before, s.window.after) for s in pipeline.label_streams),
        places=tuple(sorted(places)),
        sides={**{s.name: s.topics for s in pipeline.streams}, "left": pipeline.left.topics, "right": right},
        out_of_orderness={topic: pipeline.out_of_orderness(topic) for topic in pipeline.topics},
        after=pipeline.after,
        grace=pipeline.grace,
    )


def around(
    pipeline: Pipeline, scenarios: Sequence[Scenario], begin: datetime, end: datetime
) -> tuple[datetime, datetime]:
    """Event times (both in) of what is read for a range: from the first label that could match a row of it, until
    `BEHIND` after its last window can have closed."""
    rules = [setting_of(pipeline, ()).under(scenario) for scenario in scenarios]
    before = max((stream.before for r in rules for stream in r.labels), default=timedelta(0))
    wait = max(r.after + r.grace + max(r.out_of_orderness.values()) + (r.interval or timedelta(0)) for r in rules)
    return shifted(begin, -before), shifted(end, wait + BEHIND)


def _refuse(
    pipeline: Pipeline,
    frontier: datetime | None,
    scenarios: Sequence[Scenario],
    begin: datetime,
    end: datetime,
    sample: float,
) -> None:
    if not scenarios:
        raise Unusable("no scenario was asked for: name at least one clock policy")
    if not 0 < sample <= 1:
        raise Unusable(f"a sample is a share above 0 and at most 1, not {sample}")
    if end <= begin:
        raise Unusable(f"the range is empty: it ends at {end}, at or before it begins at {begin}")
    if begin < pipeline.start:
        raise Unusable(
            f"{pipeline.name} starts at {pipeline.start}: left rows before that, from {begin}, are in no result"
        )
    if frontier is None:
        raise Unusable(
            f"{pipeline.name} has no watermark yet, so nobody knows which labels are still to come. "
            f"`windrow clock {pipeline.name}` says what holds it"
        )
    if end > frontier:
        raise Unusable(
            f"the range is open: it ends at {end}, and only windows of rows before {frontier} have closed. Labels of "
            f"younger rows may still come; end it there, or wait"
        )


def _moves(read: _Read, scenarios: Sequence[Scenario]) -> DataFrame:
    """Every trusted event that a clock can meet: topic, epoch, partition, at, logged, offset."""
    first, last = around(read.home.pipeline, scenarios, read.begin, read.end)
    at = F.col(EVENT_TIME)
    topics = []
    for topic in read.home.pipeline.topics:
        landed = scan.rows(read.spark, read.home.landing(topic), inputs.within(first, last))
        if landed is None:
            continue
        pinned = landed.where(F.col(BATCH) <= read.pins.get(topic, 0))
        trusted = pinned.where(F.col(QUARANTINED).isNull() & (at >= F.lit(first)) & (at <= F.lit(last)))
        topics.append(trusted.select("_topic", "_epoch", "_partition", *_times(), F.col("_offset").alias("offset")))
    if not topics:
        name = read.home.pipeline.name
        raise Unusable(f"nothing of {name} has landed: `windrow land {name}` first")
    return reduce(DataFrame.unionByName, topics)


def _times() -> tuple[Column, Column]:
    """Event time, and when the broker had the record; of one that does not say, when it was landed."""
    logged = F.coalesce(F.col(RECORD_AT), F.col(ARRIVED_AT))
    return F.unix_micros(F.col(EVENT_TIME)).alias("at"), F.unix_micros(logged).alias("logged")


def _counted(moves: DataFrame) -> dict[Place, int]:
    """Events by partition: one row each."""
    rows = moves.groupBy("_topic", "_epoch", "_partition").agg(F.count(F.lit(1)).alias("events")).collect()
    return {(r["_topic"], r["_epoch"], r["_partition"]): r["events"] for r in rows}


def _plan(read: _Read, scenarios: tuple[Scenario, ...], counted: Mapping[Place, int]) -> LagPlan:
    """Buckets and chunks by what the range holds on average."""
    span = micros(read.end) - micros(read.begin)
    events = sum(counted.values())
    rows = sum(n for place, n in counted.items() if place[0] in read.home.pipeline.left.topics)
    return LagPlan(
        setting_of(read.home.pipeline, tuple(counted)),
        scenarios,
        micros(read.begin),
        micros(read.end),
        bucket=max(1, span * EVENTS_A_BUCKET // max(1, events)),
        chunk=max(1, span * ROWS_A_CHUNK // max(1, rows)),
    )


def _place(plan: LagPlan) -> Column:
    """Index of a record's partition: by topic and epoch a list, by number an entry of it."""
    known = {place: index for index, place in enumerate(plan.places)}
    column = F.lit(None).cast("int")
    for topic, epoch in dict.fromkeys((topic, epoch) for topic, epoch, _ in plan.places):
        numbers = range(1 + max(p for t, e, p in plan.places if (t, e) == (topic, epoch)))
        indexes = F.array(*[F.lit(known.get((topic, epoch, p))).cast("int") for p in numbers])
        here = (F.col("_topic") == topic) & (F.col("_epoch") == epoch)
        column = F.when(here, F.get(indexes, F.col("_partition"))).otherwise(column)
    return column.alias("place")


def _indexed(moves: DataFrame, plan: LagPlan) -> DataFrame:
    return moves.select(_place(plan), "at", "logged", "offset")


def _rows(read: _Read, plan: LagPlan, sample: float) -> DataFrame:
    """The left rows with their labels: what `rows_of` keeps of each stream, as the join has it."""
    keys = [f"_key_{i}" for i in range(len(read.home.pipeline.left.key))]

    def kept(stream: Stream, lo: datetime, hi: datetime, ends_in: bool) -> DataFrame:
        files = inputs.within(lo, hi)
        landed = inputs.landed_of(read.spark, read.home, stream, read.pins, files)
        rows = rows_of(landed, stream, lo, hi, ends_in=ends_in).kept
        key = [_as_left(read.home.pipeline, n, name).alias(keys[n]) for n, name in enumerate(stream.key)]
        return sampled(rows.select(_place(plan), *_times(), F.col("_offset").alias("offset"), *key), keys, sample)

    left = kept(read.home.pipeline.left, read.begin, read.end, False)
    sides = []
    for number, (stream, (before, after)) in enumerate(zip(read.home.pipeline.label_streams, plan.widest, strict=True)):
        lo = shifted(read.begin, -timedelta(microseconds=before))
        hi = shifted(read.end, timedelta(microseconds=after))
        sides.append(kept(stream, lo, hi, True).withColumn("stream", F.lit(number)))
    labels = reduce(DataFrame.unionByName, sides) if sides else left.where(F.lit(False)).withColumn("stream", F.lit(0))
    return impact.rows_with_labels(left, labels, keys, plan)


def _as_left(pipeline: Pipeline, position: int, name: str) -> Column:
    """A key column in the left one's type: equal keys are in the same sample."""
    return F.col(name).cast(pipeline.left.columns[pipeline.left.key[position]])
