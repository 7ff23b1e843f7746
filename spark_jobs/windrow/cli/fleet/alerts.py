"""alerts: conditions that need a person, as the DAG `windrow.alerts` recorded them."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from windrow.cli.fleet import names_of
from windrow.cli.show import AsJson, console, print_json
from windrow.io.registers import alerts as register
from windrow.places import Places
from windrow.semantics.alerts.conditions import Condition
from windrow.semantics.alerts.register import Alert
from windrow.text import escaped, rounded_duration, shown_instant

NEWEST = 20
"""Alerts that are over and shown."""


def alerts(
    pipelines: Annotated[list[str] | None, typer.Argument(help="Names of pipelines; all without any.")] = None,
    json: AsJson = False,
) -> None:
    """List alerts, the open ones first, then the newest that are over; and who is still to be told.

    The DAG windrow.alerts records and tells them; `windrow health` looks at this moment. Times are UTC.

    \b
    windrow alerts
    windrow alerts --json | jq '.[] | select(.ended_at == null)'
    """
    places, now = Places.for_tables(os.environ), datetime.now(UTC)
    names = pipelines or [*filter(str.isidentifier, names_of(places))]
    found = [(name, one) for name in names for one in register.known(places, name, now)[0]]
    still_open = sorted((one for one in found if one[1].ended_at is None), key=lambda one: one[1].begun_at)
    over = sorted((one for one in found if one[1].ended_at), key=lambda one: one[1].ended_at or now, reverse=True)
    shown = [*still_open, *over[:NEWEST]]
    if json:
        print_json([as_json(name, one) for name, one in shown])
    elif not shown:
        console.print("There is no alert. Is the DAG windrow.alerts on? `windrow health` looks at this moment.")
    for name, one in () if json else shown:
        _print(name, one, now)


def as_json(name: str, one: Alert) -> dict[str, Any]:
    """Return an alert for programs; dags/README.md lists the fields."""
    return {
        "id": one.id,
        "pipeline": name,
        "condition": one.condition,
        "subject": one.subject,
        "begun_at": one.begun_at,
        "ended_at": one.ended_at,
        "cause": one.cause,
        "move": one.move,
        "outcome": one.outcome or None,
        "to_tell": [{"event": event, "notifier": notifier} for event, notifier in one.due],
    }


def _print(name: str, one: Alert, now: datetime) -> None:
    about = f" ({one.subject})" if one.subject else ""
    lasted = rounded_duration((one.ended_at or now) - one.begun_at)
    state = "over, lasted" if one.ended_at else "open for"
    console.print(f"{name}: {Condition(one.condition).words}{about}, {state} {lasted}")
    begun = shown_instant(one.begun_at.replace(microsecond=0))
    console.print(f"  since {begun}: {escaped(one.cause)}")
    console.print(f"  {escaped(one.outcome)}" if one.ended_at else f"  {escaped(one.move)}")
    if one.due:
        console.print(f"  not told yet: {', '.join(f'{notifier} ({event})' for event, notifier in one.due)}")


COMMANDS: dict[str, Callable[..., None]] = {"alerts": alerts}
