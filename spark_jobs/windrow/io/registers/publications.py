"""The register of publications. It is derived from the training table's commits and repaired from them. No Spark.

training commit n ──▶ register row n        a process killed between the two leaves n missing here;
(carries row n in its userMetadata)         the next one that holds the lock adds it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import store, tables
from windrow.io.delta.locks import held
from windrow.outcomes import BadInput, NeedsPerson
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import Interval, at_micros, micros, shifted
from windrow.semantics.plan import Plan
from windrow.text import duration_text, shown_instant

APP_ID = "windrow.publish"
Instants = npt.NDArray[np.int64]
NO_INSTANTS: Instants = np.array([], np.int64)
IDENTITY = ("number", "interval", "config_hash")
"""Columns that are enough to tell which publications stand, and under which pipeline file they were made."""


GRID = ("interval", "interval_end", "number")
"""Columns that say where a publication lies."""


class TrainingBehind(NeedsPerson):
    """The training table lacks publications that are registered. A retry does not help: a person must look."""


class GridChanged(BadInput):
    """The pipeline file has another `interval`, or a later `start`, than what is published. An edit helps."""


_INSTANTS = ("interval", "interval_end", "published_at")


def columns_of(plan: Plan) -> dict[str, Any]:
    """Return the columns of a publication's row that its plan decides."""
    return {
        "interval": plan.interval.start,
        "interval_end": plan.interval.end,
        "plan": plan.to_json(),
        "plan_id": plan.id,
        "run": plan.run,
        "config_hash": plan.config_hash,
    }


def registered(home: Home, columns: Sequence[str] = (), first: int = 0) -> list[dict[str, Any]]:
    """Return every publication, by number.

    Args:
        columns: only these, `number` among them, which is faster where the register is long; empty for all.
        first: number of the first wanted one, 0 for all; files of the register with smaller numbers only are not read.
    """
    wanted: list[tables.Filter] = [("number", ">=", first)] if first else []
    return sorted(_read(home, wanted, columns), key=lambda row: row["number"])


def repaired(home: Home) -> list[dict[str, Any]]:
    """Return every publication, by number; one that a killed run has not registered is registered first (rule 20).

    Raises:
        TrainingBehind: the register has publications that the training table does not know.
    """
    repair_if_behind(home)
    return registered(home)


def newest(home: Home, count: int) -> list[dict[str, Any]]:
    """Return this many of the newest publications, by number; the register is repaired."""
    return registered(home, first=max(1, last_number(home) - count + 1))[-count:]


def plans(home: Home) -> pa.Table:
    """Return `number`, `plan` and `plan_id` of every publication, in no order: as Arrow, because the texts are long."""
    columns = ["number", "plan", "plan_id"]
    found = tables.arrow(home.table(Table.PUBLICATIONS), columns)
    return PUBLICATIONS.empty_table().select(columns) if found is None else found


def plan_ids(home: Home) -> set[str]:
    """Return the ids of all plans that were published."""
    rows = tables.arrow(home.table(Table.PUBLICATIONS), ["plan_id"])
    return set() if rows is None else set(rows["plan_id"].to_pylist())


def repair_if_behind(home: Home) -> None:
    """Register the publications that killed runs have not registered; take the training lock only for that.

    Raises:
        TrainingBehind: the register has publications that the training table does not know.
    """
    if last_number(home) != _last_registered(home):
        with held(home.lock(Table.TRAINING)):
            repair(home)


class Grid(NamedTuple):
    """Interval and number of every publication, an array each: a register of years makes too many objects."""

    starts: Instants
    """starts of intervals, in microseconds since 1970, in no order; one that was published again is there twice"""
    ends: Instants
    numbers: Instants

    def number_of(self, start: datetime) -> int | None:
        """Return the number of the standing publication of the interval that starts then; None without one."""
        found = self.numbers[self.starts == micros(start)]
        return int(found.max()) if len(found) else None

    @classmethod
    def of(cls, rows: pa.Table | None) -> Grid:
        """Return the grid of rows of the register with `interval`, `interval_end` and `number`."""
        if rows is None:
            return cls(NO_INSTANTS, NO_INSTANTS, NO_INSTANTS)
        return cls(instants(rows["interval"]), instants(rows["interval_end"]), rows["number"].to_numpy())


def grid(home: Home) -> Grid:
    """Return where every publication lies, repaired as `repaired` does.

    Raises:
        TrainingBehind: the register has publications that the training table does not know.
    """
    found = registered_grid(home)
    if last_number(home) == int(found.numbers.max(initial=0)):
        return found
    repair_if_behind(home)
    return registered_grid(home)


def registered_grid(home: Home) -> Grid:
    """Return where every registered publication lies, without writing; one that a killed run made may be missing."""
    return Grid.of(tables.arrow(home.table(Table.PUBLICATIONS), GRID))


def require_grid(pipeline: Pipeline, found: Grid) -> None:
    """Check that what is published lies on the intervals of the pipeline file.

    Raises:
        GridChanged: one has another interval length than the pipeline file, or is before its start.
    """
    if len(found.starts) and (first := int(found.starts.min())) < micros(pipeline.start):
        raise GridChanged(
            f"{pipeline.name} has published from {shown_instant(at_micros(first))} on, and its file now starts at "
            f"{shown_instant(pipeline.start)}: rows before that would count as left out. Put `start` back, or "
            "give the pipeline a new name."
        )
    lengths = found.ends - found.starts
    for length in lengths[lengths != micros(pipeline.interval)][:1].tolist():
        raise GridChanged(
            f"{pipeline.name} has published intervals of {duration_text(timedelta(microseconds=length))}, and its "
            f"file now says {duration_text(pipeline.interval)}: their borders do not fit, and rows would be "
            "missing or come twice. Put `interval` back, or give the pipeline a new name."
        )


def instants(column: pa.ChunkedArray) -> Instants:
    """Return instants as microseconds since 1970."""
    return np.asarray(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(), np.int64)


def complete(home: Home, columns: Sequence[str] = (), first: int = 0) -> list[dict[str, Any]]:
    """Return every publication, by number, without writing: those that a killed run has not registered are added.

    For readers, who may lack the right to repair the register, and who take no lock.

    Args:
        columns: as for `registered`.
        first: as for `registered`.
    """
    rows = registered(home, columns, first)
    last = rows[-1]["number"] if rows else max(0, first - 1)
    added = _unregistered(home, last) if last_number(home) > last else []
    return [*rows, *({name: row.get(name) for name in columns or PUBLICATIONS.names} for row in reversed(added))]


class Opened:
    """The tables that a publication is written to. They stay open from one to the next of a run.

    Delta-rs keeps the credentials that a table was opened with: where they have changed, both are opened anew.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._credentials: dict[str, str] | None = None
        self.training: DeltaTable | None = None
        self.register: DeltaTable | None = None

    def refresh(self) -> None:
        """Bring both up to date; under the lock, before anything is looked at that a publication follows from."""
        training, register = (self._home.table(table) for table in (Table.TRAINING, Table.PUBLICATIONS))
        if (credentials := store.options(training)) != self._credentials:
            self.training = self.register = None
            self._credentials = credentials
        self.training = tables.refreshed(training, self.training)
        self.register = tables.refreshed(register, self.register)


def last_number(home: Home) -> int:
    """Return the number of the newest publication, from the training table itself; 0 before the first."""
    return _last_published(tables.opened(home.table(Table.TRAINING)))


def are_any(home: Home) -> bool:
    """Return whether anything is published; the register is asked first, because it is opened sooner."""
    return bool(_last_registered(home) or last_number(home))


def standing(rows: list[dict[str, Any]]) -> dict[datetime, dict[str, Any]]:
    """Return the publication that readers see, by interval start: the newest of each interval.

    Args:
        rows: register rows, in any order.
    """
    return {row["interval"]: row for row in sorted(rows, key=lambda row: row["number"])}


def published(home: Home, interval: datetime) -> dict[str, Any] | None:
    """Return the standing publication of the interval that starts at `interval`, or None."""
    return max(of_interval(home, interval), key=lambda row: row["number"], default=None)


def of_interval(home: Home, interval: datetime) -> list[dict[str, Any]]:
    """Return every publication of the interval that starts at `interval`.

    Returns:
        Register rows in no order, superseded ones too; one that a killed run did not register is missing.
    """
    return _read(home, [("interval", "=", interval)])


def complete_of_interval(home: Home, interval: datetime) -> list[dict[str, Any]]:
    """Return every publication of the interval that starts at `interval`, without writing.

    Returns:
        Register rows in no order, superseded ones too, and those that a killed run did not register.
    """
    known, rows = _last_registered(home), of_interval(home, interval)
    added = _unregistered(home, known) if last_number(home) > known else []
    return [
        *rows,
        *({name: row.get(name) for name in PUBLICATIONS.names} for row in added if row["interval"] == interval),
    ]


def of_intervals(home: Home, starts: Sequence[datetime] | None, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return every publication of the intervals with these starts.

    Args:
        starts: None for all intervals.
        columns: only these; empty for all.
    Returns:
        Register rows in no order, superseded ones too; one that a killed run did not register is missing.
    """
    return _read(home, [] if starts is None else [("interval", "in", list(starts))], columns)


def between(home: Home, begin: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return every publication of the intervals that start in [begin, end).

    Returns:
        Register rows in no order, superseded ones too; one that a killed run did not register is missing.
    """
    return _read(home, [("interval", ">=", begin), ("interval", "<", end)])


def since(home: Home, first: datetime, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return every publication of the intervals from `first` on; files of the register before them are not read.

    Args:
        columns: only these; empty for all.
    Returns:
        Register rows in no order, superseded ones too; one that a killed run did not register is missing.
    """
    return _read(home, [("interval", ">=", first)], columns)


def of_number(home: Home, number: int) -> dict[str, Any] | None:
    """Return the publication with a number, whether it stands or not; None without it."""
    return next(iter(_read(home, [("number", "=", number)])), None)


def last_version(rows: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> int | None:
    """Return the last version of the training table with the rows of a publication; None where the publication stands.

    From the version that the publication made up to this one the table holds its rows, compacted or not.

    Args:
        rows: register rows, at least those of the publication's interval.
        row: the publication.
    """
    later = [r for r in rows if r["interval"] == row["interval"] and r["number"] > row["number"]]
    return min((r["training_version"] - 1 for r in later), default=None)


def holes(pipeline: Pipeline, published: Instants, frontier: datetime | None) -> list[Interval]:
    """Return the closed intervals without a publication, oldest first (rule 20).

    Args:
        published: start of every publication's interval, in microseconds since 1970 (`Grid.starts`, `starts_of`).
        frontier: event time before which every window has closed; None without a watermark.
    """
    if frontier is None or frontier <= pipeline.start:
        return []
    length, start = micros(pipeline.interval), micros(pipeline.start)
    is_missing = np.ones((micros(frontier) - start) // length, bool)
    numbers = (published - start) // length
    is_missing[numbers[(numbers >= 0) & (numbers < len(is_missing))]] = False
    missing = np.flatnonzero(is_missing).tolist()
    return [Interval(at := at_micros(start + n * length), shifted(at, pipeline.interval)) for n in missing]


def starts_of(rows: Iterable[Mapping[str, Any]]) -> Instants:
    """Return the starts of the intervals of register rows, in microseconds since 1970."""
    return np.array([micros(row["interval"]) for row in rows], np.int64)


def _read(home: Home, filters: Sequence[tables.Filter] = (), columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return rows of the register; a column that was added after a row was written is None in it."""
    rows = tables.read(home.table(Table.PUBLICATIONS), columns, filters)
    blank = dict.fromkeys(columns or PUBLICATIONS.names)
    return rows if not rows or rows[0].keys() == blank.keys() else [{**blank, **row} for row in rows]


def register(home: Home, row: Mapping[str, Any], table: DeltaTable | None = None) -> None:
    """Add one publication. The caller holds the training lock.

    Args:
        table: the register, where the caller has it open.

    Raises:
        WriteSkipped: the register has a row of this number, or of a greater one.
    """
    tables.append_once(
        home.table(Table.PUBLICATIONS),
        PUBLICATIONS,
        [row],
        app_id=APP_ID,
        version=row["number"],
        table=table,
    )


def repair(home: Home, both: Opened | None = None) -> int:
    """Register the publications that are committed and not registered; return the number of the newest publication.

    The caller holds the training lock.

    Args:
        both: the tables of the run, which are brought up to date.

    Raises:
        TrainingBehind: the register has publications that the training table does not know.
    """
    training, both = home.table(Table.TRAINING), both or Opened(home)
    both.refresh()
    last, known = _last_published(both.training), _last_in(home, both.register)
    if last < known:
        raise TrainingBehind(
            f"{training} knows of publication {last}, its register of {known}: the training table was lost, reset or "
            "restored from an older copy. Nothing was published. Restore the table with its _delta_log; or move "
            f"{home.table(Table.PUBLICATIONS)} away too, and every interval is published again."
        )
    if last > known:
        missing = _unregistered(home, known)
        if len(missing) != last - known:
            raise RuntimeError(
                f"{training}: publications {known + 1} to {last} are not registered and only {len(missing)} of "
                "their commits are still in the log. Restore the publications table from a backup."
            )
        for row in reversed(missing):
            register(home, row, both.register)
    return last


def committed(home: Home) -> Iterator[dict[str, Any]]:
    """Yield the register rows that the commits of the training table carry, newest first, as far as its log goes."""
    return (from_json(commit.message) for commit in tables.commits(home.table(Table.TRAINING)))


def _unregistered(home: Home, known: int) -> list[dict[str, Any]]:
    """Return the register rows of publications above number `known`, newest first, from the commits of the table."""
    missing = []
    for commit in tables.commits(home.table(Table.TRAINING)):
        row = from_json(commit.message)
        if row["number"] <= known:
            break
        missing.append({**row, "training_version": commit.version})
    return missing


def _last_registered(home: Home) -> int:
    """Return the number of the newest registered publication; 0 before the first."""
    return _last_in(home, tables.opened(home.table(Table.PUBLICATIONS)))


def _last_in(home: Home, register: DeltaTable | None) -> int:
    known = tables.last_version(register, APP_ID)
    # a register that was copied without its transactions still has its rows
    return known if known >= 0 else max((row["number"] for row in _read(home, columns=["number"])), default=0)


def _last_published(training: DeltaTable | None) -> int:
    return max(0, tables.last_version(training, APP_ID))


def to_json(row: Mapping[str, Any]) -> str:
    """Return a register row as the text that the training commit carries."""
    texts = {name: row[name].isoformat() for name in _INSTANTS}
    return json.dumps({**row, **texts, "windrow": "publication"}, sort_keys=True)


def from_json(text: str) -> dict[str, Any]:
    """Return the register row that `to_json` wrote."""
    row = json.loads(text)
    del row["windrow"]
    return {**row, **{name: datetime.fromisoformat(row[name]) for name in _INSTANTS}}
