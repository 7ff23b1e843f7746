"""One batch of a topic: records ─▶ landing rows ─▶ one commit; its rows counted, its undelivered offsets accounted for.

`jobs.land.land_once` shows these moves among those of a whole landing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from pyspark.sql import DataFrame, Observation, SparkSession

from windrow.home import Home
from windrow.io.delta import crash_points
from windrow.io.landing import batches, broker, erased, log
from windrow.io.registers import erasures
from windrow.jobs.landing import schemas
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch, Topic
from windrow.semantics.landing.clock_rows import (
    Counts,
    check_accounted,
    check_delivered,
    clock_rows,
    undelivered,
    with_bytes,
)
from windrow.semantics.landing.undelivered import (
    COMPACTED,
    NO_RECORD,
    Account,
    Committed,
    Explained,
    account_of,
    explain,
)
from windrow.transforms.decode import decode
from windrow.transforms.erased import emptied
from windrow.transforms.formats.schemas import Schemas
from windrow.transforms.landed import (
    around_gaps,
    count_by_partition,
    counts_of,
    neighbours_of,
    pieces_of,
    undelivered_ranges,
)


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
        RegistryUnreachable: a record has a schema that is not known yet, and its registry does not answer.
    """
    counted: list[Observation] = []

    def write(known: Schemas, is_complete: bool) -> None:
        # Read.
        with_headers = home.pipeline.takes_envelope(batch.topic)
        records, delivered = broker.read(spark, home.places.brokers, batch, with_headers=with_headers)

        # Compute.
        erased_since = erasures.watch(home)
        careful = home.places.decode_carefully
        rows = decode(records, home.pipeline, batch, known, is_complete=is_complete, careful=careful)
        rows = emptied(rows, home.pipeline, batch.topic, erased.keys_of(spark, home))

        # Write. The rows are counted as the table has them, not as they were written, so that a lost row is noticed.
        crash_points.point("land.before_commit")
        batches.append(rows, home, batch, erased_since)
        crash_points.point("land.after_commit")
        counted.append(delivered)

    def records() -> DataFrame:
        return broker.read(spark, home.places.brokers, batch)[0]

    schemas.written(home, batch.topic, records, batch.landed_at, write)
    return clock_after(spark, home, topic, Committed(batch, int(counted[-1].get["records"])), previous)


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
    counts = {} if batch.is_empty else counts_in(spark, home, batch, committed.rows)
    account = committed.account
    if account is None and undelivered(batch, counts):
        account = account_for(spark, home, topic, batch, previous, undelivered(batch, counts))
        batches.append_account(home.landing(topic.name), account)
    account = account or Account(batch.number)
    check_accounted(batch, counts, account)
    return clock_rows(
        batch,
        previous,
        counts,
        account,
        out_of_orderness=home.pipeline.out_of_orderness(batch.topic),
        idle=home.pipeline.idle,
    )


def counts_in(spark: SparkSession, home: Home, batch: Batch, delivered: int | None) -> dict[int, Counts]:
    """Count what a committed batch holds, by partition.

    Raises:
        BalanceBroken: it does not hold one row per delivered record.
    """
    rows = batches.rows_of(spark, home.landing(batch.topic), batch.number)
    counts = counts_of(count_by_partition(rows, home.pipeline, batch.topic).collect())
    check_delivered(batch, counts, delivered)
    return with_bytes(counts, batches.size_of(home.landing(batch.topic), batch.number))


def account_for(
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
    can_explain = topic.id == batch.topic_id and not topic.is_compacted
    explained: dict[int, Explained] = {}
    # a piece at a time: a topic with a transaction per record has as many ranges as records
    with closing(log.Log(spark, home.places.brokers, topic)) as shown:
        for p, ranges in pieces_of(undelivered_ranges(rows, batch, partitions).toLocalIterator()):
            headers = shown.batches(p, ranges) if can_explain else ()
            explained[p] = explained.get(p, Explained()) + explain(batch.topic, p, ranges, headers)
    gaps = {p: one.gaps for p, one in explained.items() if one.gaps}
    neighbours = neighbours_of(around_gaps(rows, gaps, home.pipeline, batch.topic).collect(), gaps) if gaps else {}
    return account_of(batch, previous, explained, neighbours, COMPACTED if topic.is_compacted else NO_RECORD)
