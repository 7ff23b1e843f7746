"""Which offsets a landing run takes next, and which are lost.

    position is known and readable            ─▶ a batch from the position on
    position before the broker's first offset ─▶ lost: landing fails until a person gives the range up (rule 13)
    position after the broker's end offset    ─▶ the broker lost records that are landed here: landing fails for good
    no position                               ─▶ a batch from the earliest offset, never from the latest; what is gone
                                                 before that is a gap (at the first landing of a topic) or lost
    position in a topic that was made again   ─▶ what the old one got after its last landing is not known: a gap

The position of a partition is `next_offset` in its newest row of the `clock` table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from windrow.outcomes import NeedsPerson
from windrow.semantics.clock import ClockRow, NotCaughtUp, latest
from windrow.semantics.landing.batch import Batch, Reconsidered, Topic
from windrow.semantics.landing.gaps import AcceptedGap, GivenUp, Lost, NoSuchGap

RECORDS_PER_PARTITION = 2_000_000
"""Most offsets of one partition in a batch: a backlog is landed in steps, so that a failure loses one step only."""


class OffsetsGone(NeedsPerson):
    """The broker deleted offsets before they were landed. A retry does not help; a person decides."""


class TopicCompacted(NeedsPerson):
    """The broker removes records of the topic whose key has a newer one. A retry does not help; a person decides."""


def refuse_compacted(topic: Topic, *, is_accepted: bool) -> None:
    """Refuse a compacted topic that the pipeline file does not accept.

    Args:
        topic: the topic as the broker knows it now.
        is_accepted: whether its streams have `compacted: accept`.

    Raises:
        TopicCompacted: a label that compaction removes would look like one that never came.
    """
    if topic.is_compacted and not is_accepted:
        raise TopicCompacted(
            f"topic {topic.name} is compacted (its cleanup.policy contains compact): the broker removes records whose "
            "key has a newer one, and a row whose label was removed would look like a negative. Nothing of the topic "
            "was landed. Set its cleanup.policy to delete. Or write `compacted: accept` into its streams in the "
            "pipeline file: every offset that is not delivered is then a gap, and rows whose window overlaps it "
            "become unknown."
        )


def next_batch(topic: Topic, landed_at: datetime, previous: Sequence[ClockRow], given_up: GivenUp) -> Batch:
    """The batch to land next; it is empty if nothing new is readable.

    Args:
        topic: the topic as the broker knows it now.
        landed_at: time of the landing run.
        previous: the topic's rows of the clock; empty before its first batch.
        given_up: lost ranges that a person gives up.

    Raises:
        OffsetsGone: offsets are lost that nobody gave up.
    """
    epoch, number = 0, 1
    same = [row for row in previous if row["topic_id"] == topic.id]
    if previous:
        # A topic that was deleted and created again has another id: its offsets begin anew, in another epoch.
        epoch = previous[0]["epoch"] + (not same)
        number = previous[0]["batch"] + 1
    gaps = _accepted(lost_ranges(topic, previous), given_up, previous, epoch, number, landed_at)
    if not previous:
        gaps = _before_the_first(topic, landed_at)
    elif not same:
        gaps = (*gaps, *_after_the_last(previous, number, landed_at))
    positions = {row["partition"]: row["next_offset"] for row in same}
    ranges = {}
    for p in topic.partitions:
        # If the first offset is beyond the position, the offsets between them have just been accepted as a gap.
        start = max(positions.get(p.number, p.begin), p.begin)
        ranges[p.number] = (start, min(p.end, start + RECORDS_PER_PARTITION), p.known_end)
    return Batch(topic.name, topic.id, epoch, number, landed_at, ranges, gaps)


def reconsidering_batch(
    topic: Topic, landed_at: datetime, previous: Sequence[ClockRow], decided: Reconsidered
) -> Batch | None:
    """The batch of quarantined rows that are judged again: no position moves. None where nothing of the topic landed.

    Rows of an earlier topic of the same name are left as they are: their counts are closed.

    Args:
        topic: the topic as the broker knows it now.
        previous: the topic's rows of the clock.
    """
    if not previous or any(row["topic_id"] != topic.id for row in previous):
        return None
    ends = {p.number: p.known_end for p in topic.partitions}
    ranges = {row["partition"]: (*[row["next_offset"]] * 2, ends[row["partition"]]) for row in previous}
    first = previous[0]
    return Batch(topic.name, topic.id, first["epoch"], first["batch"] + 1, landed_at, ranges, reconsidered=decided)


def lost_ranges(topic: Topic, previous: Sequence[ClockRow]) -> list[Lost]:
    """Offsets that were not landed yet and that the broker has deleted.

    Args:
        previous: the topic's rows of the clock.

    Raises:
        OffsetsGone: the broker's log ends before the position.
    """
    partitions = {p.number: p for p in topic.partitions}
    lost = []
    for row in previous:
        number, position = row["partition"], row["next_offset"]
        if row["topic_id"] != topic.id:  # the topic was deleted, and with it what was still to be landed
            if row["end_offset"] > position:
                lost.append(Lost(topic.name, number, position, row["end_offset"]))
        elif position < partitions[number].begin:
            lost.append(Lost(topic.name, number, position, partitions[number].begin))
        elif position > partitions[number].end:
            raise OffsetsGone(
                f"topic {topic.name} partition {number}: the next offset to land is {position}, but the broker's log "
                f"ends at {partitions[number].end}: the broker lost records that are landed here, and would give "
                "their offsets to others. Nothing was landed. Create the topic anew; its rows then have an epoch of "
                "their own."
            )
    return [*lost, *_unseen(topic, previous)] if previous else lost


def refuse_drain(topics: Iterable[Topic], clock: Sequence[ClockRow]) -> None:
    """Refuse to declare the end of the stream while the broker has records that have not landed.

    The clock knows how much the last landing left behind, and nothing of what was produced after it.

    Args:
        topics: the pipeline's topics as the broker knows them now.
        clock: the rows of the newest observation.

    Raises:
        NotCaughtUp: names partitions, and what to do.
    """
    positions = {(row["topic_id"], row["partition"]): row["next_offset"] for row in clock}
    behind = [
        f"{topic.name}/{p.number} at {position} of {p.known_end}"
        for topic in topics
        for p in topic.partitions
        if (position := positions.get((topic.id, p.number), 0)) < p.known_end
    ]
    if behind:
        raise NotCaughtUp(
            f"cannot drain while the broker has records that have not landed: {', '.join(behind)}. Land them, then "
            "drain again; records of an open transaction land once their producer ends it"
        )


def _unseen(topic: Topic, previous: Iterable[ClockRow]) -> list[Lost]:
    """What partitions that were never landed have lost: those that joined a topic, or all of one that is made anew."""
    landed = {row["partition"] for row in previous if row["topic_id"] == topic.id}
    return [Lost(topic.name, p.number, 0, p.begin) for p in topic.partitions if p.number not in landed and p.begin]


def _before_the_first(topic: Topic, landed_at: datetime) -> tuple[AcceptedGap, ...]:
    """What the broker had deleted before the first landing of a topic: a gap without anybody's act.

    Nobody can bring it back, and every long-lived topic has it. But a row whose labels may be in there is no negative.
    """
    why = "deleted before the first landing"
    return tuple(
        AcceptedGap(one, epoch=0, batch=1, newest_before=None, accepted_at=landed_at, who="landing", why=why)
        for one in _unseen(topic, ())
    )


def _after_the_last(previous: Iterable[ClockRow], number: int, landed_at: datetime) -> tuple[AcceptedGap, ...]:
    """What a topic that was deleted may have got after its last landing: a gap without anybody's act.

    Nobody knows whether there was anything, or how much, so the range of offsets is empty. Where it is known that
    offsets were left to be landed, a person has given them up, and that gap covers what came behind them.
    """
    why = "the topic was deleted and made again: what the old one got after its last landing is not known"
    return tuple(
        AcceptedGap(
            Lost(row["topic"], row["partition"], row["next_offset"], row["next_offset"]),
            epoch=row["epoch"],
            batch=number,
            newest_before=latest(row["newest_at"], row["clock_at"]),
            accepted_at=landed_at,
            who="landing",
            why=why,
        )
        for row in previous
        if row["end_offset"] <= row["next_offset"]
    )


def _accepted(
    lost: Sequence[Lost],
    given_up: GivenUp,
    previous: Iterable[ClockRow],
    epoch: int,
    number: int,
    landed_at: datetime,
) -> tuple[AcceptedGap, ...]:
    """The lost ranges as gaps of batch `number`; refused if a person has not given up each of them."""
    if missing := [one for one in lost if one not in given_up.lost]:
        ranges = "; ".join(f"topic {x.topic} partition {x.partition}: offsets [{x.start}, {x.until})" for x in missing)
        accept = " ".join(f"--accept-gap {one}" for one in missing)
        raise OffsetsGone(
            f"{ranges} are gone from the broker and were never landed. Nothing was landed. Lengthen the topic's "
            "retention. If they cannot come back, a person gives them up, on record, and rows whose labels may be "
            f"among them become unknown: `windrow land NAME {accept} --reason '…'`."
        )
    rows = {row["partition"]: row for row in previous}

    def gap(one: Lost) -> AcceptedGap:
        row = rows.get(one.partition)
        is_known = row is not None and row["next_offset"] == one.start
        return AcceptedGap(
            one,
            epoch=row["epoch"] if row is not None and is_known else epoch,
            batch=number,
            newest_before=row["newest_at"] if row is not None and is_known else None,
            accepted_at=landed_at,
            who=given_up.who,
            why=given_up.why,
        )

    return tuple(map(gap, lost))


def refuse_not_lost(
    given_up: GivenUp, topics: Iterable[Topic], previous: Sequence[ClockRow], known: Iterable[AcceptedGap]
) -> None:
    """Refuse to give up a range that is not lost.

    A range that was given up before is accepted, so that a command can be repeated.

    Args:
        topics: the pipeline's topics as the broker knows them now.
        previous: all rows of the clock.
        known: the gaps on record.

    Raises:
        NoSuchGap: a range is neither lost now nor was given up before.
    """
    lost = [one for topic in topics for one in lost_ranges(topic, [r for r in previous if r["topic"] == topic.name])]
    accepted = [gap.lost for gap in known]
    for one in given_up.lost:
        if one not in lost and one not in accepted:
            ranges = ", ".join(map(str, lost)) or "none"
            raise NoSuchGap(f"{one} is not lost, so nothing was given up or landed; lost ranges: {ranges}")
