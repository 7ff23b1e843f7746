"""How commands show values to people and programs: tables, progress bars, JSON.

Under `--json` standard output is one JSON document. What people read, progress included, goes to standard error, and
so does an error: one JSON object, which is the last line there. docs/schemas.json has the schema of each.
"""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from windrow.config.problems import PipelineInvalid
from windrow.outcomes import Blocked, ExitCode
from windrow.text import escaped, instant_text, shown_instant

if TYPE_CHECKING:
    from windrow.jobs.check import Refusal


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does, with control characters as escapes: a text may come from a record."""
        texts = [self._fitted(escaped(one, keep="\n")) if isinstance(one, str) else one for one in objects]
        super().print(*texts, **options)

    def _fitted(self, text: str) -> str:
        """Break the lines of a text between words for a terminal; lines set in columns stay, and so do long words."""
        if not self.is_terminal:
            return text
        return "\n".join(_broken(line, self.width) for line in text.split("\n"))

    def on_broken_pipe(self) -> None:
        """End with exit code 0: a reader that has seen enough (`windrow … | head`) is not a failure."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


def _broken(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= width or "  " in line.strip():
        return line
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )


console = _Console(soft_wrap=True, highlight=False, markup=False, width=None if sys.stdout.isatty() else 200)
"""Where commands print. A log or a pipe gets 200 columns, so that its lines are not cut at 80."""

_COLOURS = {"passed": "green", "equal": "green", "warned": "yellow", "late": "yellow", "differs": "red"}
_COLOURS |= dict.fromkeys(("failed", "blocked", "hole"), "red")

PUBLICATION = (
    "number", "kind", "interval", "rows", "positive", "negative", "unknown", "left_duplicate", "verdict",
    "training_version",
)  # fmt: skip
"""Columns of a publication that people are shown."""


def _keep_output_for_json(command: typer.Context, is_wanted: bool) -> bool:
    console.stderr = is_wanted
    command.call_on_close(_print_to_output)
    return is_wanted


def _print_to_output() -> None:
    console.stderr = False


AsJson = Annotated[
    bool,
    typer.Option(
        "--json", callback=_keep_output_for_json, is_eager=True, help="Print one JSON document, for programs."
    ),
]
"""The option of every command; with it, `console` prints to standard error."""


def print_json(value: Any) -> None:
    """Print a JSON document; instants in UTC with microseconds, durations in seconds, a number that is none is null."""
    try:
        print(json.dumps(_plain(value), indent=2, allow_nan=False), flush=True)
    except BrokenPipeError:
        console.on_broken_pipe()


def print_warning(text: str) -> None:
    """Print text on standard error, so that what a program reads has nothing else in it."""
    print(escaped(text, keep="\n"), file=sys.stderr)


def print_error(error: Exception, code: ExitCode) -> None:
    """Print an error as one line of JSON on standard error."""
    found: dict[str, Any] = {
        "code": int(code),
        "name": code.name.lower(),
        "condition": type(error).__name__,
        "message": getattr(error, "format_message", error.__str__)(),  # of wrong options, str() is not a sentence
        "next_move": code.next_move,
    }
    if report := getattr(error, "report", None):
        found["report"] = report
    if isinstance(error, PipelineInvalid):
        found["problems"] = [vars(problem) for problem in error.problems]
    print(json.dumps(_plain(found), allow_nan=False), file=sys.stderr)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Mapping):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def _key(key: Any) -> str:
    return instant_text(key) if isinstance(key, datetime) else str(key)


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print these columns of the rows, numbers to the right. Nothing is cut: too wide a row takes several lines."""
    cells = {name: [_title(name), *(_cell(row[name]) for row in rows)] for name in columns}
    widths = {name: max(map(cell_len, texts)) for name, texts in cells.items()}
    numbers = {name for name in columns if any(isinstance(row[name], int) for row in rows)}
    lines = _lines(columns, widths, console.width)
    for n in range(1 + len(rows)):
        for place, names in enumerate(lines):
            text = Text("    " if place else " ")
            for name in names:
                cell = cells[name][n]
                room = " " * (widths[name] - cell_len(cell))
                text.append(room if name in numbers else "")
                text.append(cell, style=_COLOURS.get(cell, "") if n else "bold")
                text.append("" if name in numbers else room).append("  ")
            text.rstrip()
            console.print(text)


def _lines(columns: Sequence[str], widths: Mapping[str, int], width: int) -> list[list[str]]:
    """The columns of each line of a row; lines after the first are indented."""
    lines: list[list[str]] = [[]]
    for name in columns:
        used = sum(widths[one] + 2 for one in lines[-1]) + (1 if len(lines) == 1 else 4)
        if lines[-1] and used + widths[name] > width:
            lines.append([])
        lines[-1].append(name)
    return lines


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yields a function that takes how many of `total` are done."""
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


def raise_blocked(refusals: Iterable[Refusal]) -> None:
    """Raise Blocked with every reason, if there is a refusal."""
    if reasons := [refusal.why for refusal in refusals]:
        raise Blocked("\n\n".join(reasons))


def _title(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    """A value as a listing has it; an instant to the second (`--json` has all of it)."""
    if isinstance(value, datetime):
        return shown_instant(value.replace(microsecond=0))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else escaped(value)
