"""The order of an export, in parts that fit into memory: served order, or a shuffle of all rows.

    served     the range ─▶ pieces of time with at most so many rows ─▶ each sorted in row order
    shuffled   pieces ─▶ each sorted by hash and spilled, one batch per bucket ─▶ bucket by bucket, merged and sorted

A shuffle is the order of a hash of seed and row id. So it is the same for every size of the pieces, and a row has the
same neighbours wherever it is read. Memory holds one piece or one bucket; the spill is as large as the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from windrow.columns import ROW_ID, ROW_ORDER
from windrow.semantics.intervals import Interval
from windrow.training.hashing import SIZE, hash_of

PURPOSE = 3
"""Follows the seed in the hash, so that a shuffle is independent of a sample and of a split of the same seed."""

_HASH = "_hash"

Read = Callable[[Interval], pl.LazyFrame]
"""Returns the rows of a part of the range, with the columns of the row order."""


class Order(Protocol):
    """Rows in parts, one after the other."""

    @property
    def parts(self) -> int:
        """Number of parts."""

    def part(self, number: int) -> pa.Table:
        """Return the rows of a part, in order."""


def pieces(rows: Iterable[tuple[Interval, int]], whole: Interval, most: int) -> list[Interval]:
    """Cut a range into pieces of at most so many rows, as far as the rows of an interval are spread evenly.

    Args:
        rows: how many rows intervals have, by time.
        most: rows of a piece.
    """
    cuts, held = [whole.start], 0
    for interval, count in rows:
        if held and held + count > most:
            cuts.append(interval.start)
            held = 0
        parts = ceil(count / most) if count > most else 1
        cuts += [interval.start + interval.length * n / parts for n in range(1, parts)]
        held += ceil(count / parts)
    inside = sorted({cut for cut in cuts if whole.start < cut < whole.end})
    bounds = [whole.start, *inside, whole.end]
    return [Interval(begin, end) for begin, end in pairwise(bounds)]


class Served:
    """Rows in served order."""

    def __init__(self, read: Read, parts: Sequence[Interval], columns: Sequence[str]) -> None:
        self._read, self._parts, self._columns = read, parts, columns

    @property
    def parts(self) -> int:
        """Number of pieces."""
        return len(self._parts)

    def part(self, number: int) -> pa.Table:
        """Return the rows of a piece, in row order."""
        rows = self._read(self._parts[number])
        return arrow(rows.sort(*ROW_ORDER).select(self._columns).collect())


class Shuffled:
    """All rows in the order of their hash.

    Args:
        folder: where pieces are spilled; those that an earlier try has finished are used.
        buckets: number of parts.
    """

    def __init__(
        self, read: Read, pieces: Sequence[Interval], columns: Sequence[str], seed: int, folder: Path, buckets: int
    ) -> None:
        self._columns, self._buckets = columns, buckets
        self._files = [folder / f"spill-{number:06d}.arrow" for number in range(len(pieces))]
        for file, piece in zip(self._files, pieces, strict=True):
            if not file.exists():
                self._spill(read(piece), seed, file)

    @property
    def parts(self) -> int:
        """Number of buckets."""
        return self._buckets

    def part(self, number: int) -> pa.Table:
        """Return the rows of a bucket, by hash."""
        rows = pl.concat(_bucket(file, number) for file in self._files)
        return arrow(rows.sort(_HASH, *ROW_ORDER).select(self._columns))

    def _spill(self, rows: pl.LazyFrame, seed: int, file: Path) -> None:
        hashed = hash_of((seed, PURPOSE), [pl.col(name) for name in ROW_ID]).cast(pl.Int64).alias(_HASH)
        wanted = rows.select(*dict.fromkeys([*self._columns, *ROW_ORDER]), hashed)
        table = arrow(wanted.sort(_HASH).collect())
        firsts = np.array([SIZE * n // self._buckets for n in range(1, self._buckets + 1)])
        ends = np.searchsorted(table[_HASH].to_numpy(), firsts).tolist()
        partial = file.with_suffix(".partial")
        with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            for begin, end in pairwise([0, *ends]):
                (batch,) = table.slice(begin, end - begin).combine_chunks().to_batches() or [_empty(table.schema)]
                writer.write_batch(batch)
        os.replace(partial, file)


def _bucket(file: Path, number: int) -> pl.DataFrame:
    with pa.memory_map(str(file)) as source:
        rows = pl.from_arrow(pa.Table.from_batches([pa.ipc.open_file(source).get_batch(number)]))
    assert isinstance(rows, pl.DataFrame)
    return rows


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def arrow(rows: pl.DataFrame) -> pa.Table:
    """Rows with types that every reader of Arrow knows."""
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())
