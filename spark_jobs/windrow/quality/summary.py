"""The daily summary: how a pipeline's data has moved, a day's intervals beside the days before. Pure.

    <reports>/summary/index.html         the newest day
    <reports>/summary/2026-11-01.html    a day that was summarised

Counts and rates of published intervals, never a row. Every page stands alone: the plots are SVG inside it, nothing is
fetched. A rate over nothing is a gap in the line, not a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from html import escape
from pathlib import Path

from windrow.quality.pages import replace_file

DAYS = 30
"""Days that the trends go back."""


@dataclass(frozen=True)
class Figures:
    """Counts of an interval, or of a day: the sum over its intervals. Rates come from the sums."""

    intervals: int = 0
    served: int = 0  # left rows landed, duplicates of the producer among them
    published: int = 0
    duplicate: int = 0
    unpaired: int = 0
    positive: int = 0
    negative: int = 0
    unknown: int = 0
    late: int = 0  # lines of the late ledger
    flips: int = 0  # of them, those that change the label state
    overridden: int = 0
    blocked: int = 0  # closed and judged, and not published
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
        return _rate(self.unknown, self.published)

    @property
    def late_rate(self) -> float | None:
        return _rate(self.late, self.published)

    @property
    def flip_rate(self) -> float | None:
        return _rate(self.flips, self.published)

    @property
    def unaccounted(self) -> int:
        """Served rows that are neither published nor accounted for: not 0 means that the balance is broken."""
        return self.served - self.published - self.duplicate - self.unpaired


Trend = tuple[str, str, Callable[[Figures], float | None]]
TRENDS: tuple[Trend, ...] = (
    ("Label rate", "positives among the rows with a known label", lambda f: f.label_rate),
    ("Unknown rate", "rows whose label nobody can know", lambda f: f.unknown_rate),
    ("Late rate", "lines of the late ledger to published rows: what a rebuild would change", lambda f: f.late_rate),
    ("Flip rate", "late lines that change a row's label state, to published rows", lambda f: f.flip_rate),
    ("Worst null rate", "of the payload column with the most nulls", lambda f: f.null_rate_max),
)
_CSS = """
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24}
body{background:#fff}h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}a{color:#0a58ca}small{color:#57606a}
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}td{font-variant-numeric:tabular-nums}.off{background:#ffd8d3}
figure{display:inline-block;margin:.5rem 1rem .5rem 0}figcaption{font-size:.85rem}svg{background:#f6f8fa}
.pair{display:flex;flex-wrap:wrap}
"""
_WIDTH, _HEIGHT, _EDGE = 480, 120, 8


def total(figures: Iterable[Figures]) -> Figures:
    """Figures of several intervals together."""
    return sum(figures, Figures())


def write(
    pipeline: str, day: date, intervals: Sequence[tuple[datetime, Figures]], days: Sequence[tuple[date, Figures]],
    report_folder: Path,
) -> Path:  # fmt: skip
    """Write the page of a day; it is the front page too where no newer day has one."""
    folder = Path(report_folder) / "summary"
    folder.mkdir(parents=True, exist_ok=True)
    text = page(pipeline, day, intervals, days, earlier=_written(folder))
    target = folder / f"{day.isoformat()}.html"
    replace_file(target, text)
    if day.isoformat() == max(_written(folder)):
        replace_file(folder / "index.html", text)
    return target


def forget(report_folder: Path, before: date) -> int:
    """Delete the pages of the days before a day."""
    folder = Path(report_folder) / "summary"
    old = [name for name in _written(folder) if name < before.isoformat()]
    for name in old:
        (folder / f"{name}.html").unlink(missing_ok=True)
    return len(old)


def page(
    pipeline: str, day: date, intervals: Sequence[tuple[datetime, Figures]], days: Sequence[tuple[date, Figures]],
    earlier: Sequence[str] = (),
) -> str:  # fmt: skip
    """A day's page: what was published, trends over its intervals and over the days before, and the numbers."""
    whole = total(figures for _, figures in intervals)
    by_interval = [(f"{at:%H:%M}", figures) for at, figures in intervals]
    by_day = [(f"{at:%m-%d}", figures) for at, figures in days]
    plots = "".join(
        f'<h2>{name} <small>{what}</small></h2><div class="pair">'
        f"{_plot(f'{name} on {day}', by_interval, of)}{_plot(f'{name}, {len(days)} days', by_day, of)}</div>"
        for name, what, of in TRENDS
    )
    title = f"{pipeline} on {day.isoformat()} (UTC)"
    links = " · ".join(f'<a href="{name}.html">{name}</a>' for name in sorted(earlier, reverse=True)[:DAYS])
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head><body><h1>{escape(title)}</h1>"
        f"<p>{_sentence(whole)}</p>{plots}<h2>Served against published</h2>{_table(by_interval, whole)}"
        f"<h2>Days</h2>{_table(by_day, None)}<p>{links}</p></body></html>\n"
    )


def _sentence(whole: Figures) -> str:
    if not whole.intervals:
        return f"No interval of this day is published. Blocked: {whole.blocked}."
    return (
        f"{whole.intervals} intervals published with {whole.published:,} of {whole.served:,} served rows "
        f"({whole.duplicate:,} duplicates, {whole.unpaired:,} unpaired, {whole.unaccounted:,} unaccounted); "
        f"label rate {_percent(whole.label_rate)}, unknown {_percent(whole.unknown_rate)}, late "
        f"{_percent(whole.late_rate)}, flips {_percent(whole.flip_rate)}. Overridden: {whole.overridden}. Blocked: "
        f"{whole.blocked}."
    )


def _table(lines: Sequence[tuple[str, Figures]], whole: Figures | None) -> str:
    counts = ("served", "published", "duplicate", "unpaired", "unaccounted", "positive", "negative", "unknown", "late",
              "flips", "overridden", "blocked")  # fmt: skip
    rates = ("label_rate", "null_rate_max")
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in ("", *counts, *rates))
    body = []
    for at, figures in [*lines, *([("all", whole)] if whole else [])]:
        cells = "".join(f"<td>{getattr(figures, name):,}</td>" for name in counts)
        cells += "".join(f"<td>{_percent(getattr(figures, name))}</td>" for name in rates)
        shade = ' class="off"' if figures.unaccounted or figures.blocked else ""
        body.append(f"<tr{shade}><td>{at}</td>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _plot(title: str, points: Sequence[tuple[str, Figures]], of: Callable[[Figures], float | None]) -> str:
    """A line from 0 up; a gap where there is no value. The caption says it in numbers, for who cannot see it."""
    values = [(n, at, value) for n, (at, figures) in enumerate(points) if (value := of(figures)) is not None]
    if not values:
        return f"<figure><figcaption>{escape(title)}: nothing to show</figcaption></figure>"
    top = max(value for _, _, value in values) or 1.0
    step = (_WIDTH - 2 * _EDGE) / max(1, len(points) - 1)

    def at(n: int, value: float) -> str:
        return f"{_EDGE + n * step:.1f},{_HEIGHT - _EDGE - value / top * (_HEIGHT - 2 * _EDGE):.1f}"

    lines, last = [[at(values[0][0], values[0][2])]], values[0][0]
    for n, _, value in values[1:]:
        if n != last + 1:
            lines.append([])
        lines[-1].append(at(n, value))
        last = n
    drawn = "".join(
        f'<polyline fill="none" stroke="#0a58ca" stroke-width="2" points="{" ".join(line)}"/>'
        f'<circle r="2.5" fill="#0a58ca" cx="{line[-1].split(",")[0]}" cy="{line[-1].split(",")[1]}"/>'
        for line in lines
    )
    low, high = min(values, key=lambda v: v[2]), max(values, key=lambda v: v[2])
    said = f"{title}: lowest {_percent(low[2])} at {low[1]}, highest {_percent(high[2])} at {high[1]}"
    said += f", last {_percent(values[-1][2])}"
    return (
        f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(said)}"><title>{escape(said)}</title>{drawn}</svg>'
        f"<figcaption>{escape(said)}; the plot begins at 0</figcaption></figure>"
    )


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percent(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:.2%}"


def _written(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("????-??-??.html")]
