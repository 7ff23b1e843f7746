"""How large a run is, from the logs of the landing tables, and whether drivers are made for large ones. No Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from windrow.columns import EVENT_TIME
from windrow.home import Home
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Estimate, Range
from windrow.semantics.intervals import stretches
from windrow.semantics.plan import Plan

LARGE = 500_000
"""From this many rows on, the driver runs with the optimising JIT compiler."""
ROW_GROUP = 128 * 2**20
"""Bytes of a row group at most, as Parquet's writer for Spark makes them."""


def estimated(home: Home, plans: Sequence[Plan]) -> Estimate:
    """Estimate how many left rows the plans have, as if the rows of a file were spread evenly over its event times.

    Args:
        plans: of one run, in any order.

    Returns:
        Rows, and bytes of their landing files; 0 where nothing has landed.
    """
    spans = [Range(EVENT_TIME, stretch.start, stretch.end) for stretch in stretches(plan.interval for plan in plans)]
    tables = [lookup.opened(home.landing(topic)) for topic in home.pipeline.left.topics]
    return sum((table.within(span) for table in tables if table is not None for span in spans), Estimate(0, 0))


def readings(home: Home, plans: Sequence[Plan]) -> float:
    """Return how often a byte of left landing files is read, on average, if each interval reads its row groups.

    1 for one interval, and where nothing has landed; more where row groups hold many intervals, as in merged files.

    Args:
        plans: of one run, in any order.
    """
    read, meant = 0.0, defaultdict[tuple[str, int], float](float)
    for topic in home.pipeline.left.topics:
        if (table := lookup.opened(home.landing(topic))) is not None:
            for plan in plans:
                for path, whole, part in table.parts(Range(EVENT_TIME, plan.interval.start, plan.interval.end)):
                    if part:
                        read += _with_row_groups(part * whole.size, whole.size)
                        meant[path, whole.size] += part * whole.size
    once = sum(_with_row_groups(size, whole) for (_, whole), size in meant.items())
    return read / once if once else 1.0


def _with_row_groups(meant: float, whole: int) -> float:
    """Bytes of the row groups that hold some neighbouring bytes of a file: at both ends, half a row group more."""
    return min(whole, meant + ROW_GROUP)


def remember_size(home: Home, rows: int) -> None:
    """Record whether a pipeline's runs are large, for the drivers that start later. It affects speed only.

    A driver's JVM has its options before the job in it knows its plans, so whoever plans for another process remembers
    it. The newest word counts: where two runs of a pipeline come at a time, that of the other may.

    Args:
        rows: how many rows the run will read.
    """
    marker = home.places.large(home.pipeline.name)
    if rows >= LARGE:
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    else:
        marker.unlink(missing_ok=True)
