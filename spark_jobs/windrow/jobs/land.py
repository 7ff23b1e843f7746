"""land: copy the topics of a pipeline into landing tables, every offset exactly once, and advance the clock.

One process lands a pipeline at a time; the kernel frees the lock when its holder dies. One JVM lands every topic; with
`--for` it stays up and lands again and again until the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from windrow.columns import QUARANTINED
from windrow.home import Home, Table
from windrow.io.column_changes import require_unchanged
from windrow.io.delta import crash_points
from windrow.io.delta.locks import held
from windrow.io.expressions import require_sound
from windrow.io.landing import batches, broker, log
from windrow.io.landing.batches import Committed
from windrow.io.registers import clocks
from windrow.io.registers.clocks import Observation
from windrow.jobs.decision import decision
from windrow.jobs.options import EVERY, AcceptGap, LandEvery, LandFor, PipelineName, Reason, Reconsider, TrustClock, Who
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch, Reconsidered, Topic
from windrow.semantics.landing.clock_rows import (
    TOTALS,
    Counts,
    check_accounted,
    check_delivered,
    clock_rows,
    undelivered,
)
from windrow.semantics.landing.gaps import NOTHING, GivenUp, Lost
from windrow.semantics.landing.host_clock import refuse_clock_that_went_back
from windrow.semantics.landing.offsets import next_batch, reconsidering_batch, refuse_compacted, refuse_not_lost
from windrow.semantics.landing.undelivered import COMPACTED, NO_RECORD, Account, account_of, explain, gap_ranges
from windrow.transforms.decode import decode, records_of
from windrow.transforms.landed import (
    around_gaps,
    count_by_partition,
    counts_of,
    neighbours_of,
    ranges_of,
    undelivered_ranges,
)

TOPICS_AT_ONCE = 4
"""Landing a small batch is mostly planning, so topics are landed in parallel."""


class Landed(NamedTuple):
    """The clock before and after landing."""

    before: Observation
    """with the batches that had landed and that it lacked"""
    after: Observation
    restored: int = 0
    """offsets of the batches that the clock lacked: it was lost, or a landing was killed"""


def land(
    ctx: Context,
    *,
    lasting: timedelta = timedelta(0),
    every: timedelta = EVERY,
    given_up: GivenUp = NOTHING,
    trust_clock: bool = False,
    reconsider: Reconsidered | None = None,
) -> Iterator[Landed]:
    """Land in rounds until nothing is left and the time is over.

    Args:
        lasting: for how long at least; rounds go on until nothing is left.
        every: time from the start of a round to the start of the next.
        given_up: lost ranges that a person gives up.
        trust_clock: whether to land although the host's clock went back; only for the first round.
        reconsider: who has the quarantined rows judged again after the first round, and why.

    Yields:
        After each round, the clock before the first round and after this one.

    Raises:
        NoSuchGap: a range that is given up is not lost.
        OffsetsGone: the broker deleted offsets before they were landed.
        BrokerUnreachable, TopicMissing: the broker does not answer, or has no such topic.
        BalanceBroken: a batch does not hold one row per delivered record, or an offset is not accounted for.
        TopicCompacted: the broker removes records of a topic, and the pipeline file does not accept that.
        ClockWentBack: the clock of this host is behind the last landing.
        CommitsLost: a landing table lacks what the clock says was landed.
        Locked, WriteSkipped: another process lands this pipeline.
        TypesChanged: a column has another type than in the tables.
        PipelineInvalid: Spark cannot run a `where`, or not twice with the same result.
    """
    require_unchanged(ctx.home)
    spark = spark_for(f"land {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    require_sound(spark, ctx.pipeline)
    until = time.monotonic() + lasting.total_seconds()
    first, restored = None, 0
    while True:
        began = time.monotonic()
        before, after, restored_now = land_once(spark, ctx, given_up, trust_clock=trust_clock and first is None)
        if reconsider is not None and first is None:
            after = reconsider_once(spark, ctx, reconsider).after
        first, restored = first or before, restored + restored_now
        yield Landed(first, after, restored)
        is_behind = any(not clock.caught_up for clock in after.clocks)
        if time.monotonic() >= until and not is_behind:
            return
        if not is_behind:
            time.sleep(max(0.0, min(began + every.total_seconds(), until) - time.monotonic()))


def land_once(spark: SparkSession, ctx: Context, given_up: GivenUp, *, trust_clock: bool = False) -> Landed:
    """Land the next batch of every topic, then record the clock; return the clock before and after.

        read                    compute                 write
        clock, broker ────────▶ offsets of a batch
        records ──────────────▶ landing rows ─────────▶ one Delta commit per topic; it carries the batch's offsets
        rows of that commit ──▶ counts
        broker's log, only
        where rows are fewer
        than offsets ─────────▶ what these offsets are ▶ an account, a second commit of the topic
                                clock rows ────────────▶ one clock commit for all topics

    The landing commits are the record of what has landed. The clock is derived from them, so where a run is killed
    between the two, the next one repairs the clock.

    A topic that fails leaves the clock where it is, but does not keep other topics from landing: the broker may delete
    their records meanwhile.
    """
    home = ctx.home
    with held(home.lock(Table.LANDING)):
        before = clocks.observe(home)
        batches.refuse_lost(home, before.rows)
        # Read before the broker is asked: what a partition found idle promises is true only up to this instant.
        landed_at = ctx.now()
        if not trust_clock:
            refuse_clock_that_went_back(landed_at, [row["landed_at"] for row in before.rows], home.pipeline.max_skew)
        topics = broker.describe(home.places.kafka, home.pipeline.topics)
        refuse_not_lost(given_up, topics.values(), before.rows)

        def land_next(name: str) -> TopicClock:
            return land_topic(spark, home, topics[name], landed_at, before.of_topic(name), given_up)

        with ThreadPoolExecutor(TOPICS_AT_ONCE) as pool:
            landing = [pool.submit(land_next, name) for name in home.pipeline.topics]
        clock = [topic.result() for topic in landing]
        after = clocks.record(home, before.number + 1, [row for topic in clock for row in topic.after])
        crash_points.point("land.after_clock")
        known = replace(before, rows=tuple(row for topic in clock for row in topic.before))
        return Landed(known, after, _grown(before, known)["read"])


class TopicClock(NamedTuple):
    """The rows of a topic in the clock, one per partition, before and after landing."""

    before: Sequence[ClockRow]
    """with the batches that had landed and that the clock lacked"""
    after: Sequence[ClockRow]


def reconsider_once(spark: SparkSession, ctx: Context, decided: Reconsidered) -> Landed:
    """Judge the quarantined rows of every topic again; return the clock before and after.

        quarantined rows ──▶ records, as they were ──▶ landing rows ──▶ those that can be read: one commit per topic

    The rows keep their row ids and stand for the quarantined ones, which stay in the table. What can still not be read
    is left as it is, so a second time adds nothing. A kill between landing commit and clock is repaired like that of
    any batch.
    """
    home = ctx.home
    with held(home.lock(Table.LANDING)):
        before = clocks.observe(home)
        batches.refuse_lost(home, before.rows)
        landed_at = ctx.now()
        refuse_clock_that_went_back(landed_at, [row["landed_at"] for row in before.rows], home.pipeline.max_skew)
        topics = broker.describe(home.places.kafka, home.pipeline.topics)
        rows = [
            row
            for name in home.pipeline.topics
            for row in _reconsider_topic(spark, home, topics[name], landed_at, before.of_topic(name), decided)
        ]
        if {row["topic"]: row["batch"] for row in rows} == before.pins:
            return Landed(before, before)
        return Landed(before, clocks.record(home, before.number + 1, rows))


def _reconsider_topic(
    spark: SparkSession,
    home: Home,
    topic: Topic,
    landed_at: datetime,
    previous: Sequence[ClockRow],
    decided: Reconsidered,
) -> Sequence[ClockRow]:
    """Land what can be read now of a topic's quarantined rows; return its rows of the clock."""
    batch = reconsidering_batch(topic, landed_at, previous, decided)
    return previous if batch is None else reconsider_batch(spark, home, topic, batch, previous)


def reconsider_batch(
    spark: SparkSession, home: Home, topic: Topic, batch: Batch, previous: Sequence[ClockRow]
) -> Sequence[ClockRow]:
    """Land what can be read now of the rows that were quarantined before a batch; return the topic's rows of the clock.

    Args:
        previous: the topic's rows before the batch; they are returned where nothing can be read.
    """
    path = home.landing(topic.name)
    bad = batches.quarantined(spark, path, batch)
    if bad is None:
        return previous
    records = records_of(bad, is_stamped=broker.stamps(home.places.kafka, topic.name))
    rows = decode(records, home.pipeline, batch).where(F.col(QUARANTINED).isNull())
    if rows.isEmpty():
        return previous
    crash_points.point("land.before_commit")
    batches.append(rows, path, batch)
    crash_points.point("land.after_commit")
    return clock_after(spark, home, topic, Committed(batch, None), previous)


def land_topic(
    spark: SparkSession,
    home: Home,
    topic: Topic,
    landed_at: datetime,
    previous: Sequence[ClockRow],
    given_up: GivenUp,
) -> TopicClock:
    """Land the next batch of a topic; return its rows of the clock before and after.

    Args:
        topic: the topic as the broker knows it now.
        landed_at: time of the landing run.
        previous: the rows of the topic in the newest observation of the clock.
        given_up: lost ranges that a person gives up.
    """
    refuse_compacted(topic, is_accepted=home.pipeline.accepts_compacted(topic.name))
    # A run that was killed may have committed a batch that the clock does not know: it is clocked first.
    for committed in batches.committed_after(home.landing(topic.name), previous[0]["batch"] if previous else 0):
        previous = clock_after(spark, home, topic, committed, previous)
    batch = next_batch(topic, landed_at, previous, given_up)
    crash_points.point("land.offsets_planned")
    if batch.is_empty:
        return TopicClock(previous, clock_after(spark, home, topic, Committed(batch, 0), previous))
    return TopicClock(previous, land_batch(spark, home, topic, batch, previous))


def land_batch(
    spark: SparkSession, home: Home, topic: Topic, batch: Batch, previous: Sequence[ClockRow]
) -> Sequence[ClockRow]:
    """Land the records at the offsets of a batch; return the topic's rows of the clock after it.

    Args:
        topic: the topic as the broker knows it now.
        previous: the topic's rows before the batch.

    Raises:
        WriteSkipped: the landing table has a batch of this number or a later one.
        BalanceBroken: the landing table does not hold one row per delivered record, or an offset is not accounted for.
    """
    # Read.
    records, delivered = broker.read(spark, home.places.kafka, batch)

    # Compute.
    rows = decode(records, home.pipeline, batch)

    # Write. The rows are counted as the table has them, not as they were written, so that a lost row is noticed.
    crash_points.point("land.before_commit")
    batches.append(rows, home.landing(batch.topic), batch)
    crash_points.point("land.after_commit")
    return clock_after(spark, home, topic, Committed(batch, int(delivered.get["records"])), previous)


def clock_after(
    spark: SparkSession, home: Home, topic: Topic, committed: Committed, previous: Sequence[ClockRow]
) -> Sequence[ClockRow]:
    """Return the rows of the clock after a batch that is committed or empty.

    Its account is read with it, or made and committed where it has none and needs one.

    Args:
        topic: the topic as the broker knows it now.
        previous: the topic's rows before it.

    Raises:
        BalanceBroken: the landing table does not hold one row per delivered record, or an offset is not accounted for.
        LogUnreadable: undelivered offsets cannot be explained, because the broker does not show its log.
    """
    batch = committed.batch
    counts = {} if batch.is_empty else _counts(spark, home, batch, committed.rows)
    account = committed.account
    if account is None and undelivered(batch, counts):
        account = _explained(spark, home, topic, batch, previous, undelivered(batch, counts))
        batches.append_account(home.landing(topic.name), account)
    account = account or Account(batch.number)
    check_accounted(batch, counts, account)
    return clock_rows(
        batch,
        previous,
        counts,
        account,
        out_of_orderness=home.pipeline.out_of_orderness(batch.topic),
        idle=home.pipeline.idle_policy,
    )


def _counts(spark: SparkSession, home: Home, batch: Batch, delivered: int | None) -> dict[int, Counts]:
    """Count what a committed batch holds, by partition.

    Raises:
        BalanceBroken: it does not hold one row per delivered record.
    """
    rows = batches.rows_of(spark, home.landing(batch.topic), batch.number)
    counts = counts_of(count_by_partition(rows, home.pipeline, batch.topic).collect())
    check_delivered(batch, counts, delivered)
    return counts


def _explained(
    spark: SparkSession,
    home: Home,
    topic: Topic,
    batch: Batch,
    previous: Sequence[ClockRow],
    partitions: Iterable[int],
) -> Account:
    """Find out what the undelivered offsets of a committed batch are: skipped for a reason, or a gap.

    Args:
        topic: the topic as the broker knows it now; one that was created again explains nothing of the old one.
        previous: the topic's rows of the clock before the batch.
        partitions: those with undelivered offsets.

    Raises:
        BalanceBroken: the broker has a record that is not in the batch.
        LogUnreadable: the broker does not show its log.
    """
    rows = batches.rows_of(spark, home.landing(batch.topic), batch.number)
    missing = ranges_of(undelivered_ranges(rows, batch, partitions).collect())
    can_explain = topic.id == batch.topic_id and not topic.is_compacted
    found = log.batches(spark, home.places.kafka, topic, missing) if can_explain else {}
    explained = {p: explain(batch.topic, p, ranges, found.get(p, ())) for p, ranges in missing.items()}
    gaps = {p: gap_ranges(one.unexplained) for p, one in explained.items() if one.unexplained}
    neighbours = neighbours_of(around_gaps(rows, gaps).collect(), gaps) if gaps else {}
    return account_of(batch, previous, explained, neighbours, COMPACTED if topic.is_compacted else NO_RECORD)


Totals = dict[tuple[str, int, int], dict[str, int]]
"""By topic, epoch and partition: counts since the first offset of the epoch."""


def summary(landed: Landed) -> dict[str, Any]:
    """Return the counts of what the job landed, the watermark, and how many offsets (`lag`) are still to be landed.

    `restored` offsets had landed before and were unknown to the clock; they are not among the others.
    """
    return {
        **_grown(landed.before, landed.after),
        "restored": landed.restored,
        "observation": landed.after.number,
        "watermark": landed.after.watermark,
        "lag": sum(clock.lag for clock in landed.after.clocks),
    }


def _grown(before: Observation, after: Observation) -> dict[str, int]:
    """Return by how much the counts of all partitions have grown."""
    earlier = totals(before)
    return {n: sum(counts[n] - earlier.get(at, {}).get(n, 0) for at, counts in totals(after).items()) for n in TOTALS}


def totals(seen: Observation) -> Totals:
    """Return the counts of an observation. A topic that was created again counts from zero, under another epoch."""
    return {(row["topic"], row["epoch"], row["partition"]): {n: row.get(n) or 0 for n in TOTALS} for row in seen.rows}


def giving_up(ranges: Sequence[str], who: str | None, why: str) -> GivenUp:
    """Return the lost ranges that a person gives up, with who and why.

    Raises:
        BadRequest: there is no reason.
        NoSuchGap: a range has another form than `topic/0:5-10`.
    """
    if not ranges:
        return NOTHING
    decided = decision("giving up records", why, who)
    return GivenUp(tuple(Lost.parse(text) for text in ranges), decided.who, decided.reason)


def reconsidering(why: str | None, who: str | None) -> Reconsidered | None:
    """Return who has quarantined rows judged again, and why; None if nobody does.

    Raises:
        BadRequest: the reason is empty or not one line.
    """
    if why is None:
        return None
    decided = decision("reconsidering quarantined records", why, who)
    return Reconsidered(decided.who, decided.reason)


def execute(
    pipeline: PipelineName,
    lasting: LandFor = timedelta(0),
    every: LandEvery = EVERY,
    accept_gap: AcceptGap = None,
    trust_clock: TrustClock = False,
    reconsider: Reconsider = None,
    reason: Reason = "",
    who: Who = None,
) -> Mapping[str, Any]:
    """Land, and return what has landed since the start of the run."""
    given_up, again = giving_up(accept_gap or (), who, reason), reconsidering(reconsider, who)
    *_, last = land(
        context(pipeline),
        lasting=lasting,
        every=every,
        given_up=given_up,
        trust_clock=trust_clock,
        reconsider=again,
    )
    return summary(last)


main = job(execute)
