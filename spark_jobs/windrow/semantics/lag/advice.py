"""Advice: the smallest settings that reach a wanted recall, and what they cost.

    served        label                    window ends     + grace        published
      |-------------x---------------------------|-------------|---------------|
      |<-- delay -->|<-------- spare ---------->|<--- slack = grace and out-of-orderness --->|

A label is lost from the first publication when its delay is longer than the window, or when it lands after its
row was closed. A label that is `d` behind the newest event of its partition when it lands finds that
partition's clock no further than its own time plus d less the out-of-orderness; it is in time at least where
`d <= spare + slack`. That is a bound: another partition that holds the clock back, or the rest of the interval,
only gives more time. So grace and out-of-orderness of the label topic matter by their sum alone: it is the share of
labels for which the clock's promise (rule 2, grace included) holds.

Costs are the row's: it waits for window and slack (and on average half an interval), and by Little's law
(Operations Research 9, 1961) rate times wait rows are open at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.lag.recall import Curve, Estimate, Z


@dataclass(frozen=True)
class Settings:
    """What a label stream is given: its window's `after`, and grace plus the topic's out-of-orderness."""

    window: timedelta
    slack: timedelta

    @property
    def wait(self) -> timedelta:
        """From serving to closing, for the last row of an interval, where landing keeps up."""
        return self.window + self.slack


@dataclass(frozen=True)
class Valued:
    """Settings, what they catch and what they cost."""

    settings: Settings
    recall: Estimate
    open_rows: float


@dataclass(frozen=True)
class Advice:
    """The smallest settings for a wanted recall, by the estimate and by its lower limit; or why they are unknown."""

    wanted: float
    smallest: Valued | None
    safe: Valued | None
    """The smallest settings whose 95 % interval lies wholly at or above the wanted recall."""
    why: str = ""


@dataclass(frozen=True)
class Traffic:
    """What costs are counted in."""

    rows_per_second: float
    interval: timedelta

    def value(self, settings: Settings, recall: Estimate) -> Valued:
        """Settings with their cost."""
        wait = settings.wait + self.interval / 2
        return Valued(settings, recall, self.rows_per_second * wait.total_seconds())


def recall(delays: Curve, disorder: Curve, settings: Settings) -> Estimate:
    """The share of labels (of those within the widest delay) that come inside the window and before it closes.

    Delay and disorder are taken as independent of each other.
    """
    last = min(settings.window // delays.step, len(delays.points) - 1)
    if last < 0:
        return Estimate(0.0, delays.points[0].weight)
    inside = delays.points[last]
    if inside.share == 0:
        return inside
    grid, room = disorder.step // MICROSECOND, settings.wait // MICROSECOND
    step, beyond = delays.step // MICROSECOND, len(disorder.points) - 1
    caught = sum(
        share * disorder.points[min((room - step * i) // grid, beyond)].share for i, share in delays.filled if i <= last
    )
    return inside.times(Estimate(min(1.0, caught / inside.share), disorder.at(settings.slack).weight))


def advise(delays: Curve, disorder: Curve, traffic: Traffic, wanted: float) -> Advice:
    """The least slack with which the clock keeps its promise to the wanted share of the labels, and then the least
    window that reaches the wanted recall.

    A window helps late labels as much as slack of the same length does, so the shortest wait of all would be one
    without slack: on a clock that promises nothing. Where much still comes in the last quarter of what can be judged,
    more comes beyond it, and nothing is advised.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"a wanted recall lies between 0 and 1, not at {wanted}")
    for curve, what in ((delays, "labels come"), (disorder, "labels land")):
        if curve.tail > (1 - wanted) / 2:
            why = (
                f"{curve.tail:.2%} of the {what} in the last quarter of the {_said(curve.widest)} that can be judged: "
                f"more come later, and {wanted:.4g} of all of them cannot be placed. Look wider, or at an older range"
            )
            return Advice(wanted, None, None, why)
    smallest = _least(delays, disorder, lambda found: found.share >= wanted)
    safe = _least(delays, disorder, lambda found: found.low >= wanted)
    return Advice(
        wanted,
        traffic.value(*smallest) if smallest else None,
        traffic.value(*safe) if safe else None,
        "" if safe else _too_few(delays, disorder, wanted),
    )


def _least(delays: Curve, disorder: Curve, enough: Callable[[Estimate], bool]) -> tuple[Settings, Estimate] | None:
    """First the slack, then the window that is needed with it. Recall only grows with either."""
    slack = next((disorder.step * i for i, share in enumerate(disorder.points) if enough(share)), None)
    if slack is None:
        return None
    for i, inside in enumerate(delays.points[: len(delays.points) * 3 // 4 + 1]):
        if enough(inside) and enough(found := recall(delays, disorder, chosen := Settings(delays.step * i, slack))):
            return chosen, found
    return None


def _too_few(delays: Curve, disorder: Curve, wanted: float) -> str:
    needed = ceil(Z * Z * wanted / (1 - wanted))
    return (
        f"{min(delays.labels, disorder.labels):,} labels are too few to be sure of {wanted:.4g}: "
        f"at least {needed:,} are needed"
    )


def _said(length: timedelta) -> str:
    return str(length).removesuffix("0" * 3) if length.microseconds else str(length)
