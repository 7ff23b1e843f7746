"""The `reconciled` table: for each run and interval, whether the ledger explains every difference. No Spark.

It is append only, with one commit per run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.schemas import RECONCILED


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append the outcomes of a run (columns of `schemas.RECONCILED`) in one commit."""
    with held(home.lock(Table.RECONCILED)):
        tables.append_next(home.table(Table.RECONCILED), RECONCILED, rows, app_id="windrow.reconciled")
