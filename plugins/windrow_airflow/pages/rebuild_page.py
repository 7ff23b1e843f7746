"""The plan of a rebuild for people: lines for the task's log, and a page behind the task's link.

Intervals, actions, reasons and counts from the result of the job `plan`; no rows of data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from windrow.files import write_whole
from windrow.quality import html
from windrow.text import instant_of, short_instant_text, shown_instant

ACTIONS = {"replace": "replaced", "publish": "published for the first time", "leave": "left alone"}
"""What happens to an interval, by the word of the job's result."""


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the headline, then one line per interval."""
    yield headline(result)
    for row in result.get("intervals", ()):
        changes = f" ({_changes(row)})" if row.get("changes") else ""
        yield f"{short_instant_text(instant_of(row['interval']))}  {_action(row['deed'])}: {row['why']}{changes}"
    if result.get("not_listed"):
        yield f"and {result['not_listed']} more"


def headline(result: Mapping[str, Any]) -> str:
    """Return one sentence: how many intervals are replaced, published or left alone, and the reason."""
    parts = [f"{count} {_action(name)}" for name, count in result.get("counts", {}).items()]
    kind = "Dry run, nothing is changed" if result.get("dry_run") else "Planned"
    rows = f"; {result['rows_replaced']:,} published rows are replaced" if "rows_replaced" in result else ""
    return f"{kind}: {', '.join(parts) or 'no interval'}{rows}. Reason: {result.get('reason', '')}"


def write(result: Mapping[str, Any], pipeline: str, folder: Path) -> Path:
    """Write the page of a plan, named after its run, and as the front page; returns the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(result["run"]))[:150]
    text = page(result, pipeline)
    for file in (folder / f"{name}.html", folder / "index.html"):
        write_whole(file, text)
    return folder / f"{name}.html"


def page(result: Mapping[str, Any], pipeline: str) -> str:
    """Return the page of a plan."""
    start, end = (shown_instant(instant_of(result[name])) if result.get(name) else "" for name in ("from", "to"))
    return html.render(
        "rebuild.html",
        title=f"Rebuild of {pipeline}, {start} to {end}",
        headline=headline(result),
        rows=[{**row, "action": _action(row["deed"]), "changes": _changes(row)} for row in result.get("intervals", ())],
        not_listed=result.get("not_listed"),
    )


def _action(name: str) -> str:
    return ACTIONS.get(name, name)


def _changes(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in row.get("changes", {}).items())
