"""How commands show values to people and programs: tables, progress bars, JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from windrow.outcomes import Blocked
from windrow.text import escaped, instant_text, shown_instant

if TYPE_CHECKING:
    from windrow.jobs.check import Refusal


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does, with control characters as escapes: a text may come from a record."""
        texts = [escaped(one, keep="\n") if isinstance(one, str) else one for one in objects]
        super().print(*texts, **options)

    def on_broken_pipe(self) -> None:
        """End with exit code 0: a reader that has seen enough (`windrow … | head`) is not a failure."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


console = _Console(soft_wrap=True, highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
"""Where commands print. A log or a pipe gets 200 columns, so that its lines are not cut at 80."""

PUBLICATION = (
    "number", "kind", "interval", "rows", "positive", "negative", "unknown", "left_duplicate", "verdict",
    "training_version",
)  # fmt: skip
"""Columns of a publication that people are shown."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(value: Any) -> None:
    """Print JSON; instants in UTC with microseconds, durations in seconds."""

    def plain(x: Any) -> Any:
        if isinstance(x, datetime):
            return instant_text(x)
        return x.total_seconds() if isinstance(x, timedelta) else str(x)

    print(json.dumps(value, default=plain, indent=2))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print these columns of the rows; numbers are aligned to the right."""
    table = Table(box=None)
    for name in columns:
        is_number = any(isinstance(row[name], int) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*[Text(_cell(row[name])) for name in columns])
    console.print(table)


@contextmanager
def progress(label: str, total: int, *, is_shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yields a function that takes how many of `total` are done.

    Args:
        is_shown: false for output that programs read.
    """
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not is_shown) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


def raise_blocked(refusals: Iterable[Refusal]) -> None:
    """Raise Blocked with every reason, if there is a refusal."""
    if reasons := [refusal.why for refusal in refusals]:
        raise Blocked("\n\n".join(reasons))


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return shown_instant(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else escaped(value)
