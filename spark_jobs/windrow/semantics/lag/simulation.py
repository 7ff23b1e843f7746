"""A lag scenario, event by event: slow and obvious, the oracle that the Spark version must agree with exactly.

    events ──lag──▶ in order of arrival ──┬─ a left row: opens, or is missing if its window has closed
    (ties in row order)                   ├─ a label: is kept for all rows that it could match
                                          └─ then the clock is read, and the rows that it closes leave

The order at one arrival is that of Windrow: land, then advance the clock, then close. So the event that moves the clock
is itself in time.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from windrow.semantics.close import frontier, is_closed
from windrow.semantics.intervals import EPOCH, MICROSECOND, Interval, utc
from windrow.semantics.labels import label_state
from windrow.semantics.lag.clocks import clock_of
from windrow.semantics.lag.outcome import COUNT_OPEN_EVERY, LagOutcome, Spread, rounded_up, spread_of
from windrow.semantics.lag.scenario import ZERO, LagScenario
from windrow.semantics.lag.setting import Event, LagSetting
from windrow.semantics.match import Key, matches
from windrow.semantics.records import RowId

Arrival = tuple[datetime, Event]
Labels = dict[tuple[str, Key], list[Event]]
"""(stream, key) → labels"""


@dataclass(frozen=True)
class RowOutcome:
    """How one left row ended. `left_at` is None where the row is missing or still open."""

    event: Event
    is_missing: bool
    left_at: datetime | None
    labels: int
    lost: int


def simulate(events: Iterable[Event], scenario: LagScenario, setting: LagSetting) -> LagOutcome:
    """Return the outcome of a scenario for the left rows among the events.

    Raises:
        NotAnalysable: the lag hits nothing.
    """
    events = list(events)
    rules = setting.under(scenario)
    lagged = _Run(events, scenario, rules)
    calm = lagged if scenario.lag is None else _Run(events, replace(scenario, lag=None), rules)
    left_without_lag = {row.event.row_id: row.left_at for row in calm.rows}
    return _outcome(lagged.rows, left_without_lag, lagged.peak)


def arrivals(events: Iterable[Event], scenario: LagScenario, setting: LagSetting) -> list[Arrival]:
    """(arrival, event) in the order in which a consumer receives them."""
    lag, lagging = scenario.lag, setting.lagging(scenario.lag)

    def arrival(event: Event) -> datetime:
        return lag.arrival(event.record_at) if lag and event.partition_id in lagging else utc(event.record_at)

    arrived = [(arrival(event), event) for event in events]
    return sorted(arrived, key=lambda a: (a[0], a[1].event_at, a[1].row_id))


class _Run:
    """One pass over all arrivals of a scenario; `rows` holds the outcome of every left row."""

    def __init__(self, events: list[Event], scenario: LagScenario, rules: LagSetting) -> None:
        self.rules = rules
        self.rows: list[RowOutcome] = []
        self.peak = 0
        self.frontier: datetime | None = None
        self.open: list[tuple[Interval, datetime, RowId, Event]] = []
        self.landed: Labels = defaultdict(list)
        self.all_labels: Labels = defaultdict(list)
        for event in events:
            self._add_label(event, self.all_labels)
        in_order = arrivals(events, scenario, rules)
        if in_order:
            self._replay(in_order, scenario)

    def _replay(self, in_order: list[Arrival], scenario: LagScenario) -> None:
        clock = clock_of(scenario.policy, self.rules, in_order[0][0])
        last = in_order[0][0]
        for now, event in in_order:
            for tick in _ticks(last, now, scenario.policy.tick):
                self._count_open(last, tick)
                self._close(tick, clock.read(tick, None))
                last = tick
            self._count_open(last, now)
            self._land(event)
            self._close(now, clock.read(now, event))
            last = now
        self.peak = max(self.peak, len(self.open))
        for _, _, _, event in self.open:
            self.rows.append(RowOutcome(event, False, None, self._matched(event, self.all_labels), 0))

    def _land(self, event: Event) -> None:
        """Keep an arriving label for all rows, and open an arriving row, or count it as missing."""
        self._add_label(event, self.landed)
        if self.rules.left not in event.keys:
            return
        unit = self.rules.closing_unit(event.event_at)
        if is_closed(unit, self.frontier):
            lost = self._matched(event, self.all_labels)
            self.rows.append(RowOutcome(event, True, None, lost, lost))
        else:
            heapq.heappush(self.open, (unit, event.event_at, event.row_id, event))

    def _close(self, now: datetime, watermark: datetime | None) -> None:
        """Let the rows leave whose window the watermark closes; `open` is a heap with the earliest interval first."""
        self.frontier = frontier(watermark, self.rules.after, self.rules.grace)
        while self.open and is_closed(self.open[0][0], self.frontier):
            event = heapq.heappop(self.open)[-1]
            labels = self._matched(event, self.all_labels)
            self.rows.append(RowOutcome(event, False, now, labels, labels - self._matched(event, self.landed)))

    def _count_open(self, last: datetime, now: datetime) -> None:
        """Count the open rows if a full minute lies in (last, now]: all that happened before it has been applied."""
        if (last - EPOCH) // COUNT_OPEN_EVERY != (now - EPOCH) // COUNT_OPEN_EVERY:
            self.peak = max(self.peak, len(self.open))

    def _add_label(self, event: Event, labels: Labels) -> None:
        for name, key in event.keys.items():
            if name != self.rules.left and key is not None:
                labels[name, key].append(event)

    def _matched(self, row: Event, labels: Labels) -> int:
        """Number of these labels that match the row, over all label streams."""
        key = row.keys[self.rules.left]
        return sum(
            matches(row.event_at, label.event_at, stream.before, stream.after)
            for stream in self.rules.labels
            if key is not None
            for label in labels.get((stream.name, key), ())
        )


def _ticks(last: datetime, now: datetime, tick: timedelta | None) -> Iterator[datetime]:
    """Instants of the UTC grid of `tick` in (last, now]."""
    if tick is None:
        return
    at = EPOCH + ((last - EPOCH) // tick + 1) * tick
    while at <= now:
        yield at
        at += tick


def _outcome(rows: list[RowOutcome], left_without_lag: dict[RowId, datetime | None], peak: int) -> LagOutcome:
    missing = [row for row in rows if row.is_missing]
    left = [row for row in rows if row.left_at is not None]
    left_too_early = [row for row in left if row.lost]
    pairs = [(row.left_at, left_without_lag[row.event.row_id]) for row in left]
    later_by = [at - calm for at, calm in pairs if at is not None and calm is not None]
    waits = [max(ZERO, row.left_at - utc(row.event.event_at)) for row in left if row.left_at is not None]
    return LagOutcome(
        rows_total=len(rows),
        rows_missing=len(missing),
        rows_closed_too_early=len(missing) + len(left_too_early),
        rows_open=len(rows) - len(missing) - len(left),
        labels_total=sum(row.labels for row in rows),
        labels_lost=sum(row.lost for row in rows),
        states_flipped=dict(Counter(flip for row in rows if (flip := _states(row))[0] != flip[1])),
        delay=_spread([d for d in later_by if d > ZERO]) if later_by else None,
        wait=_spread(waits) if waits else None,
        open_rows_peak=peak,
    )


def _states(row: RowOutcome) -> tuple[str, str]:
    """State with all labels, and state as the row left."""
    full = label_state(has_label=row.labels > 0).state
    return (full, "missing" if row.is_missing else label_state(has_label=row.labels > row.lost).state)


def _spread(durations: list[timedelta]) -> Spread:
    micros = [d // MICROSECOND for d in durations]
    return spread_of(Counter(rounded_up(m) for m in micros), max(micros, default=0), sum(micros))
