"""How values are shown to people, and the options that commands share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from windrow.text import instant_text


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """`windrow … | head` is no failure."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


console = _Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else 200)
"""Lines that a log or a pipe gets are not cut at 80 columns."""

PUBLICATION = (
    "number", "kind", "interval", "rows", "positive", "negative", "unknown", "left_duplicate", "verdict",
    "training_version",
)  # fmt: skip
"""What people are shown of a publication."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
PipelineName = Annotated[str, typer.Argument(help="Name of the pipeline, as in its file.", metavar="PIPELINE")]


def instant(at: datetime | None) -> str:
    """`2026-11-01 00:10:00Z`; fractions only where there are any."""
    if at is None:
        return "-"
    text = f"{at:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{at:%f}".rstrip("0") + "Z" if at.microsecond else f"{text}Z"


def span(length: timedelta | None) -> str:
    """`2h 05m 10s`, without fractions."""
    if length is None:
        return ""
    seconds = int(length.total_seconds())
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    first = next((i for i, (n, _) in enumerate(parts) if n), 3)
    return sign + " ".join(f"{n}{unit}" for n, unit in parts[first:])


def as_json(value: Any) -> None:
    """Print JSON; instants in UTC with microseconds, durations in seconds."""

    def plain(x: Any) -> Any:
        if isinstance(x, datetime):
            return instant_text(x)
        return x.total_seconds() if isinstance(x, timedelta) else str(x)

    print(json.dumps(value, default=plain, indent=2))


def rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A table of some columns; numbers to the right."""
    table = Table(box=None)
    for name in columns:
        number = any(isinstance(row[name], int) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if number else "left")
    for row in rows:
        table.add_row(*[_cell(row[name]) for name in columns])
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)
