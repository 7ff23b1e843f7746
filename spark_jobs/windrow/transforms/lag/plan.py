"""The distinct lags, clocks and closings of a set of lag scenarios: plain values that travel to workers.

    60 scenarios ──▶ a few lags (orders of arrival) × a few clocks (policy, out-of-orderness)
                     × closings (how far behind a row's time its window closes, and with which interval)

All times are microseconds since 1970, all durations microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from windrow.config import Pipeline
from windrow.semantics.clock import PartitionClock, current
from windrow.semantics.intervals import MICROSECOND, micros, shifted
from windrow.semantics.lag.scenario import ZERO, Lag, LagScenario, Policy
from windrow.semantics.lag.setting import LabelStream, LagSetting, PartitionId

NONE = -(2**62)
"""Minus infinity, for "no clock yet". Subtracting an out-of-orderness from it stays below `NO_TIME`."""
NO_TIME = -(2**61)
"""Every value below this one means "no clock yet"."""

EVENTS_PER_BUCKET = 200_000
ROWS_PER_CHUNK = 50_000
READ_AFTER_CLOSE = timedelta(hours=1)
"""Event time that is read after the last window can have closed: the events that close it lie there."""


@dataclass(frozen=True)
class ClockPlan:
    """One clock over all partitions. `out_of_orderness`: microseconds, by the partition's index."""

    policy: Policy
    out_of_orderness: tuple[int, ...]


@dataclass(frozen=True)
class Closing:
    """When a row's window has closed: with W beyond the end of its interval plus `wait` (`after` plus grace)."""

    wait: int
    interval: int
    """Length of the interval that the row closes with; 1 where rows close one by one."""


@dataclass(frozen=True)
class IndexedScenario:
    """A scenario as indexes into the plan's lags and clocks. `windows`: (before, after) by label stream."""

    lag: int
    clock: int
    closing: Closing
    windows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LagPlan:
    """A family of scenarios over the left rows of `[begin, end)`.

    Args:
        bucket: length of arrival time that one task scans.
        chunk: length of left event time whose rows one task judges.
    """

    setting: LagSetting
    scenarios: tuple[LagScenario, ...]
    begin: int
    end: int
    bucket: int
    chunk: int

    @cached_property
    def partition_ids(self) -> tuple[PartitionId, ...]:
        """Partitions by their index, in row order."""
        return tuple(sorted(self.setting.partition_ids))

    @cached_property
    def topic_of(self) -> tuple[str, ...]:
        """Topic by partition index."""
        return tuple(topic for topic, _, _ in self.partition_ids)

    @cached_property
    def holds(self) -> tuple[bool, ...]:
        """Whether each partition, by index, belongs to its topic's newest epoch and can hold the clock."""
        holding = {p.identity for p in current(PartitionClock(*key, 0, 0, None, None) for key in self.partition_ids)}
        return tuple(key in holding for key in self.partition_ids)

    @cached_property
    def lags(self) -> tuple[Lag | None, ...]:
        """Distinct lags. The first is None (no lag), which every delay is measured against."""
        return tuple(dict.fromkeys([None, *(scenario.lag for scenario in self.scenarios)]))

    def lagging(self, lag: int) -> tuple[bool, ...]:
        """By partition index: whether the lag is injected there.

        Args:
            lag: index of the lag in `lags`.
        """
        hit = self.setting.lagging(self.lags[lag])
        return tuple(key in hit for key in self.partition_ids)

    @cached_property
    def clocks(self) -> tuple[ClockPlan, ...]:
        """Distinct clocks."""
        return tuple(dict.fromkeys(self._clock(scenario) for scenario in self.scenarios))

    @cached_property
    def indexed(self) -> tuple[IndexedScenario, ...]:
        """The scenarios in their order, as indexes."""
        return tuple(self._indexed(scenario) for scenario in self.scenarios)

    @cached_property
    def used_clocks(self) -> frozenset[tuple[int, int]]:
        """The (lag, clock) pairs that some scenario needs, under its own lag or without any for comparison."""
        return frozenset((lag, one.clock) for one in self.indexed for lag in (0, one.lag))

    def closings(self, clock: int) -> frozenset[Closing]:
        """The closings of a clock.

        Args:
            clock: index of the clock.
        """
        return frozenset(one.closing for one in self.indexed if one.clock == clock)

    def reaches(self, clock: int) -> tuple[tuple[int, int], ...]:
        """For each closing of a clock, how far after a row's time it can lie: (from, to), both included.

        Args:
            clock: index of the clock.

        Returns:
            Microseconds, sorted, without repetitions.
        """
        return tuple(sorted((c.wait, c.wait + c.interval - 1) for c in self.closings(clock)))

    @cached_property
    def widest(self) -> tuple[tuple[int, int], ...]:
        """(before, after) by label stream: the labels that any scenario may match."""
        return tuple(
            (max(one.windows[s][0] for one in self.indexed), max(one.windows[s][1] for one in self.indexed))
            for s in range(len(self.setting.labels))
        )

    def _clock(self, scenario: LagScenario) -> ClockPlan:
        allowed = self.setting.under(scenario).out_of_orderness
        is_used = scenario.policy.kind not in ("fastest_side", "wall")
        return ClockPlan(scenario.policy, tuple(micros(allowed[t]) if is_used else 0 for t in self.topic_of))

    def _indexed(self, scenario: LagScenario) -> IndexedScenario:
        rules = self.setting.under(scenario)
        closing = Closing(micros(rules.after + rules.grace), micros(rules.interval or MICROSECOND))
        windows = tuple((micros(stream.before), micros(stream.after)) for stream in rules.labels)
        clock = self.clocks.index(self._clock(scenario))
        return IndexedScenario(self.lags.index(scenario.lag), clock, closing, windows)


def setting_of(pipeline: Pipeline, partition_ids: Sequence[PartitionId]) -> LagSetting:
    """The pipeline's rules as the analysis needs them, over the partitions that have an event."""
    right = tuple(sorted({topic for stream in pipeline.right for topic in stream.topics}))
    return LagSetting(
        left=pipeline.left.name,
        labels=tuple(LabelStream(s.name, s.window.before, s.window.after) for s in pipeline.label_streams),
        partition_ids=tuple(sorted(partition_ids)),
        sides={**{s.name: s.topics for s in pipeline.streams}, "left": pipeline.left.topics, "right": right},
        out_of_orderness={topic: pipeline.out_of_orderness(topic) for topic in pipeline.topics},
        after=pipeline.after,
        grace=pipeline.grace,
    )


def span_of_events(
    pipeline: Pipeline, scenarios: Sequence[LagScenario], begin: datetime, end: datetime
) -> tuple[datetime, datetime]:
    """Event times, both included, of the events that the clocks need for left rows of [begin, end).

    From the first label that could match a row until `READ_AFTER_CLOSE` after the last window can have closed.
    """
    rules = [setting_of(pipeline, ()).under(scenario) for scenario in scenarios]
    before = max((stream.before for r in rules for stream in r.labels), default=ZERO)
    wait = max(r.after + r.grace + max(r.out_of_orderness.values()) + (r.interval or ZERO) for r in rules)
    return shifted(begin, -before), shifted(end, wait + READ_AFTER_CLOSE)


def plan_of(
    pipeline: Pipeline,
    scenarios: Sequence[LagScenario],
    begin: datetime,
    end: datetime,
    events: Mapping[PartitionId, int],
) -> LagPlan:
    """Plan the distinct scenarios over the left rows of [begin, end).

    Buckets and chunks are cut to `EVENTS_PER_BUCKET` and `ROWS_PER_CHUNK` on average.

    Args:
        events: number of events by partition.
    """
    span = micros(end) - micros(begin)
    left = sum(count for (topic, _, _), count in events.items() if topic in pipeline.left.topics)
    return LagPlan(
        setting_of(pipeline, tuple(events)),
        tuple(dict.fromkeys(scenarios)),
        micros(begin),
        micros(end),
        bucket=max(1, span * EVENTS_PER_BUCKET // max(1, sum(events.values()))),
        chunk=max(1, span * ROWS_PER_CHUNK // max(1, left)),
    )
