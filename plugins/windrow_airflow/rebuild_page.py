"""What a rebuild would do, for people: lines for the task's log, and a page behind the task's link.

Intervals, reasons and counts as the job `plan` tells them; no row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

DEEDS = {"replace": "replaced", "publish": "published for the first time", "leave": "left alone"}


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """One line for the whole, then one an interval."""
    yield headline(result)
    for one in result.get("intervals", ()):
        yield f"{one['interval'][:19]}Z  {DEEDS.get(one['deed'], one['deed'])}: {one['why']}{_changes(one)}"
    if result.get("not_listed"):
        yield f"and {result['not_listed']} more"


def headline(result: Mapping[str, Any]) -> str:
    """What happens to how many intervals."""
    counts = result.get("counts", {})
    parts = [f"{count} {DEEDS.get(deed, deed)}" for deed, count in counts.items()]
    kind = "Dry run, nothing is changed" if result.get("dry_run") else "Planned"
    rows = f"; {result['rows_replaced']:,} published rows are replaced" if "rows_replaced" in result else ""
    return f"{kind}: {', '.join(parts) or 'no interval'}{rows}. Reason: {result.get('reason', '')}"


def write(result: Mapping[str, Any], pipeline: str, folder: Path) -> Path:
    """Write the page of a plan, named after its run, and the front page, which is the newest plan."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(result["run"]))[:150]
    text = page(result, pipeline)
    for file in (folder / f"{name}.html", folder / "index.html"):
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    return folder / f"{name}.html"


def page(result: Mapping[str, Any], pipeline: str) -> str:
    """A page that stands alone."""
    body = "".join(
        f"<tr><td>{escape(one['interval'][:19])}Z</td><td>{escape(DEEDS.get(one['deed'], one['deed']))}</td>"
        f"<td>{escape(one['why'])}</td><td>{one['publication'] or ''}</td><td>{one['rows'] or ''}</td>"
        f"<td>{escape(_changes(one).strip(' ()'))}</td></tr>"
        for one in result.get("intervals", ())
    )
    more = f"<p>And {result['not_listed']} more.</p>" if result.get("not_listed") else ""
    title = f"Rebuild of {pipeline}, {result.get('from', '')[:19]}Z to {result.get('to', '')[:19]}Z"
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        "body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:72rem;padding:0 1rem}"
        "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;"
        "border-bottom:1px solid #ddd}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>{escape(headline(result))}</p><table><tr><th>interval (UTC)</th><th>is</th>"
        "<th>because</th><th>publication now</th><th>rows now</th><th>late ledger: what changes</th></tr>"
        f"{body}</table>{more}</body></html>\n"
    )


def _changes(one: Mapping[str, Any]) -> str:
    known = ", ".join(f"{count} {kind}" for kind, count in one.get("changes", {}).items())
    return f" ({known})" if known else ""
