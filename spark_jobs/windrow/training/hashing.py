"""A hash of columns that is the same on every machine and in every version, and that other engines have too.

    columns ──▶ whole numbers of 64 bits ──▶ MurmurHash3 (x86, 32 bits), seeded with the hash of the columns before it
    text    ──▶ CRC-32 of its UTF-8          first seed 42; a null leaves the hash as it is

This is Spark's own `hash` over bigint columns. `Expr.hash` of Polars is faster, but may change with its version, and a
sample or a split drawn by it would change too.

Method: Austin Appleby, MurmurHash3 (2010), https://github.com/aappleby/smhasher; its test vectors are in the tests.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

SIZE = 2**32
"""Hashes are in [0, SIZE)."""
_FIRST_SEED = 42

Words = npt.NDArray[np.uint32]


def hash_of(numbers: Sequence[int], columns: Sequence[pl.Expr]) -> pl.Expr:
    """Return the hash of some numbers and, after them, of columns of whole numbers or text, as UInt32.

    Args:
        numbers: seed and purpose, so that samples drawn for different purposes are independent.

    >>> rows = pl.DataFrame({"user": [1, 2, None], "shop": ["a", "a", "b"]})
    >>> rows.select(hash_of([7], [pl.col("user"), pl.col("shop")]).alias("hash"))["hash"].to_list()
    [348670962, 1013219371, 682811468]
    """
    named = pl.struct(column.alias(str(n)) for n, column in enumerate(columns))

    def hashed(rows: pl.Series) -> pl.Series:
        h = np.full(len(rows), _FIRST_SEED, np.uint32)
        for number in numbers:
            h = _murmur3(np.full(len(rows), number, np.int64), h)
        for column in rows.struct.unnest().iter_columns():
            values = _numbers(column)
            known = values.is_not_null().to_numpy()
            h = np.where(known, _murmur3(values.fill_null(0).to_numpy(), h), h)
        return pl.Series(h, dtype=pl.UInt32)

    return named.map_batches(hashed, return_dtype=pl.UInt32, is_elementwise=True)


def threshold(share: float) -> int:
    """Return the number of hashes that make up a share, in [0, SIZE]."""
    return round(share * SIZE)


def _numbers(column: pl.Series) -> pl.Series:
    """Values as 64-bit numbers; each text of a batch is encoded once."""
    if column.dtype != pl.String:
        return column.cast(pl.Int64)
    known = column.unique().drop_nulls()
    codes = pl.Series([zlib.crc32(text.encode()) for text in known], dtype=pl.Int64)
    return column.replace_strict(known, codes, default=None, return_dtype=pl.Int64)


def _murmur3(values: npt.NDArray[np.int64], seeds: Words) -> Words:
    """Return the hash of each value's 8 bytes, little-endian; arithmetic on UInt32 wraps, as the method wants it."""
    bits = values.view(np.uint64)
    h = seeds
    for word in ((bits & np.uint64(SIZE - 1)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)):
        k = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        h = _rotated(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h = h ^ np.uint32(8)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def _rotated(x: Words, bits: int) -> Words:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
