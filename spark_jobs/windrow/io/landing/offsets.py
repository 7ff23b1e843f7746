"""Which offsets a landing run takes next, and which it cannot take any more.

position of the clock ─▶ [position, end)     ─▶ a batch
position < first offset of the broker        ─▶ lost: fails, until a person gives the range up (rule 13)
position > end of the broker's log           ─▶ the broker lost what is landed: fails for good
no position                                  ─▶ from the earliest offset, never from the latest
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.io.landing import broker
from windrow.io.landing.batches import Batch
from windrow.io.landing.gaps import AcceptedGap, Lost, NoSuchGap, of_rows
from windrow.io.registers import clocks
from windrow.outcomes import NeedsPerson

Rows = tuple[Mapping[str, Any], ...]

RECORDS_PER_PARTITION = 2_000_000
"""How much of one partition a batch takes at most, so that a backlog is landed in steps that can be kept."""


class OffsetsGone(NeedsPerson):
    """The broker deleted offsets before they were landed. Trying again does not help; a person decides."""


@dataclass(frozen=True)
class GivenUp:
    """Lost ranges that a person accepts, on record."""

    lost: tuple[Lost, ...] = ()
    who: str = ""
    why: str = ""


NOTHING = GivenUp()


def next_batch(topic: broker.Topic, landed_at: datetime, previous: Rows, given_up: GivenUp) -> Batch:
    """Which offsets come next. A partition without a position starts at its earliest offset."""
    epoch, number = 0, 1
    same = previous
    if previous:
        same = tuple(row for row in previous if row["topic_id"] == topic.id)
        epoch = previous[0]["epoch"] + (not same)
        number = previous[0]["batch"] + 1
    accepted = _accepted(_gone(topic, previous), given_up, previous, number, landed_at)
    positions = {row["partition"]: row["next_offset"] for row in same}
    ranges = {}
    for p in topic.partitions:
        start = max(positions.get(p.number, p.begin), p.begin)
        ranges[p.number] = (start, min(p.end, start + RECORDS_PER_PARTITION), p.end)
    return Batch(topic.name, topic.id, epoch, number, landed_at, ranges, accepted)


def _gone(topic: broker.Topic, previous: Rows) -> list[Lost]:
    """Offsets that were to be landed and that the broker has no more."""
    here = {p.number: p for p in topic.partitions}
    found = []
    for row in previous:
        number, position = row["partition"], row["next_offset"]
        if row["topic_id"] != topic.id:  # the topic was deleted with what was still to be read
            if row["end_offset"] > position:
                found.append(Lost(topic.name, number, position, row["end_offset"]))
        elif position < here[number].begin:
            found.append(Lost(topic.name, number, position, here[number].begin))
        elif position > here[number].end:
            raise OffsetsGone(
                f"topic {topic.name} partition {number}: the next offset to land is {position}, but the broker's log "
                f"ends at {here[number].end}: it lost records that are landed here, and would give their offsets to "
                "others. Nothing was landed. Create the topic anew; its rows then have an epoch of their own."
            )
    return found


def _accepted(
    gone: list[Lost], given_up: GivenUp, previous: Rows, number: int, landed_at: datetime
) -> tuple[AcceptedGap, ...]:
    if missing := [lost for lost in gone if lost not in given_up.lost]:
        told = "; ".join(f"topic {x.topic} partition {x.partition}: offsets [{x.start}, {x.until})" for x in missing)
        accept = " ".join(f"--accept-gap {lost}" for lost in missing)
        raise OffsetsGone(
            f"{told} are gone from the broker and were never landed. Nothing was landed. Lengthen the topic's "
            "retention. If they cannot come back, a person gives them up, on record, and rows whose labels may be "
            f"among them become unknown: `windrow land NAME {accept} --reason '…'`."
        )
    rows = {row["partition"]: row for row in previous}
    return tuple(
        AcceptedGap(
            lost,
            epoch=rows[lost.partition]["epoch"],
            batch=number,
            newest_before=rows[lost.partition]["newest_at"],
            accepted_at=landed_at,
            who=given_up.who,
            why=given_up.why,
        )
        for lost in gone
    )


def refuse_strange(given_up: GivenUp, previous: clocks.Observation, topics: Mapping[str, broker.Topic]) -> None:
    """What is given up must be lost now, or have been given up before: a command may be repeated."""
    gone = [lost for topic in topics.values() for lost in _gone(topic, previous.of_topic(topic.name))]
    before = [gap.lost for gap in of_rows(previous.rows)]
    for lost in given_up.lost:
        if lost not in gone and lost not in before:
            others = ", ".join(map(str, gone)) or "none"
            raise NoSuchGap(f"{lost} is not lost, so nothing was given up or landed; lost ranges: {others}")
