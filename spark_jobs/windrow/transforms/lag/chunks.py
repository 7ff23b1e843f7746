"""A chunk of left rows with their labels, and how its rows close under each lag, clock and closing.

steps of a (lag, clock)    W  ───┬──────┬─────────┬───
rows of the chunk          θ     │  x   │    x    │        each row closes at the first step with W > θ;
                                                          if that is before its own arrival, the row is missing
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.transforms.lag.arrivals import Ints, arrivals_of, rows_of_blobs
from windrow.transforms.lag.plan import Closing, LagPlan
from windrow.transforms.lag.steps import STEP_COLUMNS

Bools = np.ndarray
Positions = tuple[Ints, ...]
"""Positions in order of arrival, in columns: arrival, event time, partition, offset."""
Window = tuple[tuple[int, int], ...]
"""(before, after) by label stream, in microseconds."""


@dataclass
class Chunk:
    """Left rows, and their labels in flat columns: `row_of` is the index of the row that a label belongs to.

    Scenarios share lags, clocks and closings, so what depends on these alone is computed once.
    """

    plan: LagPlan
    partition: Ints
    event_at: Ints
    record_at: Ints
    offset: Ints
    row_of: Ints
    stream: Ints
    label_partition: Ints
    label_event_at: Ints
    label_record_at: Ints
    label_offset: Ints
    steps: dict[tuple[int, int], Ints]
    """(lag, clock) → `STEP_COLUMNS`"""
    _closed: dict[tuple[int, int, Closing], Closed] = field(default_factory=dict, init=False)
    _arrived: dict[int, tuple[Ints, Ints]] = field(default_factory=dict, init=False)
    _ends: dict[Closing, tuple[Ints, Ints]] = field(default_factory=dict, init=False)
    _matched: dict[Window, Matched] = field(default_factory=dict, init=False)

    def arrived(self, lag: int) -> tuple[Ints, Ints]:
        """Arrivals of the rows and of the labels under a lag.

        Args:
            lag: index of the lag in the plan.

        Returns:
            Two arrays of microseconds since 1970: one entry per row, and one per label.
        """
        if lag not in self._arrived:
            injected, is_lagging = self.plan.lags[lag], self.plan.lagging(lag)
            self._arrived[lag] = (
                arrivals_of(injected, is_lagging, self.partition, self.record_at),
                arrivals_of(injected, is_lagging, self.label_partition, self.label_record_at),
            )
        return self._arrived[lag]

    def closed(self, lag: int, clock: int, closing: Closing) -> Closed:
        """How the rows close under a lag, a clock and a closing.

        Args:
            lag: index of the lag in the plan.
            clock: index of the clock in the plan.
            closing: when a row of this clock has closed.

        Returns:
            The same value for the same arguments; it is computed once.
        """
        key = (lag, clock, closing)
        if key not in self._closed:
            self._closed[key] = self._close(*key)
        return self._closed[key]

    def matched(self, window: Window) -> Matched:
        """The labels in a window.

        Returns:
            The same value for the same window; it is computed once.
        """
        if window not in self._matched:
            before, after = np.array(window or [(0, 0)], np.int64).T
            apart = self.label_event_at - self.event_at[self.row_of]
            label = np.flatnonzero((-before[self.stream] <= apart) & (apart <= after[self.stream]))
            by_row = np.bincount(self.row_of[label], minlength=len(self.event_at))
            self._matched[window] = Matched(label, self.row_of[label], by_row)
        return self._matched[window]

    def _close(self, lag: int, clock: int, closing: Closing) -> Closed:
        """Each row closes at the first step with W > θ, where θ is the last W at which its interval is still open."""
        steps = self.steps.get((lag, clock), np.empty((STEP_COLUMNS, 0), np.int64))
        theta, rows = self._theta(closing)
        # W only rises along the steps: the first one above θ is found by bisection
        step = np.repeat(np.searchsorted(steps[0], theta, side="right"), rows)
        closed = Closed(steps[1:], step, step < steps.shape[1], np.zeros(len(step), bool))
        closing_rows = np.flatnonzero(closed.closes)
        arrived = (self.arrived(lag)[0], self.event_at, self.partition, self.offset)
        closed.missing[closing_rows] = closed.is_before(closing_rows, arrived, closing_rows)
        return closed

    def _theta(self, closing: Closing) -> tuple[Ints, Ints]:
        """The θ of the rows, which are sorted by event time: each distinct one, and its number of rows."""
        if closing not in self._ends:
            theta = self.event_at - self.event_at % closing.interval + closing.interval + closing.wait - 1
            begins = np.flatnonzero(np.diff(theta, prepend=theta[0] - 1))
            self._ends[closing] = theta[begins], np.diff(begins, append=len(theta))
        return self._ends[closing]


@dataclass(frozen=True)
class Matched:
    """The labels in a window: their indexes, the index of the row of each, and their number by row."""

    label: Ints
    row_of: Ints
    by_row: Ints


@dataclass(frozen=True)
class Closed:
    """By row: the event that closes it, as an index; whether one does; whether that is before its own arrival."""

    points: Ints
    """Positions of the events, one column each (`Positions`)."""
    event: Ints
    closes: Bools
    missing: Bools

    @property
    def left(self) -> Bools:
        """Rows that closed after they had arrived."""
        return self.closes & ~self.missing

    def at(self, rows: Ints | Bools) -> Ints:
        """Arrival of the events that close some rows, which must close."""
        return self.points[0][self.event[rows]]

    def is_before(self, rows: Ints, others: Positions, of_rows: Ints) -> Bools:
        """Whether the events that close some rows, which must close, come before other events in order of arrival.

        Args:
            rows: indexes of the rows.
            others: positions of events.
            of_rows: for each of the rows, the index of the event that it is compared with.
        """
        event = self.event[rows]
        before, is_open = np.zeros(len(rows), bool), np.arange(len(rows))
        for column, other in zip(self.points, others, strict=True):
            a, b = column[event[is_open]], other[of_rows[is_open]]
            before[is_open[a < b]] = True
            # hardly ever do two events arrive in one instant, so the other columns are seldom looked at
            is_open = is_open[a == b]
        return before


def chunk_of(plan: LagPlan, rows: pa.Table, routed: pa.Table) -> Chunk:
    """The chunk of rows (`events.ROW_COLUMNS`) and the steps that were routed to them.

    Args:
        rows: left rows with their labels, in any order.
        routed: rows of `steps.routed` for this chunk.
    """
    rows = rows.sort_by("event_at").combine_chunks()
    labels = rows["labels"].combine_chunks()
    sizes = labels.value_lengths().to_numpy(zero_copy_only=False)
    # labels of all rows in one flat array, each with the index of its row: no loop over rows
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    flat = labels.flatten()
    names = ("partition", "event_at", "record_at", "offset")

    def label_column(name: str) -> Ints:
        return flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64)

    return Chunk(
        plan=plan,
        **{name: rows[name].to_numpy().astype(np.int64) for name in names},
        row_of=row_of,
        stream=label_column("stream"),
        **{f"label_{name}": label_column(name) for name in names},
        steps=_steps_by_clock(routed),
    )


def _steps_by_clock(routed: pa.Table) -> dict[tuple[int, int], Ints]:
    """(lag, clock) → its steps, the blobs in the order of their buckets."""
    blobs: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for row in routed.to_pylist():
        blobs.setdefault((row["lag"], row["clock"]), []).append((row["bucket"], row["part"], row["steps"]))
    return {key: rows_of_blobs([blob for _, _, blob in sorted(parts)], STEP_COLUMNS) for key, parts in blobs.items()}
