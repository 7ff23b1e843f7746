"""Bins in which Spark counts delays and disorder: only the counts ever leave Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from windrow.config import Pipeline, RightStream
from windrow.semantics.intervals import MICROSECOND

SECOND = timedelta(seconds=1)

MOST_BINS = 1_000
"""Most bins of a grid."""

WINDOWS_JUDGED = 4
"""Labels are counted up to this many windows after their row: the window alone would not show what it misses."""

HORIZONS = 64
"""Distinct horizons of young rows. With fewer, more of their labels are left out; a horizon is never too long."""


@dataclass(frozen=True)
class Grid:
    """Bins of one length: bin 0 for zero and below, bin i for `(step * (i - 1), step * i]`, up to `bins`."""

    step: timedelta
    bins: int

    @property
    def widest(self) -> timedelta:
        """Upper bound of the last bin."""
        return self.step * self.bins

    def bin_of(self, micros: Column) -> Column:
        """The bin of a duration in microseconds, an int. Longer durations than the widest are in the last bin.

        >>> lengths = spark.createDataFrame([(-1,), (0,), (1,), (7_000_000,), (7_000_001,), (99_000_000,)], "us bigint")
        >>> lengths.select("us", Grid(7 * SECOND, 3).bin_of(F.col("us")).alias("bin")).show()
        +--------+---+
        |      us|bin|
        +--------+---+
        |      -1|  0|
        |       0|  0|
        |       1|  1|
        | 7000000|  1|
        | 7000001|  2|
        |99000000|  3|
        +--------+---+
        <BLANKLINE>
        """
        return F.least(F.greatest(self._steps(micros), F.lit(0)), F.lit(self.bins)).cast("int")

    def bins_before(self, micros: Column) -> Column:
        """The number of bins that end before a horizon in microseconds, an int; rounded down to `HORIZONS` values.

        >>> horizons = spark.createDataFrame([(0,), (7_000_000,), (7_000_001,), (99_000_000,)], "us bigint")
        >>> horizons.select("us", Grid(7 * SECOND, 3).bins_before(F.col("us")).alias("bins")).show()
        +--------+----+
        |      us|bins|
        +--------+----+
        |       0|   0|
        | 7000000|   1|
        | 7000001|   2|
        |99000000|   4|
        +--------+----+
        <BLANKLINE>
        """
        coarse = max(1, self.bins // HORIZONS)
        ended = F.greatest(self._steps(micros), F.lit(0))
        return F.when(ended > self.bins, self.bins + 1).otherwise(ended - F.pmod(ended, F.lit(coarse))).cast("int")

    def _steps(self, micros: Column) -> Column:
        """Steps that cover a duration, rounded up. The dividend is a multiple of the step, so the division is exact."""
        step = F.lit(self.step // MICROSECOND).cast("bigint")
        return ((micros + F.pmod(-micros, step)) / step).cast("bigint")


def delay_grid(stream: RightStream, windows: Iterable[timedelta] = ()) -> Grid:
    """Bins for delays: the stream's window and `windows` are bounds of bins where that is possible.

    Args:
        windows: other lengths that the analysis asks for.
    """
    windows = list(windows)
    bounds = [stream.window.after, *windows]
    widest = max([WINDOWS_JUDGED * stream.window.after, *(window * 5 / 4 for window in windows), 10 * SECOND])
    return grid_of(widest, bounds)


def disorder_grid(pipeline: Pipeline) -> Grid:
    """Bins for disorder: up to ten times what is allowed now, and at least ten minutes."""
    allowed = [pipeline.out_of_orderness(topic) + pipeline.grace for topic in pipeline.topics]
    return grid_of(max(10 * max(allowed), 600 * SECOND), allowed)


def grid_of(widest: timedelta, bounds: Iterable[timedelta]) -> Grid:
    """At most `MOST_BINS` bins up to `widest`, with the bounds among theirs where that is possible.

    Steps are whole seconds where all bounds are.

    >>> grid = grid_of(timedelta(hours=2), [timedelta(minutes=30), timedelta(minutes=10)])
    >>> grid.step, grid.bins
    (datetime.timedelta(seconds=8), 900)
    """
    common = math.gcd(*(bound // MICROSECOND for bound in (widest, *bounds)))
    bins = widest // MICROSECOND // common
    if bins > MOST_BINS:  # too fine: whole seconds instead, which the bounds need not be multiples of
        step = max(SECOND, SECOND * math.ceil(widest / MOST_BINS / SECOND))
        return Grid(step, -(-widest // step))
    unit = 1_000_000 if common % 1_000_000 == 0 else 1
    parts = next(n for n in range(MOST_BINS // bins, 0, -1) if common % (n * unit) == 0)
    return Grid(MICROSECOND * (common // parts), bins * parts)
