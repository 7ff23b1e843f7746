"""The `measures` table: numbers about candidates, which the gate judges. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.schemas import MEASURES
from windrow.semantics.plan import Plan

APP_ID = "windrow.measures"


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append measures (columns of `schemas.MEASURES`) in one commit, once per plan."""
    ids = {row["plan"] for row in rows}
    tables.append_next(
        home.table(Table.MEASURES), MEASURES, rows, app_id=APP_ID, is_done=lambda: bool(ids) and ids <= plan_ids(home)
    )


def are_recorded(home: Home, plans: Sequence[Plan]) -> bool:
    """Return whether each of these plans has measures, which means that its candidate has been written and counted."""
    return {row["plan"] for row in of_plans(home, plans)} >= {plan.id for plan in plans}


def plan_ids(home: Home) -> set[str]:
    """Return the ids of all plans whose candidates were ever measured."""
    return {row["plan"] for row in tables.read(home.table(Table.MEASURES), columns=["plan"])}


def of_plans(home: Home, plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return the rows of these plans, one per plan and measure."""
    return tables.read(home.table(Table.MEASURES), filters=tables.of_plans("plan", plans)) if plans else []


def values(home: Home, name: str, plans: Sequence[tuple[str, datetime]]) -> dict[str, float | None]:
    """Return plan id → value of a measure; plans without it are absent.

    Args:
        plans: id and interval start of each: files have narrow bounds of intervals, not of ids.
    """
    if not plans:
        return {}
    starts = sorted({start for _, start in plans})
    filters: list[tables.Filter] = [("name", "=", name), ("interval", ">=", starts[0]), ("interval", "<=", starts[-1])]
    wanted = {plan_id for plan_id, _ in plans}
    rows = tables.read(home.table(Table.MEASURES), ["plan", "value"], filters)
    return {row["plan"]: row["value"] for row in rows if row["plan"] in wanted}


def by_plan(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, float | None]]:
    """Return plan id → name of the measure → value; a plan without measures has an empty mapping."""
    numbers: dict[str, dict[str, float | None]] = {plan.id: {} for plan in plans}
    for row in of_plans(home, plans):
        numbers[row["plan"]][row["name"]] = row["value"]
    return numbers
