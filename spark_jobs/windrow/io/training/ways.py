"""The two ways in which candidate rows come to their payload, and which of them a join takes: decided here alone.

    spark   the JVM reads, joins, sorts and writes all columns
    files   the JVM joins rows without payload (`transforms.payload`); Python workers take it from the landing files and
            write the candidates (`io.training.payload`)

The second way spares the JVM the decoding, sorting and encoding of every value, and Spark's planner every column. It
costs the start of Python workers, which need pyarrow and this package. Both write the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from windrow.columns import FILE
from windrow.io.training.inputs import Size
from windrow.outcomes import BadInput
from windrow.text import counted

VARIABLE = "WINDROW_PAYLOAD"
"""In the environment of the driver: `files` or `spark` forces a way, the first one only where it is possible."""
LEAST_STORED = 16 * 1024 * 1024
"""From this many bytes of left rows on, the JVM saves more than workers cost to start."""
LEAST_COLUMNS = 200
"""From this many left columns on it does so with few rows: planning costs it milliseconds per column."""


class Way(NamedTuple):
    """One of the two ways."""

    by_files: bool
    why: str

    def __str__(self) -> str:
        return f"payload by {'files' if self.by_files else 'spark'}: {self.why}"


def way_of(columns: Collection[str], size: Size, *, left_columns: int, is_local: bool) -> Way:
    """Return the way that a join takes.

    Args:
        columns: of the left rows as they were read; with the place where all files of the landing tables are named.
        size: of the left rows.
        left_columns: number of left columns in the pipeline file.
        is_local: whether Spark runs on this machine alone, whose Python has all that workers need.

    Raises:
        BadInput: the environment asks for a way that is none.
    """
    forced = os.environ.get(VARIABLE, "")
    if forced not in ("", "files", "spark"):
        raise BadInput(f"{VARIABLE}={forced!r} is neither files nor spark; remove it, or write one of these")
    if FILE not in columns:
        return Way(False, "the landing files cannot be named one by one")
    if forced:
        return Way(forced == "files", VARIABLE)
    if not is_local:
        return Way(False, f"workers of a cluster may lack Windrow; {VARIABLE}=files says that they have it")
    if left_columns >= LEAST_COLUMNS:
        return Way(True, counted(left_columns, "left column"))
    return Way(size.stored >= LEAST_STORED, f"{size.stored / 1024 / 1024:.1f} MiB of left rows")
