"""Which lags, clocks and closings a set of lag scenarios needs, each once: plain values that travel to workers.

    60 scenarios ──▶ a few lags (orders of arrival) × a few clocks (policy, out-of-orderness)
                     × closings (how far behind a row's time its window closes, and with which interval)

All times are microseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from windrow.semantics.clock import PartitionClock, current
from windrow.semantics.intervals import MICROSECOND, micros
from windrow.semantics.lag.scenario import Lag, Policy, Scenario
from windrow.semantics.lag.setting import Setting

NONE = -(2**62)
"""Minus infinity: no clock yet. Everything below `NO_TIME` is none."""
NO_TIME = -(2**61)


@dataclass(frozen=True)
class ClockPlan:
    """One clock over all partitions. `disorder`: by the partition's index."""

    policy: Policy
    disorder: tuple[int, ...]


@dataclass(frozen=True)
class Closing:
    """When a row's window has closed: with W beyond the end of its unit plus `reach`. interval: see `Setting`."""

    reach: int
    interval: int


@dataclass(frozen=True)
class Line:
    """A scenario in indexes. windows: by label stream, before and after."""

    lag: int
    clock: int
    closing: Closing
    windows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LagPlan:
    """A family of scenarios over the left rows of `[begin, end)`.

    bucket: how much arrival time one task scans. chunk: how much left event time one task judges.
    """

    setting: Setting
    scenarios: tuple[Scenario, ...]
    begin: int
    end: int
    bucket: int
    chunk: int

    @cached_property
    def places(self) -> tuple[tuple[str, int, int], ...]:
        """Partitions by their index, in row order."""
        return tuple(sorted(self.setting.places))

    @cached_property
    def topic_of(self) -> tuple[str, ...]:
        return tuple(topic for topic, _, _ in self.places)

    @cached_property
    def holds(self) -> tuple[bool, ...]:
        """Whether a partition is of its topic's newest epoch."""
        holding = {p.identity for p in current(PartitionClock(*place, 0, 0, None, None) for place in self.places)}
        return tuple(place in holding for place in self.places)

    @cached_property
    def lags(self) -> tuple[Lag | None, ...]:
        """No lag is the first: every delay is measured against it."""
        return tuple(dict.fromkeys([None, *(scenario.lag for scenario in self.scenarios)]))

    def lagging(self, lag: int) -> tuple[bool, ...]:
        """By partition: whether the lag is on it."""
        hit = self.setting.lagging(self.lags[lag])
        return tuple(place in hit for place in self.places)

    @cached_property
    def clocks(self) -> tuple[ClockPlan, ...]:
        return tuple(dict.fromkeys(self._clock(scenario) for scenario in self.scenarios))

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The scenarios, in their order."""
        return tuple(self._line(scenario) for scenario in self.scenarios)

    @cached_property
    def wanted(self) -> frozenset[tuple[int, int]]:
        """Lag and clock: the pairs that a scenario looks at, as it is or for comparison."""
        return frozenset((lag, line.clock) for line in self.lines for lag in (0, line.lag))

    def reaches(self, clock: int) -> tuple[tuple[int, int], ...]:
        """How far beyond the times of a chunk's rows the clock is asked for: from, to (both in)."""
        asked = {line.closing for line in self.lines if line.clock == clock}
        return tuple(sorted((c.reach, c.reach + c.interval - 1) for c in asked))

    @cached_property
    def widest(self) -> tuple[tuple[int, int], ...]:
        """By label stream, before and after: the labels that any scenario may match."""
        return tuple(
            (max(line.windows[s][0] for line in self.lines), max(line.windows[s][1] for line in self.lines))
            for s in range(len(self.setting.labels))
        )

    def _clock(self, scenario: Scenario) -> ClockPlan:
        disorder = self.setting.under(scenario).out_of_orderness
        slack = scenario.policy.kind not in ("fastest_side", "wall")
        return ClockPlan(scenario.policy, tuple(micros(disorder[t]) if slack else 0 for t in self.topic_of))

    def _line(self, scenario: Scenario) -> Line:
        rules = self.setting.under(scenario)
        closing = Closing(micros(rules.after + rules.grace), micros(rules.interval or MICROSECOND))
        windows = tuple((micros(stream.before), micros(stream.after)) for stream in rules.labels)
        clock = self.clocks.index(self._clock(scenario))
        return Line(self.lags.index(scenario.lag), clock, closing, windows)
