"""Plots of the lag report as inline SVG: text stays text, equal figures give equal bytes, and nothing is loaded.

Colours are Okabe and Ito's (distinct with any colour vision), and every line also has its own mark. Axes carry units;
each plot has a title and a description for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter

from windrow.quality.lag.drawing import Plot, drawing
from windrow.quality.lag.sentences import percent
from windrow.semantics.clock import PartitionClock
from windrow.semantics.lag.observed import ClockReading, by_partition, name_of
from windrow.semantics.lag.recall import Curve

BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#999999",
)  # fmt: skip
LINES = ((BLUE, "o"), (RED, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"), (BLACK, "X"))
"""Colour and mark of each line, in the order of the policies."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))


def short(seconds: float) -> str:
    """A duration in one unit, for an axis: `1.5 min`."""
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(seconds) >= size), (1, "s"))
    return f"{seconds / size:.3g} {unit}"


def delays(name: str, curve: Curve, window: timedelta, title: str) -> Plot:
    """Draw the shares of the labels by their delay, and the window; the axis ends where nearly all have come.

    Args:
        name: prefix of the ids of the plot, distinct on a page.
    """
    with drawing(name, title, _described(curve, window), height=2.6) as (figure, done):
        axes: Axes = figure.subplots()
        step = curve.step.total_seconds()
        until = min(curve.widest, max(window * 1.25, curve.quantile(0.999) * 1.1))
        width = max(1, math.ceil(until / curve.step / 60))  # about 60 bars
        bars: dict[int, float] = {}
        for i, share in curve.bin_shares:
            if curve.step * i <= until:
                bars[max(0, i - 1) // width] = bars.get(max(0, i - 1) // width, 0.0) + share
        axes.bar(
            [n * width * step for n in bars], list(bars.values()), width=width * step * 0.92, align="edge", color=SKY
        )
        axes.axvspan(0, window.total_seconds(), color=GREEN, alpha=0.10, lw=0)
        _mark(axes, window, f" window {short(window.total_seconds())}", GREEN)
        axes.set(xlim=(0, until.total_seconds()), xlabel="time from the row to its label", ylabel="share of the labels")
        _in_percent(axes, 1 if max(bars.values(), default=1) > 0.05 else 2)
        _in_time(axes)
    return done[0]


def recall(name: str, curve: Curve, window: timedelta, wanted: Sequence[float], title: str) -> Plot:
    """Draw the share of labels inside a window over the length of the window, with its 95 % band.

    Args:
        wanted: recalls to mark.
    """
    with drawing(name, title, _described(curve, window), height=2.9) as (figure, done):
        axes: Axes = figure.subplots()
        every = max(1, len(curve.points) // 250)
        chosen = sorted({*range(1, len(curve.points), every), len(curve.points) - 1})
        x = [(curve.step * i).total_seconds() for i in chosen]
        points = [curve.points[i] for i in chosen]
        top = _nines(1 - 0.5 / curve.labels)  # higher shares are within half a label of all
        axes.fill_between(
            x, [min(top, _nines(p.low)) for p in points], [min(top, _nines(p.high)) for p in points],
            color=SKY, alpha=0.4, lw=0, label="95 % interval",
        )  # fmt: skip
        axes.plot(x, [min(top, _nines(p.share)) for p in points], color=BLUE, label="labels caught")
        ticks = [share for share in (0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999) if _nines(share) <= top]
        axes.set_yticks([_nines(share) for share in ticks], [f"{share * 100:.6g} %" for share in ticks])
        for level in wanted:
            axes.axhline(_nines(level), color=RED, lw=1, ls="--")
        axes.plot([], [], color=RED, lw=1, ls="--", label="wanted")
        _mark(axes, window, f"window {short(window.total_seconds())}", GREEN)
        axes.set(ylim=(0, top * 1.03), xlim=(0, x[-1]), xlabel="window after the row", ylabel="labels caught")
        axes.legend(loc="lower right")
        _in_time(axes)
    return done[0]


def _nines(share: float) -> float:
    """Position of a share on an axis on which 90 %, 99 % and 99.9 % are one step apart."""
    return -math.log10(max(1e-9, 1 - share))


Series = Mapping[str, Sequence[tuple[float, float]]]
"""Name of a line → (lag in seconds, value)."""


def against_lag(
    name: str, panels: Mapping[str, Series], unit: str, title: str, description: str, *, in_time: bool = False
) -> Plot:
    """Draw one panel per side, one line per policy, over the injected lag.

    Args:
        panels: side → its lines.
        unit: label of the vertical axis.
        in_time: whether the values are seconds; else they are shares.
    """
    down, across = -(-len(panels) // 2), min(2, len(panels))
    with drawing(name, title, description, height=0.7 + 2.2 * down) as (figure, done):
        grid = figure.subplots(down, across, sharey=True, squeeze=False)
        names = list(dict.fromkeys(line for series in panels.values() for line in series))
        lags = sorted({lag for series in panels.values() for line in series.values() for lag, _ in line})
        drawn: dict[str, Line2D] = {}
        for axes, (side, series) in zip(grid.flat, panels.items(), strict=False):
            drawn |= {line: _line(axes, names.index(line), line, lags, values) for line, values in series.items()}
            axes.set(title=f"lag on {side}", xlabel="injected lag")
            axes.set_xticks(range(len(lags)), [short(lag) if lag else "none" for lag in lags])
            axes.set_xlim(-0.15, max(len(lags) - 0.85, 0.15))
        for axes in list(grid.flat)[len(panels) :]:
            axes.remove()
        most = max((value for series in panels.values() for line in series.values() for _, value in line), default=0)
        grid[0, 0].set_ylim(0, most * 1.06 or (60 if in_time else 0.01))  # one axis for all panels
        for axes in grid[:, 0]:
            axes.set_ylabel(unit)
            if in_time:
                _in_time(axes, on="y")
            else:
                _in_percent(axes)
        handles = [drawn[line] for line in names]
        figure.legend(handles, names, loc="outside lower center", ncols=min(3, max(1, len(names))))
    return done[0]


def _line(axes: Axes, number: int, name: str, lags: Sequence[float], values: Sequence[tuple[float, float]]) -> Line2D:
    """The line of a clock. Lags are evenly spaced, so that 1 min, 10 min and 1 h can all be seen."""
    colour, mark = LINES[number % len(LINES)]
    first = number == 0  # Windrow's clock is drawn on top of clocks that agree with it, and smaller
    (line,) = axes.plot(
        [lags.index(lag) for lag, _ in values], [value for _, value in values],
        color=colour, marker=mark, label=name, clip_on=False, zorder=4 if first else 3,
        ms=5 if first else 8, lw=2 if first else 1.4, markerfacecolor=colour if first else "white",
    )  # fmt: skip
    return line


def observed(readings: Sequence[ClockReading], title: str, description: str) -> Plot:
    """Draw over time how far the watermark was behind and which partition held it, and each partition's lag.

    Args:
        readings: of the clock, oldest first, at least one.
        title: heading of the drawing.
        description: what it shows, for those who cannot see it.
    """
    with drawing("observed", title, description, height=5.4) as (figure, done):
        upper, middle, lower = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
        at = [reading.at for reading in readings]
        colour = _colours(readings)
        for begin, end, who in _stretches(readings):
            upper.axvspan(begin, end, color=colour.get(who, GREY), alpha=0.3, lw=0)
        upper.plot(at, [_secs(s.behind) for s in readings], color=BLACK, lw=1.6, drawstyle="steps-post")
        for name, clocks in _by_partition(readings).items():
            line = {"color": colour.get(name, GREY), "lw": 1.4, "where": "post", "zorder": 3 if name in colour else 2}
            seen = [at[n] for n in clocks]
            ages = [at[n] - c.newest_at if c.newest_at else None for n, c in clocks.items()]
            middle.step(seen, [_secs(age) for age in ages], **line)
            lower.step(seen, [clock.lag for clock in clocks.values()], **line)
        for name, shade in colour.items():
            upper.fill_between([], [], [], color=shade, alpha=0.5, label=name)
        upper.set(ylabel="watermark\nbehind", ylim=(0, None))
        middle.set(ylabel="newest event\nbehind", ylim=(0, None))
        lower.set(ylabel="records\nwaiting", ylim=(0, None), xlabel="time (UTC)")
        _in_time(upper, on="y")
        _in_time(middle, on="y")
        lower.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
        locator = AutoDateLocator(tz=UTC, maxticks=8)
        lower.xaxis.set_major_locator(locator)
        lower.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
        figure.legend(loc="outside lower center", ncols=2, title="partition (others are grey); above, which one held")
    return done[0]


def _colours(readings: Sequence[ClockReading]) -> dict[str, str]:
    """A colour for each partition that held the watermark longest or had most records waiting."""
    ranked = [lag.name for lag in by_partition(readings)]
    return {name: shade for name, (shade, _) in zip(ranked, LINES, strict=False)}


def _by_partition(readings: Sequence[ClockReading]) -> dict[str, dict[int, PartitionClock]]:
    """Partition → number of the reading → its clock then."""
    clocks: dict[str, dict[int, PartitionClock]] = {}
    for n, reading in enumerate(readings):
        for clock in reading.clocks:
            clocks.setdefault(name_of(clock), {})[n] = clock
    return clocks


def _secs(length: timedelta | None) -> float:
    return math.nan if length is None else length.total_seconds()


def _stretches(readings: Sequence[ClockReading]) -> Iterator[tuple[datetime, datetime, str]]:
    """Runs of readings with one holder."""
    begin = 0
    for i in range(1, len(readings)):
        if readings[i].held_by != readings[begin].held_by or i == len(readings) - 1:
            yield readings[begin].at, readings[i].at, readings[begin].held_by
            begin = i


def _described(curve: Curve, window: timedelta) -> str:
    inside = curve.at(window)
    return (
        f"Within {short(window.total_seconds())}: {percent(inside.share)} of the labels, between "
        f"{percent(inside.low)} and {percent(inside.high)}. Half of them come within "
        f"{short(curve.quantile(0.5).total_seconds())}, "
        f"99 % within {short(curve.quantile(0.99).total_seconds())}."
    )


def _mark(axes: Axes, at: timedelta, words: str, colour: str) -> None:
    axes.axvline(at.total_seconds(), color=colour, lw=1.6)
    axes.annotate(words, (at.total_seconds(), 1), xycoords=("data", "axes fraction"), va="bottom", ha="center",
                  color="#00664b", fontsize=9, fontweight="bold")  # fmt: skip


def _in_percent(axes: Axes, digits: int | None = None) -> None:
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=digits))


def _in_time(axes: Axes, on: str = "x") -> None:
    axis = axes.xaxis if on == "x" else axes.yaxis
    lo, hi = axis.get_view_interval()
    size, unit = next(((size, unit) for size, unit in _UNITS if hi >= 2 * size), (1, "s"))
    steps = [m * size for m in (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 100, 200, 500, 1000)]
    most = 9 if on == "x" else 5
    step = next((s for s in steps if (hi - lo) / s <= most), (hi - lo) / most or 1)
    axis.set_ticks([lo + step * i for i in range(int((hi - lo) / step) + 1)])
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / size:.4g}"))
    label = axis.get_label_text()
    axis.set_label_text(f"{label} ({unit})")
