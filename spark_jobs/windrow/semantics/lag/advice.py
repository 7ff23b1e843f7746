"""Advice: the smallest settings that reach a wanted recall, and what they cost.

    served        label                    window ends     + grace        published
      |-------------x---------------------------|-------------|---------------|
      |<-- delay -->|<-------- spare ---------->|<--- slack = grace + out-of-orderness --->|

A label misses the first publication if its delay is longer than the window, or if it lands after its row has closed.
When a label lands `d` behind the newest event of its partition, that partition's clock is no further than the label's
time + d - out-of-orderness. So the label is certainly in time if `d <= spare + slack`. That is a bound: another
partition that holds the clock back, or the rest of the interval, only gives it more time. Grace and out-of-orderness of
the label topic therefore matter by their sum alone. The share of labels with `d <= slack` is the share for which the
clock keeps its promise (rule 2, grace included).

The cost is that rows wait for window and slack, and on average for half an interval. By Little's law (Operations
Research 9, 1961), rate times wait is the number of rows that are open at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.lag.recall import Curve, Estimate, Z
from windrow.text import shown_duration


@dataclass(frozen=True)
class WindowSettings:
    """Settings of a label stream: `after` of its window, and slack (grace plus the topic's out-of-orderness)."""

    window: timedelta
    slack: timedelta

    @property
    def wait(self) -> timedelta:
        """Time from serving to closing for the last row of an interval, where landing keeps up."""
        return self.window + self.slack


@dataclass(frozen=True)
class Assessment:
    """Settings, the recall that they reach, and their cost: rows that are open at a time."""

    settings: WindowSettings
    recall: Estimate
    open_rows: float


@dataclass(frozen=True)
class Advice:
    """The smallest settings for a wanted recall; None where they are unknown, and `reason` says why."""

    wanted: float
    smallest: Assessment | None
    """The smallest settings whose estimated recall is at least the wanted one."""
    safe: Assessment | None
    """The smallest settings whose 95 % interval of recall lies at or above the wanted one."""
    reason: str = ""


@dataclass(frozen=True)
class CostModel:
    """What the cost of settings depends on: how many rows are served, and how long intervals are."""

    rows_per_second: float
    interval: timedelta

    def assess(self, settings: WindowSettings, recall: Estimate) -> Assessment:
        """Add the cost to settings and their recall.

        >>> settings = WindowSettings(window=timedelta(seconds=50), slack=timedelta(seconds=5))
        >>> CostModel(2.0, timedelta(seconds=10)).assess(settings, Estimate(0.9, 100)).open_rows
        120.0
        """
        wait = settings.wait + self.interval / 2
        return Assessment(settings, recall, self.rows_per_second * wait.total_seconds())


def recall_of(delays: Curve, disorder: Curve, settings: WindowSettings) -> Estimate:
    """Estimate the share of labels that come inside the window and land before their row closes.

    Delay and disorder are taken as independent. The share is of the labels within `delays.widest`.

    Args:
        delays: time from a row to its label.
        disorder: how far behind the newest event of its partition a label lands.
    """
    last = min(settings.window // delays.step, len(delays.points) - 1)
    if last < 0:
        return Estimate(0.0, delays.points[0].weight)
    inside = delays.points[last]
    if inside.share == 0:
        return inside
    # A label with delay i * step has wait - delay left until its row closes; the curve of disorder gives the share of
    # such labels that land by then. In whole microseconds, so that bounds of bins are met exactly.
    grid, wait = disorder.step // MICROSECOND, settings.wait // MICROSECOND
    step, final = delays.step // MICROSECOND, len(disorder.points) - 1
    in_time = sum(
        share * disorder.points[min((wait - step * i) // grid, final)].share
        for i, share in delays.bin_shares
        if i <= last
    )
    return inside.times(Estimate(min(1.0, in_time / inside.share), disorder.at(settings.slack).weight))


def advise(delays: Curve, disorder: Curve, cost: CostModel, wanted: float) -> Advice:
    """Find the smallest settings that reach the wanted recall: first the least slack, then the least window with it.

    The least slack is that with which the clock keeps its promise to the wanted share of the labels. It is chosen first
    because a longer window helps late labels as much as slack of the same length does: the shortest wait of all would
    have no slack, and a clock that promises nothing. Where many labels come in the last quarter of the range that can
    be judged, more come beyond it, and no settings are advised.

    Raises:
        ValueError: `wanted` is not between 0 and 1.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"a wanted recall lies between 0 and 1, not at {wanted}")
    for curve, what in ((delays, "labels come"), (disorder, "labels land")):
        if curve.tail > (1 - wanted) / 2:
            reason = (
                f"{curve.tail:.2%} of the {what} in the last quarter of the {shown_duration(curve.widest, exact=True)} "
                f"that can be judged, so more come later and {wanted:.4g} of all of them cannot be located. Judge "
                "wider windows, or take an older range"
            )
            return Advice(wanted, None, None, reason)
    smallest = _least(delays, disorder, lambda recall: recall.share >= wanted)
    safe = _least(delays, disorder, lambda recall: recall.low >= wanted)
    return Advice(
        wanted,
        cost.assess(*smallest) if smallest else None,
        cost.assess(*safe) if safe else None,
        "" if safe else _too_few_labels(delays, disorder, wanted),
    )


def _least(
    delays: Curve, disorder: Curve, is_enough: Callable[[Estimate], bool]
) -> tuple[WindowSettings, Estimate] | None:
    """The least slack, and the least window with it. The first hit is the least, as recall only grows with either."""
    slack = next((disorder.step * i for i, share in enumerate(disorder.points) if is_enough(share)), None)
    if slack is None:
        return None
    for i, inside in enumerate(delays.points[: len(delays.points) * 3 // 4 + 1]):
        settings = WindowSettings(delays.step * i, slack)
        if is_enough(inside) and is_enough(recall := recall_of(delays, disorder, settings)):
            return settings, recall
    return None


def _too_few_labels(delays: Curve, disorder: Curve, wanted: float) -> str:
    """The reason why no settings are safe: how many labels there are, and how many are needed."""
    needed = ceil(Z * Z * wanted / (1 - wanted))  # from here on Wilson's lower limit of a full share is above `wanted`
    return (
        f"{min(delays.labels, disorder.labels):,} labels are too few to be sure of {wanted:.4g}: "
        f"at least {needed:,} are needed"
    )
