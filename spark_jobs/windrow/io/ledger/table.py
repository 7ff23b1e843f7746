"""The late ledger's table: which passes were made, and which of their lines count. No Spark.

    pass n ──▶ one commit: its lines, and in its message what the pass was complete up to (pins, clock, register)

The table is append only. `lines` applies the reading rule (`transforms.ledger.reading`); everybody reads through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from windrow.home import Home, Table
from windrow.io.delta import damage, tables
from windrow.io.delta.tables import Filter
from windrow.io.registers import publications
from windrow.schemas import LATE
from windrow.semantics.ledger import CONFIG_CHANGED
from windrow.semantics.records import RowId
from windrow.transforms.ledger import reading
from windrow.transforms.ledger.passes import Pass

APP_ID = "windrow.late"


def path_of(home: Home) -> str:
    """Return the location of the ledger."""
    return home.table(Table.LATE)


def last_pass(home: Home, config_hash: str | None = None) -> Pass | None:
    """Return the newest pass, with `config_hash` the newest under that config.

    None where no such pass was made, or its commit has left the log.
    """
    passes = (Pass.from_json(commit.message) for commit in tables.commits(path_of(home)))
    return next((made for made in passes if config_hash in (None, made.known.config_hash)), None)


def lines(
    home: Home,
    starts: Sequence[datetime] | None = None,
    *,
    columns: Sequence[str] = tuple(LATE.names),
    standing: Mapping[datetime, Mapping[str, Any]] | None = None,
) -> pl.DataFrame:
    """Return the lines that count, by the reading rule; complete up to the newest pass.

    Args:
        starts: starts of the wanted intervals; None for all.
        columns: columns of `schemas.LATE`.
        standing: register rows of the standing publications, by interval start, where the caller has them; of their
            columns `publications.IDENTITY`.
    """
    if standing is None:
        standing = publications.standing(publications.of_intervals(home, starts, publications.IDENTITY))
    wanted = standing if starts is None else {start: standing[start] for start in starts if start in standing}
    table = tables.opened(path_of(home))
    if table is None or not wanted:
        return pl.from_arrow(LATE.empty_table()).select(columns)  # type: ignore[union-attr]
    between: list[Filter] = [("interval", ">=", min(wanted)), ("interval", "<=", max(wanted))]
    needed = list(dict.fromkeys([*columns, *reading.NEEDED]))
    with damage.named(path_of(home)):
        found = pl.from_arrow(tables.matching(table, needed, between))
    assert isinstance(found, pl.DataFrame)
    config_hash = home.pipeline.config_hash
    current = {row["number"] for row in wanted.values() if row["config_hash"] == config_hash}
    others = {row["number"] for row in wanted.values()} - current
    return reading.counting(found, current, others).select(columns)


def summary(
    home: Home, starts: Sequence[datetime], standing: Mapping[datetime, Mapping[str, Any]] | None = None
) -> dict[datetime, dict[str, int]]:
    """Return what a rebuild of these intervals would change, by interval start: number of lines by kind, and `flips`.

    What landed after the newest pass is not counted. Intervals without a line are absent.

    Args:
        starts: starts of the wanted intervals.
        standing: as for `lines`.
    """
    return reading.kinds(lines(home, starts, columns=("interval", "kind", *reading.STATES), standing=standing))


def of_row(home: Home, row_id: RowId, start: datetime | None = None) -> list[dict[str, Any]]:
    """Return the lines that count about one left row, published or not, as dicts with the columns of `schemas.LATE`.

    Args:
        start: start of the row's interval, whose `config_changed` line is about all of its rows.
    """
    table = tables.opened(path_of(home))
    if table is None:
        return []
    either: list[list[Filter]] = [_is_row(row_id, ""), _is_row(row_id, "gone_")]
    with damage.named(path_of(home)):
        found = tables.matching(table, ["interval"], either).to_pylist()
    starts = {row["interval"] for row in found} | ({start} if start else set())
    about = [_id(row_id, ""), _id(row_id, "gone_"), {"kind": CONFIG_CHANGED, "interval": start}]
    counting = lines(home, sorted(starts)).iter_rows(named=True) if starts else ()
    return [line for line in counting if any(row.items() <= line.items() for row in about)]


def _id(row_id: RowId, prefix: str) -> dict[str, Any]:
    return {f"{prefix}{name}": value for name, value in vars(row_id).items()}


def _is_row(row_id: RowId, prefix: str) -> list[Filter]:
    return [(name, "=", value) for name, value in _id(row_id, prefix).items()]
