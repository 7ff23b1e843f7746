"""Candidate files counted by Python workers: of their rows nothing comes to the JVM but counts.

    file ─▶ one row group at a time: columns that are counted; of labels only row ids and times ─▶ `transforms.counted`

A worker reads what another one, or Spark, has written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from windrow.columns import PLAN, ROW_ORDER
from windrow.io.delta import damage, store
from windrow.io.training.payload import fitted
from windrow.transforms.counted import IS_NULL, TALLY, Asked, tally

COUNTED = pa.schema([pa.field(PLAN, pa.string()), *TALLY])
"""What a worker returns of each row group."""
Files = tuple[tuple[str, str], ...]
"""Plan ids, and paths relative to the candidates table."""


@dataclass(frozen=True)
class Work:
    """What a worker needs to count candidate files; it is sent to each."""

    candidates: str
    """location of the candidates table"""
    files: tuple[Files, ...]
    """by number of the task"""
    asked: Asked


def count_files(work: Work, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the files of some tasks, on an executor; yield `COUNTED` of each row group.

    Args:
        tasks: their numbers.

    Raises:
        TableDamaged: a file is missing or cut.
    """
    for batch in tasks:
        for task in batch.column(0).to_pylist():
            for plan, name in work.files[task]:
                for rows in _row_groups(work, name):
                    found = tally(rows, work.asked)
                    ids = pa.array([plan] * found.num_rows, pa.string())
                    yield from found.add_column(0, COUNTED.field(PLAN), ids).combine_chunks().to_batches()


def _row_groups(work: Work, name: str) -> Iterator[pa.Table]:
    """Yield the columns that are counted of each row group; one that the file lacks is null."""
    with damage.named(f"{work.candidates}/{name}"):
        files = store.filesystem(work.candidates)
        file = pq.ParquetFile(name, filesystem=files, page_checksum_verification=True)
        for group in range(file.num_row_groups):
            yield _read(file, group, work.asked)


def _read(file: pq.ParquetFile, group: int, asked: Asked) -> pa.Table:
    arrays = {f"{name}.list.element.{field}" for name in asked.arrays for field in ROW_ORDER}
    plain = {name for name in asked.schema.names if not name.startswith(IS_NULL)}
    leaves = [file.schema.column(n).path for n in range(len(file.schema))]
    read = file.read_row_group(group, columns=[leaf for leaf in leaves if leaf in plain | arrays], use_threads=False)

    def column(field: pa.Field) -> pa.ChunkedArray:
        if field.name.startswith(IS_NULL):
            return _is_null(file, group, field.name.removeprefix(IS_NULL))
        if field.name not in read.column_names:
            return pa.chunked_array([pa.nulls(read.num_rows, field.type)])
        return pa.chunked_array([fitted(chunk, field.type) for chunk in read[field.name].chunks], field.type)

    return pa.Table.from_arrays([column(field) for field in asked.schema], schema=asked.schema)


def _is_null(file: pq.ParquetFile, group: int, name: str) -> pa.ChunkedArray:
    """Return where a column is null; no two of them are in memory at a time."""
    read = file.read_row_group(group, columns=[name], use_threads=False)
    if name not in read.column_names:
        return pa.chunked_array([pa.repeat(True, file.metadata.row_group(group).num_rows)])
    return pc.is_null(read[name])
