"""The `distributions` table: how left columns of candidates are distributed, and how far they have moved. No Spark.

A row is of one column of one candidate. It counts rows by bucket (`semantics.drift`); no value of a row is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from windrow.home import Home, Table
from windrow.io.delta import lookup, tables
from windrow.io.delta.locks import held
from windrow.io.delta.lookup import Range
from windrow.schemas import DISTRIBUTIONS
from windrow.semantics.drift import Kind


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append histograms (columns of `schemas.DISTRIBUTIONS`) in one commit; of a plan the newest ones count."""
    with held(home.lock(Table.DISTRIBUTIONS)):
        tables.append_next(home.table(Table.DISTRIBUTIONS), DISTRIBUTIONS, rows, app_id="windrow.distributions")


def of_plans(
    home: Home, plan_ids: Collection[str], starts: Collection[datetime]
) -> dict[str, dict[tuple[str, Kind], dict[int, int]]]:
    """Return plan id → (column, kind) → histogram, of those that are on record.

    Args:
        starts: interval starts of these plans, by which files are chosen.
    """
    table = lookup.opened(home.table(Table.DISTRIBUTIONS))
    if table is None or not starts:
        return {}
    wanted = pc.field("plan").isin(sorted(plan_ids))
    rows = table.read(DISTRIBUTIONS.names, wanted, [Range("interval", min(starts), max(starts))])
    found: dict[str, dict[tuple[str, Kind], dict[int, int]]] = {}
    for row in sorted(rows, key=lambda row: row["recorded_at"]):
        counts = dict(zip(row["buckets"], row["rows"], strict=True))
        found.setdefault(row["plan"], {})[row["column"], row["kind"]] = counts
    return found
