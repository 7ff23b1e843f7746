"""Landed offsets that the broker has given to other records: it lost its newest ones, and got new ones since.

    landed        10  11  12  13          record 13 was stamped 10:07:41
    broker lost           12  13          an unclean election, or a volume that was restored from an older copy
    broker now    10  11  n1  n2  n3      offset 13 is another record now, stamped 10:32:05: n1 and n2 would be taken
                                          for landed, and landing would go on with n3

So the newest landed record of each partition is compared with what the broker has at its offset, by its timestamp,
which never changes. Where nothing is there any more (retention, compaction), nothing is known to be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from windrow.outcomes import NeedsPerson
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.batch import Topic
from windrow.text import shown_instant


class OffsetsReplaced(NeedsPerson):
    """The broker has other records at offsets that have landed. A retry does not help; a person decides."""


class LastRecord(NamedTuple):
    """Offset and timestamp of the newest record that landed from a partition."""

    offset: int
    record_at: datetime | None
    """None for a record of an old format, which has no timestamp"""


A_MARKER = "a transaction marker"


def last_record_of(row: ClockRow | None) -> LastRecord | None:
    """The newest landed record by a row of the clock; None before the first, and in rows of earlier versions."""
    if row is None or row.get("record_offset") is None:
        return None
    return LastRecord(row["record_offset"], row["record_at"])


def to_compare(topic: Topic, previous: Sequence[ClockRow]) -> dict[int, LastRecord]:
    """The newest landed record by partition, where the broker can still have it.

    Args:
        topic: the topic as the broker knows it now.
        previous: the topic's rows of the clock.
    """
    ranges = {p.number: range(p.begin, p.known_end) for p in topic.partitions}
    known = {row["partition"]: last_record_of(row) for row in previous if row["topic_id"] == topic.id}
    return {
        number: last
        for number, last in known.items()
        if last is not None and last.record_at is not None and last.offset in ranges.get(number, ())
    }


def refuse_replaced(topic: str, landed: Mapping[int, LastRecord], present: Mapping[int, datetime | str]) -> None:
    """Refuse to go on in a partition whose newest landed record is another one now.

    Args:
        landed: what `to_compare` returns.
        present: timestamp of what the broker has at that offset, or `A_MARKER`; partitions where it has nothing
            are missing.

    Raises:
        OffsetsReplaced: names topic, partition and offset, and what to do.
    """
    other = {p: found for p, found in present.items() if found != landed[p].record_at}
    for partition, found in sorted(other.items()):
        offset, record_at = landed[partition]
        assert record_at is not None, "a record without a timestamp is not compared"
        now = found if isinstance(found, str) else f"one of {shown_instant(found)}"
        raise OffsetsReplaced(
            f"topic {topic} partition {partition}: the record at offset {offset} is landed with the timestamp "
            f"{shown_instant(record_at)}, and the broker has {now} there: it lost its newest records (an "
            "unclean election, or a restored volume) and gave their offsets to others, which would be taken for "
            "landed. Nothing was landed. Create the topic anew, and let its producers send again what is missing; its "
            "rows then have an epoch of their own."
        )
