"""Lost batches: which offsets each of them had, so that they are landed again as they were.

    clock, an observation per row        batch 4 holds offsets [20, 35)            the landing table ends at batch 3:
        batch 3   next offset 20    ─▶   batch 5 holds offsets [35, 41)      ─▶    4 and 5 are landed again, under their
        batch 4   next offset 35                                                   numbers and at their landing times
        batch 5   next offset 41

The record at an offset never changes. So the rows, the clock and the pins of every plan stay right. What the broker has
deleted meanwhile is a gap (rule 13), accepted by the person who asks for the replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Batch, Topic
from windrow.semantics.landing.clock_rows import TOTALS
from windrow.semantics.landing.gaps import AcceptedGap, Lost, by_partition, gaps_of, gaps_text, newest_of
from windrow.semantics.landing.undelivered import Committed


def lost_batches(
    history: Sequence[ClockRow], held: Sequence[ClockRow], topic: Topic, now: datetime, who: str, why: str
) -> Iterator[Batch]:
    """Yield the batches that a landing table lacks, oldest first, with the gaps that a replay accepts.

    A batch that was committed and clocked together with the next one, because a run was killed between its commits, is
    part of that one: no plan can have it as its pin. It is not known at all if the topic was made again before the next
    run.

    Args:
        history: the topic's rows of all observations of the clock.
        held: the topic's rows of the clock after the newest batch that the landing table holds; empty without one.
        topic: the topic as the broker knows it now.
        now: when the gaps are accepted.
        who: the person who accepts them.
        why: the person's reason.
    """
    before = held
    for number, rows in _by_batch(history):
        if number > max((row["batch"] for row in held), default=0):
            yield _batch(number, rows, before, topic, now, who, why)
            before = rows


def rows_at(history: Sequence[ClockRow], batch: int) -> Sequence[ClockRow]:
    """Rows of the clock after a batch, or after the newest one before it that was clocked; empty without one."""
    return next((rows for number, rows in reversed(_by_batch(history)) if number <= batch), ())


def growth(before: Sequence[ClockRow], after: Sequence[ClockRow]) -> int:
    """Number of rows that a topic's landing table got between two states of its clock."""
    counted = {(row["topic_id"], row["partition"]): row["landed"] + row["quarantined"] for row in before}
    return sum(
        row["landed"] + row["quarantined"] - counted.get((row["topic_id"], row["partition"]), 0) for row in after
    )


def agreed(history: Sequence[ClockRow], committed: Sequence[Committed], held: int) -> int:
    """The newest batch up to which landing commits are as the clock has them: the number of rows, and the gaps.

    They are not where a replay was killed before its observation.

    Args:
        history: the topic's rows of all observations of the clock.
        committed: the commits that the landing table's log has.
        held: the newest batch that the landing table holds.
    """
    known = {gap.key for gap in gaps_of(history)}
    oldest = min((one.batch.number for one in committed), default=held + 1)
    last, before = 0, list[ClockRow]()
    for number, rows in _by_batch(history):
        if number > held:
            break
        own = [one for one in committed if last < one.batch.number <= number]
        gaps = {gap.key for one in own for gap in (*one.batch.gaps, *(one.account.gaps if one.account else ()))}
        if oldest <= last + 1 and not (gaps <= known and _has_rows(own, growth(before, rows))):
            break
        last, before = number, rows
    return last


def _has_rows(committed: Sequence[Committed], grown: int) -> bool:
    """Whether commits hold so many rows; true where one does not record it."""
    rows = [one.rows for one in committed if one.batch.reconsidered is None]
    return None in rows or sum(filter(None, rows)) == grown


def announced(latest: Sequence[ClockRow], lost: Iterable[Batch], history: Sequence[ClockRow]) -> list[ClockRow]:
    """The topic's newest rows of the clock with the gaps that a replay of lost batches is about to accept.

    They are on record before a batch is landed again, so that none is forgotten if the replay is killed.
    """
    known = {gap.key for gap in gaps_of(history)}
    return _with_gaps(latest, [gap for batch in lost for gap in batch.gaps if gap.key not in known])


def corrected_totals(
    latest: Sequence[ClockRow], replayed: Sequence[ClockRow], history: Sequence[ClockRow]
) -> list[ClockRow]:
    """The topic's newest rows of the clock with the counts and gaps of a replay of the same batches.

    How far event time had come stays: what the lost records said of it was true. Gaps that an observation has stay too.

    Args:
        history: the topic's rows of all observations of the clock.
    """
    known = {(row["topic_id"], row["partition"]): row for row in replayed}
    on_record = set(gaps_of(history))
    new = [gap for gap in gaps_of(replayed) if gap not in on_record and not _is_covered(gap, on_record)]

    def corrected(row: ClockRow) -> ClockRow:
        found = known.get((row["topic_id"], row["partition"]))
        return {**row, **{name: found.get(name) for name in TOTALS}} if found else row

    return _with_gaps([corrected(row) for row in latest], new)


def _is_covered(gap: AcceptedGap, on_record: Iterable[AcceptedGap]) -> bool:
    """Whether offsets that landing found undelivered, again, are in a gap on record: maybe under another batch."""
    lost = gap.lost
    return gap.was_read and any(
        (one.epoch, one.lost.partition) == (gap.epoch, lost.partition)
        and one.lost.start <= lost.start
        and lost.until <= one.lost.until
        for one in on_record
    )


def _with_gaps(rows: Sequence[ClockRow], new: Sequence[AcceptedGap]) -> list[ClockRow]:
    """Rows of a topic with more gaps, each in the row of its partition, or in the first where that is gone."""
    of = by_partition(new, [row["partition"] for row in rows])

    def with_own(row: ClockRow) -> ClockRow:
        own = of.get(row["partition"])
        return {**row, "gap": gaps_text(newest_of((*gaps_of([row]), *own)))} if own else row

    return [with_own(row) for row in rows]


def _by_batch(history: Sequence[ClockRow]) -> list[tuple[int, list[ClockRow]]]:
    """The rows of the first observation after each batch: later ones with the same batch landed nothing."""
    ordered = sorted(history, key=lambda row: (row["batch"], row["observation"], row["partition"]))
    firsts = []
    for number, rows in groupby(ordered, key=lambda row: row["batch"]):
        found = list(rows)
        if number:  # before its first record a topic is observed with batch 0
            firsts.append((number, [row for row in found if row["observation"] == found[0]["observation"]]))
    return firsts


def _batch(
    number: int, rows: Sequence[ClockRow], before: Sequence[ClockRow], topic: Topic, now: datetime, who: str, why: str
) -> Batch:
    first = rows[0]
    previous = {row["partition"]: row for row in before if row["topic_id"] == first["topic_id"]}
    since = max((row["batch"] for row in before), default=0)
    # what landing found undelivered was read, and is looked at again
    known = [gap for gap in gaps_of(rows) if since < gap.batch <= number and not gap.was_read]
    ranges: dict[int, tuple[int, int, int]] = {}
    gaps = []
    for row in rows:
        partition, until = row["partition"], row["next_offset"]
        start = _first_offset(row, previous.get(partition), known)
        readable = _readable_from(topic, first["topic_id"], partition, until)
        if start < readable:
            gaps.append(
                AcceptedGap(
                    Lost(topic.name, partition, start, readable),
                    epoch=row["epoch"],
                    batch=number,
                    newest_before=previous[partition]["newest_at"] if partition in previous else None,
                    accepted_at=now,
                    who=who,
                    why=why,
                )
            )
        ranges[partition] = (max(start, readable), until, row["end_offset"])
    return Batch(topic.name, first["topic_id"], first["epoch"], number, first["landed_at"], ranges, (*known, *gaps))


def _first_offset(row: ClockRow, previous: ClockRow | None, gaps: Sequence[AcceptedGap]) -> int:
    """The first offset of a batch in a partition: behind what was landed before it, and behind gaps at its head."""
    own = sorted(
        (gap.lost for gap in gaps if (gap.lost.partition, gap.epoch) == (row["partition"], row["epoch"])),
        key=lambda lost: lost.start,
    )
    if previous is None:  # the first of an epoch begins where the topic began then: `read` does not count gaps
        return int(row["next_offset"] - row["read"] - sum(lost.until - lost.start for lost in own))
    start = previous["next_offset"]
    for lost in own:
        if lost.start <= start:
            start = max(start, lost.until)
    return int(start)


def _readable_from(topic: Topic, topic_id: str, partition: int, until: int) -> int:
    """The first offset up to `until` that the broker still has."""
    begins: Mapping[int, int] = {p.number: p.begin for p in topic.partitions} if topic.id == topic_id else {}
    return min(begins.get(partition, until), until)
