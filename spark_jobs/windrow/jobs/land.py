"""land: copy the topics of a pipeline into landing tables, every offset exactly once, and advance the clock.

One process lands a pipeline at a time; the kernel frees the lock when its holder dies. One JVM lands every topic; with
`--for` it stays up and lands again and again until the time is over.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from windrow.home import Home, Table
from windrow.io.column_changes import require_unchanged
from windrow.io.delta import crash_points
from windrow.io.delta.locks import held
from windrow.io.delta.session import threads
from windrow.io.expressions import require_sound
from windrow.io.landing import batches, broker, present
from windrow.io.registers import clocks, erasures
from windrow.io.registers.clocks import Observation
from windrow.jobs.decision import decision
from windrow.jobs.landing.batch import clock_after, land_batch
from windrow.jobs.landing.reconsider import reconsider_once, reconsidering
from windrow.jobs.options import EVERY, AcceptGap, LandEvery, LandFor, PipelineName, Reason, Reconsider, TrustClock, Who
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.jobs.spark import spark_for
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Reconsidered, Topic
from windrow.semantics.landing.clock_rows import TOTALS, with_retention
from windrow.semantics.landing.gaps import NOTHING, GivenUp, Lost
from windrow.semantics.landing.host_clock import refuse_clock_ahead, refuse_clock_that_went_back
from windrow.semantics.landing.offsets import next_batch, refuse_compacted, refuse_not_lost
from windrow.semantics.landing.replaced import refuse_replaced, to_compare
from windrow.semantics.landing.undelivered import Committed

TOPICS_AT_ONCE = 4
"""Landing a small batch is mostly planning, so topics are landed in parallel."""


def host_time() -> datetime:
    """Return what the clock of this host says; a run may be given another time (`Context.now`)."""
    return datetime.now(UTC)


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
        trust_clock: whether to land although the host's clock went back, or is ahead of the broker's; only for the
            first round.
        reconsider: who has the quarantined rows judged again after the first round, and why.

    Yields:
        After each round, the clock before the first round and after this one.

    Raises:
        NoSuchGap: a range that is given up is not lost.
        OffsetsGone: the broker deleted offsets before they were landed.
        OffsetsReplaced: the broker has other records at offsets that have landed.
        BrokerUnreachable, TopicMissing: the broker does not answer, or has no such topic.
        BalanceBroken: a batch does not hold one row per delivered record, or an offset is not accounted for.
        TopicCompacted: the broker removes records of a topic, and the pipeline file does not accept that.
        ClockWentBack, ClockAhead: the clock of this host is behind the last landing, or ahead of the broker's.
        CommitsLost: a landing table lacks what the clock says was landed.
        Locked, WriteSkipped: another process lands this pipeline.
        TypesChanged, OriginsChanged: a column has another type, or another origin, than in the tables.
        ErasedColumnGone: keys were erased by a column that the pipeline file lacks.
        PipelineInvalid: Spark cannot run a `where`, or not twice with the same result.
    """
    require_unchanged(ctx.home)
    spark = spark_for(f"land {ctx.pipeline.name}", ctx.places, ctx.pipeline)
    require_sound(spark, ctx.pipeline)
    until = time.monotonic() + lasting.total_seconds()
    first, restored = None, 0
    while True:
        began = time.monotonic()
        before, after, restored_now = land_once(spark, ctx, given_up, trust_clock=trust_clock, is_first=first is None)
        if reconsider is not None and first is None:
            after = reconsider_once(spark, ctx, reconsider)
        first, restored = first or before, restored + restored_now
        yield Landed(first, after, restored)
        # Where a round moved no position, what is left cannot be read yet: it belongs to open transactions.
        is_behind = _positions(after) != _positions(before) and any(not clock.caught_up for clock in after.clocks)
        if time.monotonic() >= until and not is_behind:
            return
        if not is_behind:
            time.sleep(max(0.0, min(began + every.total_seconds(), until) - time.monotonic()))


def land_once(
    spark: SparkSession, ctx: Context, given_up: GivenUp, *, trust_clock: bool = False, is_first: bool = True
) -> Landed:
    """Land the next batch of every topic, then record the clock; return the clock before and after.

        read                    compute                 write
        clock, broker ────────▶ offsets of a batch; refused where the newest landed record is another one now
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

    Args:
        given_up: lost ranges that a person gives up; they become gaps.
        trust_clock: land although the host's clock is behind the last landing, or ahead of the broker's.
        is_first: false for a later round of the same run: a clock that goes back after the first is not trusted.

    Raises:
        Locked: another process lands.
        CommitsLost, TableDamaged: commits of a landing table or of the clock were lost.
        ClockWentBack: the host's clock is more than `max_skew` behind the last landing.
        ClockAhead: the host's clock is more than `max_skew` ahead of the broker's.
        BrokerUnreachable, TopicMissing: no answer from Kafka, or not about a topic.
        OffsetsGone, TopicCompacted: records are lost that a person has not given up.
        OffsetsReplaced: the broker has other records at offsets that have landed.
        NoSuchGap: a range that is given up is not lost.
        ErasedColumnGone: keys were erased by a column that the pipeline file lacks.
    """
    home = ctx.home
    with held(home.lock(Table.LANDING)):
        # in each round: keys are erased between two rounds, maybe under a newer pipeline file than this process has
        erasures.note_holders(home, erasures.require_covered(home), ctx.now())
        before = clocks.observe(home)
        batches.refuse_lost(home, before.rows)
        # Read before the broker is asked: what a partition found idle promises is true only up to this instant.
        landed_at = ctx.now()
        if not (trust_clock and is_first):
            refuse_clock_that_went_back(landed_at, [row["landed_at"] for row in before.rows], home.pipeline.max_skew)
        topics = broker.describe(home.places.brokers, home.pipeline.topics)
        if not trust_clock:
            refuse_clock_ahead(host_time(), broker.clock(spark, home.places.brokers), home.pipeline.max_skew)
        refuse_not_lost(given_up, topics.values(), before.rows, before.gaps if given_up.lost else ())

        def land_next(name: str) -> TopicClock:
            return land_topic(spark, home, topics[name], landed_at, before.of_topic(name), given_up)

        with threads(TOPICS_AT_ONCE) as pool:
            landing = [pool.submit(land_next, name) for name in home.pipeline.topics]
        clock = [topic.result() for topic in landing]
        seen = zip(home.pipeline.topics, clock, strict=True)
        rows = [row for name, topic in seen for row in with_retention(topic.after, topics[name])]
        after = clocks.record_next(home, before, rows)
        crash_points.point("land.after_clock")
        known = replace(before, rows=tuple(row for topic in clock for row in topic.before))
        return Landed(known, after, _grown(before, known)["read"])


class TopicClock(NamedTuple):
    """The rows of a topic in the clock, one per partition, before and after landing."""

    before: Sequence[ClockRow]
    """with the batches that had landed and that the clock lacked"""
    after: Sequence[ClockRow]


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
    landed = to_compare(topic, previous)
    present_at = present.at(spark, home.places.brokers, topic, {p: last.offset for p, last in landed.items()})
    refuse_replaced(topic.name, landed, present_at)
    batch = next_batch(topic, landed_at, previous, given_up)
    crash_points.point("land.offsets_planned")
    if batch.is_empty:
        return TopicClock(previous, clock_after(spark, home, topic, Committed(batch, 0), previous))
    return TopicClock(previous, land_batch(spark, home, topic, batch, previous))


def _positions(seen: Observation) -> set[tuple[str, int, int, int]]:
    return {(*clock.identity, clock.next_offset) for clock in seen.clocks}


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


def by_topic(landed: Landed) -> dict[str, dict[str, int]]:
    """Return topic → the counts of what the job landed of it, as `summary` has them over all topics."""
    topics: dict[str, Counter[str]] = {name: Counter(dict.fromkeys(TOTALS, 0)) for name in landed.after.topics}
    earlier = totals(landed.before)
    for at, counts in totals(landed.after).items():
        topics[at[0]].update({n: counts[n] - earlier.get(at, {}).get(n, 0) for n in TOTALS})
    return {name: dict(counts) for name, counts in topics.items()}


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
        BadRequest: there is no reason, or a reason for nothing.
        NoSuchGap: a range has another form than `topic/0:5-10`.
    """
    if not ranges:
        if why:
            raise BadRequest("--reason is recorded with --accept-gap or --replay-lost only")
        return NOTHING
    decided = decision("giving up records", why, who)
    return GivenUp(tuple(Lost.parse(text) for text in ranges), decided.who, decided.reason)


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
    """Land, and return what has landed since the start of the run.

    Returns:
        Counts of what has landed, watermark and lag (`summary`).

    Raises:
        BadRequest: a reason without anything that it is for, or a reason or name that is not one line.
        Condition: those of `land`.
    """
    given_up, again = giving_up(accept_gap or (), who, reason), reconsidering(reconsider, who)
    *_, last = land(
        context(pipeline),
        lasting=lasting,
        every=every,
        given_up=given_up,
        trust_clock=trust_clock,
        reconsider=again,
    )
    return {**summary(last), "topics": by_topic(last)}


main = job(execute)
