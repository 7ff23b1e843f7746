"""Lag impact on Spark: a family of scenarios in one pass over the events, with exactly the outcomes of the simulation.

    every event ─▶ packed by lag and arrival ─▶ each clock's steps ──┐ routed to the rows
      (4 numbers)   (arrivals)                   (steps)             │ that they close
    left rows ──▶ with all labels of their widest window ────────────┴▶ tallies ─▶ sums ─▶ a few rows per scenario
    labels ───┘   (one join by key)

The events are read once for all lags and clocks, left rows and labels once for all scenarios. A clock depends on all
arrivals of all partitions, which no task can hold. But a bucket of arrival time needs to know only the newest event and
the last arrival of each partition before it, and those are maxima, computed for all buckets at once from a table with
one row per bucket and partition. So buckets are scanned in parallel, and a task holds one bucket or one chunk, however
long the range is. The outcomes equal those of `semantics.lag.simulation`, to the microsecond and in the order of ties;
quantiles are counted in the same rounded values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from windrow.semantics.lag.outcome import LagOutcome, Spread, spread_of
from windrow.transforms.lag.arrivals import state_before
from windrow.transforms.lag.plan import LagPlan
from windrow.transforms.lag.steps import routed, steps
from windrow.transforms.lag.tallies import summed, tallied


def clock_steps(packs: DataFrame, plan: LagPlan) -> DataFrame:
    """Every clock's steps under every lag (`steps.steps`). Reads `packs` (`arrivals.packed`) twice."""
    return steps(packs, state_before(packs, plan), plan)


def impact(clock_steps: DataFrame, rows: DataFrame, plan: LagPlan) -> DataFrame:
    """The sums that `outcomes` reads: scenario (its number), measure, bucket, value. Reads `clock_steps` twice.

    Args:
        rows: `events.ROW_COLUMNS`.
    """
    return summed(tallied(rows, routed(clock_steps, plan), plan))


def outcomes(sums: Iterable[Mapping[str, Any]], plan: LagPlan) -> tuple[LagOutcome, ...]:
    """The collected rows of `impact` as one outcome per scenario, in the plan's order.

    Args:
        sums: with `scenario`, `measure`, `bucket` and `value`; in any order.
    """
    by_scenario: list[dict[str, dict[int, int]]] = [{} for _ in plan.scenarios]
    for row in sums:
        by_scenario[row["scenario"]].setdefault(row["measure"], {})[row["bucket"]] = int(row["value"])
    return tuple(_outcome(measures) for measures in by_scenario)


def _outcome(measures: dict[str, dict[int, int]]) -> LagOutcome:
    def one(name: str) -> int:
        return measures.get(name, {}).get(0, 0)

    def spread(name: str) -> Spread:
        return spread_of(measures.get(name, {}), one(f"{name}_max"), one(f"{name}_total"))

    flips = {tuple(name.split(">")): one(name) for name in measures if ">" in name}
    return LagOutcome(
        rows_total=one("rows"),
        rows_missing=one("missing"),
        rows_closed_too_early=one("early"),
        rows_open=one("open"),
        labels_total=one("labels"),
        labels_lost=one("lost"),
        states_flipped={(a, b): count for (a, b), count in flips.items()},
        delay=spread("delay") if one("compared") else None,
        wait=spread("wait") if "wait" in measures else None,
        open_rows_peak=one("open_peak"),
    )
