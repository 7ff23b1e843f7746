"""Accepted gaps, as the observations of the `clock` table have them: none is missed, and few files are read.

    observation     7      8       9      10   the newest
    gap a         open   open    ended     -
    gap b           -    open    open    open

A gap that has ended stands in one observation only. So a landing writes as much after a year as on its first day, and
who asks for gaps reads what was recorded near the time in question. A topic without gaps is not looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from windrow.home import Home, Table
from windrow.io.delta import lookup
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.gaps import LONG_AGO, AcceptedGap, gaps_of, newest_of

SHOWN = 1_000
"""Rows with gaps up to which a person is shown all gaps; of more, those of as many observations."""

_COLUMNS = ("topic", "observation", "batch", "gap")


class Shown(NamedTuple):
    """Gaps to be shown to a person."""

    gaps: tuple[AcceptedGap, ...]
    """newest last"""
    are_all: bool


def on_record(
    home: Home | None,
    newest: Sequence[ClockRow],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    above: Mapping[str, int] | None = None,
) -> tuple[AcceptedGap, ...]:
    """Return at least the gaps of the pipeline's topics that can touch a stretch of event time.

    Args:
        home: whose clock has the earlier observations; None where there are none.
        newest: rows of the newest observation.
        since, until: the stretch, widened by how far a gap can reach beyond what it was recorded with; None: no bound.
        above: topic → batch; gaps that had ended when it had landed may be missing.
    """
    near = []
    if since is not None:
        near.append(lookup.Range("gap_until", max(since, LONG_AGO)))
    if until is not None:
        near.append(lookup.Range("gap_from", None, max(until, LONG_AGO)))
    return _gaps(_clock(home, newest), newest, near, above or {})


def shown(home: Home | None, newest: Sequence[ClockRow]) -> Shown:
    """Return all gaps of the pipeline's topics or, where they are very many, the newest.

    Args:
        home: whose clock has the earlier observations; None where there are none.
        newest: rows of the newest observation.
    """
    clock = _clock(home, newest)
    files = clock.files_with(_RECORDED) if clock else None
    if files is None or _rows_with_gaps(files) <= SHOWN:
        return Shown(_gaps(clock, newest, [], {}), are_all=True)
    number = max(row["observation"] for row in newest)
    return Shown(_gaps(clock, newest, [lookup.Range("observation", number - SHOWN)], {}), are_all=False)


_RECORDED = (lookup.Has("gap", value=True), lookup.Has("gap_until", value=True))


def _clock(home: Home | None, newest: Sequence[ClockRow]) -> lookup.Lookup | None:
    """The clock where its earlier observations have gaps."""
    return lookup.opened(home.table(Table.CLOCK)) if home and _firsts(newest) else None


def _firsts(newest: Sequence[ClockRow]) -> dict[str, int]:
    """Topic → the first observation that has to be read for its gaps."""
    return {row["topic"]: row["gaps_since"] for row in newest if row.get("gaps_since") is not None}


def _rows_with_gaps(files: pa.Table) -> int:
    """Count them by the log's statistics; where it has none, all rows."""
    names = [name for name in ("num_records", "null_count.gap") if name in files.column_names]
    rows, *without = (pc.sum(files[name]).as_py() or 0 for name in names)
    return int(rows - sum(without))


def _gaps(
    clock: lookup.Lookup | None, newest: Sequence[ClockRow], near: Sequence[lookup.Range], above: Mapping[str, int]
) -> tuple[AcceptedGap, ...]:
    """Return the gaps of the clock's rows that are within all ranges, and those of the newest rows."""
    if clock is None:
        return newest_of(gaps_of(newest))
    firsts = _firsts(newest)
    ranges = [
        *near,
        lookup.Range("observation", min(firsts.values())),
        lookup.Range("batch", min(above.get(topic, 0) for topic in firsts)),
    ]
    has_gaps = pc.field("gap").is_valid() & pc.field("topic").isin([*firsts])
    wanted = lookup.all_of([has_gaps, *map(lookup.in_range, ranges)])
    rows = [
        row
        for row in clock.read(_COLUMNS, wanted, [*_RECORDED, *ranges])
        if row["observation"] >= firsts[row["topic"]] and row["batch"] >= above.get(row["topic"], 0)
    ]
    return newest_of((*gaps_of(sorted(rows, key=lambda row: row["observation"])), *gaps_of(newest)))
