"""Great Expectations' own page of a validated suite, made to stand alone: it fetches nothing and runs no script.

As rendered, the page loads styles and scripts from eight hosts, and shows plain text without them. They are replaced
by our style sheet; every expectation, its status and its observed value stay.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

from windrow.quality import html

_ELEMENTS = re.compile(r"(?is)<(script|style|nav|footer)\b.*?</\1\s*>|</nav\s*>|<(?:link|img)\b[^>]*>")
_ELSEWHERE = re.compile(r'(?is)<a\s[^>]*href="\.\./[^"]*"[^>]*>(.*?)</a\s*>')
_HANDLERS = re.compile(r'(?i)\son[a-z]+="[^"]*"')


def suite_page(validated: Any, suite: str) -> str:
    """Return the page of a suite's validation result. It links to the interval's page, `index.html` in its folder.

    Args:
        validated: result of a suite; tracebacks are taken out of it.
        suite: its name, for the title.

    Returns:
        A whole HTML page without scripts.
    """
    renderer, view = _renderer()
    for result in validated.results:
        _drop_tracebacks(result.exception_info)
        result.result = _plain(result.result)
    page = view.render(renderer.render(validated), show_how_to_buttons=False)
    for name in {result.expectation_config.kwargs["column"] for result in validated.results}:
        if escape(name) != name:  # a column's name is a heading, which the view does not escape
            page = page.replace(name, escape(name))
    return standing_alone(page, f"{suite}: Great Expectations")


@cache
def _renderer() -> tuple[Any, Any]:
    """Great Expectations' renderer and view; cached, because compiling the templates takes longer than judging."""
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    view = DefaultJinjaPageView()
    view.env.auto_reload = False  # a page takes hundreds of templates, and each would be looked for on the disk
    return ValidationResultsPageRenderer(), view


def standing_alone(page: str, title: str) -> str:
    """Return the page without scripts, event handlers and links to elsewhere, with our style sheet in it.

    Args:
        page: a whole HTML page of Great Expectations.
        title: plain text; it is escaped.
    """
    page = _ELSEWHERE.sub(r"\1", _HANDLERS.sub("", _ELEMENTS.sub("", page)))
    style = html.render("great_expectations.css")
    head = f"<title>{escape(title)}</title><style>{style}</style>"
    page = re.sub(r"(?is)<title>.*?</title>", lambda _: head, page, count=1)
    back = '<p><a href="index.html">The interval</a></p>'
    return re.sub(r"(?i)<body[^>]*>", lambda body: body[0] + back, page, count=1)


def _drop_tracebacks(info: Any) -> None:
    """Empty the tracebacks, which name folders of this machine; the messages stay."""
    if isinstance(info, dict):
        if "exception_traceback" in info:
            info["exception_traceback"] = ""
        for inner in info.values():
            _drop_tracebacks(inner)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's: the renderer cannot handle others, and logs a stack trace for each."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.item() if hasattr(value, "item") else value
