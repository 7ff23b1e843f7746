"""What a lag scenario would have done to rows and labels: counts, and the spread of delays and waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.lag.scenario import ZERO

COUNT_OPEN_EVERY = timedelta(minutes=1)
"""Open rows are counted at every full minute of arrival time, and at the end; the largest count is the peak."""


@dataclass(frozen=True)
class Spread:
    """Distribution of a duration over `count` rows.

    The quantiles are `rounded_up`, so at most 1/32 too long; `max` and `total` are exact.
    """

    count: int
    p50: timedelta
    p90: timedelta
    p99: timedelta
    max: timedelta
    total: timedelta


@dataclass(frozen=True)
class LagOutcome:
    """What a scenario would have done to the left rows of the range and to their labels. None means unknown."""

    rows_total: int
    """Left rows."""
    rows_missing: int
    """Rows whose window had closed before they arrived: they are in no result."""
    rows_closed_too_early: int
    """The missing rows, and the rows that left before one of their labels arrived."""
    rows_open: int
    """Rows that had not closed at the last arrival. None of their labels counts as lost."""
    labels_total: int
    """Pairs of a left row and a label in its window, over all label streams, before `take`."""
    labels_lost: int
    """Pairs whose row was missing, or left before the label arrived."""
    states_flipped: Mapping[tuple[str, str], int]
    """(state with all labels, state as the row left) → rows, where the two differ; a missing row left as `missing`."""
    delay: Spread | None
    """How much later rows left than without the injected lag, over the later rows; None where no row left in both."""
    wait: Spread | None
    """Time from a row's event time until it left, over the rows that left; 0 where it left before its event time."""
    open_rows_peak: int
    """Largest number of rows that had arrived and not left, counted at every `COUNT_OPEN_EVERY`."""

    @property
    def recall(self) -> float | None:
        """Share of the labels that left with their rows; None without a label."""
        return None if self.labels_total == 0 else 1 - self.labels_lost / self.labels_total

    @property
    def rows_delayed(self) -> int | None:
        """Rows that left later than without the injected lag; None where no row left in both."""
        return None if self.delay is None else self.delay.count


def rounded_up(micros: int) -> int:
    """Round a duration in microseconds up to six significant binary digits.

    Quantiles are counted in these values: a histogram with few buckets and a relative error of at most 1/32, after
    Masson, Rim and Lee, "DDSketch" (VLDB 2019). Histograms of parts add up to the histogram of the whole.

    >>> rounded_up(63), rounded_up(64), rounded_up(65), rounded_up(1_000_000)
    (63, 64, 66, 1015808)
    """
    dropped_bits = max(0, micros.bit_length() - 6)
    return -(-micros >> dropped_bits) << dropped_bits  # negated twice: >> rounds down, so this rounds up


def spread_of(histogram: Mapping[int, int], largest: int, total: int) -> Spread:
    """Return the spread of durations.

    Args:
        histogram: `rounded_up` microseconds → number of durations.
        largest: the longest duration, exact, in microseconds.
        total: the sum of all durations, exact, in microseconds.

    >>> spread_of({10: 3, 20: 1}, largest=20, total=50).p50
    datetime.timedelta(microseconds=10)
    """
    count = sum(histogram.values())

    def quantile(percent: int) -> timedelta:
        rank, at_most = -(-count * percent // 100), 0
        for value in sorted(histogram):
            at_most += histogram[value]
            if at_most >= rank:
                return MICROSECOND * value
        return ZERO

    return Spread(count, quantile(50), quantile(90), quantile(99), MICROSECOND * largest, MICROSECOND * total)
