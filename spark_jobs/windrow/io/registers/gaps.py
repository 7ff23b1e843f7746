"""Accepted gaps, as the observations of the `clock` table have them: none is missed, and few files are read.

The newest rows have the newest gaps of a topic, and say whether earlier ones have others. Then those rows are read that
were the first to have a gap, or to have it as ended, and whose bounds touch the time in question (see
`semantics.landing.gaps.recorded_once`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from windrow.io.delta import lookup
from windrow.io.delta.lookup import Condition, Has, Lookup, Range
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.gaps import LONG_AGO, AcceptedGap, gaps_of, have_earlier, newest_of

SHOWN = 1_000
"""Rows with new gaps up to which a person is shown all gaps; of more, those of as many observations."""

_COLUMNS = ("topic", "observation", "batch", "gap")
_FIRST_TO_HAVE = Has("gap_until", value=True)


class Shown(NamedTuple):
    """Gaps to be shown to a person."""

    gaps: tuple[AcceptedGap, ...]
    """newest last"""
    are_all: bool


def on_record(
    clock: Lookup | None,
    newest: Sequence[ClockRow],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    above: Mapping[str, int] | None = None,
) -> tuple[AcceptedGap, ...]:
    """Return at least the gaps of the pipeline's topics that can touch a stretch of event time.

    Args:
        clock: the table that the rows are of; None where no earlier row has others (`have_earlier`).
        newest: rows of the newest observation.
        since, until: the stretch, widened by how far a gap can reach beyond what it was recorded with; None: no bound.
        above: topic → batch; gaps that had ended when it had landed may be missing.
    """
    near = []
    if since is not None:
        near.append(Range("gap_until", max(since, LONG_AGO)))
    if until is not None:
        near.append(Range("gap_from", None, max(until, LONG_AGO)))
    return _gaps(clock, newest, near, above or {})


def shown(clock: Lookup | None, newest: Sequence[ClockRow]) -> Shown:
    """Return all gaps of the pipeline's topics or, where they are very many, the newest.

    Args:
        clock: see `on_record`.
        newest: rows of the newest observation.
    """
    are_all = clock is None or not have_earlier(newest) or _how_many(clock.files_with([_FIRST_TO_HAVE])) <= SHOWN
    near = [] if are_all else [Range("observation", max(row["observation"] for row in newest) - SHOWN)]
    gaps = _gaps(clock, newest, near, {})
    return Shown(tuple(sorted(gaps, key=lambda gap: gap.accepted_at)), are_all)


def _how_many(files: pa.Table) -> int:
    """Count the rows with new gaps, by the log's statistics; where it has none, all rows."""
    names = [name for name in ("num_records", "null_count.gap_until") if name in files.column_names]
    rows, *without = (pc.sum(files[name]).as_py() or 0 for name in names)
    return int(rows - sum(without))


def _gaps(
    clock: Lookup | None, newest: Sequence[ClockRow], near: Sequence[Range], above: Mapping[str, int]
) -> tuple[AcceptedGap, ...]:
    """Return the gaps of the clock's rows that are within all ranges, and those of the newest rows."""
    topics = have_earlier(newest)
    if not topics:
        return newest_of(gaps_of(newest))
    if clock is None:
        raise ValueError("earlier rows have other gaps, and there is no table to read them from")
    firsts = {row["topic"]: row["gaps_since"] for row in newest if row["topic"] in topics}
    ranges = [
        *near,
        Range("observation", min(firsts.values())),
        Range("batch", min(above.get(topic, 0) for topic in firsts)),
    ]
    has_new = pc.field("gap_until").is_valid() & pc.field("topic").isin([*firsts])
    conditions: list[Condition] = [_FIRST_TO_HAVE, *ranges]
    rows = [
        row
        for row in clock.read(_COLUMNS, lookup.all_of([has_new, *map(lookup.in_range, ranges)]), conditions)
        if row["observation"] >= firsts[row["topic"]] and row["batch"] >= above.get(row["topic"], 0)
    ]
    return newest_of((*gaps_of(sorted(rows, key=lambda row: row["observation"])), *gaps_of(newest)))
