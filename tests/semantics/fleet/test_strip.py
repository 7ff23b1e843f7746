"""The newest intervals as a strip: which they are, and what became of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windrow.semantics.fleet.strip import LENGTH, Cell, CellState, cells, letters, shown

START = datetime(2026, 11, 1, tzinfo=UTC)
TEN = timedelta(minutes=10)


def row(verdict: str = "passed", kind: str | None = "train") -> dict[str, Any]:
    return {"verdict": verdict, "kind": kind, "rows": 10, "positive": 1, "negative": 3, "unknown": 6}


def test_a_strip_ends_with_the_newest_and_begins_no_earlier_than_the_pipeline() -> None:
    assert [one.start for one in shown(START, TEN, START + TEN)] == [START, START + TEN]
    long = shown(START, TEN, START + 1000 * TEN)
    assert len(long) == LENGTH
    assert long[-1].start == START + 1000 * TEN
    assert len(shown(START, TEN, START - TEN)) == 1


def test_what_became_of_each_interval() -> None:
    intervals = shown(START, TEN, START + 9 * TEN)
    verdicts = [row(), row("warned"), row("empty"), row("overridden"), row(kind="rebuild")]
    standing = dict(zip((one.start for one in intervals), verdicts, strict=False))
    standing[intervals[6].start] = row(kind=None)  # of an older release
    strip = cells(intervals, standing, {intervals[7].start}, frontier=intervals[8].end)
    assert letters(strip) == ".weorH.Bc-"


def test_a_closed_interval_is_a_hole_only_where_a_later_one_has_a_publication() -> None:
    intervals = shown(START, TEN, START + 2 * TEN)
    assert letters(cells(intervals, {}, (), START + TEN)) == "c--"
    assert letters(cells(intervals, {START + TEN: row()}, (), START + 2 * TEN)) == "H.-"


def test_rates_of_a_cell() -> None:
    [interval] = shown(START, TEN, START)
    cell = Cell(interval, CellState.PUBLISHED, row())
    assert (cell.rows, cell.label_rate, cell.unknown_rate) == (10, None, pytest.approx(0.6))
    assert Cell(interval, CellState.PUBLISHED, {**row(), "unknown": 0}).label_rate == pytest.approx(0.25)


def test_a_label_rate_is_that_of_rows_whose_label_side_was_complete() -> None:
    [interval] = shown(START, TEN, START)
    counts = {"rows": 100, "positive": 9, "negative": 12, "unknown": 79}
    rate = Cell(interval, CellState.WARNED, {**row(), **counts, "positive_complete": 4}).label_rate
    assert rate == pytest.approx(4 / 16)
    silent = {"rows": 100, "positive": 11, "negative": 0, "unknown": 89, "positive_complete": 0}
    assert Cell(interval, CellState.WARNED, {**row(), **silent}).label_rate is None


def test_an_interval_without_rows_has_no_rates() -> None:
    [interval] = shown(START, TEN, START)
    empty = Cell(interval, CellState.EMPTY, {**row(), "rows": 0, "positive": 0, "negative": 0, "unknown": 0})
    assert (empty.rows, empty.label_rate, empty.unknown_rate) == (0, None, None)
    assert Cell(interval, CellState.OPEN).rows is None
