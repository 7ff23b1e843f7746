"""Histograms of the columns of a candidate, from a sample of its rows. No Spark, and no value leaves this module.

    files of the plan ─▶ at most 8 of them, evenly spaced ─▶ every n-th row, 20 000 in all ─▶ rows by bucket

The same files give the same histograms, so a retry counts what the first try counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.columns import PAIRED, PLAN
from windrow.io.delta.lookup import Lookup, Range
from windrow.semantics.drift import CATEGORIES, FARTHEST, NAN, NULL, PER_DOUBLING, SHIFT, Kind

FILES = 8
"""Files that are opened at most."""
ROWS = 20_000
"""Rows that are counted at most."""


def histograms(table: Lookup | None, plan_id: str, kinds: Mapping[str, Kind]) -> dict[str, dict[int, int]]:
    """Return the histogram of each column over a sample of the candidate's rows.

    Args:
        table: the candidates; None without any.
        plan_id: of a plan whose candidate has been written.
        kinds: column → what it holds; a column that the table lacks is left out.

    Raises:
        TableDamaged: a data file is missing or cut.
    """
    if table is None:
        return {}
    paths = sorted(table.paths([Range(PLAN, plan_id, plan_id)]))
    step = max(1, -(-len(paths) // FILES))
    wanted = pc.field(PAIRED) | pc.field(PAIRED).is_null() if PAIRED in table.schema.names else None
    chosen = table.read_files(paths[::step], list(kinds), wanted)
    rows = pa.concat_tables([_every_nth(file, ROWS // len(chosen)) for file in chosen.values()]) if chosen else None
    if rows is None:
        return {}
    return {name: histogram(rows[name], kind) for name, kind in kinds.items() if name in rows.column_names}


def histogram(values: pa.ChunkedArray, kind: Kind) -> dict[int, int]:
    """Return rows by bucket, as `semantics.drift` numbers the buckets.

    >>> histogram(pa.chunked_array([[1.0, 1.0, 0.0, None]]), "number") == {9000: 2, 0: 1, NULL: 1}
    True
    >>> sorted(histogram(pa.chunked_array([["a", "b", "a", None]]), "category").values())
    [1, 1, 2]
    """
    counts: dict[int, int] = {NULL: values.null_count} if values.null_count else {}
    known = values.drop_null()
    if not len(known):
        return counts
    found = _categories(known) if kind == "category" else _numbers(known)
    return {**counts, **found}


def _every_nth(rows: pa.Table, most: int) -> pa.Table:
    return rows.take(np.arange(0, rows.num_rows, max(1, -(-rows.num_rows // most)))) if rows.num_rows else rows


def _numbers(values: pa.ChunkedArray) -> dict[int, int]:
    numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # of 0 and of what is no number, which have buckets of their own
        steps = np.minimum(FARTHEST, np.floor(PER_DOUBLING * np.log2(np.abs(numbers))) + SHIFT)
        beyond = np.sign(numbers) * steps
    buckets = np.where(np.isnan(numbers), NAN, np.where(numbers == 0, 0, beyond))
    found, rows = np.unique(buckets.astype(np.int64), return_counts=True)
    return dict(zip(found.tolist(), rows.tolist(), strict=True))


def _categories(values: pa.ChunkedArray) -> dict[int, int]:
    counts: dict[int, int] = {}
    for one in pc.value_counts(values.combine_chunks()).to_pylist():
        bucket = crc32(_text(one["values"])) % CATEGORIES
        counts[bucket] = counts.get(bucket, 0) + one["counts"]
    return counts


def _text(value: Any) -> bytes:
    return str(value).encode(errors="surrogatepass")
