"""land: copy the topics of a pipeline into landing tables, every offset exactly once, and advance the clock.

One process lands a pipeline at a time; the kernel frees the lock when its holder dies. One JVM lands every topic; with
`--for` it stays up and lands again and again until the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from windrow.home import Home, Table
from windrow.io.delta import crash_points
from windrow.io.delta.locks import held
from windrow.io.expressions import require_sound
from windrow.io.landing import batches, broker
from windrow.io.registers import clocks
from windrow.io.registers.clocks import Observation
from windrow.jobs.decision import decision
from windrow.jobs.options import EVERY, AcceptGap, LandEvery, LandFor, PipelineName, Reason, Who
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch, Topic
from windrow.semantics.landing.clock_rows import TOTALS, Counts, check_delivered, clock_rows
from windrow.semantics.landing.gaps import NOTHING, GivenUp, Lost
from windrow.semantics.landing.offsets import next_batch, refuse_not_lost
from windrow.transforms.decode import decode
from windrow.transforms.landed import count_by_partition, counts_of

TOPICS_AT_ONCE = 4
"""Landing a small batch is mostly planning, so topics are landed in parallel."""


class Landed(NamedTuple):
    """The clock before and after landing."""

    before: Observation
    after: Observation


def land(
    ctx: Context,
    *,
    lasting: timedelta = timedelta(0),
    every: timedelta = EVERY,
    given_up: GivenUp = NOTHING,
) -> Iterator[Landed]:
    """Land in rounds until nothing is left and the time is over.

    Args:
        lasting: for how long at least; rounds go on until nothing is left.
        every: time from the start of a round to the start of the next.
        given_up: lost ranges that a person gives up.

    Yields:
        After each round, the clock before the first round and after this one.

    Raises:
        NoSuchGap: a range that is given up is not lost.
        OffsetsGone: the broker deleted offsets before they were landed.
        BrokerUnreachable, TopicMissing: the broker does not answer, or has no such topic.
        BalanceBroken: a batch does not hold one row per delivered record.
        CommitsLost: a landing table lacks what the clock says was landed.
        Locked, WriteSkipped: another process lands this pipeline.
        PipelineInvalid: Spark cannot run a `where`, or not twice with the same result.
    """
    spark = spark_for(f"land {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    require_sound(spark, ctx.pipeline)
    until = time.monotonic() + lasting.total_seconds()
    first = None
    while True:
        began = time.monotonic()
        before, after = land_once(spark, ctx, given_up)
        first = first or before
        yield Landed(first, after)
        is_behind = any(not clock.caught_up for clock in after.clocks)
        if time.monotonic() >= until and not is_behind:
            return
        if not is_behind:
            time.sleep(max(0.0, min(began + every.total_seconds(), until) - time.monotonic()))


def land_once(spark: SparkSession, ctx: Context, given_up: GivenUp) -> Landed:
    """Land the next batch of every topic, then record the clock; return the clock before and after.

        read                    compute                 write
        clock, broker ────────▶ offsets of a batch
        records ──────────────▶ landing rows ─────────▶ one Delta commit per topic; it carries the batch's offsets
        rows of that commit ──▶ counts, clock rows ───▶ one clock commit for all topics

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
        topics = broker.describe(home.places.kafka, home.pipeline.topics)
        refuse_not_lost(given_up, topics.values(), before.rows)

        def land_next(name: str) -> Sequence[ClockRow]:
            return land_topic(spark, home, topics[name], landed_at, before.of_topic(name), given_up)

        with ThreadPoolExecutor(TOPICS_AT_ONCE) as pool:
            landing = [pool.submit(land_next, name) for name in home.pipeline.topics]
        rows = [row for topic in landing for row in topic.result()]
        after = clocks.record(home, before.number + 1, rows)
        crash_points.point("land.after_clock")
        return Landed(before, after)


def land_topic(
    spark: SparkSession,
    home: Home,
    topic: Topic,
    landed_at: datetime,
    previous: Sequence[ClockRow],
    given_up: GivenUp,
) -> Sequence[ClockRow]:
    """Land the next batch of a topic; return its rows of the clock, one per partition.

    Args:
        topic: the topic as the broker knows it now.
        landed_at: time of the landing run.
        previous: the rows of the topic in the newest observation of the clock.
        given_up: lost ranges that a person gives up.
    """
    # A run that was killed may have committed a batch that the clock does not know: it is clocked first.
    for committed in batches.committed_after(home.landing(topic.name), previous[0]["batch"] if previous else 0):
        previous = clock_after(spark, home, committed.batch, previous, committed.rows)
    batch = next_batch(topic, landed_at, previous, given_up)
    crash_points.point("land.offsets_planned")
    if batch.is_empty:
        return clock_after(spark, home, batch, previous, 0)
    return land_batch(spark, home, batch, previous)


def land_batch(spark: SparkSession, home: Home, batch: Batch, previous: Sequence[ClockRow]) -> Sequence[ClockRow]:
    """Land the records at the offsets of a batch; return the topic's rows of the clock after it.

    Args:
        previous: the topic's rows before the batch.

    Raises:
        WriteSkipped: the landing table has a batch of this number or a later one.
        BalanceBroken: the landing table does not hold one row per delivered record.
    """
    # Read.
    records, delivered = broker.read(spark, home.places.kafka, batch)

    # Compute.
    rows = decode(records, home.pipeline, batch)

    # Write. The rows are counted as the table has them, not as they were written, so that a lost row is noticed.
    crash_points.point("land.before_commit")
    batches.append(rows, home.landing(batch.topic), batch)
    crash_points.point("land.after_commit")
    return clock_after(spark, home, batch, previous, int(delivered.get["records"]))


def clock_after(
    spark: SparkSession, home: Home, batch: Batch, previous: Sequence[ClockRow], delivered: int | None
) -> Sequence[ClockRow]:
    """Return the rows of the clock after a batch that is committed or empty.

    Args:
        previous: the topic's rows before it.
        delivered: number of records that Kafka delivered for it; None where the commit does not record it.

    Raises:
        BalanceBroken: the landing table does not hold one row per delivered record.
    """
    counts = {} if batch.is_empty else _counts(spark, home, batch, delivered)
    return clock_rows(
        batch,
        previous,
        counts,
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


Totals = dict[tuple[str, int, int], dict[str, int]]
"""By topic, epoch and partition: counts since the first offset of the epoch."""


def summary(landed: Landed) -> dict[str, Any]:
    """Return the counts of what the job landed, the watermark, and how many offsets (`lag`) are still to be landed."""
    before, after = totals(landed.before), totals(landed.after)
    return {
        **{n: sum(counts[n] - before.get(at, {}).get(n, 0) for at, counts in after.items()) for n in TOTALS},
        "observation": landed.after.number,
        "watermark": landed.after.watermark,
        "lag": sum(clock.lag for clock in landed.after.clocks),
    }


def totals(seen: Observation) -> Totals:
    """Return the counts of an observation. A topic that was created again counts from zero, under another epoch."""
    return {(row["topic"], row["epoch"], row["partition"]): {n: row[n] for n in TOTALS} for row in seen.rows}


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


def execute(
    pipeline: PipelineName,
    lasting: LandFor = timedelta(0),
    every: LandEvery = EVERY,
    accept_gap: AcceptGap = None,
    reason: Reason = "",
    who: Who = None,
) -> Mapping[str, Any]:
    """Land, and return what has landed since the start of the run."""
    given_up = giving_up(accept_gap or (), who, reason)
    *_, last = land(context(pipeline), lasting=lasting, every=every, given_up=given_up)
    return summary(last)


main = job(execute)
