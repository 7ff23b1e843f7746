"""How large a run is, from the logs of the landing tables, and whether drivers are made for large ones. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.columns import EVENT_TIME
from windrow.home import Home
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Estimate, Range
from windrow.semantics.intervals import stretches
from windrow.semantics.plan import Plan

LARGE = 500_000
"""From this many rows on, the driver runs with the optimising JIT compiler."""


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
