"""Data Docs of a pipeline: a page for each judged interval, and an index that keeps every one of them.

    <reports>/data_docs/index.html                            the newest intervals, and every day
    <reports>/data_docs/2026-11-01/index.html                 every interval of a day
    <reports>/data_docs/2026-11-01/001000Z/<plan>/index.html  an interval under a plan: what, why, what now
    <reports>/data_docs/2026-11-01/001000Z/<plan>/<suite>.html Great Expectations' page of a suite

The folders are the truth: a day's list is made from what lies in its folder whenever an interval of that day
is judged, so two runs at once or a killed one leave nothing that a retry does not put right. A judgement reads
its own day and a line about each other one, and the index stays short, however long the history is. Who deletes
old reports deletes whole days (`forget`). Every page stands alone: no script, nothing fetched, so it opens from
disk and behind any content policy. It shows measures, never rows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from html import escape
from pathlib import Path
from typing import Any

from filelock import FileLock

from windrow.quality.verdicts import Judgement, Result, explain_failure, number
from windrow.semantics.intervals import Interval

LISTED = 200
"""Intervals that the front page lists one by one; older ones stand on the page of their day."""
DAYS = 400
"""Days that the front page lists; the folders of older ones stay until they are cleaned up."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WORDS = {
    "passed": "passed",
    "warned": "passed with warnings",
    "blocked": "blocked",
    "error": "could not be judged",
}
_CSS = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
body{color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}a{color:#0a58ca}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
td.n{font-variant-numeric:tabular-nums;text-align:right}small{color:#57606a}
pre{background:#f6f8fa;padding:1rem;overflow:auto;white-space:pre-wrap}
.v{border-radius:.3rem;padding:.05rem .45rem;white-space:nowrap}
.passed{background:#dafbe1}.warned,.warning{background:#fff1c2}.blocked,.failed,.error{background:#ffd8d3}
"""


def place(report_folder: Path, interval: Interval, plan: str) -> Path:
    """The page of an interval under a plan."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", plan):
        raise ValueError(f"{plan[:100]!r} is no plan id: letters, digits, - and _")
    at = interval.start.astimezone(UTC)
    time = f"{at:%H%M%S}{f'.{at:%f}' if at.microsecond else ''}Z"
    return Path(report_folder) / "data_docs" / f"{at:%Y-%m-%d}" / time / plan / "index.html"


def write(
    judgement: Judgement, docs: Mapping[str, str], measures: Mapping[str, float | None], report_folder: Path
) -> None:
    """Write the pages of a judgement, then the day's list and the index. Written again: replaced."""
    folder = judgement.report.parent
    folder.mkdir(parents=True, exist_ok=True)
    for suite, page in docs.items():
        replace_file(folder / f"{suite}.html", page)
    replace_file(folder / "judgement.json", json.dumps(_entry(judgement), indent=1))
    replace_file(judgement.report, _interval_page(judgement, docs, measures))
    site = Path(report_folder) / "data_docs"
    with FileLock(site / ".index.lock"):
        _list_day(judgement.pipeline, folder.parents[1])
        replace_file(site / "index.html", _index_page(judgement.pipeline, site))


def forget(pipeline: str, report_folder: Path, before: date) -> int:
    """Delete the pages of the days before a day; returns how many days those were."""
    site = Path(report_folder) / "data_docs"
    if not site.is_dir():
        return 0
    with FileLock(site / ".index.lock"):
        old = [day for day in _days(site) if day.name < before.isoformat()]
        for day in old:
            shutil.rmtree(day)
        if old:
            replace_file(site / "index.html", _index_page(pipeline, site))
    return len(old)


def _list_day(pipeline: str, day: Path) -> None:
    """The list of a day's judgements, and the one line of it that the front page needs."""
    entries = _entries(day)
    replace_file(day / "day.json", json.dumps(entries))
    replace_file(day / "counts.json", json.dumps(Counter(entry["verdict"] for entry in entries)))
    replace_file(day / "index.html", _day_page(pipeline, day))


def _entry(judgement: Judgement) -> dict[str, Any]:
    found = [*judgement.blocking, *judgement.warnings]
    return {
        "interval": f"{judgement.interval.start:%Y-%m-%dT%H:%M:%SZ}",
        "until": f"{judgement.interval.end:%Y-%m-%dT%H:%M:%SZ}",
        "plan": judgement.plan,
        "verdict": judgement.verdict,
        "about": list(dict.fromkeys(result.metric for result in found)),
        "judged_at": judgement.judged_at.isoformat(timespec="seconds"),
        "page": "/".join(judgement.report.parts[-4:]),
    }


def _entries(day: Path) -> list[dict[str, Any]]:
    """Judgements of a day, newest interval first, the last judged plan first."""
    found = []
    for path in day.glob("*/*/judgement.json"):
        try:
            found.append(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):  # a clean-up was faster, or the machine died mid-write before
            continue
    return sorted(found, key=lambda entry: (entry["interval"], entry["judged_at"]), reverse=True)


def _days(site: Path) -> list[Path]:
    """Folders of days, the newest first."""
    return sorted((path for path in site.iterdir() if _DAY.fullmatch(path.name)), reverse=True)


def _of_day(day: Path) -> list[dict[str, Any]]:
    try:
        return list(json.loads((day / "day.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return _entries(day)


def _counts(day: Path) -> Counter[str]:
    try:
        return Counter(json.loads((day / "counts.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return Counter(entry["verdict"] for entry in _of_day(day))


def _index_page(pipeline: str, site: Path) -> str:
    days = _days(site)[:DAYS]
    counted = [(day.name, _counts(day)) for day in days]
    listed: list[dict[str, Any]] = []
    for day in days:
        if len(listed) >= LISTED:
            break
        listed += _of_day(day)[: LISTED - len(listed)]
    overview = "".join(
        f'<tr><td><a href="{day}/index.html">{day}</a></td><td class="n">{counts.total()}</td>'
        f"<td>{_counted(counts)}</td></tr>"
        for day, counts in counted
    )
    total = sum(counts.total() for _, counts in counted)
    older = total - len(listed)
    more = f"<p>{older} older ones stand on the pages of their days.</p>" if older else ""
    return page_of(
        f"Data quality of {pipeline}",
        f"<p>{total} judgements on {len(days)} day{'s' * (len(days) != 1)}. What was published after them, "
        "<code>windrow publications</code> says.</p>"
        f"<h2>Intervals, newest first</h2>{_listing(listed, '')}{more}"
        "<h2>Days</h2><table><tr><th>day (UTC)</th><th>judgements</th><th></th></tr>"
        f"{overview}</table>",
    )


def _day_page(pipeline: str, day: Path) -> str:
    listing = _listing(json.loads((day / "day.json").read_text(encoding="utf-8")), "../")
    return page_of(f"Data quality of {pipeline} on {day.name}", f'<p><a href="../index.html">All days</a></p>{listing}')


def _listing(entries: Iterable[Mapping[str, Any]], up: str) -> str:
    lines = [
        f'<tr><td><a href="{up}{escape(entry["page"])}">{escape(entry["interval"])}</a></td>'
        f"<td>{_mark(entry['verdict'])}</td><td>{escape(', '.join(entry['about']))}</td>"
        f"<td><small>{escape(entry['plan'])}, judged {escape(entry['judged_at'])}</small></td></tr>"
        for entry in entries
    ]
    head = "<tr><th>interval (UTC)</th><th>verdict</th><th>because of</th><th>plan</th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _interval_page(judgement: Judgement, docs: Mapping[str, str], measures: Mapping[str, float | None]) -> str:
    links = "".join(
        f'<li><a href="{escape(suite)}.html">{escape(suite)}</a>, as Great Expectations shows it</li>' for suite in docs
    )
    why = "" if judgement.may_publish else f"<pre>{escape(explain_failure(judgement))}</pre>"
    worst_first = sorted(judgement.results, key=lambda r: (not r.blocks, r.verdict == "passed"))
    results = "".join(_result_row(result) for result in worst_first)
    values = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{number(value)}</td></tr>'
        for name, value in sorted(measures.items())
    )
    return page_of(
        f"{judgement.pipeline} {judgement.interval}",
        f'<p><a href="../../../index.html">All intervals</a></p>'
        f"<p>{_mark(judgement.verdict)} Plan {escape(judgement.plan)}, "
        f"judged {_instant(judgement.judged_at)}.</p>"
        f"{why}<ul>{links}</ul><h2>Expectations</h2><table><tr><th></th><th>measure</th><th>observed</th>"
        f"<th>expected</th><th>severity</th><th>what it protects, what to do</th></tr>{results}</table>"
        f"<h2>Measures</h2><table><tr><th>measure</th><th>value</th></tr>{values}</table>",
    )


def _result_row(result: Result) -> str:
    shade = "warning" if result.verdict == "failed" and not result.blocks else result.verdict
    return (
        f'<tr><td><span class="v {shade}">{result.verdict}</span></td><td>{escape(result.metric)}</td>'
        f'<td class="n">{escape(result.observed_text)}</td><td>{escape(result.bound)}</td>'
        f"<td>{result.severity}</td><td>{escape(result.notes)}<br>"
        f"<small>{escape(result.suite)}: {escape(result.expectation)}</small></td></tr>"
    )


def _counted(counts: Mapping[str, int]) -> str:
    return " ".join(f'<span class="v {v}">{counts[v]} {_WORDS[v]}</span>' for v in _WORDS if counts.get(v))


def _mark(verdict: str) -> str:
    return f'<span class="v {verdict}">{_WORDS[verdict]}</span>'


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def page_of(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def replace_file(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a page."""
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    os.replace(written, path)
