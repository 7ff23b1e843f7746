"""A figure as inline SVG: the <svg> element alone, with a title and a description for screen readers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "timezone": "UTC",
}


@dataclass(frozen=True)
class Plot:
    """An inline SVG under the sentence that it shows."""

    title: str
    svg: str


@contextmanager
def drawing(name: str, title: str, description: str, height: float) -> Iterator[tuple[Figure, list[Plot]]]:
    """Yield a figure to draw on, and a list that holds the finished plot afterwards.

    Args:
        name: prefix of the plot's ids; distinct on a page.
        height: in inches.
    """
    done: list[Plot] = []
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"windrow {name}"}):
        figure = Figure(figsize=(8.6, height), layout="constrained")
        yield figure, done
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    done.append(Plot(title, _inline(text.getvalue(), name, title, description)))


def _inline(svg: str, name: str, title: str, description: str) -> str:
    """The <svg> element alone, named for screen readers.

    Matplotlib numbers the ids of groups in each figure anew. Nothing refers to them, and several plots share a page, so
    they are removed.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r' id="[a-zA-Z0-9.]+(?:_[a-z]+)?_\d+"', "", body)
    head, rest = body.split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    named = f' role="img" aria-labelledby="{name}-title {name}-text"'
    words = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-text">{escape(description)}</desc>'
    return f"{head}{named}>{words}{rest}".rstrip()
