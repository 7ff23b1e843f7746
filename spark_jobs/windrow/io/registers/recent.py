"""Registers as a page or a terminal looks at them again and again: the newest intervals, without reading all rows.

One column over all intervals says which closed ones have no publication; everything else is read for the newest
intervals only. `Recent` keeps what it read. No Spark.

    version 8   ▇▇▇▇▇▇▇▇▇▇ ▇ ▇        one large file, as compaction leaves it, and one for each publication since
    version 9   ▇▇▇▇▇▇▇▇▇▇ ▇ ▇ ▇      only the last one is new, and read
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from windrow.config import Finder
from windrow.home import Home, Table
from windrow.io.delta import damage, store, tables
from windrow.io.delta.lookup import Lookup, Range
from windrow.io.delta.store import StoredFile
from windrow.io.registers import clocks, publications
from windrow.io.registers.publications import Grid, Instants
from windrow.places import Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.clock import ClockRow
from windrow.semantics.fleet.strip import LENGTH
from windrow.semantics.intervals import at_micros, grid_around

_T = TypeVar("_T")
MOST = 32
"""Values that are kept of one version of a table."""
SINCE = 300
"""Landings that are looked back at least for the time since which a partition holds the clock."""
_SHORT = tuple(name for name in PUBLICATIONS.names if name not in ("plan", "balance"))
"""Columns of the register without long texts."""


class Recent:
    """What was read of pipeline files and tables, for as long as it is true: of a version, and of its data files.

    A data file never changes, so one that a newer version has in common with an older one is not read again. Between
    two calls of `look_again` a table has one version.
    """

    def __init__(self) -> None:
        self.pipelines = Finder()
        self._known: dict[str, _Known] = {}
        self._look = 0

    def look_again(self, places: Places) -> None:
        """Look again for changed pipeline files, and at each table for a newer version when it is next asked for."""
        self.pipelines.look_again(places.pipelines, places.expectations)
        self._look += 1

    def of(self, path: str, key: Hashable, read: Callable[[], _T]) -> _T:
        """Return what `read` returns; a call with the same key reads nothing before a newer version is seen.

        Args:
            path: location of the table.
            key: names what is read.
        """
        known = self._current(path)
        if known is None:
            return read()
        return _kept(known.values, key, read)

    def lookup(self, path: str) -> Lookup | None:
        """Return the table at `path`, or None where there is none."""
        known = self._current(path)
        return None if known is None else known.lookup

    def files(
        self, path: str, columns: Sequence[str], make: Callable[[pa.Table], _T], least: Range | None = None
    ) -> list[_T]:
        """Return what `make` makes of each data file that can have wanted rows; only files that are new are read.

        Args:
            path: location of the table.
            columns: a column that the table lacks is left out.
            make: gets the wanted rows of one file; calls with the same columns and `least` give the same function.
            least: the column's least wanted value; None for all rows.
        """
        known = self._current(path)
        if known is None:
            return []
        look = known.lookup
        wanted = None if least is None else pc.field(least.column) >= pa.scalar(least.least)
        before: dict[str, _T] = _kept(known.files, (tuple(columns), least), dict)
        paths = look.paths([] if least is None else [least])
        new = look.read_files([path for path in paths if path not in before], columns, wanted)
        now = {path: before[path] if path in before else make(new[path]) for path in paths}
        before.clear()
        before.update(now)
        return list(now.values())

    def rows(self, path: str, columns: Sequence[str], least: Range) -> list[dict[str, Any]]:
        """Return the rows whose column is at least a value, as `files` reads them.

        They are kept: a caller that changes one changes it for the next.

        Args:
            path: location of the table; without a table there are no rows.
            columns: names of the columns of a row.
            least: column and least value; files are chosen by it.
        """

        def read() -> list[dict[str, Any]]:
            return [row for rows in self.files(path, columns, pa.Table.to_pylist, least) for row in rows]

        return self.of(path, ("rows", tuple(columns), least), read)

    def _current(self, path: str) -> _Known | None:
        known = self._known.get(path)
        if known is not None and known.seen_in != self._look:
            del self._known[path]  # what is found damaged is not known any more, also at the next look
            with suppress(DeltaError, OSError):
                known.see_newest(path)
                known.seen_in = self._look
                self._known[path] = known
        if known is None or known.seen_in != self._look:
            table = tables.opened(path)
            if table is None:
                return None
            self._known[path] = known = _Known(
                table, Lookup(table, tables.data_files(table)), self._look, _commit(path, table)
            )
        return known


@dataclass
class _Known:
    """What was read of one table."""

    table: DeltaTable
    lookup: Lookup
    seen_in: int
    """the look in which its version was the newest"""
    commit: StoredFile | None
    """the commit of this version: another file in its place is another table, or a restored one"""
    values: dict[Hashable, Any] = field(default_factory=dict)
    """of this version"""
    files: dict[Hashable, dict[str, Any]] = field(default_factory=dict)
    """what is read → data file → what was made of its rows"""

    def see_newest(self, path: str) -> None:
        """See the newest version.

        Raises:
            OSError, DeltaError: the table is not the one that was read; open it again.
        """
        version = self.table.version()
        if _commit(path, self.table) != self.commit:
            raise FileNotFoundError(f"{path}: version {version} is not the one that was read")
        self.table.update_incremental()
        if self.table.version() != version:
            damage.refuse_lost_commits(path, self.table.version())
            self.commit = _commit(path, self.table)
            self.lookup, self.values = Lookup(self.table, tables.data_files(self.table)), {}


def _commit(path: str, table: DeltaTable) -> StoredFile | None:
    """The commit file of the table's version; None where it is gone."""
    return store.stat(f"{path}/_delta_log/{table.version():020}.json")


def _kept(values: dict[Hashable, Any], key: Hashable, read: Callable[[], _T]) -> _T:
    if key not in values:
        if len(values) >= MOST:
            values.clear()
        values[key] = read()
    return values[key]


def grid(home: Home, known: Recent) -> Grid:
    """Return where every registered publication lies; three arrays, no object per row."""
    path = home.table(Table.PUBLICATIONS)

    def read() -> Grid:
        parts = [Grid.of(None), *known.files(path, publications.GRID, Grid.of)]
        return Grid(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    return known.of(path, "grid", read)


def rows_since(home: Home, start: datetime, known: Recent) -> list[dict[str, Any]]:
    """Return the publications of intervals from `start` on, by number, without the columns that hold long texts.

    Args:
        start: start of an interval, included.
        known: what this process has read before; it is extended.
    """
    rows = map(_complete, _from(home, Table.PUBLICATIONS, _SHORT, start, known))
    return sorted(rows, key=lambda row: row["number"])


def measures_since(home: Home, start: datetime, known: Recent) -> list[dict[str, Any]]:
    """Return figures of plans of intervals from `start` on: `plan`, `name`, `value`.

    Args:
        start: start of an interval, included.
        known: what this process has read before; it is extended.
    """
    return _from(home, Table.MEASURES, ("plan", "name", "value", "interval"), start, known)


def distances_since(home: Home, start: datetime, known: Recent) -> list[dict[str, Any]]:
    """Return judged distances of label rates of plans of intervals from `start` on.

    Of every plan of an interval; the register says which one was published.
    """
    columns = ("plan", "value", "verdict", "bound", "judged_at", "metric", "interval")
    return [row for row in _from(home, Table.QUALITY, columns, start, known) if row["metric"] == "label_rate_z"]


def drifts_since(home: Home, start: datetime, known: Recent) -> list[dict[str, Any]]:
    """Return how far columns of plans of intervals from `start` on have moved: `plan`, `column`, `psi`, `ks`, ….

    Of every plan of an interval; the register says which one was published.
    """
    columns = ("plan", "column", "kind", "psi", "ks", "recorded_at", "interval")
    return _from(home, Table.DISTRIBUTIONS, columns, start, known)


def _complete(row: Mapping[str, Any]) -> dict[str, Any]:
    """A register row; a column that an older release did not write is None."""
    return {**dict.fromkeys(_SHORT), **row}


def _from(home: Home, table: Table, columns: Sequence[str], start: datetime, known: Recent) -> list[dict[str, Any]]:
    """Rows of intervals from `start` on. What is read begins a strip's length before, and is kept while it moves."""
    span = LENGTH * home.pipeline.interval
    least = Range("interval", grid_around(start, span)[0])
    return [row for row in known.rows(home.table(table), columns, least) if row["interval"] >= start]


def newest_publications(home: Home, last: int, most: int, known: Recent) -> list[dict[str, Any]]:
    """Return the newest publications, the newest first, without the columns that hold long texts.

    Args:
        last: number of the newest.
        most: how many at most.
    """
    rows = known.rows(home.table(Table.PUBLICATIONS), _SHORT, Range("number", (last - most) // most * most))
    return sorted(map(_complete, rows), key=lambda row: -row["number"])[:most]


def held_since(
    home: Home, topic: str, partition: int, clock_at: datetime | None, newest: int, known: Recent
) -> datetime | None:
    """Return the landing since which the clock of a partition stands at `clock_at`, of the newest landings.

    Args:
        newest: number of the newest observation.
    """
    columns = ("observation", "topic", "partition", "landed_at", "clock_at")
    rows = known.rows(home.table(Table.CLOCK), columns, Range("observation", newest // SINCE * SINCE - SINCE))
    mine = (row for row in rows if (row["topic"], row["partition"]) == (topic, partition))
    return min((row["landed_at"] for row in mine if row["clock_at"] == clock_at), default=None)


def earlier_clocks(home: Home, number: int, known: Recent) -> tuple[ClockRow, ...]:
    """Return what `clocks.earlier` returns for the observation with this number, of the newest ones."""
    path = home.table(Table.CLOCK)
    return known.of(path, ("earlier", number), lambda: clocks.earlier(known.lookup(path), number))


def newest(published: Instants) -> datetime | None:
    """Return the newest of the starts of a grid."""
    return at_micros(int(published.max())) if len(published) else None
