"""A card for people: a page of HTML and one of Markdown, from the same lines. Texts are escaped in both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from html import escape
from typing import Any

from windrow.quality import html as web
from windrow.text import duration_text, rounded_duration, shown_instant
from windrow.training.card.value import Card, Column

_SIGNS = re.compile(r"([\\`*_\[\]|~$]|^[#+=-]|(?<=^\d)[.)](?= ))")
"""What is markup in a line of Markdown, and what is at its beginning."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Heads of columns, and rows."""


def html(card: Card) -> str:
    """Return the page as HTML; it stands alone."""
    return web.render(
        "card.html",
        title=f"Data card of {card.pipeline.name}",
        row=card.row.split("\n"),
        sections=list(_sections(card)),
        limits=card.limits,
        pin=card.pin.to_json(),
    )


def markdown(card: Card) -> str:
    """Return the page as Markdown."""
    parts = [f"# Data card of {plain(card.pipeline.name)}", *map(plain, card.row.split("\n"))]
    for title, note, (heads, rows) in _sections(card):
        parts += [f"## {plain(title)}", *([plain(note)] if note else []), _table(heads, rows)]
    parts += ["## Known limits", "\n".join(f"* {plain(limit)}" for limit in card.limits)]
    parts += ["## Pin", "`windrow.training.read_pinned` reads the same rows again:", f"    {card.pin.to_json()}"]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    r"""Escape a text for Markdown: it shows as it is, on one line, and is neither markup nor HTML.

    >>> plain("a|b <script> *c*")
    'a\\|b &lt;script&gt; \\*c\\*'
    """
    # entities first; their & and ; are no signs of Markdown
    return _SIGNS.sub(r"\\\1", escape(" ".join(text.split()), quote=False))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads)]
    cells = [[plain(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, *cells])


def _sections(card: Card) -> Iterator[tuple[str, str, Table]]:
    """Yield the tables of a card: title, a note, heads and rows."""
    figures, span, pipeline = card.figures, card.pin.request.range, card.pipeline
    facts = [
        ("served from", shown_instant(span.start)),
        ("served until", shown_instant(span.end)),
        ("rows", f"{figures.rows:,}"),
        ("interval", duration_text(pipeline.interval)),
        *((f"window of {s.name}", _window(s.window.before, s.window.after)) for s in pipeline.right),
        ("grace", duration_text(pipeline.grace)),
        ("licence", pipeline.license or "not stated"),
        ("owner", pipeline.owner or "not stated"),
        ("version of the table", str(card.pin.version)),
        ("version of Windrow", card.pin.code_version),
    ]
    yield "What it is", "", (("", ""), facts)
    states = [(name, f"{rows:,}", _share(rows, figures.rows)) for name, rows in figures.states.items()]
    yield "Label states", "", (("state", "rows", "share"), states)
    reasons = [(name, f"{rows:,}", _share(rows, figures.rows)) for name, rows in figures.reasons.items()]
    note = "Rows whose labels may be incomplete, by reason; positive ones among them too."
    yield "Unknown and incomplete rows", note, (("reason", "rows", "share"), reasons)
    rates = [("label_state is positive", _share(figures.positive, figures.complete))]
    rates += [(name, web.percent(rate)) for name, rate in figures.rates.items()]
    note = f"Over the {figures.complete:,} rows whose label side was complete."
    yield "Label rates", note, (("label", "rate"), rates)
    for curve in card.curves:
        rows = [(_length(at), web.percent(share), web.percent(part)) for at, share, part in curve.by_time]
        reached = ", ".join(f"{part:.0%} by {_length(curve.until(part))}" for part in (0.5, 0.9, 0.99))
        note = (
            f"First label of each row, by event time: {curve.labels:,} rows with one; {curve.censored:,} rows were "
            "observed for less than the window and without one until then (censored). Product-limit estimate (Kaplan "
            f"and Meier), in which they count for as long as they were observed. Of the window's labels: {reached}."
        )
        heads = ("after serving", "rows with a label by then", "of the window's labels")
        yield f"Delay of {curve.stream}", note, (heads, rows)
    columns = [(c.name, c.ddl, c.meaning, web.percent(c.null_rate), _range(c)) for c in card.columns]
    note = "Null rates of fields such as clicks._event_time are over the elements of all rows."
    yield "Columns", note, (("column", "type", "meaning", "null", "range"), columns)


def _window(before: timedelta, after: timedelta) -> str:
    return f"{duration_text(before)} before to {duration_text(after)} after"


def _length(micros: int) -> str:
    return rounded_duration(timedelta(microseconds=micros)) if micros else "0s"


def _share(part: int, whole: int) -> str:
    return web.percent(part / whole) if whole else "-"


def _range(column: Column) -> str:
    return " to ".join(map(_value, column.range)) if column.range else ""


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return shown_instant(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return value.isoformat() if isinstance(value, date) else str(value)
