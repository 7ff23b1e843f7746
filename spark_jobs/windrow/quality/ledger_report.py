"""The page of the late ledger: recall and flip rate by interval, drawn, and in numbers. Sums only, no row values.

It stands alone: no script, nothing fetched. The newest intervals are on it; `windrow late` lists the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from windrow.quality import pages

LISTED = 1_000
"""Intervals on the page."""
_WIDTH, _HEIGHT, _LEFT, _TOP = 960, 180, 56, 12
_COLUMNS = (
    "interval", "publication", "rows", "labels", "late_labels", "late_lefts", "other", "flips", "recall", "flip_rate",
    "missed_by_p50", "missed_by_p90", "missed_by_max", "causes",
)  # fmt: skip


def write(pipeline: str, totals: Sequence[Mapping[str, Any]], complete_to: Mapping[str, int], folder: Path) -> Path:
    """Write the page from the totals by interval (see `jobs.ledger.totals`); returns its path."""
    page = folder / "late" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    shown = sorted(totals, key=lambda row: row["interval"])[-LISTED:]
    batches = ", ".join(f"{escape(topic)} {batch}" for topic, batch in sorted(complete_to.items()))
    body = (
        f"<p>What a rebuild with all that has landed would change. Complete up to the batches {batches}.</p>"
        f"<h2>Recall</h2><p>Labels that were in time, of all that are known now: published / (published + late).</p>"
        f"{_drawn(shown, 'recall', '#0a58ca')}"
        f"<h2>Flip rate</h2><p>Published rows whose label state is another one by now.</p>"
        f"{_drawn(shown, 'flip_rate', '#b3261e')}"
        f"<h2>By interval</h2>{_table(shown)}"
    )
    pages.replace_file(page, pages.page_of(f"Late data of {pipeline}", body))
    return page


def _drawn(rows: Sequence[Mapping[str, Any]], name: str, colour: str) -> str:
    """A dot an interval over event time; an interval without a value has none."""
    points = [(row["interval"], float(row[name])) for row in rows if row[name] is not None]
    if not points:
        return "<p>Nothing to draw yet.</p>"
    low, high = min(v for _, v in points), max(v for _, v in points)
    low, high = (low, high) if high > low else (max(0.0, low - 0.01), min(1.0, high + 0.01))
    x, y = _scale(points[0][0], points[-1][0]), _scale_of(low, high)
    line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
    dots = "".join(
        f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="2.5" fill="{colour}">'
        f"<title>{at:%Y-%m-%d %H:%M} UTC: {value:.2%}</title></circle>"
        for at, value in points
    )
    bottom = _TOP + _HEIGHT
    labels = (
        f'<text x="{_LEFT - 6}" y="{y(high) + 4:.1f}" text-anchor="end">{high:.1%}</text>'
        f'<text x="{_LEFT - 6}" y="{y(low) + 4:.1f}" text-anchor="end">{low:.1%}</text>'
        f'<text x="{_LEFT}" y="{bottom + 16}">{points[0][0]:%Y-%m-%d %H:%M}</text>'
        f'<text x="{_LEFT + _WIDTH}" y="{bottom + 16}" text-anchor="end">{points[-1][0]:%Y-%m-%d %H:%M} UTC</text>'
    )
    return (
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + 8} {bottom + 24}" role="img" aria-label="{name} by interval" '
        'style="width:100%;font:12px system-ui,sans-serif">'
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + _WIDTH}" fill="none" stroke="#999"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-opacity=".35"/>{dots}{labels}</svg>'
    )


def _scale(first: datetime, last: datetime) -> Callable[[datetime], float]:
    length = (last - first).total_seconds() or 1.0
    return lambda at: _LEFT + _WIDTH * (at - first).total_seconds() / length


def _scale_of(low: float, high: float) -> Callable[[float], float]:
    return lambda value: _TOP + _HEIGHT * (1 - (value - low) / ((high - low) or 1.0))


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in _COLUMNS)
    lines = ["".join(_cell(row[name]) for name in _COLUMNS) for row in reversed(rows)]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"<td>{value:%Y-%m-%d %H:%M:%S}Z</td>"
    if isinstance(value, Mapping):
        value = ", ".join(f"{name} {n}" for name, n in sorted(value.items()))
    if isinstance(value, float):
        return f'<td class="n">{value:.2%}</td>'
    text = "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f'<td class="n">{escape(text)}</td>'
