"""Candidate files counted by Python workers: of their rows nothing comes to the JVM but counts, and row ids as bits.

    file ─▶ a part of a row group at a time: what is counted; of labels only row ids and times ─▶ `transforms.counted`

A worker reads what another one, or Spark, has written. Names are compared as Spark does, without regard to case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from windrow.columns import PLAN, ROW_ORDER
from windrow.io.delta import damage, store
from windrow.io.training.payload import fitted
from windrow.transforms.counted import IS_NULL, TALLY, Asked, tally

COUNTED = pa.schema([pa.field(PLAN, pa.string()), *TALLY])
"""What a worker returns of each part of a file."""
Files = tuple[tuple[str, str], ...]
"""Plan ids, and paths relative to the candidates table."""
VALUES = 200_000
"""About how many values of one column are in memory, because a row may have many labels."""
_ROWS = 10_000
"""Most rows that go to the JVM in one batch."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to count candidate files; it is sent to each."""

    candidates: str
    """location of the candidates table"""
    files: tuple[Files, ...]
    """by number of the task"""
    asked: Asked
    values: int = VALUES


def count_files(work: Work, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the files of some tasks, on an executor; yield `COUNTED` of each part of a row group.

    Args:
        tasks: their numbers.

    Raises:
        TableDamaged: a file is missing or cut.
    """
    for batch in tasks:
        for task in batch.column(0).to_pylist():
            for plan, name in work.files[task]:
                for rows in _parts(work, name):
                    found = tally(rows, work.asked)
                    ids = pa.array([plan] * found.num_rows, pa.string())
                    yield from found.add_column(0, COUNTED.field(PLAN), ids).combine_chunks().to_batches(_ROWS)


def _parts(work: Work, name: str) -> Iterator[pa.Table]:
    """Yield the columns that are counted, some rows at a time; one that the file lacks is null."""
    with damage.named(f"{work.candidates}/{name}"):
        file = pq.ParquetFile(
            name,
            filesystem=store.filesystem(work.candidates),
            page_checksum_verification=True,
            pre_buffer=store.is_remote(work.candidates),  # a few requests instead of one for each column
        )
        leaves = {file.schema.column(n).path.lower(): file.schema.column(n).path for n in range(len(file.schema))}
        for group in range(file.num_row_groups):
            yield from _parts_of(file, group, leaves, work)


def _parts_of(file: pq.ParquetFile, group: int, leaves: Mapping[str, str], work: Work) -> Iterator[pa.Table]:
    """Yield a row group in parts.

    Args:
        leaves: the paths of the file's columns, by what they are without capitals.
    """
    asked = work.asked
    are_null = {name: _is_null(file, group, leaves, name) for name in asked.nullable}
    arrays = [f"{name}.list.element.{field}" for name in asked.arrays for field in ROW_ORDER]
    plain = [name for name in asked.schema.names if not name.startswith(IS_NULL)]
    wanted = [leaves[name.lower()] for name in (*plain, *arrays) if name.lower() in leaves]
    begin, rows = 0, _rows_of_part(file, group, wanted, work.values)
    for batch in file.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=False):
        columns: dict[str, Any] = {
            f"{IS_NULL}{name}": is_null.slice(begin, batch.num_rows) for name, is_null in are_null.items()
        }
        read = {name.lower(): values for name, values in zip(batch.schema.names, batch.columns, strict=True)}
        for name in plain:
            kind, values = asked.schema.field(name).type, read.get(name.lower())
            columns[name] = pa.nulls(batch.num_rows, kind) if values is None else fitted(values, kind)
        yield pa.table(columns).select(asked.schema.names)
        begin += batch.num_rows


def _rows_of_part(file: pq.ParquetFile, group: int, leaves: Collection[str], values: int) -> int:
    found = file.metadata.row_group(group)
    columns = [found.column(n) for n in range(found.num_columns)]
    most = max(column.num_values for column in columns if column.path_in_schema in leaves)
    return max(1, found.num_rows * values // max(1, most))


def _is_null(file: pq.ParquetFile, group: int, leaves: Mapping[str, str], name: str) -> pa.ChunkedArray:
    """Return where a column is null; no two of them are in memory at a time, and of one with parts only the first."""
    lowered = name.lower()
    first = next((path for low, path in leaves.items() if low == lowered or low.startswith(f"{lowered}.")), None)
    if first is None:
        return pa.chunked_array([pa.repeat(True, file.metadata.row_group(group).num_rows)])
    return pc.is_null(file.read_row_group(group, columns=[first], use_threads=False).column(0))
