"""Quarantined records, judged again after the pipeline file or the host's clock was corrected.

    quarantined rows ──▶ records, as they were ──▶ landing rows ──▶ those that can be read: one commit per topic

The rows keep their row ids and stand for the quarantined ones, which stay in the table. What can still not be read is
left as it is, so a second time adds nothing. A kill between landing commit and clock is repaired as for any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from windrow.columns import QUARANTINED
from windrow.home import Home, Table
from windrow.io.delta import crash_points
from windrow.io.delta.locks import held
from windrow.io.landing import batches, broker, erased
from windrow.io.registers import clocks, erasures
from windrow.io.registers.clocks import Observation
from windrow.jobs.decision import decision
from windrow.jobs.landing import schemas
from windrow.jobs.landing.batch import clock_after
from windrow.jobs.run import Context
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch, Reconsidered, Topic
from windrow.semantics.landing.host_clock import refuse_clock_that_went_back
from windrow.semantics.landing.offsets import reconsidering_batch
from windrow.semantics.landing.undelivered import Committed
from windrow.transforms.decode import decode, records_of
from windrow.transforms.erased import emptied


def reconsidering(why: str | None, who: str | None) -> Reconsidered | None:
    """Return who has quarantined rows judged again, and why; None if nobody does.

    Raises:
        BadRequest: the reason is empty or not one line.
    """
    if why is None:
        return None
    decided = decision("reconsidering quarantined records", why, who)
    return Reconsidered(decided.who, decided.reason)


def reconsider_once(spark: SparkSession, ctx: Context, decided: Reconsidered) -> Observation:
    """Judge the quarantined rows of every topic again; return the clock afterwards.

    Raises:
        ClockWentBack: the clock of this host is behind the last landing.
        CommitsLost: a landing table lacks what the clock says was landed.
        ErasedColumnGone: keys were erased by a column that the pipeline file lacks.
    """
    home = ctx.home
    with held(home.lock(Table.LANDING)):
        erasures.require_covered(home)
        before = clocks.observe(home)
        batches.refuse_lost(home, before.rows)
        landed_at = ctx.now()
        refuse_clock_that_went_back(landed_at, [row["landed_at"] for row in before.rows], home.pipeline.max_skew)
        topics = broker.describe(home.places.brokers, home.pipeline.topics)
        rows = [
            row
            for name in home.pipeline.topics
            for row in _reconsider_topic(spark, home, topics[name], landed_at, before.of_topic(name), decided)
        ]
        if {row["topic"]: row["batch"] for row in rows} == before.pins:
            return before
        return clocks.record_next(home, before, rows)


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

    Raises:
        RegistryUnreachable: a record has a schema that is not known yet, and its registry does not answer.
    """
    path = home.landing(topic.name)
    bad = batches.quarantined(spark, path, batch)
    if bad is None:
        return previous
    records = records_of(bad, is_stamped=topic.is_stamped, with_envelope=home.pipeline.takes_envelope(topic.name))
    known = schemas.asked(home, topic.name, records, batch.landed_at)
    read = decode(records, home.pipeline, batch, known, careful=home.places.decode_carefully)
    judged = read.where(F.col(QUARANTINED).isNull())
    erased_since = erasures.watch(home)
    rows = emptied(judged, home.pipeline, topic.name, erased.keys_of(spark, home))
    if rows.isEmpty():
        return previous
    crash_points.point("land.before_commit")
    batches.append(rows, home, batch, erased_since)
    crash_points.point("land.after_commit")
    return clock_after(spark, home, topic, Committed(batch, None), previous)
