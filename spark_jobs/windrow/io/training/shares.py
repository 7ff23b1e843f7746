"""Which task adds payload to which rows of a range: neighbours in time, so that few tasks read the same row group.

    landing files, by the log ─▶ how much each interval has ─▶ neighbouring intervals with about a row group ─▶ one task
                                                             └▶ an interval with several: parts of it, one task each

What the log says is an estimate: rows of a file count as spread evenly over its event times. Where they are not, some
tasks have more to do and row groups are read more often; the rows are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from windrow.columns import EVENT_TIME, INTERVAL
from windrow.home import Home
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Range
from windrow.semantics.intervals import micros
from windrow.semantics.plan import Plan
from windrow.transforms.join import by_interval

ROW_GROUP = 128 * 2**20
"""Bytes of a row group at most, as Parquet's writer for Spark makes them."""
ROWS = 1_000_000
"""Rows of a task at most, about, where they are so small that a row group has more."""
LEAST = 0.1
"""Part of `ROW_GROUP` or `ROWS` that a task has at least, about, however many cores there are."""


class Share(NamedTuple):
    """The tasks that write the rows of an interval."""

    first: int
    """number of its task, or of the first one"""
    tasks: int = 1
    """how many; of several each has a part of the interval's time"""


@dataclass(frozen=True)
class Shares:
    """How the rows of a range are divided among tasks."""

    of: Mapping[datetime, Share]
    """start of an interval → its share"""
    count: int
    """tasks in all"""
    readings: float
    """how often a byte of left landing files is read, on average, if each task reads its row groups; 1 without any"""


class _Held(NamedTuple):
    """What one landing file has of an interval."""

    file: tuple[str, int]
    """path, and bytes of all of it"""
    rows: float
    size: float


def shares_of(home: Home, plans: Sequence[Plan], cores: int) -> Shares:
    """Divide the left rows of plans among tasks.

    Args:
        plans: oldest interval first.
        cores: how many tasks run at a time; there are so many at least, if there are enough rows.
    """
    held = _held(home, plans)
    weights = {start: _weight(parts) for start, parts in held.items()}
    enough = min(1.0, max(LEAST, sum(weights.values()) / max(1, cores)))
    shares, task, load = dict[datetime, Share](), 0, 0.0
    for start, weight in weights.items():
        if load and load + weight / 2 > enough:  # closer to what is enough without this one
            task, load = task + 1, 0.0
        shares[start] = Share(task, max(1, round(weight / enough)))
        task, load = task + shares[start].tasks - 1, load + weight / shares[start].tasks
    return Shares(shares, task + 1, _readings(held, shares))


def readings(home: Home, plans: Sequence[Plan], cores: int) -> float:
    """Return how often a byte of left landing files is read if a join takes payload from there; of one interval once.

    Args:
        plans, cores: as in `shares_of`.
    """
    return 1.0 if len(plans) == 1 else shares_of(home, plans, cores).readings


def task_of(shares: Shares, length: timedelta) -> Column:
    """Return the number of the task that a joined row belongs to.

    Args:
        shares: of the intervals of all rows.
        length: of an interval.
    """
    first = by_interval({start: share.first for start, share in shares.of.items()}, length)
    tasks = by_interval({start: share.tasks for start, share in shares.of.items()}, length)
    since = F.unix_micros(EVENT_TIME) - F.unix_micros(INTERVAL)
    return (first + F.floor(since * tasks / F.lit(micros(length)))).cast("int")


def _held(home: Home, plans: Sequence[Plan]) -> dict[datetime, list[_Held]]:
    """Return what each landing file has of each interval, by its start."""
    tables = [lookup.opened(home.landing(topic)) for topic in home.pipeline.left.topics]
    return {
        plan.interval.start: [
            _Held((path, whole.size), part * whole.rows, part * whole.size)
            for table in tables
            if table is not None
            for path, whole, part in table.parts(Range(EVENT_TIME, plan.interval.start, plan.interval.end))
        ]
        for plan in plans
    }


def _weight(parts: Sequence[_Held]) -> float:
    """Return how many tasks the parts are worth."""
    return max(sum(part.size for part in parts) / ROW_GROUP, sum(part.rows for part in parts) / ROWS)


def _readings(held: Mapping[datetime, Sequence[_Held]], shares: Mapping[datetime, Share]) -> float:
    by_share = defaultdict[tuple[Share, tuple[str, int]], float](float)
    by_file = defaultdict[tuple[str, int], float](float)
    for start, parts in held.items():
        for part in parts:
            by_share[shares[start], part.file] += part.size
            by_file[part.file] += part.size
    read = sum(
        share.tasks * _with_row_groups(size / share.tasks, whole)
        for (share, (_, whole)), size in by_share.items()
        if size
    )
    once = sum(_with_row_groups(size, whole) for (_, whole), size in by_file.items() if size)
    return read / once if once else 1.0


def _with_row_groups(meant: float, whole: int) -> float:
    """Bytes of the row groups that hold some neighbouring bytes of a file: at both ends, half a row group more."""
    return min(whole, meant + ROW_GROUP)
