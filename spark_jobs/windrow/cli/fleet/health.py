"""health: the state of every pipeline, in the terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from windrow.cli.fleet import names_of
from windrow.cli.show import AsJson, console, print_json
from windrow.jobs.upkeep.health import Health, look, worst_first
from windrow.places import Places
from windrow.semantics.clock import holder
from windrow.semantics.fleet.health import Status, age, holder_reason, waiting_text
from windrow.semantics.fleet.strip import CellState, letters
from windrow.text import counted, escaped, rounded_duration, shown_instant, size_text

WIDTH = 80
_NAME, _STATUS = 20, 9
_COLOURS = {Status.HEALTHY: "green", Status.PAUSED: "dim", Status.LATE: "yellow", Status.HELD: "yellow"}


def health(
    pipelines: Annotated[list[str] | None, typer.Argument(help="Names of pipelines; all without any.")] = None,
    json: AsJson = False,
) -> None:
    """Show the state of every pipeline, the worst first, and what to do next. Exit code 1 if one needs a person.

    failing, blocked, silent, held and late need a person; paused and healthy do not. What each means, and the next
    move, is in dags/README.md. Only the tables are read, and that a DAG is paused is known to Airflow alone: `paused`
    here is a pipeline of which nothing has landed yet, and one that was paused later is late or failing. Times are UTC.

    \b
    windrow health
    windrow health feed ads
    windrow health --json | jq '.[] | select(.needs_person)'
    """
    places = Places.for_tables(os.environ)
    names = pipelines or names_of(places)
    now = datetime.now(UTC)
    found = worst_first(look(names, places, now))
    if json:
        print_json([as_json(one, now) for one in found])
    elif found:
        _print(found, now)
    else:
        console.print("There is no pipeline file yet: dags/pipelines has examples, `windrow demo` makes one.")
    if any(one.status.needs_person for one in found):
        raise typer.Exit(1)


def as_json(one: Health, now: datetime) -> dict[str, Any]:
    """Return the health of a pipeline for programs; dags/README.md lists the fields."""
    seen, slowest = one.seen, holder(one.seen.clocks)
    return {
        "name": seen.name,
        "status": one.status.words,
        "needs_person": one.status.needs_person,
        "findings": [{"status": finding.status.words, "text": finding.text} for finding in one.findings],
        "interval": seen.terms.interval,
        "promise": seen.terms.promise,
        "age": age(seen, now),
        "published_until": seen.published_until,
        "verdict": seen.verdict,
        "why": seen.why,
        "landed_at": seen.landed_at,
        "watermark": seen.watermark,
        "held_by": list(slowest.identity) if slowest else None,
        "held_since": seen.held_since,
        "unpublished": [interval.start for interval in seen.unpublished],
        "blocked": [{"interval": start, "why": why} for start, why in sorted(seen.blocked.items())],
        "topics": [{"name": topic.name, "newest_at": topic.newest_at, "lag": topic.lag} for topic in seen.topics],
        "strip": [
            {
                "interval": cell.interval.start,
                "state": cell.state.word,
                "rows": cell.rows,
                "label_rate": cell.label_rate,
                "unknown_rate": cell.unknown_rate,
            }
            for cell in one.strip
        ],
        "waiting": _waiting_json(one),
        "snapshots": seen.snapshots,
        "snapshot_bytes": seen.snapshot_bytes,
    }


def _waiting_json(one: Health) -> dict[str, Any] | None:
    if one.seen.waiting is None:
        return None
    beyond, waiting = one.seen.waiting, one.seen.waiting.waiting
    return {
        "rows": waiting.rows,
        "bytes": waiting.bytes,
        "oldest": waiting.oldest.start,
        "age": waiting.age,
        "policy": one.seen.policy,
        "exceeded": list(beyond.exceeded),
        "forced": [interval.start for interval in beyond.forced],
    }


def _print(found: Sequence[Health], now: datetime) -> None:
    for one in found:
        _print_headline(one, now)
        for line in _lines(one):
            console.print("\n".join(_wrapped(line)))
    used = sorted({cell.state for one in found for cell in one.strip}, key=list(CellState).index)
    if used:
        console.print("\n".join(_wrapped("Intervals: " + ", ".join(f"{s.letter} {s.word}" for s in used), indent="")))


def _print_headline(one: Health, now: datetime) -> None:
    name = escaped(one.seen.name)
    text = Text(f"{name:{_NAME}} ", style="bold")
    text.append(f"{one.status.words:{_STATUS}}", style=_COLOURS.get(one.status, "red"))
    text.append(_age(one, now), style="not bold")
    console.print(text)


def _age(one: Health, now: datetime) -> str:
    old, promise = age(one.seen, now), rounded_duration(one.seen.terms.promise)
    if one.seen.broken:
        return ""
    return f" nothing published, promised {promise}" if old is None else f" {rounded_duration(old)} old of {promise}"


def _lines(one: Health) -> list[str]:
    seen, lines = one.seen, [finding.text for finding in one.findings]
    if one.strip:
        first, last = one.strip[0].interval, one.strip[-1].interval
        lines.append(f"{letters(one.strip)}  {first.start:%d.%H:%M} to {last.end:%d.%H:%M}")
    if seen.watermark:
        slowest = holder_reason(seen.clocks, seen.terms.idle_mode)
        lines.append(f"watermark {shown_instant(seen.watermark)}, {slowest}")
    if seen.waiting and seen.waiting.waiting.rows:
        lines.append(waiting_text(seen.waiting.waiting))
    if seen.snapshots:
        lines.append(f"{counted(seen.snapshots, 'snapshot')}, {size_text(seen.snapshot_bytes)} for them only")
    return lines


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    lines = escaped(text, keep="\n").splitlines()
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            line,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


COMMANDS: dict[str, Callable[..., None]] = {"health": health}
