"""Candidate files written by Python workers: payload goes from landing files to candidates past the JVM.

    joined rows without payload, in the order of the candidate
        │ as many at a time as are CHUNK bytes with their payload
        ▼
    each row group of a landing file that holds some of them ─▶ read, these rows taken       one row group at a time
        ▼
    their payload, in the order of the joined rows, next to what the join added ─▶ one row group of the plan's file

A row is taken by its place in a file. Each row is checked: the landing file must have the row id there that was joined.
Nobody sees a file before the driver commits it. A task that fails removes what it has written; what a killed one leaves
behind belongs to no version of the table, and vacuum deletes it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from windrow.columns import FILE, PLAN, ROW, ROW_ID, TOPIC
from windrow.io.delta import damage, store
from windrow.outcomes import NeedsPerson

CHUNK = 64 * 1024 * 1024
"""Bytes of whole rows, without compression, that a worker holds at a time."""
KEPT = 4 * CHUNK
"""Bytes of row groups that a worker keeps once they are read; the one that it reads is kept in any case."""
WRITTEN = f"{PLAN} string, written string"
"""What a worker returns about each file: its plan, and its path relative to the candidates table."""
_OPEN = 64
"""Landing files that a worker keeps open."""
_AS_SPARK = {
    "compression": "snappy",
    "store_schema": False,
    "store_decimal_as_integer": True,
    "write_page_checksum": True,
    "write_page_index": True,
}
"""Under these settings a file has the types, the checksums and the indexes that Spark gives it."""


class PayloadMisplaced(NeedsPerson):
    """A landing file does not have the joined row where Spark has read it. Nothing is committed."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to write candidate files; it is sent to each."""

    landing: Mapping[str, str]
    """topic → location of its landing table"""
    candidates: str
    """location of the candidates table"""
    schema: pa.Schema
    """columns of the files, in their order"""
    payload: tuple[str, ...]
    """those of them that are taken from landing files; one that a file lacks is null"""
    has_erased: bool
    """whether a key was ever erased: only a row of such a key has no place, and its payload is null"""
    umask: int
    """file mode mask of the written files"""
    chunk: int = CHUNK


def write(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task, on an executor; yield `WRITTEN` for each file.

    Args:
        batches: rows by plan and in row order: the columns of the schema that are no payload, the place, and the plan.

    Raises:
        PayloadMisplaced: a landing file has another row at a place.
        TableDamaged: a landing file is missing or cut.
    """
    os.umask(work.umask)
    target = store.filesystem(work.candidates)
    with _removed_on_failure(target) as names:
        for plan, of_plan in groupby(_whole(work, batches), key=itemgetter(0)):
            names.append(name := f"{PLAN}={plan}/part-{uuid4()}.snappy.parquet")
            target.create_dir(f"{PLAN}={plan}")
            with pq.ParquetWriter(name, work.schema, filesystem=target, **_AS_SPARK) as writer:
                for _, rows in of_plan:
                    writer.write_table(rows, row_group_size=rows.num_rows)
            yield pa.RecordBatch.from_pydict({PLAN: [plan], "written": [name]})


@contextmanager
def _removed_on_failure(target: pyarrow.fs.FileSystem) -> Iterator[list[str]]:
    """Remove the files whose names are put into the list if what is done with them fails: no commit will name them."""
    names: list[str] = []
    try:
        yield names
    except BaseException:
        for name in names:
            with suppress(OSError):
                target.delete_file(name)
        raise


def _whole(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows with their payload, a chunk or the part of one plan in it at a time, with the plan's id."""
    landed = _Landed(work)
    for rows in _chunks(batches, landed, work.chunk):
        yield from _by_plan(rows, _completed(rows, landed, work))


def fitted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as a type that may have more fields than theirs; the further fields are null.

    Fields of structs are found by name, ignoring case, as Spark finds them.

    >>> old = pa.array([[{"B": 1}], None], pa.list_(pa.struct([("B", pa.int32())])))
    >>> fitted(old, pa.list_(pa.struct([("a", pa.string()), ("b", pa.int32())]))).to_pylist()
    [[{'a': None, 'b': 1}], None]
    """
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        own = {field.name.lower(): position for position, field in enumerate(values.type)}
        fields = [
            fitted(values.field(own[field.name.lower()]), field.type)
            if field.name.lower() in own
            else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            values.offsets, fitted(values.values, kind.value_type), type=kind, mask=values.is_null()
        )
    if pa.types.is_map(kind):
        keys, items = fitted(values.keys, kind.key_type), fitted(values.items, kind.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=kind, mask=values.is_null())
    return values.cast(kind)


def _fitted_chunks(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([fitted(chunk, kind) for chunk in values.chunks], kind)


class _LandingFile:
    """An open landing file."""

    def __init__(self, folder: str, name: str) -> None:
        self._location = f"{folder}/{name}"
        with damage.named(self._location):
            self._file = pq.ParquetFile(name, filesystem=store.filesystem(folder), page_checksum_verification=True)
        footer = self._file.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        self.bytes_per_row = sum(group.total_byte_size for group in groups) / max(1, footer.num_rows)
        self._starts = np.cumsum([0, *[group.num_rows for group in groups]])[:-1]
        self._names = {name.lower(): name for name in self._file.schema_arrow.names}

    def groups_of(self, rows: Any) -> Iterator[tuple[int, Any, Any]]:
        """Yield each row group that holds some of these rows, which of them it holds, and their numbers in it.

        Args:
            rows: numbers of rows in the file, as an array.
        """
        group_of = np.searchsorted(self._starts, rows, side="right") - 1
        for group in np.unique(group_of):
            mine = np.flatnonzero(group_of == group)
            yield int(group), mine, rows[mine] - self._starts[group]

    def read(self, group: int, schema: pa.Schema) -> pa.Table:
        """Return these columns of a row group; one that the file lacks is null."""
        there = [self._names[name.lower()] for name in schema.names if name.lower() in self._names]
        with damage.named(self._location):
            read = self._file.read_row_group(group, columns=there, use_threads=False)
        columns = [
            _fitted_chunks(read[self._names[field.name.lower()]], field.type)
            if field.name.lower() in self._names
            else pa.nulls(read.num_rows, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)


class _Landed:
    """The landing files of a task, opened as they are needed."""

    def __init__(self, work: Work) -> None:
        self._schema = pa.schema([work.schema.field(name) for name in (*work.payload, *ROW_ID)])
        self._opened = lru_cache(_OPEN)(lambda topic, name: _LandingFile(work.landing[topic], name))
        self._bytes_per_row = cache(lambda topic, name: self._opened(topic, name).bytes_per_row)
        self._kept, self._bytes = OrderedDict[tuple[tuple[str, str], int], pa.Table](), 0

    def bytes_of(self, rows: pa.Table) -> float:
        """Return about how many bytes the payload of the rows has."""
        return sum(len(mine) * self._bytes_per_row(*file) for file, mine in _by_file(rows))

    def payload(self, rows: pa.Table) -> pa.Table:
        """Return payload and row ids of the rows, in their order; null for a row without a place."""
        numbers, order = rows[ROW].to_numpy(), np.full(rows.num_rows, -1)
        groups = [
            (file, group, mine[some], wanted)
            for file, mine in _by_file(rows)
            for group, some, wanted in self._opened(*file).groups_of(numbers[mine].astype(np.int64))
        ]
        parts, found = [self._schema.empty_table()], 0
        # what is kept comes first, before other row groups take its place
        for file, group, mine, wanted in sorted(groups, key=lambda one: one[:2] not in self._kept):
            parts.append(_rows_at(self._read(file, group), wanted))
            order[mine] = np.arange(found, found + len(wanted))
            found += len(wanted)
        return _rows_at(pa.concat_tables(parts), order)

    def _read(self, file: tuple[str, str], group: int) -> pa.Table:
        """Return a row group, which is kept: rows of the next chunk or interval mostly come from the same ones."""
        if (file, group) in self._kept:
            self._kept.move_to_end((file, group))
            return self._kept[file, group]
        rows = self._kept[file, group] = self._opened(*file).read(group, self._schema)
        self._bytes += rows.nbytes
        while len(self._kept) > 1 and self._bytes > KEPT:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return rows


def _completed(rows: pa.Table, landed: _Landed, work: Work) -> pa.Table:
    """Return whole rows: the joined ones with their payload."""
    payload = landed.payload(rows)
    has_place = pc.is_valid(rows[FILE])
    if not work.has_erased and not pc.all(has_place).as_py():
        raise PayloadMisplaced("joined rows have no place in a landing file, although no key was erased")
    for name in ROW_ID:
        joined = pc.if_else(has_place, rows[name], None) if work.has_erased else rows[name]
        if not payload[name].equals(joined):
            raise PayloadMisplaced(
                f"a landing file has another {name} than the joined row that was read there. Nothing was committed. "
                "Set WINDROW_PAYLOAD=spark, run again, and report this."
            )
    columns = [
        payload[field.name] if field.name in work.payload else rows[field.name].cast(field.type)
        for field in work.schema
    ]
    return pa.Table.from_arrays(columns, schema=work.schema)


def _chunks(batches: Iterator[pa.RecordBatch], landed: _Landed, size: float) -> Iterator[pa.Table]:
    """Yield the rows in portions of about `size` bytes with their payload, and of one row at least."""
    held: list[pa.Table] = []
    room = size
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        each = max(1.0, (rows.nbytes + landed.bytes_of(rows)) / max(1, rows.num_rows))
        while rows.num_rows:
            count = max(1, min(rows.num_rows, int(room / each)))
            held.append(rows.slice(0, count))
            rows, room = rows.slice(count), room - count * each
            if room < each:
                yield pa.concat_tables(held)
                held, room = [], size
    if held:
        yield pa.concat_tables(held)


def _by_plan(rows: pa.Table, whole: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield plan id and whole rows of each plan; rows of a plan are neighbours."""
    plans = rows[PLAN].combine_chunks().dictionary_encode()
    codes = plans.indices.to_numpy()
    for begin, end in pairwise([0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]):
        yield plans.dictionary[codes[begin]].as_py(), whole.slice(begin, end - begin)


def _by_file(rows: pa.Table) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield topic and name of each landing file, and which of the rows are in it; rows without a place are left out."""
    topics, files = (rows[name].combine_chunks().dictionary_encode() for name in (TOPIC, FILE))
    count = len(files.dictionary)
    codes = topics.indices.to_numpy() * count + pc.fill_null(files.indices, -1).to_numpy()
    has_place = pc.is_valid(files).to_numpy(zero_copy_only=False)
    for code in np.unique(codes[has_place]):
        topic, file = divmod(int(code), count)
        found = (topics.dictionary[topic].as_py(), files.dictionary[file].as_py())
        yield found, np.flatnonzero(has_place & (codes == code))


def _rows_at(rows: pa.Table, numbers: Any) -> pa.Table:
    """Return the rows with these numbers, in their order; a negative number gives a row of nulls."""
    first = int(numbers[0]) if len(numbers) else 0
    are_neighbours = first >= 0 and np.array_equal(numbers, np.arange(first, first + len(numbers)))
    if are_neighbours and 2 * len(numbers) >= rows.num_rows:  # nothing is copied; a small part would keep all in memory
        return rows.slice(first, len(numbers))
    return rows.take(pa.array(numbers, mask=numbers < 0))
