"""Registers as a page or a terminal looks at them again and again: the newest intervals, without reading all rows.

One column over all intervals says which closed ones have no publication; everything else is read for the newest
intervals only. `Recent` keeps what it read until the table has a newer version. No Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import damage, tables
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import Interval, at_micros, micros, shifted

_T = TypeVar("_T")
MOST = 32
"""Values that are kept of one version of a table."""
SINCE = 300
"""Landings that are looked back for the time since which a partition holds the clock."""


class Recent:
    """What was read of tables, for as long as they have no newer version."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[DeltaTable, int, dict[Hashable, Any]]] = {}

    def of(self, path: str, key: Hashable, read: Callable[[], _T]) -> _T:
        """Return what `read` returns; a call with the same key before the table's next version reads nothing.

        Args:
            path: location of the table.
            key: names what is read.
        """
        values = self._values(path)
        if values is None:
            return read()
        if key not in values:
            if len(values) >= MOST:
                values.clear()
            values[key] = read()
        return values[key]

    def _values(self, path: str) -> dict[Hashable, Any] | None:
        if known := self._known.get(path):
            table, version, values = known
            with suppress(DeltaError, OSError):
                table.update_incremental()
                if table.version() == version:
                    return values
            del self._known[path]
        opened = tables.opened(path)
        if opened is None:
            return None
        self._known[path] = (opened, opened.version(), {})
        return self._known[path][2]


def starts(home: Home) -> pa.Array:
    """Return the start of every publication's interval, in microseconds since 1970; one column, no object per row."""
    path = home.table(Table.PUBLICATIONS)
    table = tables.opened(path)
    if table is None:
        return pa.array([], pa.int64())
    with damage.named(path):
        column = table.to_pyarrow_table(columns=["interval"])["interval"].combine_chunks()
    return column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def unpublished(pipeline: Pipeline, published: pa.Array, frontier: datetime | None) -> list[Interval]:
    """Return the closed intervals without a publication, oldest first, as `publications.holes` does.

    Args:
        published: what `starts` returns.
        frontier: event time before which every window has closed.
    """
    if frontier is None or frontier <= pipeline.start:
        return []
    length, start = micros(pipeline.interval), micros(pipeline.start)
    count = (micros(frontier) - start) // length
    numbers = pc.divide(pc.subtract(published, start), length)
    known = numbers.filter(pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, count))).unique()
    if len(known) == count:
        return []
    every = pa.array(range(count), pa.int64())
    missing = every.filter(pc.invert(pc.is_in(every, known))).to_pylist()
    return [Interval(at := at_micros(start + n * length), shifted(at, pipeline.interval)) for n in missing]


def rows_since(home: Home, start: datetime) -> list[dict[str, Any]]:
    """Return the publications of intervals from `start` on, by number, without the columns that hold long texts."""
    return sorted(_rows(home, [("interval", ">=", start)]), key=lambda row: row["number"])


def complete_positives(home: Home, start: datetime) -> dict[str, float]:
    """Return plan id → positive rows with a complete list of labels, of intervals from `start` on."""
    filters = [("interval", ">=", start), ("name", "=", "positive_complete")]
    return {row["plan"]: row["value"] for row in tables.read(home.table(Table.MEASURES), ["plan", "value"], filters)}


def _rows(home: Home, filters: Sequence[tables.Filter]) -> list[dict[str, Any]]:
    columns = [name for name in PUBLICATIONS.names if name not in ("plan", "balance")]
    path = home.table(Table.PUBLICATIONS)
    table = tables.opened(path)
    if table is None:
        return []
    there = [field.name for field in table.schema().fields if field.name in columns]  # an older release has fewer
    with damage.named(path):
        rows = table.to_pyarrow_table(columns=there, filters=list(filters)).to_pylist()
    return [{**dict.fromkeys(columns), **row} for row in rows]


def newest_publications(home: Home, last: int, most: int) -> list[dict[str, Any]]:
    """Return the newest publications, the newest first, without the columns that hold long texts.

    Args:
        last: number of the newest.
        most: how many at most.
    """
    rows = _rows(home, [("number", ">", last - most)])
    return sorted(rows, key=lambda row: -row["number"])[:most]


def of_intervals(home: Home, start: datetime) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return unknown rows by reason (`measures`) and distances of label rates (`quality`) of intervals from `start` on.

    Of every plan of an interval; the register says which one was published.
    """
    since = ("interval", ">=", start)
    measures = tables.read(home.table(Table.MEASURES), ["plan", "name", "value"], [since])
    judged = tables.read(
        home.table(Table.QUALITY),
        ["plan", "value", "verdict", "bound", "judged_at"],
        [since, ("metric", "=", "label_rate_z")],
    )
    return [row for row in measures if row["name"].startswith("unknown.")], judged


def held_since(home: Home, topic: str, partition: int, clock_at: datetime | None, newest: int) -> datetime | None:
    """Return the landing since which the clock of a partition stands at `clock_at`, of the newest landings.

    Args:
        newest: number of the newest observation.
    """
    filters = [("observation", ">", newest - SINCE), ("topic", "=", topic), ("partition", "=", partition)]
    rows = tables.read(home.table(Table.CLOCK), ["landed_at", "clock_at"], filters)
    return min((row["landed_at"] for row in rows if row["clock_at"] == clock_at), default=None)


def newest(published: pa.Array) -> datetime | None:
    """Return the newest start among those that `starts` returns."""
    at = pc.max(published).as_py()
    return None if at is None else at_micros(at)
