"""The expected result: labels and state of every served row, and every count, computed independently.

The rules are implemented here a second time, from the facts that the generator knows. No message is read, and neither
Spark nor the rules in `windrow.semantics` are used, so that a mistake there is not repeated here.

    served row          window (both ends in)                  label side's event clock
    ----|----------------------------------]-------------------------|----------------> event time
       l.t                             l.t + after        newest label event - out-of-orderness

A row is complete if the event clock of at least one label partition is beyond the end of its window; otherwise the
clock passed by idling alone, and the row is `side_silent`. Records are iterated twice and never kept: memory grows with
labels and retries, not with rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice, takewhile
from operator import itemgetter
from typing import Literal, NamedTuple

from windrow.semantics.intervals import MICROSECOND, at_micros, micros
from windrow.semantics.labels import LABEL_QUARANTINED, NULL_KEY, SIDE_SILENT
from windrow.simulate.record import SimulatedRecord

State = Literal["positive", "negative", "unknown"]


@dataclass(frozen=True)
class JoinRules:
    """Join rules of the pipeline file; `out_of_orderness` is that of the only label stream."""

    start: datetime
    interval: timedelta
    after: timedelta
    out_of_orderness: timedelta
    before: timedelta = timedelta(0)
    silence: Literal["unknown", "negative"] = "unknown"


class Expected(NamedTuple):
    """One row of the training table; `labels` are event ids in row order; offsets begin at 0."""

    id: str
    event_at: datetime
    interval_at: datetime
    partition: int
    offset: int
    labels: tuple[str, ...]
    state: State
    reason: str | None


@dataclass
class IntervalTruth:
    """Counts of an interval: `left_landed = rows + duplicate`, `rows = positive + negative + unknown`."""

    rows: int = 0
    duplicate: int = 0
    positive: int = 0
    negative: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    """Unknown rows by reason."""
    labels: int = 0
    """Labels over all rows: one label of three rows counts three times."""

    @property
    def left_landed(self) -> int:
        """Landed left rows, duplicates included."""
        return self.rows + self.duplicate


@dataclass(frozen=True)
class Counts:
    """Counts of all records and all rows: nothing disappears."""

    produced: dict[tuple[str, int], int]
    """Records by topic and partition; also the next offset of a partition that began empty."""
    fates: dict[str, Counter[str]]
    """By topic: landed, filtered, quarantined, before_start and lost."""
    kinds: dict[str, Counter[str]]
    """By topic: served, click, purchase, and every kind of poison; `retry` for producer retries."""
    intervals: dict[datetime, IntervalTruth]
    """By the interval's start; intervals without rows are not listed."""

    @property
    def total(self) -> IntervalTruth:
        """Sum over all intervals."""
        sums = IntervalTruth()
        for one in self.intervals.values():
            sums.rows += one.rows
            sums.duplicate += one.duplicate
            sums.positive += one.positive
            sums.negative += one.negative
            sums.labels += one.labels
            sums.unknown.update(one.unknown)
        return sums

    def landing(self, topic: str) -> dict[str, int]:
        """Offsets of a topic: `read`, `landed` (including filtered and before_start), `quarantined`."""
        fates = self.fates.get(topic, Counter())
        kept = fates["landed"] + fates["filtered"] + fates["before_start"]
        return {"read": kept + fates["quarantined"], "landed": kept, "quarantined": fates["quarantined"]}


@dataclass(frozen=True)
class Truth:
    """The expected result of a stream of records after everything has landed and the topics have idled.

    Args:
        records: returns the stream; it is called several times.
        until: count only what is produced before this instant: the result of an interval that was closed by idling in
            the middle of the stream.
    """

    records: Callable[[], Iterable[SimulatedRecord]]
    rules: JoinRules
    until: datetime | None = None

    def rows(self) -> Iterator[Expected]:
        """Yield every row of the training table once, in produce order."""
        return (row for row, _ in self._judged() if row is not None)

    @cached_property
    def counts(self) -> Counts:
        """All counts; iterates over the records again."""
        produced: Counter[tuple[str, int]] = Counter()
        fates: dict[str, Counter[str]] = defaultdict(Counter)
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        intervals: dict[datetime, IntervalTruth] = defaultdict(IntervalTruth)
        for row, record in self._judged():
            fates[record.topic][record.fate] += 1
            kinds[record.topic]["retry" if record.again else record.kind] += 1
            if record.fate != "lost":
                produced[record.topic, record.partition] += 1
            if row is not None:
                _add(intervals[row.interval_at], row)
            elif record.side == "left" and record.fate == "landed" and record.event_us is not None:
                intervals[self._interval_at(record.event_us)].duplicate += 1
        return Counts(dict(produced), dict(fates), dict(kinds), dict(sorted(intervals.items())))

    def _kept(self) -> Iterator[tuple[int, SimulatedRecord]]:
        """Records up to `until`, each with its offset in a topic that began empty."""
        end = None if self.until is None else micros(self.until)
        offsets: Counter[tuple[str, int]] = Counter()
        for record in self.records():
            if end is not None and record.produced_us >= end:
                return
            where = record.topic, record.partition
            yield offsets[where], record
            if record.fate != "lost":
                offsets[where] += 1

    def _judged(self) -> Iterator[tuple[Expected | None, SimulatedRecord]]:
        """Every record; with a training row if it is the first one of a left event."""
        retried = self._labels.left_again
        for offset, record in self._kept():
            counts = record.side == "left" and record.fate == "landed" and not record.again
            if not counts or record.event_us is None:
                yield None, record
                continue
            here = record.partition, offset
            partition, first = min(here, retried.get((record.id, record.event_us), here))
            labels, state, reason = self._state(record)
            at, interval_at = at_micros(record.event_us), self._interval_at(record.event_us)
            yield Expected(record.id, at, interval_at, partition, first, labels, state, reason), record

    def _state(self, left: SimulatedRecord) -> tuple[tuple[str, ...], State, str | None]:
        assert left.event_us is not None
        if left.key is None:
            return (), "unknown", NULL_KEY
        facts = self._labels
        begin = left.event_us - self.rules.before // MICROSECOND
        end = left.event_us + self.rules.after // MICROSECOND
        of_key = facts.in_order(left.key)
        first = bisect_left(of_key, begin, key=itemgetter(0))
        labels = tuple(name for _, _, name in takewhile(lambda label: label[0] <= end, islice(of_key, first, None)))
        silent = self.rules.silence == "unknown" and (facts.clock_us is None or end >= facts.clock_us)
        damaged = any(at is None or begin <= at <= end for at in facts.damaged.get(left.key, ()))
        reason = LABEL_QUARANTINED if damaged else SIDE_SILENT if silent else None
        if labels:
            return labels, "positive", reason
        return labels, "unknown" if reason else "negative", reason

    def _interval_at(self, us: int) -> datetime:
        start, length = micros(self.rules.start), self.rules.interval // MICROSECOND
        return at_micros(start + (us - start) // length * length)

    @cached_property
    def _labels(self) -> _Labels:
        """First pass: labels by key, the label clock, and retried left events."""
        facts = _Labels()
        newest: dict[int, int] = {}
        for offset, record in self._kept():
            here = record.partition, offset
            if record.side == "left":
                if record.again and record.event_us is not None:
                    facts.left_again[record.id, record.event_us] = min(
                        here, facts.left_again.get((record.id, record.event_us), here)
                    )
                continue
            if record.fate in ("landed", "filtered") and record.event_us is not None:
                at = record.event_us
                newest[record.partition] = max(at, newest.get(record.partition, at))
                if record.fate == "landed" and record.key is not None:
                    of_key = facts.by_key.setdefault(record.key, {})
                    of_key[record.id, at] = min(here, of_key.get((record.id, at), here))
            elif record.fate == "quarantined" and record.key is not None:
                facts.damaged.setdefault(record.key, []).append(record.event_us)
        if newest:
            facts.clock_us = max(newest.values()) - self.rules.out_of_orderness // MICROSECOND
        return facts


@dataclass
class _Labels:
    """Facts of the first pass, by key: a place is (partition, offset).

    `by_key`: (id, time) → place of each label's first record; `damaged`: times of quarantined labels; `left_again`:
    (id, time) → first place of a retried left event; `clock_us`: the label side's event clock.
    """

    by_key: dict[tuple[object, ...], dict[tuple[str, int], tuple[int, int]]] = field(default_factory=dict)
    damaged: dict[tuple[object, ...], list[int | None]] = field(default_factory=dict)
    left_again: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    clock_us: int | None = None
    sorted_keys: dict[tuple[object, ...], list[tuple[int, tuple[int, int], str]]] = field(default_factory=dict)

    def in_order(self, key: tuple[object, ...]) -> list[tuple[int, tuple[int, int], str]]:
        """Labels of a key as (time, (partition, offset), name), in row order."""
        if key not in self.by_key:
            return []
        if key not in self.sorted_keys:
            of_key = self.by_key[key]
            self.sorted_keys[key] = sorted((at, where, name) for (name, at), where in of_key.items())
        return self.sorted_keys[key]


def _add(sums: IntervalTruth, row: Expected) -> None:
    sums.rows += 1
    sums.labels += len(row.labels)
    if row.state == "positive":
        sums.positive += 1
    elif row.state == "negative":
        sums.negative += 1
    else:
        sums.unknown[str(row.reason)] += 1
