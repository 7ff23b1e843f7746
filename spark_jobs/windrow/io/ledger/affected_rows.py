"""The rows that a pass of the late ledger looks at: around what landed since, and no others.

    new rows ─▶ intervals they touch ─▶ keys and events they change ─▶ subjects ─▶ joined again
    (by batch)  (only published ones)   (of retries, the other keys)   (left events)  (the join's own transforms)

Landing files and training partitions around the touched intervals are read. One exception: a quarantined label that
cannot be dated makes every earlier row of its key doubtful (rule 10), so the published keys are looked through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from windrow.columns import BATCH, DATE, EVENT_TIME, INTERVAL, PAIRED, PUBLICATION, QUARANTINED, REASON
from windrow.config import RightStream, Stream
from windrow.home import Home
from windrow.io.delta.lookup import Range
from windrow.io.delta.session import frame_of
from windrow.io.ledger.due import Due, window_of
from windrow.io.registers import clocks
from windrow.io.training import inputs, versions
from windrow.semantics.close import closes_at
from windrow.semantics.intervals import MICROSECOND, Interval, at_micros, stretches
from windrow.semantics.plan import Plan
from windrow.transforms import ledger
from windrow.transforms.conditions import all_of, any_of
from windrow.transforms.facts import facts_of
from windrow.transforms.join import interval_of, is_meant, join
from windrow.transforms.ledger import SUBJECT
from windrow.transforms.streams import Inputs, StreamRows, selected

MOST_STRETCHES = 50
"""Ranges of event time in one read; nearest ones are read as one above that."""
_STANDING = (
    f"{INTERVAL} timestamp, {PUBLICATION} bigint, _closed_at timestamp, _drained boolean, _pins map<string,bigint>, "
    "_clocks map<string,timestamp>, _disorder_us map<string,bigint>"
)


class Around:
    """What one pass reads. Frames are lazy; `touched` asks Spark once, for a few instants."""

    def __init__(self, spark: SparkSession, home: Home, work: Due) -> None:
        self.spark, self.pipeline, self.places, self.work = spark, home.pipeline, home.places, work
        pins = [one.known.pins for one in work.seen]
        self.floor = {topic: min((p.get(topic, 0) for p in pins), default=0) for topic in home.pipeline.topics}

    @cached_property
    def touched(self) -> list[datetime]:
        """Starts of published intervals that something new concerns."""
        length = self.pipeline.interval
        if self.work.is_erased:
            return sorted(start for one in self.work.seen for start in one.starts)
        found = set(self.work.within(self.work.stretches, length))
        if starts := self.work.within(self.work.near, length):
            near = [self._near(stream, starts) for stream in self.pipeline.streams]
            near += [self._near_undated(stream) for stream in self.pipeline.label_streams]
            micros = self._unseen(reduce(DataFrame.unionByName, near), starts).distinct().collect()  # a few instants
            found |= {at_micros(row["at"]) for row in micros}
        return sorted(found)

    # ---- which intervals

    def _near(self, stream: Stream, starts: Sequence[datetime]) -> DataFrame:
        """Intervals whose rows can meet a new row of the stream, or hold it."""
        before, after = window_of(stream)
        first, last = starts[0] - before, starts[-1] + self.pipeline.interval + after
        at = F.col(EVENT_TIME)
        fresh = self._fresh(stream).where((at >= F.lit(first)) & (at <= F.lit(last)))
        wanted = F.col(QUARANTINED).isNull() & selected(stream)
        if stream in self.pipeline.label_streams:
            wanted = wanted | (F.col(QUARANTINED).isNotNull() & is_meant(stream))
        step = self.pipeline.interval // MICROSECOND
        low, high = (_floor(F.unix_micros(at) + by // MICROSECOND, step) for by in (-after, before))
        spread = fresh.where(wanted).select(
            "_topic", BATCH, F.explode(F.sequence(low, high, F.lit(step).cast("bigint"))).alias("at")
        )
        return spread.select(F.timestamp_micros("at").alias(INTERVAL), "_topic", BATCH)

    def _near_undated(self, stream: RightStream) -> DataFrame:
        """Published intervals with a row of the key of a new quarantined label that cannot be dated."""
        keyed = all_of([F.col(k).isNotNull() for k in stream.key])
        bad = F.col(QUARANTINED).isNotNull() & F.col(EVENT_TIME).isNull() & keyed & is_meant(stream)
        columns = [F.col(k).alias(f"_key_{i}") for i, k in enumerate(stream.key)]
        keys = self._fresh(stream).where(bad).groupBy(*columns, "_topic").agg(F.max(BATCH).alias(BATCH))
        on = [F.col(ours) == F.col(f"_key_{i}") for i, ours in enumerate(self.pipeline.left.key)]
        rows = self.training().select(INTERVAL, *self.pipeline.left.key)
        return rows.join(keys, on=on, how="inner").select(INTERVAL, "_topic", keys[BATCH])

    def _unseen(self, near: DataFrame, starts: Sequence[datetime]) -> DataFrame:
        """Of these, the intervals whose publication was not compared with the batch yet."""
        pins = {start: one.known.pins for one in self.work.seen for start in one.starts}
        rows = [(start, topic, pins[start].get(topic, 0)) for start in starts for topic in self.pipeline.topics]
        seen = frame_of(self.spark, rows, f"{INTERVAL} timestamp, _topic string, _pin bigint")
        met = near.join(F.broadcast(seen), on=[INTERVAL, "_topic"], how="inner").where(F.col(BATCH) > F.col("_pin"))
        return met.select(F.unix_micros(INTERVAL).alias("at"))

    # ---- which rows

    def looked_at(self) -> Looked:
        """The subjects that something new can have changed, as published and as they would be now."""
        lo, hi = self.touched[0], self.touched[-1] + self.pipeline.interval
        read = self._read(lo, hi)
        published = self.training(self.touched).withColumn(SUBJECT, ledger.subject(self.pipeline.left))
        kept = self._with_subject(read.left.kept)
        scope = reduce(DataFrame.unionByName, self._subjects(read, kept, published)).distinct().persist()
        wanted = kept.join(scope.select(SUBJECT), on=SUBJECT, how="left_semi").persist()
        rebuilt = self._joined(wanted, read).where(F.col(PAIRED))
        both = ledger.met(
            published.join(scope.select(SUBJECT), on=SUBJECT, how="left_semi"),
            rebuilt.withColumn(SUBJECT, ledger.subject(self.pipeline.left)),
            self.pipeline,
        ).persist()
        landed = ledger.arrivals(read.left, read.rights, self.pipeline)
        return Looked(scope, both, landed, self.standing, (both, wanted, scope), read)

    def _subjects(self, read: Inputs, kept: DataFrame, published: DataFrame) -> Iterator[DataFrame]:
        if self.work.is_erased:
            yield from (rows.select(INTERVAL, SUBJECT) for rows in (kept, published))
            return
        new = self._with_subject(read.left.read.where(~F.col("_filtered") & self._is_fresh(self.pipeline.left)))
        yield new.select(INTERVAL, SUBJECT)
        keys = [self._changed_keys(s, read.rights[s.name]) for s in self.pipeline.right]
        keys += [self._keys(s, rows.where(self._is_fresh(s))) for s, rows in self._doubtful(read)]
        changed = reduce(DataFrame.unionByName, keys).distinct()
        yield kept.join(changed, on=list(self.pipeline.left.key), how="left_semi").select(INTERVAL, SUBJECT)
        at, reason = F.col(EVENT_TIME), F.col(REASON)
        for stretch in self.work.stretches:
            inside = (at >= F.lit(stretch.begin)) & (at <= F.lit(stretch.end))
            silent = reason.isNull() | reason.isin("side_silent", "drained")
            yield published.where(inside & silent if stretch.silent else inside).select(INTERVAL, SUBJECT)

    def _changed_keys(self, stream: RightStream, side: StreamRows) -> DataFrame:
        """Keys of new rows, and of those that a new row of the same event may take the place of, or leave it to."""
        rows = side.read.where(~F.col("_filtered"))
        fresh = rows.where(self._is_fresh(stream))
        if stream.event_id is None:
            return self._keys(stream, fresh)
        events = fresh.where(F.col(stream.event_id).isNotNull()).select(stream.event_id, EVENT_TIME).distinct()
        others = rows.join(events, on=[stream.event_id, EVENT_TIME], how="left_semi")
        return self._keys(stream, fresh).unionByName(self._keys(stream, others))

    def _keys(self, stream: RightStream, rows: DataFrame) -> DataFrame:
        """Distinct keys by the names of the left's columns."""
        names = zip(stream.key, self.pipeline.left.key, strict=True)
        return rows.select(*[F.col(theirs).alias(ours) for theirs, ours in names]).distinct()

    def _joined(self, wanted: DataFrame, read: Inputs) -> DataFrame:
        """As the join makes them, at the newest pins; a drained publication stays drained."""
        known, pipeline = self.work.known, self.pipeline
        keys = wanted.select(*pipeline.left.key).distinct()
        ours = {s.name: self._of_keys(s, read.rights[s.name].kept, keys) for s in pipeline.right}
        theirs = {s.name: self._of_keys(s, rows, keys) for s, rows in self._doubtful(read)}
        parts = []
        for drained in sorted({self.plan_of(start).drained for start in self.touched}):
            plan = replace(known, drained=drained)
            now = [replace(plan, interval=self.plan_of(start).interval) for start in self.touched]
            forced = frozenset(p.interval.start for p in now if p.is_forced(pipeline.after, pipeline.grace))
            facts = replace(facts_of(pipeline, (plan,), read.gaps), forced=forced)
            mine = self.standing.where(F.col("_drained") == drained).select(INTERVAL)
            rows = wanted.join(F.broadcast(mine), on=INTERVAL, how="left_semi").drop(INTERVAL, SUBJECT)
            parts.append(join(rows, ours, theirs, pipeline, facts))
        return reduce(DataFrame.unionByName, parts)

    def _doubtful(self, read: Inputs) -> Iterator[tuple[RightStream, DataFrame]]:
        return ((s, read.doubtful[s.name]) for s in self.pipeline.label_streams if s.name in read.doubtful)

    def _of_keys(self, stream: RightStream, rows: DataFrame, keys: DataFrame) -> DataFrame:
        names = dict(zip(self.pipeline.left.key, stream.key, strict=True))
        renamed = keys.select(*[F.col(ours).alias(theirs) for ours, theirs in names.items()])
        return rows.join(renamed, on=list(stream.key), how="left_semi")

    # ---- what is read

    def _read(self, lo: datetime, hi: datetime) -> Inputs:
        def landed(stream: Stream, *_: datetime) -> DataFrame:
            return self._landing(stream)

        home = Home(self.pipeline, self.places)
        return inputs.read_range(self.spark, home, self.work.known.pins, lo, hi, clocks.observe(home), landed)

    def _landing(self, stream: Stream) -> DataFrame:
        """Landed rows around the touched intervals."""
        before, after = window_of(stream)
        near = [(s.start - before, s.end + after) for s in self._stretches(self.touched, before + after)]
        files = [inputs.within(lo, hi) for lo, hi in near]
        rows = inputs.landed_of(self.spark, Home(self.pipeline, self.places), stream, self.work.known.pins, *files)
        at = F.col(EVENT_TIME)
        return rows.where(any_of((at >= F.lit(lo)) & (at <= F.lit(hi)) for lo, hi in near))

    def _fresh(self, stream: Stream) -> DataFrame:
        lowest = min(self.floor[topic] for topic in stream.topics)
        files = (Range(BATCH, lowest + 1),)
        rows = inputs.landed_of(self.spark, Home(self.pipeline, self.places), stream, self.work.known.pins, files)
        return rows.where((F.col(BATCH) > lowest) & self._is_fresh(stream))

    def _is_fresh(self, stream: Stream) -> Column:
        return any_of((F.col("_topic") == t) & (F.col(BATCH) > self.floor[t]) for t in stream.topics)

    def training(self, starts: Sequence[datetime] | None = None) -> DataFrame:
        """Published rows as of this pass, of comparable publications."""
        rows = versions.training_at(self.spark, Home(self.pipeline, self.places), self.work.training_version)
        if starts is None:
            return rows
        at, date = F.col(INTERVAL), F.col(DATE)
        inside = any_of(
            (at >= F.lit(s.start)) & (at < F.lit(s.end)) & date.between(F.lit(s.start.date()), F.lit(s.end.date()))
            for s in self._stretches(starts, timedelta(0))
        )
        return rows.where(inside).join(F.broadcast(self.standing.select(INTERVAL)), on=INTERVAL, how="left_semi")

    def _with_subject(self, rows: DataFrame) -> DataFrame:
        """With `_subject` and `_interval`, of touched intervals only."""
        start = interval_of(F.col(EVENT_TIME), self.pipeline.interval)
        placed = rows.withColumn(SUBJECT, ledger.subject(self.pipeline.left)).withColumn(INTERVAL, start)
        return placed.join(F.broadcast(self.standing.select(INTERVAL)), on=INTERVAL, how="left_semi")

    def _stretches(self, starts: Sequence[datetime], reach: timedelta) -> list[Interval]:
        """The intervals with these starts, those within `reach` of each other merged."""
        return stretches((Interval(s, s + self.pipeline.interval) for s in starts), reach, most=MOST_STRETCHES)

    # ---- what is known

    def plan_of(self, start: datetime) -> Plan:
        """The plan of the standing publication of an interval."""
        return Plan.from_json(self.work.standing[start]["plan"])

    @cached_property
    def standing(self) -> DataFrame:
        """The touched publications, as `transforms.ledger.lines` takes them."""
        pipeline = self.pipeline
        disorder = {topic: pipeline.out_of_orderness(topic) for topic in pipeline.topics}
        rows: list[tuple[Any, ...]] = []
        for start in self.touched:
            plan = self.plan_of(start)
            clocks = {f"{c.topic}/{c.epoch}/{c.partition}": c.event_clock(disorder[c.topic]) for c in plan.watermark
                      if c.topic in disorder}  # fmt: skip
            closed_at = closes_at(plan.interval, pipeline.after, pipeline.grace)
            micros = {topic: d // MICROSECOND for topic, d in disorder.items()}
            number = self.work.standing[start]["number"]
            rows.append((start, number, closed_at, plan.drained, dict(plan.pins), clocks, micros))
        return frame_of(self.spark, rows, _STANDING)


@dataclass(frozen=True)
class Looked:
    """What `transforms.ledger.lines` compares; `scope`: `_interval` and `_subject` of what was looked at."""

    scope: DataFrame
    both: DataFrame
    landed: DataFrame
    standing: DataFrame
    kept: tuple[DataFrame, ...]
    read: Inputs

    def release(self) -> None:
        """Let go of what was kept for reading it twice."""
        for frame in self.kept:
            frame.unpersist()
        inputs.release(self.read)


def _floor(micros: Column, step: int) -> Column:
    return micros - F.pmod(micros, F.lit(step).cast("bigint"))
