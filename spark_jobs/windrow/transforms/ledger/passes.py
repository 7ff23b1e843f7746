"""Values of the late ledger's passes: the recorded and landed state, what was known before, and the work to do.

State ─▶ `due.due` ─▶ Due ─▶ Pass, written into the commit that the pass makes
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import EARLIEST, LATEST, at_micros, micros, shifted
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap

_TRUNCATED = timedelta(milliseconds=1)
"""Delta's writers may truncate the newest time of a file to milliseconds."""

Instants = npt.NDArray[np.int64]
"""Microseconds since 1970."""


@dataclass(frozen=True)
class Standing:
    """The publications that readers see: where each lies, in arrays, and the register rows of a few.

    A register of years has more rows than a pass may make objects of.
    """

    starts: Instants
    """starts of their intervals, ascending"""
    numbers: Instants
    is_comparable: npt.NDArray[np.bool_]
    """whether each was made under the current pipeline file"""
    rows: Mapping[datetime, Mapping[str, Any]] = field(default_factory=dict)
    """interval start → its whole register row"""

    @classmethod
    def of(cls, starts: Instants, numbers: Instants, is_comparable: npt.NDArray[np.bool_]) -> Standing:
        """Of all publications, in any order: the newest of each interval.

        >>> found = Standing.of(np.array([9, 5, 9]), np.array([2, 1, 3]), np.array([True, True, False]))
        >>> found.starts.tolist(), found.numbers.tolist(), found.is_comparable.tolist()
        ([5, 9], [1, 3], [True, False])
        """
        order = np.lexsort((numbers, starts))
        is_newest = np.append(np.diff(starts[order]) != 0, True)
        kept = order[is_newest] if len(order) else order
        return cls(starts[kept], numbers[kept], is_comparable[kept])

    @property
    def newest(self) -> int:
        """The greatest number; 0 without a publication."""
        return int(self.numbers.max(initial=0))

    def number_of(self, start: datetime) -> int:
        """The number of the publication of an interval; KeyError where it has none."""
        at = int(np.searchsorted(self.starts, micros(start)))
        if at == len(self.starts) or self.starts[at] != micros(start):
            raise KeyError(start)
        return int(self.numbers[at])

    def where(self, wanted: npt.NDArray[np.bool_]) -> list[datetime]:
        """Starts of those that are wanted, ascending."""
        return instants_of(self.starts[wanted])

    def between(self, begin: datetime, end: datetime) -> npt.NDArray[np.bool_]:
        """Whether the interval of each starts in `[begin, end)`."""
        return (self.starts >= micros(begin)) & (self.starts < micros(end))


_NONE: Instants = np.array([], np.int64)


def instants_of(starts: Instants) -> list[datetime]:
    """Instants in UTC."""
    return [at_micros(at) for at in starts.tolist()]


class LandedFile(NamedTuple):
    """Statistics of a file of a landing table; None where the log has none."""

    batch: int | None
    """the greatest batch in it"""
    oldest: datetime | None
    newest: datetime | None
    rows: int | None
    without_time: int | None
    """rows without an event time"""
    readable: int | None
    """rows that are not quarantined"""

    @property
    def last_batch(self) -> int:
        """Upper bound of the batches in the file."""
        return 2**62 if self.batch is None else self.batch

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Least and greatest event time that the file can hold; `LATEST` twice if no row has an event time."""
        if self.without_time is not None and self.without_time == self.rows:
            return LATEST, LATEST
        newest = LATEST if self.newest is None else shifted(self.newest, _TRUNCATED)
        return EARLIEST if self.oldest is None else self.oldest, newest

    @property
    def can_hold_undated(self) -> bool:
        """Whether it can hold a quarantined row without an event time."""
        has_quarantined = self.readable is None or self.rows is None or self.readable < self.rows
        return has_quarantined and self.without_time != 0


@dataclass(frozen=True)
class Pass:
    """A pass of the ledger and what it was complete up to. It is written into the commit of the pass."""

    number: int
    known: Plan
    """pins, clock and config hash, as a plan of that moment would have them; its interval means nothing"""
    publication: int
    """every standing publication up to this number was looked at"""
    versions: Mapping[str, int]
    """topic → version of its landing table"""

    def to_json(self) -> str:
        """Text for the commit."""
        return json.dumps({**vars(self), "known": self.known.to_json(), "windrow": "late"}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Pass:
        """The pass that `to_json` wrote."""
        raw = json.loads(text)
        del raw["windrow"]
        return cls(**{**raw, "known": Plan.from_json(raw["known"])})

    def knows_as_much_as(self, other: Pass) -> bool:
        """Whether the other pass covers the same publications, config and pins, and so would find nothing new."""
        return (self.publication, self.known.config_hash, self.known.pins) == (
            other.publication,
            other.known.config_hash,
            other.known.pins,
        )


@dataclass(frozen=True)
class Knowledge:
    """What is known about windows and labels from the rows landed at given pins."""

    gaps: frozenset[Gap]
    """without those that were the same for every publication that is looked at"""
    heard_until: Mapping[str, datetime | None]
    """label stream → newest event clock; a later window may still get a label, and silence proves nothing yet"""
    frontier: datetime | None
    """event time before which every interval had closed"""


@dataclass(frozen=True)
class State:
    """What is published, landed and recorded at one moment."""

    number: int
    """number of the next pass"""
    standing: Standing
    """with the rows of those that no pass has looked at"""
    training_version: int
    pins: Mapping[str, int]
    clocks: tuple[PartitionClock, ...]
    versions: Mapping[str, int]
    """topic → version of its landing table"""
    files: Mapping[str, tuple[LandedFile, ...]]
    """topic → files of its landing table with a batch that a publication was not compared with"""
    new_commits: tuple[Mapping[str, Any], ...]
    """entries of the landing tables' histories since the last pass of this config"""
    seen: tuple[Seen, ...]
    """standing publications of the current config"""
    newest: Pass | None
    """the newest pass under any config"""
    marked: frozenset[datetime]
    """starts of intervals that the ledger already calls `config_changed`"""
    knowledge: Callable[[Plan], Knowledge]
    """returns what was known at a plan's pins and clock"""


class Stretch(NamedTuple):
    """Left event times, both ends in, whose published rows must be looked at again."""

    begin: datetime
    end: datetime
    silent: bool = False
    """only rows whose reason is null or about silence: no other row can have changed"""


AT_ANY_TIME = Stretch(EARLIEST, LATEST)
"""Around a label that cannot be dated: it makes every row of its key doubtful (rule 10)."""


@dataclass(frozen=True)
class Seen:
    """Publications that were last looked at with the same knowledge: by a pass, or when they were planned."""

    known: Plan
    starts: Instants
    """of the publications' intervals, ascending"""

    def covers(self, begin: datetime, end: datetime) -> bool:
        """Whether one of the publications' intervals starts in [begin, end].

        Args:
            begin: first instant, included.
            end: last instant, included.
        """
        first, last = np.searchsorted(self.starts, micros(begin)), np.searchsorted(self.starts, micros(end), "right")
        return bool(first < last)

    def overlapping(self, stretch: Stretch, length: timedelta) -> Instants:
        """Starts of the intervals (each of this length) that overlap a stretch."""
        first = np.searchsorted(self.starts, micros(shifted(stretch.begin, -length)), "right")
        return self.starts[first : np.searchsorted(self.starts, micros(stretch.end), "right")]


@dataclass(frozen=True)
class Due:
    """A pass to be made: what it looks at, and what is known now."""

    number: int
    known: Plan
    """what is known now"""
    standing: Standing
    """as of `training_version`; rows as in `State`, and those that `io.ledger.state.with_rows` reads"""
    training_version: int
    versions: Mapping[str, int]
    seen: tuple[Seen, ...]
    incomparable: tuple[datetime, ...]
    """published under another config, and not yet marked so in the ledger"""
    near: tuple[Stretch, ...]
    """around newly landed rows, by the statistics of their files; only the rows show which intervals are touched"""
    stretches: tuple[Stretch, ...]
    needs_all: bool
    """everything must be looked at: landed rows were deleted, quarantined ones reconsidered, or an erasure ends"""

    @property
    def needs_spark(self) -> bool:
        """Whether rows have to be looked at."""
        return bool(self.near or self.stretches or self.needs_all)

    @property
    def can_be_undated(self) -> bool:
        """Whether a newly landed label may lack an event time, so that the keys of all rows have to be looked at."""
        return AT_ANY_TIME in self.near

    @property
    def starts(self) -> list[datetime]:
        """Starts of all comparable published intervals."""
        return instants_of(np.sort(np.concatenate([_NONE, *(one.starts for one in self.seen)])))

    def within(self, stretches: Iterable[Stretch], length: timedelta) -> list[datetime]:
        """Starts of the comparable published intervals (each of this length) that overlap one of the stretches.

        Args:
            stretches: with both ends included.
            length: of every interval.
        """
        wanted = list(stretches)
        found = [one.overlapping(stretch, length) for one in self.seen for stretch in wanted]
        return instants_of(np.unique(np.concatenate([_NONE, *found])))

    def plan_of(self, start: datetime) -> Plan:
        """The plan of the standing publication of an interval.

        Args:
            start: start of an interval that has one, and whose row is read whole.
        """
        return Plan.from_json(self.standing.rows[start]["plan"])

    @property
    def as_pass(self) -> Pass:
        """The pass as its commit records it."""
        return Pass(self.number, self.known, self.standing.newest, self.versions)
