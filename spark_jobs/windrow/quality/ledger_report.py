"""The page of the late ledger: recall and flip rate of each interval, as plots and in numbers. Sums only, no rows.

The newest intervals are on it; `windrow late` lists all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from windrow.files import write_whole
from windrow.quality import html
from windrow.text import shown_instant

LISTED = 1_000
"""Most intervals that the page shows."""
_WIDTH, _HEIGHT, _LEFT, _TOP = 960, 180, 56, 12
_BOTTOM = _TOP + _HEIGHT
_NUMBERS = (
    "publication", "rows", "labels", "late_labels", "late_lefts", "other", "flips", "recall", "flip_rate",
    "missed_by_p50", "missed_by_p90", "missed_by_max",
)  # fmt: skip


def write(pipeline: str, totals: Sequence[Mapping[str, Any]], complete_to: Mapping[str, int], folder: Path) -> Path:
    """Write the page from the totals by interval (see `jobs.ledger.totals`); returns its path.

    Args:
        complete_to: the last landed batch of each topic that the totals take into account.
    """
    path = folder / "late" / "index.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = sorted(totals, key=lambda row: row["interval"])[-LISTED:]
    text = html.render(
        "late.html",
        title=f"Late data of {pipeline}",
        complete_to=sorted(complete_to.items()),
        recall=_plot(rows, "recall"),
        flip_rate=_plot(rows, "flip_rate", colour="red"),
        numbers=_NUMBERS,
        rows=rows[::-1],
    )
    write_whole(path, text)
    return path


def _plot(rows: Sequence[Mapping[str, Any]], name: str, colour: str = "blue") -> Markup:
    """A dot per interval over event time; an interval without a value has no dot."""
    points = [(row["interval"], float(row[name])) for row in rows if row[name] is not None]
    if not points:
        return Markup()
    low, high = min(value for _, value in points), max(value for _, value in points)
    low, high = (low, high) if high > low else (max(0.0, low - 0.01), min(1.0, high + 0.01))
    x, y = _time_scale(points[0][0], points[-1][0]), _value_scale(low, high)
    places = [(f"{x(at):.1f}", f"{y(value):.1f}") for at, value in points]
    dots = Markup().join(
        Markup('<circle cx="{}" cy="{}" r="2.5"><title>{}: {}</title></circle>').format(
            *place, shown_instant(at), html.percent(value)
        )
        for place, (at, value) in zip(places, points, strict=True)
    )
    return Markup(
        '<svg class="plot {}" viewBox="0 0 {} {}" role="img" aria-label="{} by interval"><path class="axis" d="{}"/>'
        '<polyline class="line" stroke-opacity=".35" points="{}"/>{}{}</svg>'
    ).format(
        colour,
        _LEFT + _WIDTH + 8,
        _BOTTOM + 24,
        name.replace("_", " "),
        f"M{_LEFT} {_TOP}V{_BOTTOM}H{_LEFT + _WIDTH}",
        " ".join(",".join(place) for place in places),
        dots,
        Markup().join(
            Markup('<text x="{}" y="{:.1f}" text-anchor="{}">{}</text>').format(*label)
            for label in (
                (_LEFT - 6, y(high) + 4, "end", f"{high:.1%}"),
                (_LEFT - 6, y(low) + 4, "end", f"{low:.1%}"),
                (_LEFT, _BOTTOM + 16.0, "start", shown_instant(points[0][0])),
                (_LEFT + _WIDTH, _BOTTOM + 16.0, "end", shown_instant(points[-1][0])),
            )
        ),
    )


def _time_scale(first: datetime, last: datetime) -> Callable[[datetime], float]:
    length = (last - first).total_seconds() or 1.0
    return lambda at: _LEFT + _WIDTH * (at - first).total_seconds() / length


def _value_scale(low: float, high: float) -> Callable[[float], float]:
    return lambda value: _TOP + _HEIGHT * (1 - (value - low) / ((high - low) or 1.0))
