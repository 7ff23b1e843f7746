"""The two ways in which candidate rows come to their payload, and which of them a join takes: decided here alone.

    spark   the JVM reads, joins, sorts and writes all columns, and counts what was written
    files   the JVM joins rows without payload (`transforms.payload`); Python workers take it from the landing files and
            write the candidates (`io.training.payload`), and others count them (`io.training.counting`)

The second way spares the JVM the decoding, sorting and encoding of every value, and Spark's planner every column. It
costs the start of Python workers, which need pyarrow and this package, and memory for row groups. Both write the same
rows. In a Spark that has run for a while it takes half the CPU; in one that has just started as much as the first,
unless there is much payload: of 1.6 GB a quarter of the time (benchmarks/README.md). A row group at the border of two
tasks of a range is read by both (`io.training.shares`): many cores and few row groups would read each many times. So by
itself a join takes this way in a warm engine for many rows, and where Spark is local for many bytes, if they are not
read many times; WINDROW_PAYLOAD forces either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from windrow.columns import FILE
from windrow.outcomes import BadInput

VARIABLE = "WINDROW_PAYLOAD"
"""In the environment of the job: `files`, `spark`, or `auto`, which is the default."""
MANY = 200_000
"""Left rows of a join from which on a warm engine takes payload from files, if nobody says otherwise."""
LARGE = 512 * 2**20
"""Bytes of their landing files from which on a Spark that has just started does, too."""
MOST_READINGS = 4
"""Readings of a landed byte, on average, up to which this pays."""


def wants_files(rows: int, size: int, readings: Callable[[], float], *, is_warm: bool, is_local: bool) -> bool:
    """Return whether a join is to take payload from files.

    Args:
        rows: about how many left rows it has.
        size: about how many bytes of landing files they are.
        readings: returns how often each of these bytes would be read, on average; called if nothing else decides.
        is_warm: whether its Spark has run jobs before.
        is_local: whether its workers surely have what this process has.

    Raises:
        BadInput: the environment asks for a way that is none.
    """
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted not in ("auto", "files", "spark"):
        raise BadInput(f"{VARIABLE}={wanted!r} is neither auto, files nor spark; remove it, or write one of these")
    is_much = (is_warm and rows >= MANY) or (is_local and size >= LARGE)
    return wanted == "files" or (wanted == "auto" and is_much and readings() <= MOST_READINGS)


def by_files(columns: Collection[str]) -> bool:
    """Return whether a join takes payload from files: it wants to, and all files of the landing tables are named.

    Args:
        columns: of the left rows as they were read; with their place only where that is both so.
    """
    return FILE in columns
