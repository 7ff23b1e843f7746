"""The `lag_impact` table: one line a scenario, one commit an analysis. And what the `clock` table says about a time.

Both are small tables, without a JVM.
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
from windrow.semantics.clock import watermark
from windrow.semantics.close import frontier
from windrow.semantics.lag.observed import Sighting, sightings
from windrow.semantics.lag.scenario import Lag, Outcome, Scenario, Spread

_CLOCK_COLUMNS = [
    "observation", "topic", "epoch", "partition", "next_offset", "end_offset", "newest_at", "clock_at", "landed_at",
]  # fmt: skip

Line = dict[str, Any]


def line(pipeline: Pipeline, scenario: Scenario, outcome: Outcome, about: Mapping[str, Any]) -> Line:
    """A scenario and its outcome as a line of the table; `about` is what the lines of an analysis share."""
    after = pipeline.after if scenario.after is None else scenario.after
    grace = pipeline.grace if scenario.grace is None else scenario.grace
    return {
        **about,
        "policy": scenario.policy.kind,
        "tick_s": _seconds(scenario.policy.tick),
        "idle_after_s": _seconds(scenario.policy.idle_after),
        **_lag(scenario.lag),
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
        **_quantiles("delay", outcome.delay),
        **_quantiles("wait", outcome.wait),
        "open_rows_peak": outcome.open_rows_peak,
    }


def record(home: Home, lines: Sequence[Line]) -> None:
    """Append an analysis in one commit."""
    with held(home.lock(Table.LAG_IMPACT)):
        tables.append_once(home.table(Table.LAG_IMPACT), LAG_IMPACT, lines)


def recorded(home: Home, columns: Iterable[str] | None = None) -> list[Line]:
    """Every line of every analysis."""
    return tables.read(home.table(Table.LAG_IMPACT), columns=list(columns) if columns else None)


def clock_over_time(home: Home, begin: datetime, end: datetime) -> list[Sighting]:
    """What the landing runs saw from `begin` until [begin, end) was closed, in the order of observations."""
    rows = tables.read(home.table(Table.CLOCK), columns=_CLOCK_COLUMNS, filters=[("landed_at", ">=", begin)])
    seen = sightings(row for row in rows if row["topic"] in home.pipeline.topics)
    for n, sighting in enumerate(seen):
        closed_to = frontier(watermark(sighting.clocks), home.pipeline.after, home.pipeline.grace)
        if closed_to is not None and closed_to >= end:
            return seen[: n + 1]
    return seen


def _lag(lag: Lag | None) -> Line:
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


def _quantiles(name: str, spread: Spread | None) -> Line:
    known = {} if spread is None else {"p50": spread.p50, "p99": spread.p99, "max": spread.max}
    return {f"{name}_{q}_s": _seconds(known.get(q)) for q in ("p50", "p99", "max")}


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
