"""Which publications a read has, and a version of the training table with exactly their rows. No Spark, no lock.

    at=None   the newest state     at=N   as publication N left it     at=instant   as readers saw it then

    publication 3 of an interval        publication 8 of it
    ├── versions with the rows of 3 ───┤├── versions with the rows of 8 ──▶

A range is read only if every interval of it is published in that state, unless the caller says otherwise: a hole in
the middle of the training data would pass for an hour without traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from windrow.columns import DATE, EVENT_TIME
from windrow.config import Pipeline, Window
from windrow.home import Home, Table
from windrow.io.delta import lookup, store, tables
from windrow.io.delta.lookup import Range
from windrow.io.registers import clocks, configs, publications
from windrow.outcomes import BadInput, StillOpen
from windrow.semantics.close import is_closed
from windrow.semantics.intervals import Interval, grid_around, intervals_between, shifted, stretches
from windrow.semantics.plan import Plan
from windrow.text import counted, short_instant_text, shown_instant
from windrow.training.observed import Observed
from windrow.training.pin import Pin, digest
from windrow.training.request import Request, WrongRequest, instant

Row = Mapping[str, Any]
"""A row of the register, by column."""

COLUMNS = ("number", "interval", "interval_end", "plan_id", "config_hash", "training_version", "published_at", "rows")
"""Columns of the register that a read needs."""

_MOST_SHOWN = 8


class NotPublished(StillOpen):
    """Intervals of the range are not published. Waiting helps where they are open."""


class RowsGone(BadInput):
    """The rows that a pin names are in no version of the table that can still be read. A retry does not help."""


class FileUnknown(BadInput):
    """A pipeline file under which rows were published is not on record."""


class AnotherTable(BadInput):
    """A pin was made from another training table than the one that is here."""


@dataclass(frozen=True)
class State:
    """A state of the training table: what readers saw after a publication.

    Args:
        table: the newest version of the table.
        register: every publication, by number, later ones than the state included.
        number: the newest publication of the state.
    """

    table: DeltaTable
    register: tuple[Row, ...]
    number: int

    @property
    def standing(self) -> dict[datetime, Row]:
        """The publication that readers saw, by interval start."""
        return {row["interval"]: row for row in self.register if row["number"] <= self.number}

    @property
    def until(self) -> datetime:
        """End of the newest interval that is published."""
        return max(row["interval_end"] for row in self.standing.values())

    def within(self, span: Interval) -> list[Row]:
        """Publications of the state whose intervals overlap a span."""
        rows = self.standing.values()
        return [row for row in rows if row["interval"] < span.end and row["interval_end"] > span.start]


def state_at(home: Home, at: int | datetime | str | None) -> State:
    """Return a state of the training table.

    Args:
        at: None for the newest one, the number of a publication, or an instant.
    Raises:
        NotPublished: nothing was published by then.
        WrongRequest: there is no publication of this number.
    """
    name, table = home.pipeline.name, tables.opened(home.table(Table.TRAINING))
    newest = (table.transaction_version(publications.APP_ID) if table is not None else None) or 0
    if table is None or not newest:
        raise NotPublished(
            f"{name} has published nothing yet: `windrow clock {name}` says what holds its first interval, and "
            f"`windrow train {name}` publishes what is closed"
        )
    register: tuple[Row, ...] = tuple(publications.complete(home, COLUMNS))
    if at is None:
        return State(table, register, newest)
    if isinstance(at, int):
        if not 1 <= at <= newest:
            raise WrongRequest(f"at: {name} has no publication {at}; it has 1 to {newest}")
        return State(table, register, at)
    then = instant("at", at)
    number = max((row["number"] for row in register if row["published_at"] <= then), default=0)
    if not number:
        first = shown_instant(register[0]["published_at"])
        raise NotPublished(f"at: {name} had published nothing at {shown_instant(then)}; its first is of {first}")
    return State(table, register, min(number, newest))


def pinned(home: Home, request: Request, state: State, span: Interval) -> tuple[Pin, DeltaTable]:
    """Return the pin of a request, and the table at a version with exactly its rows.

    Args:
        span: the served times whose rows are looked at; they may reach beyond the request.
    Raises:
        NotPublished: an interval of the range is not published in this state.
        RowsGone: the rows of a past state were vacuumed.
    """
    rows = _rows_of(home, request, state, span)
    table = _table_with(home, rows, state, span)
    numbers = tuple(row["number"] for row in rows)
    return Pin(home.pipeline.name, table.version(), numbers, _digest(rows), request, span, version("windrow")), table


def pipelines_of(home: Home, rows: Iterable[Row]) -> dict[str, Pipeline]:
    """Return the pipeline files under which publications were made, by config hash.

    Raises:
        FileUnknown: one is not on record, or this version of Windrow cannot read it.
    """
    number_of = {row["config_hash"]: row["number"] for row in rows}
    found = {config_hash: configs.of_hash(home, config_hash) for config_hash in number_of}
    for config_hash, pipeline in found.items():
        if pipeline is None:
            raise FileUnknown(
                f"the pipeline file of publication {number_of[config_hash]} cannot be read from "
                f"{home.table(Table.CONFIGS)}, so its windows are not known. A rebuild of the range publishes it under "
                "the present file."
            )
    return {config_hash: pipeline for config_hash, pipeline in found.items() if pipeline}


def observed_of(home: Home, pin: Pin) -> list[Observed]:
    """Return what the publications of a pin knew about the labels of their rows.

    Raises:
        FileUnknown: the pipeline file of one is not on record.
    """
    wanted = set(pin.publications)
    register = publications.complete(home, ("number", "plan", "config_hash"))
    rows = [row for row in register if row["number"] in wanted]
    files = pipelines_of(home, rows)
    return [Observed.of(row["number"], Plan.from_json(row["plan"]), files[row["config_hash"]]) for row in rows]


def reach(pipelines: Iterable[Pipeline], matured: timedelta | None) -> timedelta:
    """Return how far apart two rows are, at most, that can have a label event in common.

    Args:
        pipelines: every pipeline file under which rows of the range were published.
        matured: the longest time after serving that a label counts.
    """
    windows: dict[str, list[Window]] = {}
    for pipeline in pipelines:
        for stream in pipeline.label_streams:
            windows.setdefault(stream.name, []).append(stream.window)
    widest = ((max(w.before for w in of), max(w.after for w in of)) for of in windows.values())
    cut = ((before, after if matured is None else min(after, matured)) for before, after in widest)
    return max((before + after for before, after in cut), default=timedelta(0))


def reach_of(home: Home, state: State, request: Request) -> timedelta:
    """Return how far apart rows of a request and any others are, at most, that have a label event in common.

    Raises:
        FileUnknown: a pipeline file under which such rows were published is not on record.
    """
    files: dict[str, Pipeline] = {home.pipeline.config_hash: home.pipeline}
    while True:  # a wider reach may come upon publications under other files
        apart = reach(files.values(), request.matured)
        wide = Interval(shifted(request.start, -apart), shifted(request.end, apart))
        found = pipelines_of(home, state.within(wide)) | {home.pipeline.config_hash: home.pipeline}
        if found.keys() == files.keys():
            return apart
        files = found


def found_again(home: Home, pin: Pin) -> DeltaTable:
    """Return the training table at a version with exactly the rows of a pin: its own version, or another one.

    Raises:
        AnotherTable: its publications are not those of the table that is here.
        RowsGone: no version with its rows can be read any more.
    """
    state, wanted = state_at(home, None), set(pin.publications)
    rows = [row for row in state.register if row["number"] in wanted]
    if len(rows) != len(wanted) or _digest(rows) != pin.plans:
        raise AnotherTable(
            f"the publications of the pin are not those of {home.table(Table.TRAINING)}: the table was made anew, or "
            "the pin is of another home. Read the range again, which gives a new pin."
        )
    return _readable(home.table(Table.TRAINING), pin.version, pin.span) or _table_with(home, rows, state, pin.span)


def _digest(rows: Iterable[Row]) -> str:
    """Digest of the plans of publications, which are in the order of their numbers."""
    return digest(row["plan_id"] for row in rows)


def _rows_of(home: Home, request: Request, state: State, span: Interval) -> list[Row]:
    """Return the standing publications of the intervals that overlap a span, by number."""
    wanted = list(_intervals(home, span))
    if not wanted:
        start = shown_instant(home.pipeline.start)
        raise WrongRequest(f"end: {home.pipeline.name} begins at {start}, and the range ends before it")
    standing = state.standing
    missing = [interval for interval in wanted if interval.start not in standing]
    if missing and request.unpublished == "refuse":
        raise NotPublished(_what_is_missing(home, missing, request, span))
    found = (standing[interval.start] for interval in wanted if interval.start in standing)
    return sorted(found, key=lambda row: row["number"])


def _intervals(home: Home, span: Interval) -> Iterable[Interval]:
    """Intervals of the pipeline that overlap a span of served time."""
    length = home.pipeline.interval
    first, _ = grid_around(span.start, length)
    below, above = grid_around(span.end, length)
    last = below if below == span.end else above
    return intervals_between(max(first, home.pipeline.start), last, length)


def _what_is_missing(home: Home, missing: Sequence[Interval], request: Request, span: Interval) -> str:
    name, frontier = home.pipeline.name, clocks.observe(home).frontier(home.pipeline)
    closed = [interval for interval in missing if is_closed(interval, frontier)]
    still_open = [interval for interval in missing if not is_closed(interval, frontier)]
    parts = [f"{name}: {counted(len(missing), 'interval')} of the range not published in this state"]
    if still_open:
        parts.append(f"open: {_listed(still_open)} (`windrow clock {name}` says what holds them)")
    if closed:
        parts.append(f"closed: {_listed(closed)} (`windrow train {name}` publishes them, unless expectations block)")
    if span != request.range:
        parts.append(f"attribute={request.attribute!r} looks at the rows of {span}")
    until = shifted(missing[0].start, request.end - span.end)
    if until > request.start:
        parts.append(f"whole until end={short_instant_text(until)}")
    parts.append("unpublished='skip' reads the rest")
    return "; ".join(parts)


def _listed(intervals: Sequence[Interval]) -> str:
    merged = stretches(intervals)
    more = f" and {len(merged) - _MOST_SHOWN} more" if len(merged) > _MOST_SHOWN else ""
    return ", ".join(map(str, merged[:_MOST_SHOWN])) + more


def _table_with(home: Home, rows: Sequence[Row], state: State, span: Interval) -> DeltaTable:
    """Return the table at a version in which exactly these publications stand in a span, and that can be read.

    Args:
        rows: register rows of the publications.
    """
    number_of = {row["interval"]: row["number"] for row in rows}
    inside = (row for row in state.register if row["interval"] < span.end and row["interval_end"] > span.start)
    later = (row["training_version"] for row in inside if row["number"] > number_of.get(row["interval"], 0))
    last = min((version - 1 for version in later), default=None)
    if last is None:
        return state.table
    first = max((row["training_version"] for row in rows), default=0)
    path = home.table(Table.TRAINING)
    # the last of these versions has the fewest files, and vacuum ends it last
    for one in (last, first):
        if one >= first and (table := _readable(path, one, span)):
            return table
    raise RowsGone(
        f"rows of {span} that were published then are in no version of {path} any more: other publications have "
        "replaced them, and vacuum has removed their files. Read the range again without `at`: what stands now."
    )


def _readable(path: str, number: int, span: Interval) -> DeltaTable | None:
    """Return the table at a version, or None where its log or a file that can hold rows of the span is gone."""
    try:
        table = DeltaTable(path, version=number)
    except DeltaError:
        return None
    files = lookup.Lookup(table, tables.data_files(table))
    near = (Range(DATE, span.start.date(), span.end.date()), Range(EVENT_TIME, span.start, span.end))
    return table if all(store.stat(f"{path}/{name}") for name in files.paths(near)) else None
