"""A lag scenario, event by event: slow, obvious, and the oracle that the Spark version must agree with exactly.

    events ──lag──▶ in order of arrival ──┬─ a left row: opens, or is missing if its window has closed
    (ties in row order)                   ├─ a label: waits for all rows that it could meet
                                          └─ then the clock is looked at, and what has closed leaves

The order at one arrival is the product's: land, then advance the clock, then close. So the event that moves the
clock is itself in time.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from windrow.semantics.close import frontier, is_closed
from windrow.semantics.intervals import EPOCH, Interval, utc
from windrow.semantics.labels import label_state
from windrow.semantics.lag.clocks import clock_of
from windrow.semantics.lag.scenario import (
    LOOK_EVERY,
    MICROSECOND,
    ZERO,
    Outcome,
    Scenario,
    Spread,
    rounded,
    spread,
)
from windrow.semantics.lag.setting import Event, Setting
from windrow.semantics.match import Key, matches
from windrow.semantics.records import RowId

Arrival = tuple[datetime, Event]


@dataclass(frozen=True)
class Fate:
    """What became of a left row. `left_at`: when it left; None where it is missing or still open."""

    event: Event
    is_missing: bool
    left_at: datetime | None
    labels: int
    lost: int


def simulate(events: Iterable[Event], scenario: Scenario, setting: Setting) -> Outcome:
    """The outcome for the left rows among the events.

    Raises:
        Unusable: the lag hits nothing.
    """
    events = list(events)
    rules = setting.under(scenario)
    lagged = _Run(events, scenario, rules)
    calm = lagged if scenario.lag is None else _Run(events, replace(scenario, lag=None), rules)
    usual = {fate.event.row_id: fate.left_at for fate in calm.fates}
    return _outcome(lagged.fates, usual, lagged.peak)


def arrivals(events: Iterable[Event], scenario: Scenario, setting: Setting) -> list[Arrival]:
    """In the order in which a consumer sees them."""
    lag, lagging = scenario.lag, setting.lagging(scenario.lag)

    def arrival(event: Event) -> datetime:
        return lag.arrival(event.record_at) if lag and event.place in lagging else utc(event.record_at)

    seen = [(arrival(event), event) for event in events]
    return sorted(seen, key=lambda a: (a[0], a[1].event_at, a[1].row_id))


class _Run:
    """All arrivals of a scenario, once."""

    def __init__(self, events: list[Event], scenario: Scenario, rules: Setting) -> None:
        self.rules = rules
        self.fates: list[Fate] = []
        self.peak = 0
        self.frontier: datetime | None = None
        self.open: list[tuple[Interval, datetime, RowId, Event]] = []
        self.landed: dict[tuple[str, Key], list[Event]] = defaultdict(list)
        self.all = self._labels(events)
        seen = arrivals(events, scenario, rules)
        if seen:
            self._go(seen, scenario)

    def _go(self, seen: list[Arrival], scenario: Scenario) -> None:
        clock = clock_of(scenario.policy, self.rules, seen[0][0])
        last = seen[0][0]
        for now, event in seen:
            for tick in _grid(last, now, scenario.policy.tick):
                self._look(last, tick)
                self._close(tick, clock.look(tick, None))
                last = tick
            self._look(last, now)
            self._land(event)
            self._close(now, clock.look(now, event))
            last = now
        self.peak = max(self.peak, len(self.open))
        for _, _, _, event in self.open:
            self.fates.append(Fate(event, False, None, self._met(event, self.all), 0))

    def _land(self, event: Event) -> None:
        for name, key in event.keys.items():
            if name != self.rules.left and key is not None:
                self.landed[name, key].append(event)
        if self.rules.left not in event.keys:
            return
        unit = self.rules.unit(event.event_at)
        if is_closed(unit, self.frontier):
            lost = self._met(event, self.all)
            self.fates.append(Fate(event, True, None, lost, lost))
        else:
            heapq.heappush(self.open, (unit, event.event_at, event.row_id, event))

    def _close(self, now: datetime, watermark: datetime | None) -> None:
        self.frontier = frontier(watermark, self.rules.after, self.rules.grace)
        while self.open and is_closed(self.open[0][0], self.frontier):
            event = heapq.heappop(self.open)[-1]
            labels = self._met(event, self.all)
            self.fates.append(Fate(event, False, now, labels, labels - self._met(event, self.landed)))

    def _look(self, last: datetime, now: datetime) -> None:
        """Count the open rows if a full minute has come since: what happened before it is done."""
        if (last - EPOCH) // LOOK_EVERY != (now - EPOCH) // LOOK_EVERY:
            self.peak = max(self.peak, len(self.open))

    def _labels(self, events: list[Event]) -> dict[tuple[str, Key], list[Event]]:
        found: dict[tuple[str, Key], list[Event]] = defaultdict(list)
        for event in events:
            for name, key in event.keys.items():
                if name != self.rules.left and key is not None:
                    found[name, key].append(event)
        return found

    def _met(self, row: Event, labels: dict[tuple[str, Key], list[Event]]) -> int:
        key = row.keys[self.rules.left]
        return sum(
            matches(row.event_at, label.event_at, stream.before, stream.after)
            for stream in self.rules.labels
            if key is not None
            for label in labels.get((stream.name, key), ())
        )


def _grid(last: datetime, now: datetime, tick: timedelta | None) -> Iterator[datetime]:
    """Ticks in `(last, now]`."""
    if tick is None:
        return
    at = EPOCH + ((last - EPOCH) // tick + 1) * tick
    while at <= now:
        yield at
        at += tick


def _outcome(fates: list[Fate], usual: dict[RowId, datetime | None], peak: int) -> Outcome:
    missing = [f for f in fates if f.is_missing]
    gone = [f for f in fates if f.left_at is not None]
    early = [f for f in gone if f.lost]
    pairs = [(f.left_at, usual[f.event.row_id]) for f in gone]
    later = [at - before for at, before in pairs if at is not None and before is not None]
    waits = [max(ZERO, f.left_at - utc(f.event.event_at)) for f in gone if f.left_at is not None]
    return Outcome(
        rows_total=len(fates),
        rows_missing=len(missing),
        rows_closed_too_early=len(missing) + len(early),
        rows_open=len(fates) - len(missing) - len(gone),
        labels_total=sum(f.labels for f in fates),
        labels_lost=sum(f.lost for f in fates),
        states_flipped=dict(Counter(flip for f in fates if (flip := _states(f))[0] != flip[1])),
        delay=_spread([d for d in later if d > ZERO]) if later else None,
        wait=_spread(waits) if waits else None,
        open_rows_peak=peak,
    )


def _states(fate: Fate) -> tuple[str, str]:
    """With all labels, and as it left."""
    whole = label_state(has_label=fate.labels > 0).state
    return (whole, "missing" if fate.is_missing else label_state(has_label=fate.labels > fate.lost).state)


def _spread(durations: list[timedelta]) -> Spread:
    micros = [d // MICROSECOND for d in durations]
    return spread(Counter(rounded(m) for m in micros), max(micros, default=0), sum(micros))
