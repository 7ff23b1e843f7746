"""What a lag analysis is about: the events of a range of time, and what the pipeline says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from windrow.semantics.intervals import EPOCH, MICROSECOND, Interval, interval_of, shifted
from windrow.semantics.lag.scenario import ZERO, Lag, Scenario, Unusable
from windrow.semantics.match import Key
from windrow.semantics.records import RowId

Place = tuple[str, int, int]
"""topic, epoch, partition"""


@dataclass(frozen=True)
class Event:
    """A landed record with a trusted event time: it moves clocks, and may be a left row or a label.

    record_at: its time on the broker. keys: by the stream that it is a row of (its `where` selects it, and it is
    no producer's retry), its key there; None where a key column is null. Empty for what only moves clocks.
    """

    row_id: RowId
    event_at: datetime
    record_at: datetime
    keys: Mapping[str, Key | None] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return (self.row_id.topic, self.row_id.epoch, self.row_id.partition)


@dataclass(frozen=True)
class LabelStream:
    """A right stream of role `label` and its window."""

    name: str
    before: timedelta
    after: timedelta


@dataclass(frozen=True)
class Setting:
    """The pipeline as the analysis sees it.

    places: every partition that has an event; a partition that is not named here holds nobody. sides: the topics
    of `left`, of `right`, and of each stream by its name. after: what closing waits for, the largest `after` of
    all right streams. interval: None where rows close one by one (`l.t + after + grace < W`), or the length of the
    intervals that they close with.
    """

    left: str
    labels: tuple[LabelStream, ...]
    places: tuple[Place, ...]
    sides: Mapping[str, tuple[str, ...]]
    out_of_orderness: Mapping[str, timedelta]
    after: timedelta
    grace: timedelta = ZERO
    interval: timedelta | None = None

    def under(self, scenario: Scenario) -> Setting:
        """With what the scenario replaces."""
        labels, after, disorder = self.labels, self.after, dict(self.out_of_orderness)
        if scenario.before is not None:
            labels = tuple(replace(stream, before=scenario.before) for stream in labels)
        if scenario.after is not None:
            labels = tuple(replace(stream, after=scenario.after) for stream in labels)
            after = scenario.after
        if scenario.out_of_orderness is not None:
            disorder = dict.fromkeys(disorder, scenario.out_of_orderness)
        grace = self.grace if scenario.grace is None else scenario.grace
        return replace(
            self, labels=labels, after=after, out_of_orderness=disorder, grace=grace, interval=scenario.interval
        )

    def unit(self, event_at: datetime) -> Interval:
        """What a left row closes with: its interval, or the one microsecond that it stands in."""
        if self.interval is not None:
            return interval_of(event_at, EPOCH, self.interval)
        return Interval(event_at, shifted(event_at, MICROSECOND))

    def lagging(self, lag: Lag | None) -> frozenset[Place]:
        """The partitions that a lag is injected on."""
        if lag is None:
            return frozenset()
        topics = {topic for topic, _, _ in self.places} if lag.side == "both" else self.sides.get(lag.side, (lag.side,))
        hit = frozenset(p for p in self.places if p[0] in topics and (not lag.partitions or p[2] in lag.partitions))
        if not hit:
            where = f"partitions {list(lag.partitions)} of {lag.side}" if lag.partitions else lag.side
            known = ", ".join(f"{topic}/{partition}" for topic, _, partition in self.places) or "none"
            raise Unusable(
                f"nothing would lag: {where} has no event here. A side is left, right, both, a stream or a topic; "
                f"partitions with events are {known}"
            )
        return hit
