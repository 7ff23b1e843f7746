"""HTML pages from Jinja2 templates: one skeleton, one style sheet, every value escaped.

    templates/skeleton.html   head, style sheet and heading; every page extends it
    templates/style.css       the style sheet, light and dark
    templates/macros.html     parts that several pages share

A page stands alone: it fetches nothing and runs no script, so it opens from disk and under any content policy. Only
`Markup` passes unescaped: our own SVG. This module stays light, because Airflow's processes import it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from windrow.text import instant_of, short_instant_text, shown_duration, shown_instant


def render(template: str, **values: Any) -> str:
    """Return the page of a template; pages need a `title`, and a value that a template misses is an error.

    Args:
        template: name of a file in the folder `templates`.
        values: what the template names; text is escaped.

    Raises:
        jinja2.UndefinedError: the template names a value that is not given.
    """
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "instant": _instant,
        "count": _count,
        "percent": percent,
        "shown": _shown,
        "address": short_instant_text,
    }
    return made


def percent(rate: float) -> str:
    """A rate as a percentage with two decimals, and with more where it would read as 0 or 100 % and is neither.

    >>> percent(0.1234), percent(0.99996), percent(0.00004), percent(1.0)
    ('12.34%', '99.996%', '0.004%', '100.00%')
    """
    texts = (f"{rate:.{digits}%}" for digits in range(2, 16))
    return next((text for text in texts if rate in (0, 1) or float(text[:-1]) not in (0, 100)), f"{rate:.2%}")


def _count(number: int) -> str:
    return f"{number:,}"


def _instant(at: datetime | str) -> str:
    """An instant, or the stored text of one, as people read it; an empty text stays empty."""
    if isinstance(at, str):
        return shown_instant(instant_of(at)) if at else ""
    return shown_instant(at)


def _shown(value: Any) -> str:
    """A value of a table's cell by its type; None is empty."""
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, timedelta):
        return shown_duration(value, exact=True)
    if isinstance(value, float):
        return percent(value)
    return "" if value is None else _count(value) if isinstance(value, int) else str(value)
