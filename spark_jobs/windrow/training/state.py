"""Which publications a read has, and where exactly their rows are. No Spark, no lock.

    at=None   the newest state     at=N        as publication N left it
                                   at=instant  as readers saw it then     at="snapshot:NAME"   as it was named

A range is read only if every interval of it is published in that state, unless the caller says otherwise: a hole in
the middle of the training data would pass for an hour without traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version

from deltalake import DeltaTable

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.registers import clocks, publications, snapshots
from windrow.io.registers.snapshots import Snapshot
from windrow.io.training import states
from windrow.io.training.states import FileUnknown, Row, Rows
from windrow.outcomes import BadInput, StillOpen
from windrow.semantics.close import is_closed
from windrow.semantics.intervals import Interval, grid_around, intervals_between, shifted, stretches
from windrow.semantics.plan import Plan
from windrow.text import counted, short, short_instant_text, shown_instant
from windrow.training.observed import Observed
from windrow.training.pin import Pin, digest
from windrow.training.request import Request, WrongRequest, instant

__all__ = ["FileUnknown"]

COLUMNS = ("number", "interval", "interval_end", "plan_id", "config_hash", "training_version", "published_at", "rows")
"""Columns of the register that a read needs."""

_MOST_SHOWN = 8
SNAPSHOT = "snapshot:"
"""What `at` begins with where it names a snapshot."""


class NotPublished(StillOpen):
    """Intervals of the range are not published. Waiting helps where they are open."""


class RowsGone(BadInput):
    """The wanted rows are in no version of the table that can be read, and in no snapshot. A retry does not help."""


class AnotherTable(BadInput):
    """A pin was made from another training table than the one that is here."""


@dataclass(frozen=True)
class State:
    """A state of the training table: what readers saw after a publication.

    Args:
        table: the newest version of the table.
        register: every publication, by number, later ones than the state included; of a snapshot, those that it keeps.
        number: the newest publication of the state.
        snapshot: the snapshot that was asked for.
    """

    table: DeltaTable
    register: tuple[Row, ...]
    number: int
    snapshot: Snapshot | None = None

    @property
    def standing(self) -> dict[datetime, Row]:
        """The publication that readers saw, by interval start."""
        return {row["interval"]: row for row in self.register if row["number"] <= self.number}

    @property
    def until(self) -> datetime:
        """End of the newest interval that is published."""
        return max(row["interval_end"] for row in self.standing.values())

    def range_of(self, home: Home) -> Interval:
        """The range that is read where none is given."""
        return self.snapshot.range if self.snapshot else Interval(home.pipeline.start, self.until)


def state_at(home: Home, at: int | datetime | str | None) -> State:
    """Return a state of the training table.

    Args:
        at: None for the newest one, the number of a publication, an instant, or `snapshot:` and a name.
    Raises:
        NotPublished: nothing was published by then.
        WrongRequest: there is no publication of this number, or no snapshot of this name.
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
    if isinstance(at, str) and at.startswith(SNAPSHOT):
        return _state_of(home, table, register, at.removeprefix(SNAPSHOT))
    then = instant("at", at)
    number = max((row["number"] for row in register if row["published_at"] <= then), default=0)
    if not number:
        first = shown_instant(register[0]["published_at"])
        raise NotPublished(f"at: {name} had published nothing at {shown_instant(then)}; its first is of {first}")
    return State(table, register, min(number, newest))


def _state_of(home: Home, table: DeltaTable, register: Sequence[Row], name: str) -> State:
    one = snapshots.named(home, name)
    pipeline = home.pipeline.name
    if one is None:
        known = ", ".join(snapshot.name for snapshot in snapshots.kept(home)) or "none"
        raise WrongRequest(f"at: {pipeline} has no snapshot {short(name)}; it has {known}")
    if one.deleted_at is not None:
        raise WrongRequest(
            f"at: {one.deleted_by} deleted the snapshot {name} of {pipeline} at {shown_instant(one.deleted_at)}; "
            f"`windrow snapshots {pipeline}` lists those that are kept"
        )
    numbers = set(one.numbers)
    rows = tuple(row for row in register if row["number"] in numbers)
    return State(table, rows, max(numbers), one)


def pinned(home: Home, request: Request, state: State, span: Interval) -> tuple[Pin, Rows]:
    """Return the pin of a request, and where exactly its rows are.

    Args:
        span: the served times whose rows are looked at; they may reach beyond the request.
    Raises:
        NotPublished: an interval of the range is not published in this state.
        WrongRequest: the range goes beyond that of a snapshot.
        RowsGone: the rows of a past state were vacuumed.
    """
    one = state.snapshot
    if one and not (one.range.start <= request.start and request.end <= one.range.end):
        raise WrongRequest(f"the snapshot {one.name} holds {one.range}; start and end must be in it")
    rows = _rows_of(home, request, state, span)
    name, numbers = one.name if one else None, tuple(row["number"] for row in rows)
    found = _found(home, rows, state, span, name)
    pin = Pin(home.pipeline.name, found.version(), numbers, _digest(rows), request, span, version("windrow"), name)
    return pin, found


def observed_of(home: Home, pin: Pin) -> list[Observed]:
    """Return what the publications of a pin knew about the labels of their rows.

    Raises:
        FileUnknown: the pipeline file of one is not on record.
    """
    wanted = set(pin.publications)
    register = publications.complete(home, ("number", "plan", "config_hash"), first=min(wanted, default=0))
    rows = [row for row in register if row["number"] in wanted]
    files = states.pipelines_of(home, rows)
    return [Observed.of(row["number"], Plan.from_json(row["plan"]), files[row["config_hash"]]) for row in rows]


def reach_of(home: Home, state: State, request: Request) -> timedelta:
    """Return how far apart rows of a request and any others are, at most, that have a label event in common.

    Raises:
        FileUnknown: a pipeline file under which such rows were published is not on record.
    """
    return states.reach_of(home, list(state.standing.values()), request.range, request.matured)


def found_again(home: Home, pin: Pin) -> Rows:
    """Return where exactly the rows of a pin are: in its own version, in another one, or in a snapshot.

    Raises:
        AnotherTable: its publications are not those of the table that is here.
        RowsGone: no version and no snapshot has its rows any more.
    """
    state, wanted = state_at(home, None), set(pin.publications)
    rows = [row for row in state.register if row["number"] in wanted]
    if len(rows) != len(wanted) or _digest(rows) != pin.plans:
        raise AnotherTable(
            f"the publications of the pin are not those of {home.table(Table.TRAINING)}: the table was made anew, or "
            "the pin is of another home. Read the range again, which gives a new pin."
        )
    return states.readable(home, pin.version, pin.span) or _found(home, rows, state, pin.span, pin.snapshot)


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


def _found(home: Home, rows: Sequence[Row], state: State, span: Interval, prefer: str | None) -> Rows:
    """Return where exactly these publications stand in a span and can be read.

    Args:
        rows: register rows of the publications.
        prefer: name of a snapshot that is looked at before others.
    """
    if not state.snapshot and (table := states.table_with(home, state.table, state.register, rows, span)):
        return table
    if kept := states.snapshot_with(home, state.register, rows, span, prefer):
        return kept[1]
    raise RowsGone(
        f"rows of {span} that were published then are in no version of {home.table(Table.TRAINING)} any more, and in "
        "no snapshot: other publications have replaced them, and vacuum has removed their files. Read the range again "
        "without `at`: what stands now. `windrow snapshot` keeps what is trained on."
    )
