"""replay: land the batches again that a landing table has lost, each with its own offsets and its own number.

    read      clock history: offsets and landing time of every batch; what Kafka still has of them
    compute   the lost batches, with a gap for what it no longer has      (`semantics.landing.replay`)
    write     an observation with these gaps, where there are any; one landing commit per batch; then, where the counts
              of the clock have changed, another observation

Nothing happens where no batch is lost. A replay that was killed is continued by the next one, which counts anew from
the first batch of which clock and landing commits say different things. Plans and publications stay as they are: at
their pins the landing tables hold the same rows again, but for those of a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from windrow.home import Home, Table
from windrow.io.column_changes import require_unchanged
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.io.expressions import require_sound
from windrow.io.landing import batches, broker
from windrow.io.registers import clocks, erasures
from windrow.io.registers.clocks import Observation
from windrow.io.registers.plans import Request
from windrow.jobs.decision import decision
from windrow.jobs.landing.batch import clock_after, land_batch
from windrow.jobs.landing.reconsider import reconsider_batch
from windrow.jobs.options import PipelineName, Reason, Who
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch, Reconsidered, Topic
from windrow.semantics.landing.gaps import Lost, gaps_of
from windrow.semantics.landing.offsets import lost_ranges
from windrow.semantics.landing.replay import agreed, announced, corrected_totals, growth, lost_batches, rows_at
from windrow.text import counted


class Replayed(NamedTuple):
    """A batch that was landed again."""

    topic: str
    batch: int
    rows: int
    before: int
    """rows that it had when it was landed first"""
    gaps: tuple[Lost, ...]

    def __str__(self) -> str:
        text = f"{self.topic}: batch {self.batch} landed again, {counted(self.rows, 'row')}"
        if self.rows != self.before:
            text += f", where it had {self.before:,}"
        if self.gaps:
            text += f"; gone from Kafka, and a gap from now on: {', '.join(map(str, self.gaps))}"
        return text


def replay(ctx: Context, asked: Request) -> list[Replayed]:
    """Land the lost batches of every topic again; return them, oldest first by topic.

    Args:
        asked: who asks for it, and why; recorded with the gaps.

    Raises:
        OffsetsGone: the broker's log ends before the position.
        BrokerUnreachable, TopicMissing: the broker does not answer, or has no such topic.
        BalanceBroken: a batch does not hold one row per delivered record.
        TypesChanged, OriginsChanged: a column has another type, or another origin, than in the tables.
        ErasedColumnGone: keys were erased by a column that the pipeline file lacks.
        PipelineInvalid: Spark cannot run a `where`, or not twice with the same result.
    """
    home = ctx.home
    require_unchanged(home)
    spark = spark_for(f"replay {home.pipeline.name}", ctx.places, ctx.pipeline)
    require_sound(spark, ctx.pipeline)
    with held(home.lock(Table.LANDING)):
        erasures.note_holders(home, erasures.require_covered(home), ctx.now())
        clock = clocks.observe(home)
        topics = broker.describe(home.places.brokers, home.pipeline.topics)
        history = {name: clocks.history(home, name) for name in home.pipeline.topics}
        rows, lost = {}, {}
        for name in home.pipeline.topics:
            lost_ranges(topics[name], clock.of_topic(name))  # of a broker that lost its newest records nothing is read
            rows[name] = _rows_held(spark, home, topics[name], history[name])
            found = lost_batches(history[name], rows[name], topics[name], ctx.now(), asked.who, asked.reason)
            lost[name] = list(found)
        clock = _recorded(
            home, clock, [row for name in rows for row in announced(clock.of_topic(name), lost[name], history[name])]
        )
        replayed: list[Replayed] = []
        for name, again in lost.items():
            for batch in again:
                before, rows[name] = rows[name], _land_again(spark, home, topics[name], batch, rows[name], asked)
                replayed.append(_replayed(batch, growth(before, rows[name]), history[name]))
        corrected = [
            row
            for name in rows
            for row in corrected_totals(clock.of_topic(name), rows[name], (*history[name], *clock.of_topic(name)))
        ]
        _recorded(home, clock, corrected)
    return replayed


def _recorded(home: Home, clock: Observation, rows: list[ClockRow]) -> Observation:
    """Record the next observation where rows differ from those of the clock; return the newest."""
    return clock if rows == list(clock.rows) else clocks.record_next(home, clock, rows)


def _rows_held(spark: SparkSession, home: Home, topic: Topic, history: Sequence[ClockRow]) -> Sequence[ClockRow]:
    """Return the topic's rows of the clock after the newest batch that its landing table holds."""
    path = home.landing(topic.name)
    number, table = batches.held(path).batch, tables.opened(path)
    committed = [] if table is None else [*batches.committed_up_to(table, number)][::-1]
    rows = rows_at(history, agreed(history, committed, number))
    # a batch that was clocked only together with the next one, or that a killed replay has landed
    for one in committed:
        if one.batch.number > (rows[0]["batch"] if rows else 0):
            rows = clock_after(spark, home, topic, one, rows)
    return rows


def _land_again(
    spark: SparkSession, home: Home, topic: Topic, batch: Batch, rows: Sequence[ClockRow], asked: Request
) -> Sequence[ClockRow]:
    """Land a lost batch; return the topic's rows of the clock after it."""
    if not batch.size and not batch.gaps:  # it took no offsets: quarantined rows were judged again in it
        again = replace(batch, reconsidered=Reconsidered(asked.who, asked.reason))
        after = reconsider_batch(spark, home, topic, again, rows)
        if after is not rows:
            return after
    return land_batch(spark, home, topic, batch, rows)


def _replayed(batch: Batch, rows: int, history: Sequence[ClockRow]) -> Replayed:
    at_first = rows_at(history, batch.number)
    before = growth(rows_at(history, batch.number - 1), at_first)
    known = {gap.lost for gap in gaps_of(at_first)}
    new = tuple(gap.lost for gap in batch.gaps if gap.lost not in known)
    return Replayed(batch.topic, batch.number, rows, before, new)


def execute(pipeline: PipelineName, reason: Reason = "", who: Who = None) -> Mapping[str, Any]:
    """Land lost batches again, and return which.

    Raises:
        BadRequest: there is no reason, or reason or name are not one line.
        Condition: those of `replay`.
    """
    replayed = replay(context(pipeline), decision("landing lost batches again", reason, who))
    return {"replayed": [str(one) for one in replayed]}


main = job(execute)
