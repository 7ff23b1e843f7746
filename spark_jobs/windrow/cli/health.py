"""health: the state of every pipeline, in the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from windrow.cli.show import AsJson, console, print_json, print_table
from windrow.config import discover
from windrow.jobs.health import look
from windrow.places import Places
from windrow.semantics.health import Finding, Seen, State, findings, state
from windrow.text import size_text


def health(
    pipelines: Annotated[list[str] | None, typer.Argument(help="Names of pipelines; all without any.")] = None,
    json: AsJson = False,
) -> None:
    """Show the state of every pipeline, and what to do next. Exit code 1 if one needs a person."""
    places = Places.from_env(os.environ)
    names = pipelines or sorted(discover(places.pipelines))
    now = datetime.now(UTC)
    found = [(seen, findings(seen, now)) for seen in look(names, places)]
    if json:
        print_json([_as_json(seen, notes) for seen, notes in found])
    elif found:
        _print(found)
    else:
        console.print("There is no pipeline file yet: dags/pipelines has examples, `windrow demo` makes one.")
    if any(state(notes) is State.PERSON for _, notes in found):
        raise typer.Exit(1)


def _as_json(seen: Seen, notes: list[Finding]) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(seen).items() if name not in ("unpublished", "blocked")},
        "state": state(notes).words,
        "unpublished": [interval.start for interval in seen.unpublished],
        "blocked": [{"interval": start, "why": why} for start, why in sorted(seen.blocked.items())],
        "findings": [{"state": one.state.words, "text": one.text} for one in notes],
    }


def _print(found: list[tuple[Seen, list[Finding]]]) -> None:
    columns = ("pipeline", "state", "published_until", "watermark", "verdict", "snapshots")
    rows = [
        {
            "pipeline": seen.name,
            "state": state(notes).words,
            "published_until": seen.published_until,
            "watermark": seen.watermark,
            "verdict": seen.verdict,
            "snapshots": f"{seen.snapshots} ({size_text(seen.snapshot_bytes)})" if seen.snapshots else None,
        }
        for seen, notes in found
    ]
    print_table(rows, columns)
    for seen, notes in found:
        for note in notes:
            console.print(f"{seen.name}: {note.text}")


COMMANDS: dict[str, Callable[..., None]] = {"health": health}
