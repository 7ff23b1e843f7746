"""Great Expectations' own page of a validated suite, made to stand alone: nothing fetched, no script.

As rendered, the page asks eight hosts for styles and scripts, and shows plain text without them. What is
taken away is decoration; every expectation, its status and its observed value stay.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

_CSS = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
body{color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
.row{display:block}.alert{background:#f6f8fa;padding:.2rem .6rem;margin-top:1rem}
.alert h5{margin:.3rem 0;font-size:1rem}.badge{background:#eaeef2;border-radius:.3rem;padding:0 .35rem}
.badge-danger,.text-danger{color:#b42318}.text-success{color:#1a7f37}.text-warning{color:#9a6700}
i.fas{font-style:normal}.fa-check-circle::before{content:"\\2714"}.fa-times::before{content:"\\2718"}
.fa-exclamation-triangle::before{content:"\\26a0"}.card,a[data-toggle]{display:none}code{white-space:pre-wrap}
"""
_ELEMENTS = re.compile(r"(?is)<(script|style|nav|footer)\b.*?</\1\s*>|</nav\s*>|<(?:link|img)\b[^>]*>")
_ELSEWHERE = re.compile(r'(?is)<a\s[^>]*href="\.\./[^"]*"[^>]*>(.*?)</a\s*>')
_HANDLERS = re.compile(r'(?i)\son[a-z]+="[^"]*"')


def data_docs(answered: Any, suite: str) -> str:
    """The page of a suite's validation result. It links to `index.html` beside it."""
    renderer, view = _renderer()
    for answer in answered.results:
        _drop_tracebacks(answer.exception_info)
        answer.result = _plain(answer.result)
    page = view.render(renderer.render(answered), show_how_to_buttons=False)
    for name in {answer.expectation_config.kwargs["column"] for answer in answered.results}:
        if escape(name) != name:  # a column's name is a heading, which the view does not escape
            page = page.replace(name, escape(name))
    return standing_alone(page, f"{suite}: Great Expectations")


@cache
def _renderer() -> tuple[Any, Any]:
    """Made once: the view compiles its templates, which takes longer than to judge an interval."""
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    return ValidationResultsPageRenderer(), DefaultJinjaPageView()


def standing_alone(page: str, title: str) -> str:
    """A page without scripts and without anything fetched from elsewhere, styled in itself."""
    page = _ELSEWHERE.sub(r"\1", _HANDLERS.sub("", _ELEMENTS.sub("", page)))
    head = f"<title>{escape(title)}</title><style>{_CSS}</style>"
    page = re.sub(r"(?is)<title>.*?</title>", lambda _: head, page, count=1)
    back = '<p><a href="index.html">The interval</a></p>'
    return re.sub(r"(?i)<body[^>]*>", lambda found: found[0] + back, page, count=1)


def _drop_tracebacks(info: Any) -> None:
    """A traceback names this machine's folders; the message says what happened."""
    if isinstance(info, dict):
        if "exception_traceback" in info:
            info["exception_traceback"] = ""
        for inner in info.values():
            _drop_tracebacks(inner)


def _plain(found: Any) -> Any:
    """Numbers of NumPy as Python's: the renderer knows no others, and logs a page of trace for each."""
    if isinstance(found, dict):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return found.item() if hasattr(found, "item") else found
