"""Alerts: conditions with their begin, their end and who is to be told, folded from the rows of their register.

    begun ──▶ told_begun (once per notifier) ─┐
    ended ──▶ told_ended (once per notifier) ─┴▶ nobody is left to be told

A row is never changed. Whom a begin or an end is told to is decided when it is recorded: a notifier that is added later
is told of what happens from then on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from windrow.semantics.alerts.conditions import Condition, Holding
from windrow.text import instant_text

BEGUN, ENDED, TOLD = "begun", "ended", "told_"
"""Events of the register; `told_begun` and `told_ended` say that a notifier has been told."""

Row = Mapping[str, Any]
"""A row of the `alerts` table by column (`schemas.ALERTS`)."""


@dataclass(frozen=True)
class Alert:
    """A condition that has begun."""

    id: str
    """16 hex digits; the same for begin and end"""
    condition: str
    subject: str
    begun_at: datetime
    cause: str
    move: str
    ended_at: datetime | None = None
    outcome: str = ""
    """what is the case at its end"""
    due: tuple[tuple[str, str], ...] = ()
    """(event, notifier) that is still to be told, in order"""


def alert_id(pipeline: str, holding: Holding, now: datetime) -> str:
    """Return the id of a condition that begins now."""
    return hashlib.sha256("\n".join((pipeline, *holding.key, instant_text(now))).encode()).hexdigest()[:16]


def alerts(rows: Iterable[Row]) -> list[Alert]:
    """Return the alerts that rows of the register stand for, oldest begin first; those without a begin are left out."""
    found: dict[str, Alert] = {}
    for row in sorted(rows, key=lambda row: (row["at"], row["event"] != BEGUN, row["event"] != ENDED)):
        event, names, alert = row["event"], _names(row), found.get(row["alert"])
        if event == BEGUN:
            found[row["alert"]] = Alert(
                row["alert"],
                row["condition"],
                row["subject"],
                row["at"],
                row["cause"],
                row["move"],
                due=tuple((BEGUN, name) for name in names),
            )
        elif alert is not None and event == ENDED:
            due = (*alert.due, *((ENDED, name) for name in names))
            found[alert.id] = replace(alert, ended_at=row["at"], outcome=row["cause"], due=due)
        elif alert is not None:
            told = {(event.removeprefix(TOLD), name) for name in names}
            found[alert.id] = replace(alert, due=tuple(one for one in alert.due if one not in told))
    return list(found.values())


def changes(known: Iterable[Alert], holding: Sequence[Holding]) -> tuple[list[Holding], list[Alert]]:
    """Return the conditions that begin and the alerts that end at this look.

    While a file or a table cannot be used, nothing else is known of the pipeline, so nothing else ends.

    Args:
        known: alerts of earlier looks.
        holding: what holds now.
    """
    still_open = {(one.condition, one.subject): one for one in known if one.ended_at is None}
    now = {one.key for one in holding}
    is_blind = any(one.condition is Condition.UNUSABLE for one in holding)
    begun = [one for one in holding if one.key not in still_open]
    ended = [] if is_blind else [one for key, one in still_open.items() if key not in now]
    return begun, ended


def row_of(alert: Alert, event: str, now: datetime, notifiers: Iterable[str], cause: str = "", move: str = "") -> Row:
    """Return the row of an event.

    Args:
        notifiers: who is to be told of it, or who was told.
    """
    return {
        "alert": alert.id,
        "condition": alert.condition,
        "subject": alert.subject,
        "event": event,
        "at": now,
        "cause": cause,
        "move": move,
        "notifiers": ",".join(notifiers),
    }


def _names(row: Row) -> list[str]:
    return [name for name in (row["notifiers"] or "").split(",") if name]
