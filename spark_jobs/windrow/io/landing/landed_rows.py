"""Landed rows by row id, event id or key, and all that could meet one left row. No Spark, no scan of history.

                    t - before - near      t       t + after + near
    landing files ──────────┤──────────────┼──────────────┤──────────   only files with event times in here,
                                                                         only key, time and id columns,
    and, of records whose time could not be read, those that were logged  only rows of this key
    late enough to be about this window

An event id has no order that statistics could use: files are opened from the newest back, until it is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.config import RightStream, Stream
from windrow.config.conditions import columns_in
from windrow.home import Home
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Has, Lookup, Range, all_of, equal
from windrow.schemas import BATCH, EVENT_TIME, LANDING_META, QUARANTINED, RAW, RECORD_AT, ROW_ID
from windrow.semantics.explain import plain_text
from windrow.semantics.records import Record, RowId

Row = dict[str, Any]
_UNREADABLE = ("tombstone", "too_large", "bad_utf8", "malformed")


class LandedRows:
    """The landing tables of one pipeline, as they are now."""

    def __init__(self, home: Home, *, all_columns: bool = False) -> None:
        self._all_columns = all_columns
        self._tables: dict[str, Lookup] = {}
        for topic in home.pipeline.topics:
            if table := lookup.opened(home.landing(topic)):
                self._tables[topic] = table

    @property
    def looked(self) -> dict[str, dict[str, int]]:
        """By topic, how many files were opened, of how many."""
        return {topic: table.looked for topic, table in self._tables.items()}

    def by_id(self, stream: Stream, topic: str, epoch: int | None, partition: int, offset: int) -> list[Row]:
        """The record at an offset; several where the topic was made again and no epoch is named."""
        if topic not in self._tables:
            return []
        named = {"_partition": partition, "_offset": offset} | ({} if epoch is None else {"_epoch": epoch})
        wanted = all_of(equal(name, value) for name, value in named.items())
        return self._tables[topic].read(self._columns(stream), wanted, [Range(n, v, v) for n, v in named.items()])

    def by_event_id(self, stream: Stream, event_id: str, at: datetime | None) -> list[Row]:
        """Rows with an event id: of the newest file that has one, or all at one event time."""
        assert stream.event_id is not None
        rows: list[Row] = []
        for _, table in self._of(stream):
            wanted = pc.field(stream.event_id) == _typed(table.schema, stream.event_id, event_id)
            if at is not None:
                rows += table.read(self._columns(stream), wanted & equal(EVENT_TIME, at), [_at(at)])
            else:
                rows += next(table.newest_first(self._columns(stream), wanted, BATCH), [])
        return rows

    def by_key(self, stream: Stream, key: Mapping[str, str], lo: datetime, hi: datetime) -> list[Row]:
        """Rows of a key, given as text, with event times in [lo, hi]."""
        rows: list[Row] = []
        for _, table in self._of(stream):
            same = [pc.field(name) == _typed(table.schema, name, value) for name, value in key.items()]
            rows += table.read(
                self._columns(stream), all_of([*same, _between(EVENT_TIME, lo, hi)]), [Range(EVENT_TIME, lo, hi)]
            )
        return rows

    def retries(self, stream: Stream, rows: Iterable[Row]) -> list[Row]:
        """Rows of any key with the event id and event time of one of these, themselves among them."""
        named = [r for r in rows if stream.event_id and r.get(stream.event_id) is not None and r[EVENT_TIME]]
        if not named or stream.event_id is None:
            return []
        times, ids = sorted({r[EVENT_TIME] for r in named}), list({r[stream.event_id] for r in named})
        same = pc.field(stream.event_id).isin(pa.array(ids)) & pc.field(EVENT_TIME).isin(pa.array(times))
        ranges = [Range(EVENT_TIME, times[0], times[-1])]
        return [row for _, table in self._of(stream) for row in table.read(self._columns(stream), same, ranges)]

    def around(
        self,
        left: Row,
        ours: Stream,
        stream: RightStream,
        near: timedelta,
        max_skew: timedelta,
        pins: Mapping[str, int],
    ) -> list[Row]:
        """Right rows of the left row's key, or of one that reads alike, in its window and `near` it on both sides.

        `pins`: of a topic, the batch above which nothing is read that has no event time; a topic without is read whole.
        """
        at, values = left[EVENT_TIME], [left.get(name) for name in ours.key]
        if any(value is None for value in values):
            return []
        begin, end = at - stream.window.before, at + stream.window.after
        wide = Range(EVENT_TIME, begin - near, end + near)
        rows: list[Row] = []
        for topic, table in self._of(stream):
            columns, key = self._columns(stream), _alike(table.schema, stream.key, values)
            found = table.read(columns, key & _between(EVENT_TIME, begin - near, end + near), [wide])
            found += _with_said_key(
                table.read([*columns, RAW], _keyless(stream) & _between(EVENT_TIME, begin, end), [wide, _BAD]),
                stream,
            )
            found += self._timeless(table, columns, key, begin - max_skew, pins.get(topic))
            rows += found
        return rows + self.retries(stream, [row for row in rows if row[QUARANTINED] is None])

    def _timeless(
        self, table: Lookup, columns: list[str], key: pc.Expression, logged_from: datetime, pin: int | None
    ) -> list[Row]:
        """Quarantined records of the key without an event time: nothing is logged before it happens."""
        logged = pc.field(RECORD_AT)
        wanted = pc.field(EVENT_TIME).is_null() & pc.field(QUARANTINED).is_valid() & key
        in_time = logged.is_null() | (logged >= pc.scalar(logged_from))
        limits = [Range(RECORD_AT, logged_from), Range(BATCH, None, pin)]
        return table.read(columns, wanted & in_time, [Has(EVENT_TIME), _BAD, *limits])

    def _of(self, stream: Stream) -> list[tuple[str, Lookup]]:
        """Tables of its topics; one that has not landed under its key or event id yet says nothing about either."""
        needed = {*stream.key, *([stream.event_id] if stream.event_id else [])}
        tables = [(topic, self._tables[topic]) for topic in stream.topics if topic in self._tables]
        return [(topic, table) for topic, table in tables if needed <= set(table.schema.names)]

    def _columns(self, stream: Stream) -> list[str]:
        """What reasoning about a row of the stream takes; personal payload only where it was asked for."""
        if self._all_columns:
            return [*LANDING_META, *stream.columns]
        where = columns_in(stream.where) if stream.where else set()
        mentioned = [name for name in stream.columns if name.lower() in where]
        return [*LANDING_META, *stream.key, *([stream.event_id] if stream.event_id else []), *mentioned]


_BAD = Has(QUARANTINED, value=True)


def record_of(row: Row) -> Record:
    """A landed row as the reference join takes it."""
    values = {name: value for name, value in row.items() if name not in LANDING_META}
    return Record(row_id_of(row), row[BATCH], row[EVENT_TIME], values, row[RECORD_AT], row[QUARANTINED])


def row_id_of(row: Mapping[str, Any]) -> RowId:
    """The identity of a landed or published row, or of an element of a published array."""
    return RowId(*(row[name] for name in ROW_ID))


def _at(at: datetime) -> Range:
    return Range(EVENT_TIME, at, at)


def _between(column: str, lo: datetime, hi: datetime) -> pc.Expression:
    return (pc.field(column) >= pc.scalar(lo)) & (pc.field(column) <= pc.scalar(hi))


def _typed(schema: pa.Schema, name: str, text: str) -> pa.Scalar:
    """The text as a value of the column. Raises ValueError where it is none."""
    return pa.scalar(text).cast(schema.field(name).type)


def _alike(schema: pa.Schema, names: Sequence[str], values: Sequence[Any]) -> pc.Expression:
    """Key columns that equal, or, where they are text, read alike (a superset of `plain_text`)."""
    parts = []
    for name, value in zip(names, values, strict=True):
        part = equal(name, value)
        if name in schema.names and schema.field(name).type in (pa.string(), pa.large_string()):
            plain = pc.utf8_ltrim(pc.utf8_lower(pc.utf8_trim_whitespace(pc.field(name))), characters="0")
            part = part | (plain == pc.scalar(plain_text(value).lstrip("0")))
        parts.append(part)
    return all_of(parts)


def _keyless(stream: Stream) -> pc.Expression:
    """Quarantined records whose JSON was read and whose key was not."""
    missing = pc.field(stream.key[0]).is_null()
    for name in stream.key[1:]:
        missing = missing | pc.field(name).is_null()
    return missing & pc.field(QUARANTINED).is_valid() & ~pc.field(QUARANTINED).isin(pa.array(_UNREADABLE))


def _with_said_key(rows: Iterable[Row], stream: Stream) -> list[Row]:
    """The key as the record says it, of whatever type; the record's bytes go no further."""
    told = []
    for row in rows:
        try:
            spoken = json.loads(row.pop(RAW) or b"{}")
        except ValueError:
            continue
        told.append({**row, **{name: spoken.get(name) for name in stream.key}})
    return told
