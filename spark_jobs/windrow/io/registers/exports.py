"""The register of exports: where `windrow export` has written training rows, so that an erasure can name the copies.

What a program has exported by itself, or a person has copied since, is not in it.
"""

from __future__ import annotations

from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.schemas import EXPORTS

_APP_ID = "windrow.exports"


def record(home: Home, row: dict[str, Any]) -> None:
    """Add an export that begins or is finished (columns: `schemas.EXPORTS`)."""
    tables.append_next(home.table(Table.EXPORTS), EXPORTS, [row], app_id=_APP_ID)


def listed(home: Home) -> list[dict[str, Any]]:
    """Return every recorded export, oldest first, each location once: as it was written last, or begun.

    Returns:
        Rows with the columns of `schemas.EXPORTS`; of an export that is not finished, `rows` and what follows from them
        are None.
    """
    rows = tables.read(home.table(Table.EXPORTS))
    last = {row["location"]: row for row in sorted(rows, key=lambda row: row["exported_at"])}
    return list(last.values())
