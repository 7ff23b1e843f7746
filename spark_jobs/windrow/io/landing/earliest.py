"""The event time of the first left row at or after an instant, from the statistics of landing files. No Spark.

                    since
file 1   ├────┤       │                  before: not looked at
file 2      ├─────────┼──────┤           across: opened for its event times
file 3                │   ├────┤         behind: its least event time is in the log
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow.compute as pc

from windrow.columns import EVENT_TIME
from windrow.home import Home
from windrow.io.delta import lookup
from windrow.io.delta.lookup import Has, Lookup, Range

MOST_OPENED = 20
"""Files that are opened at most."""


def first_left_at(home: Home, since: datetime) -> datetime | None:
    """Return the event time of the first left row at or after `since`, whatever its key, `where` or retries.

    Returns:
        An instant, to the millisecond where the log states it; None where no such row has landed. `since` where that
        cannot be told: the log lacks the statistics, or more than `MOST_OPENED` files of a topic would be opened.
    """
    found: list[datetime] = []
    for topic in home.pipeline.left.topics:
        landed = lookup.opened(home.landing(topic))
        times = [] if landed is None else _times(landed, since)
        found += [since] if times is None else times
    return min(found, default=None)


def _times(landed: Lookup, since: datetime) -> list[datetime] | None:
    files = landed.files_with([Range(EVENT_TIME, since), Has(EVENT_TIME, value=True)])
    if not files.num_rows:
        return []
    if f"min.{EVENT_TIME}" not in files.column_names or files[f"min.{EVENT_TIME}"].null_count:
        return None
    least: list[datetime] = files[f"min.{EVENT_TIME}"].to_pylist()
    across = [path for path, at in zip(files["path"].to_pylist(), least, strict=True) if at < since]
    if len(across) > MOST_OPENED:
        return None
    return [*(at for at in least if at >= since), *_opened_times(landed, across, since)]


def _opened_times(landed: Lookup, paths: list[str], since: datetime) -> Iterator[datetime]:
    for rows in landed.read_files(paths, [EVENT_TIME], pc.field(EVENT_TIME) >= pc.scalar(since)).values():
        if rows.num_rows:
            yield pc.min(rows[EVENT_TIME]).as_py()
