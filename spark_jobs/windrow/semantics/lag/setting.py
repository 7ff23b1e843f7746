"""Input of a lag analysis: the events of a stretch of time, and the pipeline's rules about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from windrow.semantics.intervals import EPOCH, MICROSECOND, Interval, interval_of, shifted
from windrow.semantics.lag.scenario import ZERO, Lag, LagScenario, NotAnalysable
from windrow.semantics.match import Key
from windrow.semantics.records import RowId

PartitionId = tuple[str, int, int]
"""topic, epoch, partition"""


@dataclass(frozen=True)
class Event:
    """A landed record with a trusted event time: it moves clocks, and may be a left row or a label.

    Args:
        record_at: its time on the broker.
        keys: stream → key, for each stream in which the record is a row: the stream's `where` selects it, and it is
            not a producer's retry. A key is None if one of its columns is null. Empty for a record that only moves
            clocks.
    """

    row_id: RowId
    event_at: datetime
    record_at: datetime
    keys: Mapping[str, Key | None] = field(default_factory=dict)

    @property
    def partition_id(self) -> PartitionId:
        """The partition that the record was read from."""
        return (self.row_id.topic, self.row_id.epoch, self.row_id.partition)


@dataclass(frozen=True)
class LabelStream:
    """A right stream of role `label` and its window."""

    name: str
    before: timedelta
    after: timedelta


@dataclass(frozen=True)
class LagSetting:
    """The pipeline's rules, as the analysis needs them.

    Args:
        left: name of the left stream.
        partition_ids: every partition that has an event; no other partition holds a clock.
        sides: topics of `left`, of `right`, and of each stream by its name.
        out_of_orderness: by topic.
        after: how long closing waits, the largest `after` of all right streams.
        interval: length of the intervals that rows close with; None where rows close one by one
            (`l.t + after + grace < W`).
    """

    left: str
    labels: tuple[LabelStream, ...]
    partition_ids: tuple[PartitionId, ...]
    sides: Mapping[str, tuple[str, ...]]
    out_of_orderness: Mapping[str, timedelta]
    after: timedelta
    grace: timedelta = ZERO
    interval: timedelta | None = None

    def under(self, scenario: LagScenario) -> LagSetting:
        """The setting with the values that the scenario replaces."""
        labels, after, out_of_orderness = self.labels, self.after, dict(self.out_of_orderness)
        if scenario.before is not None:
            labels = tuple(replace(stream, before=scenario.before) for stream in labels)
        if scenario.after is not None:
            labels = tuple(replace(stream, after=scenario.after) for stream in labels)
            after = scenario.after
        if scenario.out_of_orderness is not None:
            out_of_orderness = dict.fromkeys(out_of_orderness, scenario.out_of_orderness)
        return replace(
            self,
            labels=labels,
            after=after,
            out_of_orderness=out_of_orderness,
            grace=self.grace if scenario.grace is None else scenario.grace,
            interval=scenario.interval,
        )

    def closing_unit(self, event_at: datetime) -> Interval:
        """The interval that a left row closes with; where rows close one by one, the microsecond of the row."""
        if self.interval is not None:
            return interval_of(event_at, EPOCH, self.interval)
        return Interval(event_at, shifted(event_at, MICROSECOND))

    def lagging(self, lag: Lag | None) -> frozenset[PartitionId]:
        """The partitions that a lag is injected on; empty without a lag.

        Raises:
            NotAnalysable: the lag hits no partition that has an event.
        """
        if lag is None:
            return frozenset()
        every_topic = {topic for topic, _, _ in self.partition_ids}
        topics = every_topic if lag.side == "both" else self.sides.get(lag.side, (lag.side,))
        numbers = lag.partitions
        hit = frozenset(p for p in self.partition_ids if p[0] in topics and (not numbers or p[2] in numbers))
        if not hit:
            where = f"partitions {list(numbers)} of {lag.side}" if numbers else lag.side
            known = ", ".join(f"{topic}/{partition}" for topic, _, partition in self.partition_ids) or "none"
            raise NotAnalysable(
                f"nothing would lag: {where} has no event here. A side is left, right, both, a stream or a topic; "
                f"partitions with events are {known}"
            )
        return hit
