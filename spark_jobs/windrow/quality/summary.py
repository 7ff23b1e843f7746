"""The daily summary: how a pipeline's data moves, over the intervals of a day and over the days before.

    <reports>/summary/index.html         the newest day
    <reports>/summary/2026-11-01.html    each day that was summarised

Counts and rates of published intervals, never a row. The plots are SVG inside the page. A rate of nothing is a gap in
the line, not a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from windrow.files import write_whole
from windrow.quality import html

DAYS = 30
"""Days that the trends go back."""


@dataclass(frozen=True)
class Figures:
    """Counts of an interval, or their sums over the intervals of a day; rates are computed from the sums."""

    intervals: int = 0
    served: int = 0  # left rows landed, including the producer's duplicates
    published: int = 0
    duplicate: int = 0
    unpaired: int = 0
    canary: int = 0
    erased: int = 0  # of an erased key, by the plan of the publication
    positive: int = 0
    negative: int = 0
    unknown: int = 0
    late: int = 0  # lines of the late ledger
    flips: int = 0  # of them, those that change the label state
    overridden: int = 0
    empty: int = 0  # published without a row
    blocked: int = 0  # closed and judged, but not published
    null_rate_max: float | None = None  # of the worst payload column of the worst interval

    def __add__(self, other: Figures) -> Figures:
        names = [one.name for one in fields(self) if one.name != "null_rate_max"]
        summed = {name: getattr(self, name) + getattr(other, name) for name in names}
        nulls = [rate for rate in (self.null_rate_max, other.null_rate_max) if rate is not None]
        return Figures(**summed, null_rate_max=max(nulls, default=None))

    @property
    def label_rate(self) -> float | None:
        """Positives among the rows whose label is known."""
        return _rate(self.positive, self.positive + self.negative)

    @property
    def unknown_rate(self) -> float | None:
        """Rows of unknown label state among the published rows."""
        return _rate(self.unknown, self.published)

    @property
    def late_rate(self) -> float | None:
        """Lines of the late ledger per published row."""
        return _rate(self.late, self.published)

    @property
    def flip_rate(self) -> float | None:
        """Late lines that change a row's label state, per published row."""
        return _rate(self.flips, self.published)

    @property
    def unaccounted(self) -> int:
        """Served rows neither published nor explained; the balance is broken if it is not 0."""
        return self.served - self.published - self.duplicate - self.unpaired - self.canary - self.erased


Rate = Callable[[Figures], float | None]
TRENDS: tuple[tuple[str, str, Rate], ...] = (
    ("Label rate", "positives among the rows with a known label", lambda f: f.label_rate),
    ("Unknown rate", "rows whose label cannot be known", lambda f: f.unknown_rate),
    ("Late rate", "lines of the late ledger per published row: what a rebuild would change", lambda f: f.late_rate),
    ("Flip rate", "late lines that change a row's label state, per published row", lambda f: f.flip_rate),
    ("Worst null rate", "of the payload column with the most nulls", lambda f: f.null_rate_max),
)
"""Name, meaning and rate of each pair of plots."""

_COUNTS = (
    "served", "published", "duplicate", "unpaired", "canary", "erased", "unaccounted", "positive", "negative",
    "unknown", "late", "flips", "overridden", "empty", "blocked",
)  # fmt: skip
_RATES = ("label_rate", "null_rate_max")
_WIDTH, _HEIGHT, _EDGE = 480, 120, 8


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum of the figures of several intervals."""
    return sum(figures, Figures())


def write(
    pipeline: str, day: date, intervals: Sequence[tuple[datetime, Figures]], days: Sequence[tuple[date, Figures]],
    report_folder: Path,
) -> Path:  # fmt: skip
    """Write the page of a day, and the front page if no newer day has a page; returns the path of the day's page.

    Args:
        intervals: start → figures, of the intervals of the day.
        days: figures of the days up to this one, oldest first.
    """
    folder = Path(report_folder) / "summary"
    folder.mkdir(parents=True, exist_ok=True)
    text = page(pipeline, day, intervals, days, earlier=_written(folder))
    target = folder / f"{day.isoformat()}.html"
    write_whole(target, text)
    if day.isoformat() == max(_written(folder)):
        write_whole(folder / "index.html", text)
    return target


def forget(report_folder: Path, before: date) -> int:
    """Delete the pages of the days before a day; returns how many.

    Args:
        before: first UTC day that is kept.
    """
    folder = Path(report_folder) / "summary"
    old = [name for name in _written(folder) if name < before.isoformat()]
    for name in old:
        (folder / f"{name}.html").unlink(missing_ok=True)
    return len(old)


def page(
    pipeline: str, day: date, intervals: Sequence[tuple[datetime, Figures]], days: Sequence[tuple[date, Figures]],
    earlier: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a day's page: what was published, trends over its intervals and over the days before, and the numbers.

    Args:
        days: the days before and the day itself, oldest first.
        earlier: days (2026-11-01) that have a page to link.
    """
    by_interval = [(f"{at:%H:%M}", figures) for at, figures in intervals]
    by_day = [(f"{at:%m-%d}", figures) for at, figures in days]
    trends = [
        (
            name,
            meaning,
            (_plot(f"{name} on {day}", by_interval, rate), _plot(f"{name}, {len(days)} days", by_day, rate)),
        )
        for name, meaning, rate in TRENDS
    ]
    return html.render(
        "summary.html",
        title=f"{pipeline} on {day.isoformat()} (UTC)",
        whole=total(figures for _, figures in intervals),
        trends=trends,
        by_interval=by_interval,
        by_day=by_day,
        counts=_COUNTS,
        rates=_RATES,
        earlier=sorted(earlier, reverse=True)[:DAYS],
    )


class Plot(NamedTuple):
    """A plot and its caption, which says in numbers what it shows; without a value there is no plot."""

    svg: Markup
    caption: str


def _plot(title: str, points: Sequence[tuple[str, Figures]], rate: Rate) -> Plot:
    """A line from 0 up, with a gap where there is no value."""
    values = [(n, at, value) for n, (at, figures) in enumerate(points) if (value := rate(figures)) is not None]
    if not values:
        return Plot(Markup(), f"{title}: nothing to show")
    top = max(value for _, _, value in values) or 1.0
    step = (_WIDTH - 2 * _EDGE) / max(1, len(points) - 1)
    lines: list[list[tuple[str, str]]] = []
    last = None
    for n, _, value in values:
        if last is None or n != last + 1:
            lines.append([])
        lines[-1].append((f"{_EDGE + n * step:.1f}", f"{_HEIGHT - _EDGE - value / top * (_HEIGHT - 2 * _EDGE):.1f}"))
        last = n
    drawn = Markup().join(
        Markup('<polyline class="line" points="{}"/><circle r="2.5" cx="{}" cy="{}"/>').format(
            " ".join(",".join(point) for point in line), *line[-1]
        )
        for line in lines
    )
    low, high = min(values, key=lambda v: v[2]), max(values, key=lambda v: v[2])
    text = (
        f"{title}: lowest {html.percent(low[2])} at {low[1]}, highest {html.percent(high[2])} at {high[1]}, "
        f"last {html.percent(values[-1][2])}"
    )
    svg = Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>').format(
        _WIDTH, _HEIGHT, text, text, drawn
    )
    return Plot(svg, f"{text}; the plot begins at 0")


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _written(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("????-??-??.html")]
