"""Lag impact on Spark: a whole family of scenarios in one pass over the events, exactly as the simulation has it.

    every event ─▶ packed by lag and arrival ─▶ each clock's steps ──┐ routed to the rows
      (4 numbers)   (lag_arrivals)                (lag_steps)        │ that they close
    left rows ──▶ with all labels of their widest window ────────────┴▶ verdicts ─▶ sums ─▶ a few rows a scenario
    labels ───┘   (one join by key)                                     (lag_verdicts)

The events are read once for all lags and clocks, left rows and labels once for all scenarios. A clock is a sequence
over all arrivals of all partitions, which no task can hold; but all that an arrival-time bucket needs to know of what
came before is the newest event and the last arrival of each partition, and those are maxima, found for all
buckets at once from a table of one row a bucket and partition. So buckets are scanned side by side, and memory is
that of one bucket or chunk a task, however long the range. Equal to `semantics.lag.simulation`, microsecond by
microsecond and tie by tie; quantiles are counted in the same rounded values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from windrow.semantics.lag.scenario import Outcome, Spread, spread
from windrow.transforms.lag.arrivals import packed, state_before
from windrow.transforms.lag.plan import LagPlan
from windrow.transforms.lag.steps import routed, steps
from windrow.transforms.lag.verdicts import judged, summed

LABEL = "struct(stream, place, at, logged, offset)"


def clock_steps(packs: DataFrame, plan: LagPlan) -> DataFrame:
    """Every clock's steps under every lag; read twice by `impact`, so that the caller keeps them."""
    return steps(packs, state_before(packs, plan), plan)


def packs_of(moves: DataFrame, plan: LagPlan) -> DataFrame:
    """All events by lag and arrival (`lag_arrivals.MOVES`); read twice by `clock_steps`."""
    return packed(moves, plan)


def impact(kept_steps: DataFrame, rows: DataFrame, plan: LagPlan) -> DataFrame:
    """scenario (its number), measure, bucket, value: see `outcomes`. `rows`: as `rows_with_labels` makes them."""
    return summed(judged(rows, routed(kept_steps, plan), plan))


def rows_with_labels(left: DataFrame, labels: DataFrame, keys: Sequence[str], plan: LagPlan) -> DataFrame:
    """Left rows with the labels of their key that some scenario may match (`lag_verdicts.ROWS`).

    Args:
        left: place, at, logged, offset, and the key columns.
        labels: the same, and `stream`: the number of the label stream.
    """
    grouped = labels.groupBy(*keys).agg(F.collect_list(F.expr(LABEL)).alias("group"))
    met = left.alias("l").join(grouped.alias("g"), on=[F.col(f"l.{k}") == F.col(f"g.{k}") for k in keys], how="left")
    before = F.array(*[F.lit(b).cast("bigint") for b, _ in plan.widest] or [F.lit(0).cast("bigint")])
    after = F.array(*[F.lit(a).cast("bigint") for _, a in plan.widest] or [F.lit(0).cast("bigint")])

    def inside(label: Column) -> Column:
        apart = label["at"] - F.col("l.at")
        return (apart >= -F.get(before, label["stream"])) & (apart <= F.get(after, label["stream"]))

    matched = F.coalesce(
        F.filter("group", inside),
        F.expr("cast(array() as array<struct<stream: int, place: int, at: bigint, logged: bigint, offset: bigint>>)"),
    )
    return met.select("l.place", "l.at", "l.logged", "l.offset", matched.alias("labels"))


def outcomes(found: Iterable[Mapping[str, Any]], plan: LagPlan) -> tuple[Outcome, ...]:
    """The collected rows of `impact` as one outcome a scenario, in the plan's order."""
    by: list[dict[str, dict[int, int]]] = [{} for _ in plan.scenarios]
    for row in found:
        by[row["scenario"]].setdefault(row["measure"], {})[row["bucket"]] = int(row["value"])
    return tuple(_outcome(measures) for measures in by)


def _outcome(measures: dict[str, dict[int, int]]) -> Outcome:
    def one(name: str) -> int:
        return measures.get(name, {}).get(0, 0)

    def spread_of(name: str) -> Spread:
        return spread(measures.get(name, {}), one(f"{name}_max"), one(f"{name}_total"))

    flips = {tuple(name.split(">")): one(name) for name in measures if ">" in name}
    return Outcome(
        rows_total=one("rows"),
        rows_missing=one("missing"),
        rows_closed_too_early=one("early"),
        rows_open=one("open"),
        labels_total=one("labels"),
        labels_lost=one("lost"),
        states_flipped={(a, b): count for (a, b), count in flips.items()},
        delay=spread_of("delay") if one("compared") else None,
        wait=spread_of("wait") if "wait" in measures else None,
        open_rows_peak=one("open_peak"),
    )
