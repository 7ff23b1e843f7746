"""Judgements that were made: rows of the `quality` table, and what they mean for a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.schemas import QUALITY
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan

Standing = Literal["passed", "warned", "blocked"]


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append judged measures in one commit."""
    with held(home.lock(Table.QUALITY)):
        tables.append_once(home.table(Table.QUALITY), QUALITY, rows)


def of_plans(home: Home, plans: Sequence[Plan]) -> dict[str, list[dict[str, Any]]]:
    """The last judgement of each plan that has one, by plan id."""
    rows = tables.read(home.table(Table.QUALITY), filters=tables.of_plans("plan", plans))
    newest = {plan: max(r["judged_at"] for r in rows if r["plan"] == plan) for plan in {r["plan"] for r in rows}}
    return {plan: [r for r in rows if r["plan"] == plan and r["judged_at"] == at] for plan, at in newest.items()}


def blocked_intervals(home: Home, among: Sequence[Interval]) -> set[Any]:
    """Starts of those intervals whose last judgement blocked them."""
    if not among:
        return set()
    columns = ["interval", "severity", "verdict", "judged_at"]
    rows = tables.read(
        home.table(Table.QUALITY), columns=columns, filters=[("interval", "in", [i.start for i in among])]
    )
    newest: dict[Any, Any] = {}
    for row in rows:
        newest[row["interval"]] = max(row["judged_at"], newest.get(row["interval"], row["judged_at"]))
    return {r["interval"] for r in rows if r["judged_at"] == newest[r["interval"]] and blocks(r)}


def blocks(row: Mapping[str, Any]) -> bool:
    """Whether a judged measure keeps its interval from being published."""
    return row["verdict"] == "error" or (row["verdict"] == "failed" and row["severity"] == "critical")


def standing(rows: Sequence[Mapping[str, Any]]) -> Standing:
    """What one judgement says: an empty one blocks."""
    if not rows or any(blocks(row) for row in rows):
        return "blocked"
    failed = any(row["verdict"] == "failed" and row["severity"] == "warning" for row in rows)
    return "warned" if failed else "passed"
