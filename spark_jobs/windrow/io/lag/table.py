"""The `lag_impact` table, one row per scenario and one commit per analysis; and the readings of the `clock` table.

Both are small tables, read and written without a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.locks import held
from windrow.schemas import LAG_IMPACT
from windrow.semantics.lag.observed import ClockReading, readings_of
from windrow.semantics.lag.outcome import LagOutcome, Spread
from windrow.semantics.lag.scenario import Lag, LagScenario

_CLOCK_COLUMNS = [
    "observation", "topic", "epoch", "partition", "next_offset", "end_offset", "newest_at", "clock_at", "landed_at",
]  # fmt: skip

ImpactRow = dict[str, Any]
"""A row of the `lag_impact` table, by column."""


def impact_row(
    pipeline: Pipeline, scenario: LagScenario, outcome: LagOutcome, analysis: Mapping[str, Any]
) -> ImpactRow:
    """Return a scenario and its outcome as a row of the table, with durations in seconds.

    Args:
        analysis: the columns that all rows of an analysis share.
    """
    after = pipeline.after if scenario.after is None else scenario.after
    grace = pipeline.grace if scenario.grace is None else scenario.grace
    return {
        **analysis,
        "policy": scenario.policy.kind,
        "tick_s": _seconds(scenario.policy.tick),
        "idle_after_s": _seconds(scenario.policy.idle_after),
        **_lag_columns(scenario.lag),
        "after_s": _seconds(after),
        "grace_s": _seconds(grace),
        "interval_s": _seconds(scenario.interval),
        "rows": outcome.rows_total,
        "rows_missing": outcome.rows_missing,
        "rows_closed_too_early": outcome.rows_closed_too_early,
        "rows_open": outcome.rows_open,
        "labels": outcome.labels_total,
        "labels_lost": outcome.labels_lost,
        "recall": outcome.recall,
        "states_flipped": sum(outcome.states_flipped.values()),
        "flips": json.dumps({f"{a}>{b}": n for (a, b), n in sorted(outcome.states_flipped.items())}),
        "rows_delayed": outcome.rows_delayed,
        **_spread_columns("delay", outcome.delay),
        **_spread_columns("wait", outcome.wait),
        "open_rows_peak": outcome.open_rows_peak,
    }


def append(home: Home, rows: Sequence[ImpactRow]) -> None:
    """Append the rows of an analysis in one commit. A repeated analysis is appended again, with its own time."""
    with held(home.lock(Table.LAG_IMPACT)):
        tables.append_next(home.table(Table.LAG_IMPACT), LAG_IMPACT, rows, app_id="windrow.lag_impact")


def read(home: Home, columns: Iterable[str] | None = None) -> list[ImpactRow]:
    """Return every row of every analysis.

    Args:
        columns: None for all.
    """
    return tables.read(home.table(Table.LAG_IMPACT), columns=list(columns) if columns else None)


def clock_readings(home: Home, begin: datetime) -> list[ClockReading]:
    """Return the clock as each landing run from `begin` on left it, in the order of observations.

    Args:
        begin: landing time of the first run, included.

    Returns:
        One reading per landing run, with the partitions of the topics that the pipeline file names.
    """
    rows = tables.read(home.table(Table.CLOCK), columns=_CLOCK_COLUMNS, filters=[("landed_at", ">=", begin)])
    return readings_of(row for row in rows if row["topic"] in home.pipeline.topics)


def _lag_columns(lag: Lag | None) -> ImpactRow:
    if lag is None:
        return {"side": None, "partitions": None, "lag": "none", "lag_s": 0.0, "lag_start": None, "lag_rate": None}
    length = lag.end - lag.start if lag.kind == "pause" and lag.end and lag.start else lag.delay
    return {
        "side": lag.side,
        "partitions": ",".join(str(n) for n in lag.partitions) or "all",
        "lag": lag.kind,
        "lag_s": _seconds(length),
        "lag_start": lag.start,
        "lag_rate": lag.rate,
    }


def _spread_columns(name: str, spread: Spread | None) -> ImpactRow:
    known = {} if spread is None else {"p50": spread.p50, "p99": spread.p99, "max": spread.max}
    return {f"{name}_{q}_s": _seconds(known.get(q)) for q in ("p50", "p99", "max")}


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
