"""The question: which left row is meant. It names a row id, an event id, or a key and an event time.

feed.served/1/4711      feed.served/0/1/4711      5f0c…      user_id=1,item_id=2 at 2026-11-01T00:00:03Z
topic/partition/offset  topic/epoch/partition/    event id   key and event time
                        offset
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from windrow.columns import EVENT_TIME
from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.landing.landed_rows import LandedRows, Row, row_id_of
from windrow.io.registers import clocks
from windrow.jobs.explain.words import row_text
from windrow.jobs.run import BadRequest
from windrow.semantics.intervals import shifted
from windrow.text import counted, shown_instant

_ROW_ID = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)(/(?P<epoch>\d{1,9}))?/(?P<partition>\d{1,9})/(?P<offset>\d{1,18})")

_NEXT_PAIR = re.compile(r",(?=[A-Za-z][A-Za-z0-9_]*=)")
"""A comma between pairs. A comma inside a value is not followed by `name=`."""


@dataclass(frozen=True)
class Question:
    """Which row is meant, and how much is wanted."""

    row: str | None = None
    """a row id or an event id"""
    key: Mapping[str, str] = field(default_factory=dict)
    """key column → text; with `at`, instead of `row`"""
    at: datetime | None = None
    """event time of the row"""
    near: timedelta | None = None
    """how far outside a window to look; None: as far as the window is long"""
    columns: bool = False
    """whether the payload is shown too"""

    @property
    def needs_search(self) -> bool:
        """Whether it names an event id and no time, so that landed files are opened until the row is found."""
        return not self.key and self.at is None and self.row is not None and not _ROW_ID.fullmatch(self.row)


def key_of(texts: Iterable[str]) -> dict[str, str]:
    """Return key column → text of a key that is written as `user_id=1,item_id=2`.

    Raises:
        BadRequest: it is written otherwise.
    """
    pairs = [part.split("=", 1) for text in texts for part in _NEXT_PAIR.split(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise BadRequest("a key is written as --key user_id=1,item_id=2")
    return {name.strip(): value for name, value in pairs}


def find_row(home: Home, landed: LandedRows, question: Question) -> Row:
    """Return the landed left row that is meant; of retries the one that stands.

    Raises:
        BadRequest: no row, or more than one, answers to the question; the message says what to name.
    """
    left = home.pipeline.left
    if question.key:
        return _only(_by_key(home.pipeline, landed, question), "that key and time")
    if question.row is None:
        raise BadRequest("which row? A row id (topic/partition/offset), an event id, or --key a=1,b=2 --at TIME")
    row_id = _ROW_ID.fullmatch(question.row)
    if row_id and row_id["topic"] in home.pipeline.topics:
        return _only(_by_id(home, landed, row_id), question.row)
    if left.event_id is None:
        raise BadRequest(
            f"{question.row!r} is not a row id (topic/partition/offset, topic {' or '.join(left.topics)}), and stream "
            f"{left.name} names no event_id"
        )
    rows = _by_event_id(home.pipeline, landed, question.row, question.at, looks_like_row_id=bool(row_id))
    winner = min(rows, key=lambda row: (row_id_of(row).epoch, row_id_of(row)))
    is_several = any(row[EVENT_TIME] != winner[EVENT_TIME] for row in rows)
    return _only(rows, f"event id {question.row}") if is_several else winner


def _by_event_id(
    pipeline: Pipeline, landed: LandedRows, event_id: str, at: datetime | None, *, looks_like_row_id: bool
) -> list[Row]:
    left = pipeline.left
    assert left.event_id is not None
    try:
        rows = landed.by_event_id(left, event_id, at)
    except pa.ArrowInvalid:
        raise BadRequest(f"{event_id!r} cannot be a {left.event_id}: that is {left.columns[left.event_id]}") from None
    if not rows:
        topics = f"; its topics are {', '.join(pipeline.topics)}" if looks_like_row_id else ""
        time = f" at {shown_instant(at)}" if at else ""
        raise BadRequest(f"no landed row of {left.name} has {left.event_id} {event_id!r}{time}{topics}")
    return rows


def _by_id(home: Home, landed: LandedRows, row_id: re.Match[str]) -> list[Row]:
    pipeline = home.pipeline
    topic, partition, offset = row_id["topic"], int(row_id["partition"]), int(row_id["offset"])
    if topic not in pipeline.left.topics:
        others = ", ".join(stream.name for stream in pipeline.streams_of(topic))
        raise BadRequest(f"{topic} is read by {others}; explain takes rows of {', '.join(pipeline.left.topics)}")
    epoch = int(row_id["epoch"]) if row_id["epoch"] else None
    rows = landed.by_id(pipeline.left, topic, epoch, partition, offset)
    if rows:
        return rows
    here = [c for c in clocks.observe(home).clocks if (c.topic, c.partition) == (topic, partition)]
    if not here:
        raise BadRequest(f"{topic}/{partition} has not been landed; `windrow clock {pipeline.name}` shows what has")
    clock = here[-1]
    if offset >= clock.end_offset:
        raise BadRequest(
            f"{row_id[0]} was not in the topic at the last landing: the broker's end of {topic}/{partition} was "
            f"{clock.end_offset}. If it was produced since, `windrow land {pipeline.name}` lands it; otherwise correct "
            "the offset"
        )
    if offset >= clock.next_offset:
        raise BadRequest(
            f"{row_id[0]} has not been landed yet: the next offset to land is {clock.next_offset}, the broker's end "
            f"was {clock.end_offset}. `windrow land {pipeline.name}`"
        )
    raise BadRequest(
        f"{row_id[0]} holds no record: a transaction marker, an aborted record, or a gap. `windrow clock "
        f"{pipeline.name}` lists the gaps"
    )


def _by_key(pipeline: Pipeline, landed: LandedRows, question: Question) -> list[Row]:
    left, key, at = pipeline.left, question.key, question.at
    if set(key) != set(left.key) or at is None:
        raise BadRequest(
            f"a key is all of {', '.join(left.key)}, and --at the row's event time: --key a=1,b=2 --at TIME"
        )
    try:
        rows = landed.by_key(left, key, at, at)
        if rows:
            return rows
        around = landed.by_key(left, key, shifted(at, -pipeline.interval), shifted(at, pipeline.interval))
    except pa.ArrowInvalid as wrong:
        raise BadRequest(f"the key is not of its columns' types: {wrong}") from None
    nearest = sorted(around, key=lambda row: abs(row[EVENT_TIME] - at))[:3]
    hint = "; near it: " + ", ".join(f"{row_text(row_id_of(r))} at {shown_instant(r[EVENT_TIME])}" for r in nearest)
    raise BadRequest(f"no landed row has that key at {shown_instant(at)}{hint if nearest else ''}")


def _only(rows: Sequence[Row], named: str) -> Row:
    """Return the single row.

    Args:
        named: how the question names it, for the message.
    """
    if len(rows) == 1:
        return rows[0]
    ids = ", ".join(sorted(row_text(row_id_of(row)) for row in rows))
    raise BadRequest(f"{named} is {counted(len(rows), 'row')}; name one by its row id: {ids}")
