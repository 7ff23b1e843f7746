"""The `measures` table: numbers about candidates, which the gate judges. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.schemas import MEASURES
from windrow.semantics.plan import Plan

APP_ID = "windrow.measures"
_COMPARABLE: tuple[list[tables.Filter], ...] = (
    [("name", "in", ["positive_complete", "unknown.forced"])],
    [("name", ">=", "volume."), ("name", "<", "volume/")],  # all that begin with "volume."
)


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append measures (columns of `schemas.MEASURES`) in one commit, once per plan."""
    path, ids = home.table(Table.MEASURES), {row["plan"] for row in rows}
    # files have narrow bounds of intervals, not of ids
    theirs: list[tables.Filter] = [(name, "in", sorted({row[name] for row in rows})) for name in ("interval", "plan")]

    def is_done() -> bool:
        return bool(ids) and ids == {row["plan"] for row in tables.read(path, columns=["plan"], filters=theirs)}

    tables.append_next(path, MEASURES, rows, app_id=APP_ID, is_done=is_done)


def are_recorded(home: Home, plans: Sequence[Plan]) -> bool:
    """Return whether each of these plans has measures, which means that its candidate has been written and counted."""
    return {row["plan"] for row in of_plans(home, plans)} >= {plan.id for plan in plans}


def plan_ids(home: Home) -> set[str]:
    """Return the ids of all plans whose candidates were ever measured."""
    rows = tables.arrow(home.table(Table.MEASURES), ["plan"])  # one for each measure: millions in a year
    return set() if rows is None else set(pc.unique(rows["plan"]).to_pylist())


def of_plans(home: Home, plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return the rows of these plans, one per plan and measure."""
    return tables.read(home.table(Table.MEASURES), filters=tables.of_plans("plan", plans)) if plans else []


def comparable(home: Home, plans: Sequence[tuple[str, datetime]]) -> dict[str, dict[str, float | None]]:
    """Return what later intervals are compared with: plan id → name of the measure → value, where there is one.

    Args:
        plans: id and interval start of each: files have narrow bounds of intervals, not of ids.
    """
    found: dict[str, dict[str, float | None]] = {plan_id: {} for plan_id, _ in plans}
    if not plans:
        return found
    of_them: list[tables.Filter] = [("interval", "in", sorted({start for _, start in plans}))]
    alternatives: Any = [[*of_them, *names] for names in _COMPARABLE]
    for row in tables.read(home.table(Table.MEASURES), ["plan", "name", "value"], alternatives):
        if row["plan"] in found:
            found[row["plan"]][row["name"]] = row["value"]
    return found


def by_plan(home: Home, plans: Sequence[Plan]) -> dict[str, dict[str, float | None]]:
    """Return plan id → name of the measure → value; a plan without measures has an empty mapping."""
    numbers: dict[str, dict[str, float | None]] = {plan.id: {} for plan in plans}
    for row in of_plans(home, plans):
        numbers[row["plan"]][row["name"]] = row["value"]
    return numbers
