"""Small pictures of a pipeline as inline SVG: the strip of its newest intervals, lines, its clock in event time.

Drawn on the server, without a charting library: a page stays whole without a script, so it opens under a policy that
forbids all of them, and fifty rows of pictures cost milliseconds. Each picture says in words what it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from windrow.semantics.clock import PartitionClock
from windrow.semantics.fleet.strip import Cell, CellState
from windrow.text import rounded_duration, shown_instant

_CELL, _GAP, _HIGH = 5, 1, 14
_SPARK = 24
_LOW = {CellState.OPEN: 4, CellState.CLOSED: 8, CellState.EMPTY: 8}
"""Height of cells that are not full, so that colour is not all that tells them apart."""


def strip_words(cells: Sequence[Cell]) -> str:
    """Return what a strip shows: how many intervals of each state, the most frequent first."""
    counts = Counter(cell.state.word for cell in cells)
    return ", ".join(f"{count} {word}" for word, count in counts.most_common())


def strip(cells: Sequence[Cell]) -> Markup:
    """Return a strip, oldest on the left; one path per state.

    Returns:
        Inline SVG; empty without a cell.
    """
    if not cells:
        return Markup()
    step = _CELL + _GAP
    paths = []
    for state in CellState:
        moves = "".join(
            f"M{n * step} {_HIGH}v-{_LOW.get(state, _HIGH)}h{_CELL}V{_HIGH}z"
            for n, cell in enumerate(cells)
            if cell.state is state
        )
        if moves:
            paths.append(Markup('<path class="c-{}" d="{}"/>').format(state.word, moves))
    words = f"{len(cells)} intervals from {shown_instant(cells[0].interval.start)}: {strip_words(cells)}"
    return Markup(
        '<svg class="cells" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">'
    ).format(len(cells) * step, _HIGH, words) + Markup("{}</svg>").format(Markup().join(paths))


def line(title: str, values: Sequence[float | None], shown: Callable[[float], str], *, high: int = _SPARK) -> Markup:
    """Return a line from 0 up, with a gap where there is no value; empty without any value.

    Args:
        title: what is shown.
        shown: a value in words.
        high: height of the picture; a high one is stretched to the width of its place.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Markup()
    shape = ' preserveAspectRatio="none"' if high > _SPARK else ""
    top, low = max(*known, 0.0) or 1.0, min(*known, 0.0)
    step, moves, is_on = 3, [], False
    for n, value in enumerate(values):
        if value is not None:
            y = high - 2 - (value - low) / ((top - low) or 1.0) * (high - 4)
            moves.append(f"{'L' if is_on else 'M'}{n * step + 2} {y:.1f}{'' if is_on else 'h.1'}")
        is_on = value is not None
    words = f"{title}: {line_words(values, shown)}"
    return Markup(
        '<svg class="spark" width="{0}" height="{1}" viewBox="0 0 {0} {1}"{4} role="img" aria-label="{2}">'
        '<title>{2}</title><path d="{3}"/></svg>'
    ).format(len(values) * step + 4, high, words, "".join(moves), Markup(shape))


def line_words(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """Return what a line shows: its newest, lowest and highest value; empty without any value.

    Args:
        values: oldest first; None where there is no value.
        shown: a value as text.
    """
    known = [value for value in values if value is not None]
    return f"newest {shown(known[-1])}, lowest {shown(min(known))}, highest {shown(max(known))}" if known else ""


def clock(
    clocks: Iterable[PartitionClock], watermark: datetime | None, frontier: datetime | None, landed_at: datetime | None
) -> Markup:
    """Return the clocks of partitions in event time: the newest event, the clock, the watermark and the frontier.

    The table next to it has the same instants in words.

    Args:
        landed_at: end of the newest landing; the right end, unless an event is newer.
    """
    rows = list(clocks)
    known = [at for one in rows for at in (one.newest_at, one.clock_at) if at is not None]
    ends = [at for at in (*known, watermark, landed_at) if at is not None]
    if not known:
        return Markup()
    right, left = max(ends), min([*ends, *([frontier] if frontier else [])])
    left = max(left, right - timedelta(days=2))  # a partition that stands for weeks would hide all others
    span = (right - left) or timedelta(minutes=1)
    wide, name, row = 760, 200, 20

    def x(at: datetime) -> str:
        return f"{name + max(0.0, (at - left) / span) * (wide - name - 10):.1f}"

    high = row * (len(rows) + 2)
    parts = []
    for label, at in (("watermark", watermark), ("frontier", frontier)):
        if at is not None:
            parts.append(
                Markup('<path class="{0}" d="M{1} 14V{2}"/><text x="{1}" y="10" text-anchor="end">{0}</text>').format(
                    label, x(at), high - row
                )
            )
    for n, one in enumerate(rows, start=1):
        y = n * row + 6
        parts.append(Markup('<text x="0" y="{}">{}/{}</text>').format(y + 4, one.topic[-26:], one.partition))
        if one.clock_at is not None:
            parts.append(Markup('<path class="reach" d="M{} {}H{}"/>').format(name, y, x(one.clock_at)))
        if one.newest_at is not None:
            parts.append(Markup('<circle cx="{}" cy="{}" r="4"/>').format(x(one.newest_at), y))
    words = f"{rounded_duration(span)} of event time up to {shown_instant(right)}; the table has every instant"
    return Markup(
        '<svg class="plot clock" viewBox="0 0 {0} {1}" role="img" aria-label="{2}"><title>{2}</title>{3}'
        '<text x="{4}" y="{5}">{6}</text><text x="{0}" y="{5}" text-anchor="end">{7}</text></svg>'
    ).format(wide, high, words, Markup().join(parts), name, high - 6, shown_instant(left), shown_instant(right))
