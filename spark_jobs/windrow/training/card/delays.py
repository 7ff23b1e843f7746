"""The delay curve: which share of the rows has its first label by when, with rows that were not observed to the end.

    row with its first label at 40 min      counts as a label in the step of 40 min
    row of an outage, heard for 10 min      is at risk for 10 min, and says nothing about later
    row without a label in its window       is at risk for the whole window

Of all rows still at risk in a step, the share that gets its label there multiplies the share that has none so far: the
product-limit estimate (Kaplan and Meier, Nonparametric Estimation from Incomplete Observations, 1958). Leaving out the
rows that were not observed to the end would miss late labels. The window is cut into equal steps, so memory is bounded;
a row whose observation ends within a step is at risk for half of it, as in a life table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from windrow.semantics.intervals import micros
from windrow.training.maturity import age, first_delay, seen
from windrow.training.observed import Observed

STEPS = 1_000
"""Steps of the window of a curve."""

_STEP, _KIND = "step", "kind"
_LABEL, _FULL, _PART = "label", "full", "part"


@dataclass(frozen=True)
class DelayCurve:
    """When the first labels of a stream come.

    Args:
        window: microseconds after serving for which labels count.
        shares: share of the rows that have a label by the end of each step; step 0 is the served time.
        labels: rows with a label that counts.
        censored: rows that were observed for less than the window, and without a label until then.
    """

    stream: str
    window: int
    shares: tuple[float, ...]
    labels: int
    censored: int

    @property
    def by_time(self) -> list[tuple[int, float, float]]:
        """Microseconds after serving, share of the rows with a label by then, share of the window's labels by then."""
        steps = len(self.shares) - 1
        wanted = [round(steps * part) for part in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1)]
        return [(self.window * n // steps, self.shares[n], self._of_labels(n)) for n in wanted]

    def until(self, part: float) -> int:
        """Microseconds after serving by which this part of the window's labels has come, rounded up to a step."""
        step = next(n for n in range(len(self.shares)) if self._of_labels(n) >= part - 1e-12)
        return self.window * step // (len(self.shares) - 1)

    def _of_labels(self, step: int) -> float:
        return self.shares[step] / self.shares[-1] if self.shares[-1] else 1.0


def curve_of(rows: pl.LazyFrame, observed: Sequence[Observed], name: str) -> DelayCurve:
    """Return the delay curve of a label stream.

    Args:
        rows: all rows of a range, unknown ones too.
        observed: every publication that they are of.
    """
    window = max((micros(one.after(name, None)) for one in observed), default=0)
    return product_limit(name, window, *_steps(rows, observed, name, window))


def product_limit(
    name: str, window: int, labels: Mapping[int, int], full: Mapping[int, int], part: Mapping[int, int]
) -> DelayCurve:
    """Return the curve of counted rows.

    Args:
        labels: step → rows whose first label came in it; 0 is the served time.
        full: step → rows without a label that were observed to the end of this step.
        part: step → rows without a label whose observation ended within the step.
    """
    last = STEPS if window else 0
    at_risk = float(sum(labels.values()) + sum(full.values()) + sum(part.values()))
    none_yet, shares = 1.0, []
    for step in range(last + 1):
        # the actuarial estimate: rows whose observation ends within the step were exposed for half of it
        exposed = at_risk - part.get(step, 0) / 2
        if exposed > 0:
            none_yet *= 1 - labels.get(step, 0) / exposed
        shares.append(1 - none_yet)
        # a row is at risk until it has a label or is no longer observed, so an outage does not look like no label
        at_risk -= labels.get(step, 0) + full.get(step, 0) + part.get(step, 0)
    early = sum(count for step, count in full.items() if step < last) + sum(part.values())
    return DelayCurve(name, window, tuple(shares), sum(labels.values()), early)


def _steps(
    rows: pl.LazyFrame, observed: Sequence[Observed], name: str, window: int
) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Return the rows by step: with a first label, observed to its end, observed for a part of it."""
    delay = first_delay(name)
    is_seen = (delay < seen(name, observed, None)).fill_null(False)
    # of one in whole numbers: a label at the end of a step belongs to it
    first = (delay.clip(0) * STEPS + window - 1) // max(window, 1)
    heard = age(name, observed, None) * STEPS
    whole = heard % max(window, 1) == 0
    below = heard // max(window, 1)
    step = pl.when(is_seen).then(first).when(whole).then(below).otherwise(below + 1)
    kind = pl.when(is_seen).then(pl.lit(_LABEL)).when(whole).then(pl.lit(_FULL)).otherwise(pl.lit(_PART))
    grouped = rows.select(step.alias(_STEP), kind.alias(_KIND)).group_by(_STEP, _KIND).agg(pl.len().alias("rows"))
    found: dict[str, dict[int, int]] = {_LABEL: {}, _FULL: {}, _PART: {}}
    for number, what, count in grouped.collect(engine="streaming").iter_rows():
        found[what][number] = count
    return found[_LABEL], found[_FULL], found[_PART]
