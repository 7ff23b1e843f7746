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

    def _close(self, lag: int, clock: int, closing: Closing) -> Closed:
        """Each row closes at the first step with W > θ, where θ is the last W at which its interval is still open."""
        theta = self.event_at - self.event_at % closing.interval + closing.interval + closing.wait - 1
        w, *position = self.steps.get((lag, clock), np.empty((STEP_COLUMNS, 0), np.int64))
        # W only rises along the steps: the first one above θ is found by bisection
        step = np.searchsorted(w, theta, side="right")
        closes = step < len(w)
        step = np.where(closes, step, 0)  # any step: the position of a row that does not close is never used
        closed_by = tuple(c[step] if len(w) else np.zeros_like(theta) for c in position)
        rows = (self.arrived(lag)[0], self.event_at, self.partition, self.offset)
        return Closed(closes, closed_by, missing=closes & is_before(closed_by, rows))


@dataclass(frozen=True)
class Closed:
    """By row: whether it closes; the position of the event that closes it; whether that is before its own arrival."""

    closes: Bools
    by: Positions
    missing: Bools

    @property
    def left(self) -> Bools:
        """Rows that closed after they had arrived."""
        return self.closes & ~self.missing


def is_before(positions: Positions, others: Positions) -> Bools:
    """Whether positions come before others in order of arrival, column by column.

    >>> is_before((np.array([1, 1]), np.array([2, 3])), (np.array([1, 1]), np.array([3, 3]))).tolist()
    [True, False]
    """
    before, equal = np.zeros(len(positions[0]), bool), np.ones(len(positions[0]), bool)
    for a, b in zip(positions, others, strict=True):
        before |= equal & (a < b)
        equal &= a == b
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
