"""alerts: which conditions of a pipeline hold, and what began or ended since the last look. No Spark, no broker.

read      health, clock, outcomes of reconcile, alerts of earlier looks
compute   conditions that hold now                      (`semantics.alerts.conditions`, `semantics.alerts.retention`)
          what began, what ended                        (`semantics.alerts.register`)
write     one commit with both, and whom each is to be told

Telling follows (`windrow_airflow.alerts`). Whom nobody could reach stays due, and is tried again at the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from windrow.home import Home
from windrow.io.ledger import reconciled
from windrow.io.registers import alerts, clocks
from windrow.io.registers.alerts import KEPT
from windrow.io.registers.recent import Recent, earlier_clocks
from windrow.jobs.upkeep import health
from windrow.jobs.upkeep.health import Health, Runs
from windrow.places import Places
from windrow.semantics.alerts.conditions import (
    Condition,
    Holding,
    of_blocked,
    of_findings,
    of_quarantine,
    of_reconciled,
)
from windrow.semantics.alerts.register import BEGUN, ENDED, TOLD, Alert, alert_id, changes, row_of
from windrow.semantics.alerts.retention import of_retention, time_left
from windrow.semantics.clock import ClockRow

BURST = timedelta(hours=1)
"""Over which quarantined records are counted, by landing time."""

Notified = Callable[[str, str], Sequence[str]]
"""(pipeline, condition) → names of the notifiers that are told of it."""


@dataclass(frozen=True)
class Look:
    """What a look found: every alert that is open or still to be told, and the version that the next change follows."""

    pipeline: str
    alerts: tuple[Alert, ...]
    version: int
    status: str
    """of the pipeline, in a word"""

    @property
    def due(self) -> list[tuple[Alert, str, str]]:
        """(alert, event, notifier) that is still to be told, oldest first."""
        return [(alert, event, name) for alert in self.alerts for event, name in alert.due]


def look(
    name: str, places: Places, now: datetime, *, runs: Runs | None, notified: Notified, recent: Recent | None = None
) -> Look:
    """Record what began and what ended since the last look, and return what is open or to be told.

    The caller is the only one that looks (`alerts.looking`).

    Args:
        runs: what Airflow knows of the pipeline's DAGs; None where it was not asked, then no DAG counts as paused or
            failed.
        recent: what was read before, for a process that looks at several pipelines.

    Raises:
        WriteSkipped: another process was faster; nothing was written.
    """
    recent = recent or Recent()
    known, version = alerts.known(places, name, now)
    known_runs = {name: runs} if runs else None
    [found] = health.look([name], places, now, runs=known_runs, known=recent)
    begun, ended = changes(known, holding(found, places, now, recent, known))
    new = [_begun(name, one, now, notified(name, one.condition)) for one in begun]
    over = [_ended(one, now, found, notified(name, one.condition)) for one in ended]
    rows = [row_of(one, BEGUN, now, _names(one, BEGUN), one.cause, one.move) for one in new]
    rows += [row_of(one, ENDED, now, _names(one, ENDED), one.outcome) for one in over]
    version = alerts.record(places, name, rows, version)
    now_known = {one.id: one for one in (*known, *new, *over)}
    left = tuple(one for one in now_known.values() if one.due or one.ended_at is None)
    return Look(name, left, version, found.status.words)


def gone(name: str, places: Places, now: datetime, *, notified: Notified) -> Look:
    """End every alert of a pipeline whose file was taken away, and return what is to be told.

    The caller is the only one that looks (`alerts.looking`).

    Raises:
        WriteSkipped: another process was faster; nothing was written.
    """
    known, version = alerts.known(places, name, now)
    outcome = f"{name} has no pipeline file any more, so nothing is known of it"
    over = [_over(one, now, outcome, notified(name, one.condition)) for one in known if one.ended_at is None]
    rows = [row_of(one, ENDED, now, _names(one, ENDED), one.outcome) for one in over]
    version = alerts.record(places, name, rows, version)
    now_known = {one.id: one for one in (*known, *over)}
    return Look(name, tuple(one for one in now_known.values() if one.due), version, "gone")


def told(place: Places, found: Look, alert: Alert, event: str, notifier: str, now: datetime) -> Look:
    """Record that a notifier was told of an event; return the look without it.

    Raises:
        WriteSkipped: another process was faster; nothing was written.
    """
    row = row_of(alert, f"{TOLD}{event}", now, [notifier])
    version = alerts.record(place, found.pipeline, [row], found.version)
    due = tuple(one for one in alert.due if one != (event, notifier))
    left = tuple(replace(alert, due=due) if one.id == alert.id else one for one in found.alerts)
    return replace(found, alerts=left, version=version)


def holding(found: Health, places: Places, now: datetime, recent: Recent, known: Iterable[Alert] = ()) -> list[Holding]:
    """Return the conditions of a pipeline that hold now.

    Args:
        found: its health.
        recent: what was read for it.
        known: alerts of earlier looks.
    """
    name = found.seen.name
    if found.seen.broken:
        return of_findings(name, found.findings)
    home = Home(recent.pipelines.find(name), places)
    observed = clocks.observe(home)
    before = earlier_clocks(home, observed.number, recent)
    still_open = [one.subject for one in known if one.ended_at is None and one.condition == Condition.BLOCKED]
    return [
        *of_findings(name, found.findings),
        *of_retention(name, time_left(observed.rows, before, now)),
        *of_blocked(found.seen, still_open),
        *of_quarantine(name, observed.rows, _an_hour_before(observed.rows, before)),
        *of_reconciled(name, reconciled.differing(home, now - KEPT)),
    ]


def _an_hour_before(newest: Sequence[ClockRow], before: Sequence[ClockRow]) -> Sequence[ClockRow]:
    """Rows of the newest observation that is an hour older, or of the oldest that was read."""
    if not newest or not before:
        return ()
    until = newest[0]["landed_at"] - BURST
    number = max((row["observation"] for row in before if row["landed_at"] <= until), default=before[-1]["observation"])
    return [row for row in before if row["observation"] == number]


def _begun(name: str, one: Holding, now: datetime, notifiers: Sequence[str]) -> Alert:
    due = tuple((BEGUN, notifier) for notifier in notifiers)
    return Alert(alert_id(name, one, now), one.condition, one.subject, now, one.cause, one.move, due=due)


def _ended(alert: Alert, now: datetime, found: Health, notifiers: Sequence[str]) -> Alert:
    outcome = f"{found.seen.name} is {found.status.words}" + (f": {found.reason}" if found.reason else "")
    return _over(alert, now, outcome, notifiers)


def _over(alert: Alert, now: datetime, outcome: str, notifiers: Sequence[str]) -> Alert:
    due = (*alert.due, *((ENDED, notifier) for notifier in notifiers))
    return replace(alert, ended_at=now, outcome=outcome, due=due)


def _names(alert: Alert, event: str) -> list[str]:
    return [notifier for due, notifier in alert.due if due == event]
