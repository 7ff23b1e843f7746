"""What maintenance may do: which files are compacted, which candidates are outdated, how long unused files stay.

    landing    ──[ day ]── … ──[ hour ]──[ hour ]──[ open hour   only hours that are over: nothing is added to them any
    training   ──[ day of UTC ]──[ open day                      more; after a month the landed hours of a day become
                                                                 one piece

A piece is compacted only if that makes fewer files, and the hours of a day only if it makes half as many: a log names
every file, and every job reads it. A piece's condition names exactly the rows of its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from windrow.outcomes import BadInput
from windrow.semantics.intervals import DAY
from windrow.semantics.plan import Plan

ROWS_PER_FILE = 500_000
HOUR = timedelta(hours=1)
RETENTION = timedelta(days=30)
"""How long files of past table versions are kept, unless maintenance is told otherwise."""
SETTLED = timedelta(days=30)
"""After this time landed rows are rarely read: the files of their hours are merged by days."""
SHORTEST_RETENTION = timedelta(days=7)
"""Longer than any job may run; also the shortest retention that Delta itself considers safe."""


class RetentionUnsafe(BadInput, ValueError):
    """Files would be deleted that a running job or a reader of a past version may still need."""


class LandingFile(NamedTuple):
    """A file of a landing table, by its statistics."""

    path: str
    rows: int
    first_batch: int
    last_batch: int
    arrived_at: datetime
    """the latest arrival in it"""


class TrainingFile(NamedTuple):
    """A file of the training table, by its partition and statistics."""

    path: str
    rows: int
    day: date
    interval: datetime | None
    """the earliest interval start in it, where it is known"""


@dataclass(frozen=True)
class Piece:
    """Files of a table whose rows are rewritten into fewer files."""

    begins: datetime
    paths: frozenset[str]
    rows: int
    wanted: int
    """number of files that are enough"""
    batches: tuple[int, int] | None = None
    """first and last batch, of a landing table"""
    day: date | None = None
    """partition, of the training table"""


def require_safe(retention: timedelta) -> None:
    """Refuse a retention that is too short.

    Raises:
        RetentionUnsafe: names the shortest safe one.
    """
    if retention < SHORTEST_RETENTION:
        raise RetentionUnsafe(
            f"a retention of {retention} is refused: a join, a rebuild or a reader of a past version that began before "
            f"may still need those files. The least is {SHORTEST_RETENTION.days}d."
        )


def landing_pieces(files: Iterable[LandingFile], before: datetime) -> list[Piece]:
    """Hours of arrival that ended by `before`, and days that ended `SETTLED` before that, oldest first.

    Only those with more files than they need, a day with twice as many. Batches are landed in order and each within one
    hour, so an hour or a day is a range of batches and no batch is cut.
    """

    def span(file: LandingFile) -> tuple[datetime, timedelta]:
        day = file.arrived_at.replace(hour=0, minute=0, second=0, microsecond=0)
        return (day, DAY) if day + DAY <= before - SETTLED else (_hour(file.arrived_at), HOUR)

    pieces = []
    ordered = sorted(files, key=lambda file: file.first_batch)
    for (begins, length), group in groupby(ordered, key=span):
        members = list(group)
        batches = min(file.first_batch for file in members), max(file.last_batch for file in members)
        piece = _piece(begins, members, batches=batches)
        enough = piece.wanted if length == HOUR else 2 * piece.wanted - 1
        if begins + length <= before and len(piece.paths) > enough:
            pieces.append(piece)
    return pieces


def training_pieces(files: Iterable[TrainingFile], before: datetime) -> list[Piece]:
    """Days that ended by `before` and have more than one file per hour with intervals, oldest first.

    One file per hour, and not per day, because a rebuild of an interval rewrites the files that hold it: a rebuild of
    a day of ten-minute intervals would write the day 70 times.
    """
    pieces = []
    for day, group in groupby(sorted(files, key=lambda file: file.day), key=lambda file: file.day):
        members, begins = list(group), datetime(day.year, day.month, day.day, tzinfo=UTC)
        hours = {_hour(file.interval) for file in members if file.interval}
        if begins + DAY <= before:
            pieces.append(_piece(begins, members, least=len(hours), day=day))
    return [piece for piece in pieces if len(piece.paths) > piece.wanted]


def _piece(begins: datetime, files: Sequence[LandingFile | TrainingFile], least: int = 1, **where: Any) -> Piece:
    rows = sum(file.rows for file in files)
    wanted = max(1, least, ceil(rows / ROWS_PER_FILE))
    return Piece(begins, frozenset(file.path for file in files), rows, wanted, **where)


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def outdated(plans: Iterable[Plan], standing: Mapping[datetime, int]) -> list[str]:
    """Ids of the plans that can no longer be published, because their interval has a newer publication.

    Args:
        standing: interval start → number of the publication that readers see.
    """
    return [
        plan.id
        for plan in plans
        if (number := standing.get(plan.interval.start)) is not None and number != plan.supersedes
    ]
