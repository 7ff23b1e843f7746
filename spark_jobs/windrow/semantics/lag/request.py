"""A request for a lag analysis, and the range of left event time that it may have.

pipeline's start                          frontier: before it every window has closed
      |------------- may be analysed -------|
------+---------[ start        end )--------+------------> left event time
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.outcomes import StillOpen
from windrow.semantics.intervals import DAY
from windrow.semantics.lag.scenario import LagScenario, NotAnalysable
from windrow.text import short_instant_text, shown_instant


class RangeStillOpen(StillOpen):
    """The range reaches past the frontier. Waiting helps."""


@dataclass(frozen=True)
class LagRequest:
    """What to analyse, checked.

    Args:
        start, end: the range, half-open.
        scenarios: the first has the pipeline's own settings.
        windows: windows to estimate recall for.
        wanted: recalls to advise settings for, each above 0 and below 1.
        sample: share of the keys, above 0 and at most 1.
    """

    start: datetime
    end: datetime
    scenarios: tuple[LagScenario, ...]
    windows: tuple[timedelta, ...]
    wanted: tuple[float, ...]
    sample: float


@dataclass(frozen=True)
class AnalysableTime:
    """The left event time of a pipeline that can be analysed: from its start to its frontier (None: no watermark)."""

    pipeline: str
    start: datetime
    interval: timedelta
    frontier: datetime | None

    def range(self, start: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
        """Complete and check a range; without bounds the last 24 hours that have closed.

        Raises:
            NotAnalysable: the range is empty or before the pipeline's start, or nothing has closed yet.
            RangeStillOpen: its end is past the frontier.
        """
        if self.frontier is None:
            raise NotAnalysable(
                f"{self.pipeline} has no watermark yet, so no window has closed that could be analysed: run `windrow "
                f"land {self.pipeline}`. `windrow clock {self.pipeline}` shows which partition holds the watermark"
            )
        closed = self.frontier - (self.frontier - self.start) % self.interval
        if end is None:
            end = min(closed, start + DAY) if start else closed
        if start is None:
            start = max(self.start, end - DAY)
        self._check(start, end, self.frontier, closed)
        return start, end

    def _check(self, start: datetime, end: datetime, frontier: datetime, closed: datetime) -> None:
        range_text = f"[{shown_instant(start)}, {shown_instant(end)})"
        if start < self.start:
            raise NotAnalysable(
                f"{self.pipeline} starts at {short_instant_text(self.start)}: rows before it are in no interval. Start "
                f"the range there, not at {shown_instant(start)}"
            )
        if end > frontier:
            raise RangeStillOpen(
                f"the range {range_text} is open: only windows of rows before {shown_instant(frontier)} have closed, "
                f"so labels of its last rows can still come. Wait, or end it at {short_instant_text(closed)}"
            )
        if end <= start:
            raise NotAnalysable(
                f"the range {range_text} is empty: its end must be after its start, and windows have closed up to "
                f"{short_instant_text(closed)}"
            )
