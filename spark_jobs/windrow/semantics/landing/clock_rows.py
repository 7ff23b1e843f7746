"""Rows of the `clock` table after a landing batch, from the rows before it and from what the batch holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.balance import BalanceBroken
from windrow.semantics.clock import ClockRow, IdlePolicy, PartitionClock, advance, topic_clock
from windrow.semantics.landing.batch import Batch, Topic
from windrow.semantics.landing.gaps import AcceptedGap, by_partition, gaps_of, gaps_text
from windrow.semantics.landing.replaced import LastRecord, last_record_of
from windrow.semantics.landing.undelivered import Account


@dataclass(frozen=True)
class Counts:
    """What a batch holds of one partition."""

    landed: int = 0
    quarantined: int = 0
    before_start: int = 0
    """good left rows with an event time before the pipeline's start"""
    unreadable: int = 0
    """landed rows that a stream is meant to read and cannot"""
    newest_at: datetime | None = None
    """newest trusted event time that is no canary's"""
    first_at: datetime | None = None
    """event time of the first good record that has one and a timestamp, and is no canary"""
    first_record_at: datetime | None = None
    """timestamp of that record"""
    last: LastRecord | None = None
    """newest record of the partition, readable or not"""
    bytes: int = 0
    """of the batch's data files, by the partition's share of their rows"""


NO_ROWS = Counts()

TOTALS = ("read", "landed", "quarantined", "skipped", "unexplained", "before_start", "unreadable")
"""Columns of the clock that count since the first offset of the epoch."""


def with_bytes(counts: Mapping[int, Counts], size: int) -> dict[int, Counts]:
    """Return counts with the bytes of a batch's data files, divided by rows and rounded down.

    >>> [one.bytes for one in with_bytes({0: Counts(landed=2, quarantined=1), 1: Counts(landed=1)}, 100).values()]
    [75, 25]

    Args:
        counts: what the batch holds, by partition.
        size: bytes of its data files.
    """
    rows = sum(one.landed + one.quarantined for one in counts.values())
    return {p: replace(one, bytes=size * (one.landed + one.quarantined) // max(1, rows)) for p, one in counts.items()}


def check_delivered(batch: Batch, counts: Mapping[int, Counts], delivered: int | None) -> None:
    """Check that a committed batch holds one row per record that Kafka delivered.

    Args:
        delivered: number of records; None where the commit does not record it, then there is nothing to check.

    Raises:
        BalanceBroken: it holds more rows, or fewer.
    """
    stored = sum(one.landed + one.quarantined for one in counts.values())
    if delivered is not None and stored != delivered:
        raise BalanceBroken(
            f"landing table of {batch.topic}: batch {batch.number} holds {stored} rows, but {delivered} records were "
            "delivered. The batch is committed and must not be trusted: keep the table, and report this with its "
            "commit log."
        )


def undelivered(batch: Batch, counts: Mapping[int, Counts]) -> dict[int, int]:
    """Number of offsets without a row, by partition; usually empty.

    Args:
        counts: what the batch holds, by partition.
    """
    missing: dict[int, int] = {}
    if batch.reconsidered is not None:  # its rows have offsets of earlier batches
        return missing
    for partition, (start, until, _) in batch.ranges.items():
        count = counts.get(partition, NO_ROWS)
        missing[partition] = until - start - count.landed - count.quarantined
    return {partition: number for partition, number in missing.items() if number}


def check_accounted(batch: Batch, counts: Mapping[int, Counts], account: Account) -> None:
    """Check that every offset of a batch is accounted for: read = landed + quarantined + skipped + unexplained.

    Args:
        counts: what the batch holds, by partition.
        account: what its undelivered offsets are.

    Raises:
        BalanceBroken: the landing of a partition does not balance.
    """
    for partition, (start, until, _) in batch.ranges.items() if batch.reconsidered is None else ():
        count = counts.get(partition, NO_ROWS)
        skipped, unexplained = account.skipped.get(partition, 0), account.unexplained.get(partition, 0)
        if until - start != count.landed + count.quarantined + skipped + unexplained:
            raise BalanceBroken(
                f"landing table of {batch.topic}: batch {batch.number} read {until - start} offsets of partition "
                f"{partition}, and that is not landed {count.landed} + quarantined {count.quarantined} + skipped "
                f"{skipped} + unexplained {unexplained}. The batch is committed and must not be trusted: keep the "
                "table, and report this with its commit log."
            )


def clock_rows(
    batch: Batch,
    previous: Sequence[ClockRow],
    counts: Mapping[int, Counts],
    account: Account,
    *,
    out_of_orderness: timedelta,
    idle: IdlePolicy,
) -> tuple[ClockRow, ...]:
    """The topic's clock after a batch: rules 2, 5 and 6.

    Args:
        batch: the batch, also an empty one: idling may move the clock.
        previous: the topic's rows before the batch, possibly of an earlier epoch.
        counts: what the batch holds, by partition; a partition without a row in the batch may be missing.
        account: what its undelivered offsets are.
        out_of_orderness: of the topic.

    Returns:
        One row per partition, without the number of the observation. `read` to `unreadable` are totals since the
        first offset of the epoch.
    """
    number = batch.number - 1 if batch.is_empty else batch.number
    gaps = _gaps_after(batch, previous, counts, account)
    clock_before = topic_clock(PartitionClock.of_row(row) for row in previous)
    same = {row["partition"]: row for row in previous if row["topic_id"] == batch.topic_id}
    rows = []
    for partition in batch.ranges:
        last, count = same.get(partition), counts.get(partition, NO_ROWS)
        clock = advance(
            PartitionClock.of_row(last) if last else None,
            batch.progress(partition, count.newest_at),
            out_of_orderness=out_of_orderness,
            idle=idle,
            topic_clock=clock_before,
        )
        rows.append(
            {
                **vars(clock),
                "topic_id": batch.topic_id,
                "batch": number,
                "idle": clock.clock_at is not None and clock.clock_at != clock.event_clock(out_of_orderness),
                "landed_at": batch.landed_at,
                **_totals(batch, partition, count, account, last),
                "gap": gaps_text(gaps.get(partition, ())),
                **_last_record(batch, count, last),
            }
        )
    return tuple(rows)


def with_retention(rows: Sequence[ClockRow], topic: Topic) -> list[ClockRow]:
    """Return rows of a topic with what the broker still has of it: columns `oldest_offset` and `retention_s`.

    Args:
        rows: the topic's rows of the clock.
        topic: the topic as the broker knows it now.
    """
    oldest = {one.number: one.begin for one in topic.partitions}
    seconds = topic.retention.total_seconds() if topic.retention is not None else None
    return [{**row, "oldest_offset": oldest.get(row["partition"]), "retention_s": seconds} for row in rows]


def _totals(batch: Batch, partition: int, count: Counts, account: Account, last: ClockRow | None) -> dict[str, Any]:
    """Counts of the batch added to those of the partition's last row."""
    start, until, _ = batch.ranges[partition]
    # what is reconsidered was counted as quarantined when its offset was read
    quarantined = count.quarantined if batch.reconsidered is None else -count.landed
    grown = {
        "read": until - start,
        "landed": count.landed,
        "quarantined": quarantined,
        "skipped": account.skipped.get(partition, 0),
        "unexplained": account.unexplained.get(partition, 0),
        "before_start": count.before_start,
        "unreadable": count.unreadable,
        "reconsidered": 0 if batch.reconsidered is None else count.landed,
        "bytes": count.bytes,
    }
    # rows of an earlier version lack the newest counts
    return {name: value + ((last.get(name) or 0) if last else 0) for name, value in grown.items()}


def _last_record(batch: Batch, count: Counts, last: ClockRow | None) -> dict[str, Any]:
    """The newest record that landed. What is reconsidered has offsets of earlier batches."""
    newest = count.last if batch.reconsidered is None and count.last else last_record_of(last)
    return {"record_offset": newest and newest.offset, "record_at": newest and newest.record_at}


def _gaps_after(
    batch: Batch, previous: Sequence[ClockRow], counts: Mapping[int, Counts], account: Account
) -> dict[int, list[AcceptedGap]]:
    """Every gap of the topic, by the partition whose row carries it on."""
    ended = []
    for gap in (*gaps_of(previous), *batch.gaps):
        first = counts.get(gap.lost.partition, NO_ROWS)
        # reconsidered offsets may be in front of the gap
        is_behind = batch.reconsidered is None and gap.epoch == batch.epoch
        is_open = gap.next_after is None and is_behind
        if is_open and first.first_at is not None and first.first_record_at is not None:
            gap = gap.ended(batch.number, first.first_at, first.first_record_at)
        ended.append(gap)
    # the account's lie among the rows of the batch: it knows what is behind them
    return by_partition((*ended, *account.gaps), batch.ranges)
