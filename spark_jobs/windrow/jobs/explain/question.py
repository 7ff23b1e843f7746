"""Which left row is meant: a row id, an event id, or a key and a time. One row, or a message that says what to name.

feed.served/1/4711      feed.served/0/1/4711      5f0c…      user_id=1,item_id=2 at 2026-11-01T00:00:03Z
topic/partition/offset  topic/epoch/partition/    event id   key and event time
                        offset
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from windrow.columns import EVENT_TIME
from windrow.io.landing.landed_rows import LandedRows, Row, row_id_of
from windrow.io.registers import clocks
from windrow.jobs.explain.words import row_text
from windrow.jobs.run import BadRequest, Context
from windrow.semantics.intervals import shifted

_ROW_ID = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)(/(?P<epoch>\d{1,9}))?/(?P<partition>\d{1,9})/(?P<offset>\d{1,18})")


@dataclass(frozen=True)
class Question:
    """Which row: a row id or an event id, or a key (column → text) and an event time.

    near: how far outside the window to look; None: as far as the window is long. columns: show payload too.
    """

    row: str | None = None
    key: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None
    near: timedelta | None = None
    columns: bool = False


def find(ctx: Context, landed: LandedRows, asked: Question) -> Row:
    left = ctx.pipeline.left
    if asked.key:
        return _only(_by_key(ctx, landed, asked), "that key and time")
    if asked.row is None:
        raise BadRequest("which row? A row id (topic/partition/offset), an event id, or --key a=1,b=2 --at TIME")
    said = _ROW_ID.fullmatch(asked.row)
    if said and said["topic"] in ctx.pipeline.topics:
        return _only(_by_id(ctx, landed, said), asked.row)
    if left.event_id is None:
        raise BadRequest(
            f"{asked.row!r} is no row id (topic/partition/offset, topic {' or '.join(left.topics)}), and stream "
            f"{left.name} names no event_id"
        )
    try:
        rows = landed.by_event_id(left, asked.row, asked.at)
    except pa.ArrowInvalid:
        raise BadRequest(f"{asked.row!r} cannot be a {left.event_id}: that is {left.columns[left.event_id]}") from None
    if not rows:
        other = f"; its topics are {', '.join(ctx.pipeline.topics)}" if said else ""
        raise BadRequest(f"no landed row of {left.name} has {left.event_id} {asked.row!r}{_at_words(asked.at)}{other}")
    winner = min(rows, key=lambda row: (row_id_of(row).epoch, row_id_of(row)))
    same = [row for row in rows if row[EVENT_TIME] != winner[EVENT_TIME]]
    return _only(rows, f"event id {asked.row}") if same else winner  # retries: the one that won


def _by_id(ctx: Context, landed: LandedRows, said: re.Match[str]) -> list[Row]:
    topic, partition, offset = said["topic"], int(said["partition"]), int(said["offset"])
    if topic not in ctx.pipeline.left.topics:
        others = ", ".join(s.name for s in ctx.pipeline.streams_of(topic))
        raise BadRequest(f"{topic} is read by {others}; explain takes rows of {', '.join(ctx.pipeline.left.topics)}")
    rows = landed.by_id(ctx.pipeline.left, topic, int(said["epoch"]) if said["epoch"] else None, partition, offset)
    if rows:
        return rows
    here = [c for c in clocks.observe(ctx.home).clocks if (c.topic, c.partition) == (topic, partition)]
    if not here:
        raise BadRequest(f"{topic}/{partition} has not been landed; `windrow clock {ctx.pipeline.name}` shows what has")
    clock = here[-1]
    if offset >= clock.next_offset:
        raise BadRequest(
            f"{said[0]} has not been landed yet: the next offset to land is {clock.next_offset}, the broker's end was "
            f"{clock.end_offset}. `windrow land {ctx.pipeline.name}`"
        )
    raise BadRequest(f"{said[0]} holds no record: a transaction marker, an aborted record, or an accepted gap")


def _by_key(ctx: Context, landed: LandedRows, asked: Question) -> list[Row]:
    left, key, at = ctx.pipeline.left, asked.key, asked.at
    if set(key) != set(left.key) or at is None:
        raise BadRequest(
            f"a key is all of {', '.join(left.key)}, and --at the row's event time: --key a=1,b=2 --at TIME"
        )
    try:
        rows = landed.by_key(left, key, at, at)
        around = (
            []
            if rows
            else landed.by_key(left, key, shifted(at, -ctx.pipeline.interval), shifted(at, ctx.pipeline.interval))
        )
    except pa.ArrowInvalid as wrong:
        raise BadRequest(f"the key is not of its columns' types: {wrong}") from None
    if not rows:
        near = sorted(around, key=lambda row: abs(row[EVENT_TIME] - at))[:3]
        hint = "; near it: " + ", ".join(f"{row_text(row_id_of(r))} at {r[EVENT_TIME].isoformat()}" for r in near)
        raise BadRequest(f"no landed row has that key at {at.isoformat()}{hint if near else ''}")
    return rows


def _only(rows: Sequence[Row], what: str) -> Row:
    if len(rows) == 1:
        return rows[0]
    found = ", ".join(sorted(row_text(row_id_of(row)) for row in rows))
    raise BadRequest(f"{what} is {len(rows)} rows; name one by its row id: {found}")


def _at_words(at: datetime | None) -> str:
    return f" at {at.isoformat()}" if at else ""
