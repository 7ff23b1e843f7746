"""Closing: the one predicate that decides whether anything can still be added to an interval.

              interval              after            grace
        [--------------------)|<--------------->|<----------->|
    ----+--------------------+------------------+-------------+----------> event time
      start                 end                             closes_at
                             F  =  W - after - grace  <-------  W

An interval `[start, end)` is closed when `end <= F`. Its rows have `l.t < end`, so each of them satisfies
`l.t + after + grace < W`, strictly: a row at 0 with after 100 and grace 10 is open at W = 110 and, in an
interval [0, 1), closed at W = 111. `after` is the largest of the pipeline's right streams. F never goes back
because W never does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from windrow.semantics.intervals import Interval, shifted


def frontier(watermark: datetime | None, after: timedelta, grace: timedelta) -> datetime | None:
    """F, the event time before which every window has closed; None while there is no watermark."""
    return None if watermark is None else shifted(watermark, -after - grace)


def is_closed(interval: Interval, frontier: datetime | None) -> bool:
    """Whether no window of the interval can get another row. No other module decides this."""
    return frontier is not None and interval.end <= frontier


def may_be_forced(interval: Interval, newest_left_at: datetime | None) -> bool:
    """Whether an interval may be published before it closes: a left event at or after its end has landed.

    Before that its own left rows are still to come, and a publication without them would hide them until a rebuild.
    """
    return newest_left_at is not None and interval.end <= newest_left_at


def closes_at(interval: Interval, after: timedelta, grace: timedelta) -> datetime:
    """Least watermark at which the interval is closed."""
    return shifted(interval.end, after + grace)
