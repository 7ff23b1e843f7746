"""The `quality` table: one row per judged measure. `semantics.judgement` decides which of them block. No Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from windrow.home import Home, Table
from windrow.io.delta import lookup, tables
from windrow.io.delta.locks import held
from windrow.schemas import QUALITY
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import Verdict, may_publish, worst
from windrow.semantics.judgement import why as reason_of
from windrow.semantics.plan import Plan


def record(home: Home, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append judged measures (columns of `schemas.QUALITY`) in one commit."""
    with held(home.lock(Table.QUALITY)):
        tables.append_next(home.table(Table.QUALITY), QUALITY, rows, app_id="windrow.quality")


def of_plans(home: Home, plans: Sequence[Plan]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the newest judgement of each plan, by plan id; a plan that was not judged is absent."""
    return _newest("plan", tables.read(home.table(Table.QUALITY), filters=tables.of_plans("plan", plans)))


def verdict(rows: Iterable[Mapping[str, Any]], *, is_empty: bool = False) -> Verdict:
    """Return the verdict that follows from the rows of one judgement; `error` without rows.

    Args:
        is_empty: the candidate has no row.
    """
    return worst(((row["verdict"], row["severity"]) for row in rows), is_empty=is_empty)


def why(rows: Iterable[Mapping[str, Any]], *, is_empty: bool = False) -> str | None:
    """Return in one line why the verdict of one judgement is not `passed`; None where it is.

    Args:
        is_empty: the candidate has no row.
    """
    return reason_of(((row["verdict"], row["severity"], _words(row)) for row in rows), is_empty=is_empty)


def _words(row: Mapping[str, Any]) -> str:
    """Why a measure did not pass; an earlier release recorded no words."""
    value = "nothing" if row["value"] is None else f"{row['value']:g}"
    return row.get("why") or f"{row['metric']} {value}, expected {row['bound']}"


def blocked_intervals(home: Home, among: Sequence[Interval]) -> set[datetime]:
    """Return the starts of those intervals whose newest judgement blocked them.

    Args:
        among: intervals in question; others are not looked at.
    """
    return set(blocked(lookup.opened(home.table(Table.QUALITY)), among))


def blocked(quality: lookup.Lookup | None, among: Sequence[Interval]) -> dict[datetime, str]:
    """Return start → why, in one line, of those intervals whose newest judgement blocked them.

    Args:
        quality: the table of judgements, if there is one.
    """
    if quality is None or not among:
        return {}
    starts = [interval.start for interval in among]
    within = lookup.Range("interval", min(starts), max(starts))
    rows = quality.read(quality.schema.names, pc.field("interval").isin(starts), [within])
    newest = _newest("interval", rows).items()
    return {start: why(judged) or "" for start, judged in newest if not may_publish(verdict(judged))}


def of_interval(quality: lookup.Lookup | None, start: datetime) -> list[dict[str, Any]]:
    """Return the rows of every judgement of an interval, under whatever plan, with the columns of `schemas.QUALITY`.

    Args:
        quality: the table of judgements, if there is one.
        start: start of the interval.
    """
    if quality is None:
        return []
    return quality.having(QUALITY.names, "interval", start)


def _newest(key: str, rows: Iterable[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    """Return the rows of the newest judgement by the value of the column `key`; all its rows have one `judged_at`."""
    judgements: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        judgements[row[key]].append(row)
    newest = {value: max(row["judged_at"] for row in judged) for value, judged in judgements.items()}
    return {value: [row for row in judged if row["judged_at"] == newest[value]] for value, judged in judgements.items()}
