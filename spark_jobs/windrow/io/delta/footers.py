"""What the footer of a Parquet file says about its columns, so that nobody reads the rows to know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq


def nulls_of(file: Path) -> Mapping[str, int]:
    """Nulls by top-level column, of the columns whose statistics tell.

    Of a nested column they count empty lists and nulls further in as well, so they tell only where there is none.
    """
    metadata = pq.read_metadata(file)
    names = metadata.schema.to_arrow_schema().names
    groups = [group for g in range(metadata.num_row_groups) if (group := metadata.row_group(g)).num_rows]
    nulls: dict[str, int] = {}
    untold: set[str] = set()
    for at in range(metadata.num_columns):
        path = metadata.schema.column(at).path
        name = path if path in names else max((n for n in names if path.startswith(f"{n}.")), key=len, default=path)
        seen = [group.column(at).statistics for group in groups]
        if any(one is None or not one.has_null_count for one in seen):
            untold.add(name)
            continue
        count = sum(one.null_count for one in seen)
        if path != name and count:
            untold.add(name)
        nulls[name] = max(count, nulls.get(name, 0))
    return {name: count for name, count in nulls.items() if name not in untold}
