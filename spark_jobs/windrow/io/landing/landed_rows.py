"""Landed rows by row id, event id or key, and the right rows that may match a left row. No Spark, no full scan.

                    t - before - near      t       t + after + near
    landing files ──────────┤──────────────┼──────────────┤──────────   only files with event times in this range,
                                                                         only key, time and id columns,
                                                                         only rows of the key

A record without a readable event time is read too if it was logged late enough to belong to the window. Event ids are
in no order that file statistics could use: files are opened from the newest back until the id is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.columns import (
    BATCH,
    EPOCH,
    EVENT_TIME,
    LANDING_META,
    OFFSET,
    PARTITION,
    QUARANTINED,
    RAW,
    RECONSIDERED,
    RECORD_AT,
    ROW_ID,
    TOPIC,
    UNREADABLE,
    UNREADABLE_BEGINNINGS,
    UNREADABLE_VALUES,
)
from windrow.config import RightStream, Stream
from windrow.config.conditions import columns_in
from windrow.home import Home
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Has, Lookup, Range, all_of, equal
from windrow.semantics.explain import plain_text
from windrow.semantics.records import Record, RowId

Row = dict[str, Any]
"""A landed row by column name."""
_QUARANTINED_ROWS = Has(QUARANTINED, value=True)


class LandedRows:
    """The landing tables of one pipeline, each at the version that it had when this object was made.

    A row has `LANDING_META`, the key, the event id and the columns of `where`. With `all_columns` it has the whole
    payload, which may be personal data.
    """

    def __init__(self, home: Home, *, all_columns: bool = False) -> None:
        self._all_columns = all_columns
        self._tables: dict[str, Lookup] = {}
        for topic in home.pipeline.topics:
            if table := lookup.opened(home.landing(topic)):
                self._tables[topic] = table

    @property
    def looked(self) -> dict[str, dict[str, int]]:
        """Topic → how many files were opened, and of how many."""
        return {topic: table.file_counts for topic, table in self._tables.items()}

    def by_id(self, stream: Stream, topic: str, epoch: int | None, partition: int, offset: int) -> list[Row]:
        """Return the row at an offset; one per epoch if `epoch` is None and the topic was created again.

        Of a reconsidered record it is the row that stands.

        Args:
            epoch: None for every life of the topic.

        Returns:
            At most one row per epoch; empty where the offset has not landed.
        """
        if topic not in self._tables:
            return []
        values = {PARTITION: partition, OFFSET: offset} | ({} if epoch is None else {EPOCH: epoch})
        wanted = all_of(equal(name, value) for name, value in values.items())
        rows = self._tables[topic].read(self._columns(stream), wanted, [Range(n, v, v) for n, v in values.items()])
        return _standing(rows)

    def by_event_id(self, stream: Stream, event_id: str, at: datetime | None) -> list[Row]:
        """Return the rows with an event id.

        Args:
            event_id: the id as text.
            at: their event time; without it, only the rows of one file are returned, the newest with the id.

        Raises:
            ValueError: the id is not a value of its column.
        """
        assert stream.event_id is not None
        rows: list[Row] = []
        for _, table in self._of(stream):
            wanted = pc.field(stream.event_id) == _typed(table.schema, stream.event_id, event_id)
            if at is not None:
                rows += table.read(self._columns(stream), wanted & equal(EVENT_TIME, at), [Range(EVENT_TIME, at, at)])
            else:
                rows += next(table.newest_first(self._columns(stream), wanted, BATCH), [])
        return _standing(rows)

    def by_key(self, stream: Stream, key: Mapping[str, str], lo: datetime, hi: datetime) -> list[Row]:
        """Return the rows of a key with event times in [lo, hi].

        Args:
            key: by key column, its value as text.

        Raises:
            ValueError: a text is not a value of its column.
        """
        rows: list[Row] = []
        for _, table in self._of(stream):
            same = [pc.field(name) == _typed(table.schema, name, value) for name, value in key.items()]
            rows += table.read(
                self._columns(stream), all_of([*same, _between(EVENT_TIME, lo, hi)]), [Range(EVENT_TIME, lo, hi)]
            )
        return _standing(rows)

    def retries(self, stream: Stream, rows: Iterable[Row]) -> list[Row]:
        """Return the rows, of any key, whose event id and event time are those of one of `rows`; these are included.

        Args:
            rows: landed rows of the stream; those without event id or event time are left out.

        Returns:
            All rows of such events, also of other keys; empty where the stream names no event id.
        """
        with_id = [r for r in rows if stream.event_id and r.get(stream.event_id) is not None and r[EVENT_TIME]]
        if not with_id or stream.event_id is None:
            return []
        times, ids = sorted({r[EVENT_TIME] for r in with_id}), list({r[stream.event_id] for r in with_id})
        same = pc.field(stream.event_id).isin(pa.array(ids)) & pc.field(EVENT_TIME).isin(pa.array(times))
        ranges = [Range(EVENT_TIME, times[0], times[-1])]
        return [row for _, table in self._of(stream) for row in table.read(self._columns(stream), same, ranges)]

    def around(
        self,
        left: Row,
        left_stream: Stream,
        stream: RightStream,
        near: timedelta,
        max_skew: timedelta,
        pins: Mapping[str, int],
    ) -> list[Row]:
        """Return right rows in and near the window of a left row, of its key or of one that reads alike.

        Args:
            left: the left row.
            left_stream: its stream.
            stream: the right stream.
            near: how far outside the window rows are returned too, on both sides.
            max_skew: how far ahead of its log time a record's event time may be.
            pins: by topic, the last batch of which rows without an event time are returned; all batches of a topic
                that is missing here.
        """
        at, values = left[EVENT_TIME], [left.get(name) for name in left_stream.key]
        if any(value is None for value in values):
            return []
        begin, end = at - stream.window.before, at + stream.window.after
        wide = Range(EVENT_TIME, begin - near, end + near)
        rows: list[Row] = []
        for topic, table in self._of(stream):
            columns, key = self._columns(stream), _alike(table.schema, stream.key, values)
            inside = _between(EVENT_TIME, begin, end)
            rows += table.read(columns, key & _between(EVENT_TIME, begin - near, end + near), [wide])
            for is_bad, bad_files in _unread(table.schema):
                keyless = _keyless(stream) & is_bad & inside
                rows += _with_raw_key(table.read([*columns, RAW], keyless, [wide, bad_files]), stream)
            rows += self._timeless(table, columns, key, begin - max_skew, pins.get(topic))
        rows += self._reconsidered(stream, [row for row in rows if row[QUARANTINED] is not None])
        return rows + self.retries(stream, [row for row in rows if row[QUARANTINED] is None])

    def _reconsidered(self, stream: Stream, bad: Sequence[Row]) -> list[Row]:
        """Return the rows that stand for these quarantined ones."""
        rows: list[Row] = []
        for topic, table in self._of(stream):
            offsets = [row[OFFSET] for row in bad if row[TOPIC] == topic]
            if offsets and RECONSIDERED in table.schema.names:
                wanted = pc.field(RECONSIDERED).is_valid() & pc.field(OFFSET).isin(pa.array(offsets))
                rows += table.read(self._columns(stream), wanted, [Has(RECONSIDERED, value=True)])
        return rows

    def _timeless(
        self, table: Lookup, columns: list[str], key: pc.Expression, logged_from: datetime, pin: int | None
    ) -> list[Row]:
        """Return the rows of the key without an event time, quarantined or not.

        An event happens before it is logged, so a record that was logged before the window is not about the window.
        """
        logged = pc.field(RECORD_AT)
        wanted = pc.field(EVENT_TIME).is_null() & key
        in_time = logged.is_null() | (logged >= pc.scalar(logged_from))
        limits = [Range(RECORD_AT, logged_from), Range(BATCH, None, pin)]
        return table.read(columns, wanted & in_time, [Has(EVENT_TIME), *limits])

    def _of(self, stream: Stream) -> list[tuple[str, Lookup]]:
        """Return the tables of the stream's topics, by topic.

        A table without the key or the event id is left out: a new column appears with the next batch.
        """
        needed = {*stream.key, *([stream.event_id] if stream.event_id else [])}
        tables = [(topic, self._tables[topic]) for topic in stream.topics if topic in self._tables]
        return [(topic, table) for topic, table in tables if needed <= set(table.schema.names)]

    def _columns(self, stream: Stream) -> list[str]:
        """Return the columns to read of a row of the stream."""
        if self._all_columns:
            return [*LANDING_META, *stream.columns]
        where = columns_in(stream.where) if stream.where else set()
        in_where = [name for name in stream.columns if name.lower() in where]
        return [*LANDING_META, *stream.key, *([stream.event_id] if stream.event_id else []), *in_where]


def _standing(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without those that a reconsidered one among them stands for."""
    since = {row_id_of(row): row[BATCH] for row in rows if row.get(RECONSIDERED) is not None}
    return [row for row in rows if row[BATCH] >= since.get(row_id_of(row), row[BATCH])]


def record_of(row: Row) -> Record:
    """Return a landed row as the value that the reference join takes."""
    values = {name: value for name, value in row.items() if name not in LANDING_META}
    unreadable = json.loads(row.get(UNREADABLE_VALUES) or "{}")
    return Record(
        row_id_of(row),
        row[BATCH],
        row[EVENT_TIME],
        values,
        row[RECORD_AT],
        row[QUARANTINED],
        unreadable,
        row.get(RECONSIDERED),
    )


def row_id_of(row: Mapping[str, Any]) -> RowId:
    """Return the row id of a landed or published row, or of an element of a published array."""
    return RowId(*(row[name] for name in ROW_ID))


def _between(column: str, lo: datetime, hi: datetime) -> pc.Expression:
    return (pc.field(column) >= pc.scalar(lo)) & (pc.field(column) <= pc.scalar(hi))


def _typed(schema: pa.Schema, name: str, text: str) -> pa.Scalar:
    """Return the text as a value of the column; raise ValueError if it is not one."""
    return pa.scalar(text).cast(schema.field(name).type)


def _alike(schema: pa.Schema, names: Sequence[str], values: Sequence[Any]) -> pc.Expression:
    """Select rows whose key columns equal the values or, if they are text, read alike.

    It selects more than `plain_text` takes as alike: leading zeros are cut off whatever follows them.
    """
    parts = []
    for name, value in zip(names, values, strict=True):
        part = equal(name, value)
        if name in schema.names and schema.field(name).type in (pa.string(), pa.large_string()):
            plain = pc.utf8_ltrim(pc.utf8_lower(pc.utf8_trim_whitespace(pc.field(name))), characters="0")
            part = part | (plain == pc.scalar(plain_text(value).lstrip("0")))
        parts.append(part)
    return all_of(parts)


def _keyless(stream: Stream) -> pc.Expression:
    """Select rows without a whole key."""
    missing = pc.field(stream.key[0]).is_null()
    for name in stream.key[1:]:
        missing = missing | pc.field(name).is_null()
    return missing


def _unread(schema: pa.Schema) -> list[tuple[pc.Expression, Has]]:
    """Return conditions on rows whose JSON could be read, but not as a whole or by every stream, and on their files."""
    quarantined = pc.field(QUARANTINED).is_valid()
    whole = pc.field(QUARANTINED).isin(pa.array(UNREADABLE))
    for beginning in UNREADABLE_BEGINNINGS:
        whole = whole | pc.starts_with(pc.field(QUARANTINED), beginning)
    found = [(quarantined & ~whole, _QUARANTINED_ROWS)]
    if UNREADABLE_VALUES in schema.names:
        found.append((~quarantined & pc.field(UNREADABLE_VALUES).is_valid(), Has(UNREADABLE_VALUES, value=True)))
    return found


def _with_raw_key(rows: Iterable[Row], stream: Stream) -> list[Row]:
    """Return the rows with the key as the record has it, of any type, and without the record's bytes.

    What comes from the envelope stays as it was read. A row whose record is not JSON is left out.
    """
    of_value = [name for name in stream.key if name not in stream.origins]
    keyed = []
    for row in rows:
        try:
            record = json.loads(row.pop(RAW) or b"{}")
        except ValueError:
            continue
        keyed.append({**row, **{name: record.get(name) for name in of_value}})
    return keyed
