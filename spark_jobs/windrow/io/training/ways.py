"""The two ways in which candidate rows come to their payload, and which of them a join takes: decided here alone.

    spark   the JVM reads, joins, sorts and writes all columns
    files   the JVM joins rows without payload (`transforms.payload`); Python workers take it from the landing files and
            write the candidates (`io.training.payload`)

The second way spares the JVM the decoding, sorting and encoding of every value, and Spark's planner every column. It
costs the start of Python workers, which need pyarrow and this package, and memory for row groups. Both write the same
rows. A warm driver does with half the CPU, a fresh one with as much as before, so somebody has to ask for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from windrow.columns import FILE
from windrow.outcomes import BadInput

VARIABLE = "WINDROW_PAYLOAD"
"""In the environment of the driver: `files` or `spark`, which is the default."""


def wants_files() -> bool:
    """Return whether the environment asks for payload from files.

    Raises:
        BadInput: it asks for a way that is none.
    """
    wanted = os.environ.get(VARIABLE) or "spark"
    if wanted not in ("files", "spark"):
        raise BadInput(f"{VARIABLE}={wanted!r} is neither files nor spark; remove it, or write one of these")
    return wanted == "files"


def by_files(columns: Collection[str]) -> bool:
    """Return whether a join takes payload from files: it is wanted and possible.

    Args:
        columns: of the left rows as they were read; with the place where all files of the landing tables are named.
    """
    return wants_files() and FILE in columns
