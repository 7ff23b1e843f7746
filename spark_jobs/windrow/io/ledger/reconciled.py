"""The `reconciled` table: for each run and interval, whether the ledger explains every difference. No Spark.

It is append only, with one commit per run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.io.registers import publications
from windrow.schemas import RECONCILED


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append the outcomes of a run (columns of `schemas.RECONCILED`) in one commit."""
    with held(home.lock(Table.RECONCILED)):
        tables.append_next(home.table(Table.RECONCILED), RECONCILED, rows, app_id="windrow.reconciled")


def differing(home: Home, since: datetime) -> list[dict[str, Any]]:
    """Return the newest outcome of each interval where it is `differs` and the compared publication still stands.

    Args:
        since: earliest run that is looked at.
    """
    path, recent = home.table(Table.RECONCILED), ("reconciled_at", ">=", since)
    starts = {row["interval"] for row in tables.read(path, ["interval"], [recent, ("outcome", "=", "differs")])}
    if not starts:
        return []
    rows = tables.read(path, filters=[recent, ("interval", "in", sorted(starts))])
    newest = {row["interval"]: row for row in sorted(rows, key=lambda row: row["reconciled_at"])}
    standing = publications.standing(publications.of_intervals(home, sorted(starts)))
    return [row for start, row in sorted(newest.items()) if row["outcome"] == "differs" and _stands(row, standing)]


def _stands(row: Mapping[str, Any], standing: Mapping[datetime, Mapping[str, Any]]) -> bool:
    start = row["interval"]
    return start in standing and standing[start]["number"] == row["publication"]
