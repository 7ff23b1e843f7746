"""The `quality` table: one row per judged measure. Which of them block is `semantics.judgement`. No Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.schemas import QUALITY
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import Verdict, may_publish, worst
from windrow.semantics.plan import Plan


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append judged measures in one commit."""
    with held(home.lock(Table.QUALITY)):
        tables.append_once(home.table(Table.QUALITY), QUALITY, rows)


def of_plans(home: Home, plans: Sequence[Plan]) -> dict[str, list[dict[str, Any]]]:
    """Rows of the newest judgement of each plan that has one, by plan id."""
    return _newest("plan", tables.read(home.table(Table.QUALITY), filters=tables.of_plans("plan", plans)))


def verdict(rows: Iterable[Mapping[str, Any]]) -> Verdict:
    """Verdict of one judgement's rows."""
    return worst((row["verdict"], row["severity"]) for row in rows)


def blocked_intervals(home: Home, among: Sequence[Interval]) -> set[datetime]:
    """Starts of those intervals whose newest judgement blocked them."""
    if not among:
        return set()
    columns = ["interval", "severity", "verdict", "judged_at"]
    starts = [interval.start for interval in among]
    rows = tables.read(home.table(Table.QUALITY), columns=columns, filters=[("interval", "in", starts)])
    return {start for start, judged in _newest("interval", rows).items() if not may_publish(verdict(judged))}


def _newest(key: str, rows: Iterable[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    judgements: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        judgements[row[key]].append(row)
    newest = {of: max(row["judged_at"] for row in judged) for of, judged in judgements.items()}
    return {of: [row for row in judged if row["judged_at"] == newest[of]] for of, judged in judgements.items()}
