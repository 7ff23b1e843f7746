"""Data Docs of a pipeline: a page per judged interval, and an index of all of them.

    <reports>/data_docs/index.html                             the newest intervals, and every day
    <reports>/data_docs/2026-11-01/index.html                  every interval of a day
    <reports>/data_docs/2026-11-01/001000Z/<plan>/index.html   an interval under a plan: verdict, reasons, next move
    <reports>/data_docs/2026-11-01/001000Z/<plan>/<suite>.html Great Expectations' page of a suite

The folders are the truth: a day's list is made from its folder whenever intervals of that day have been judged, so what
two runs at once or a killed run leave wrong is right after a retry. A run writes the lists once, after its last
judgement: it reads the folders of its own days and one small file per other day; the index stays short, however long
the history is. Old reports are deleted by whole days (`forget`). The pages show measures, never rows.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date
from pathlib import Path
from typing import Any

from filelock import FileLock

from windrow.files import write_whole
from windrow.quality import html
from windrow.quality.verdicts import Judgement, explain_failure, number
from windrow.semantics.intervals import Interval
from windrow.text import short_instant_text

LISTED = 200
"""Intervals that the front page lists one by one; older ones are on the pages of their days."""
DAYS = 400
"""Days that the front page lists; the folders of older ones stay until they are deleted."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def page_path(report_folder: Path, interval: Interval, plan: str) -> Path:
    """Path of the page of an interval under a plan.

    Raises:
        ValueError: the plan id could leave the folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", plan):
        raise ValueError(f"{plan[:100]!r} is not a plan id; it has letters, digits, - and _")
    at = interval.start.astimezone(UTC)
    time = f"{at:%H%M%S}{f'.{at:%f}' if at.microsecond else ''}Z"
    return Path(report_folder) / "data_docs" / f"{at:%Y-%m-%d}" / time / plan / "index.html"


def write(judgement: Judgement, data_docs: Mapping[str, str], measures: Mapping[str, float | None]) -> None:
    """Write or overwrite the pages of a judgement; `write_lists` lists them.

    Args:
        data_docs: Great Expectations' pages by name.
    """
    folder = judgement.report.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in data_docs.items():
        write_whole(folder / f"{name}.html", page)
    write_whole(folder / "judgement.json", json.dumps(_entry(judgement), indent=1))
    write_whole(judgement.report, _interval_page(judgement, data_docs, measures))


def write_lists(pipeline: str, report_folder: Path, days: Iterable[date]) -> None:
    """Write the lists of days whose intervals have been judged, and the index.

    Args:
        report_folder: reports of the pipeline.
        days: UTC days.
    """
    site = Path(report_folder) / "data_docs"
    with FileLock(site / ".index.lock"):
        for day in sorted(set(days)):
            _list_day(pipeline, site / day.isoformat())
        write_whole(site / "index.html", _index_page(pipeline, site))


def forget(pipeline: str, report_folder: Path, before: date) -> int:
    """Delete the pages of the days before a day; returns the number of days deleted.

    Args:
        report_folder: reports of the pipeline.
        before: first UTC day that is kept.
    """
    site = Path(report_folder) / "data_docs"
    if not site.is_dir():
        return 0
    with FileLock(site / ".index.lock"):
        old = [day for day in _days(site) if day.name < before.isoformat()]
        for day in old:
            shutil.rmtree(day)
        if old:
            write_whole(site / "index.html", _index_page(pipeline, site))
    return len(old)


def _list_day(pipeline: str, day: Path) -> None:
    """Write the list of a day's judgements, and the counts that the front page needs of it."""
    entries = _entries(day)
    write_whole(day / "day.json", json.dumps(entries))
    write_whole(day / "counts.json", json.dumps(Counter(entry["verdict"] for entry in entries)))
    title = f"Data quality of {pipeline} on {day.name}"
    write_whole(day / "index.html", html.render("judgements_of_day.html", title=title, entries=entries))


def _entry(judgement: Judgement) -> dict[str, Any]:
    shown = [*judgement.blocking, *judgement.warnings]
    return {
        "interval": short_instant_text(judgement.interval.start),
        "until": short_instant_text(judgement.interval.end),
        "plan": judgement.plan,
        "verdict": judgement.verdict,
        "why": judgement.why or "",
        "about": list(dict.fromkeys(result.metric for result in shown)),
        "judged_at": short_instant_text(judgement.judged_at),
        "page": "/".join(judgement.report.parts[-4:]),
    }


def _entries(day: Path) -> list[dict[str, Any]]:
    """Judgements of a day: newest interval first, then the last judged plan first."""
    entries = []
    for path in day.glob("*/*/judgement.json"):
        try:
            entries.append(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):  # deleted since the listing, or torn when the machine died
            continue
    return sorted(entries, key=lambda entry: (entry["interval"], entry["judged_at"]), reverse=True)


def _days(site: Path) -> list[Path]:
    """Folders of days, the newest first."""
    return sorted((path for path in site.iterdir() if _DAY.fullmatch(path.name)), reverse=True)


def _listed(day: Path) -> list[dict[str, Any]]:
    try:
        return list(json.loads((day / "day.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return _entries(day)


def _counts(day: Path) -> Counter[str]:
    try:
        return Counter(json.loads((day / "counts.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return Counter(entry["verdict"] for entry in _listed(day))


def _index_page(pipeline: str, site: Path) -> str:
    days = _days(site)[:DAYS]
    counts = [(day.name, _counts(day)) for day in days]
    newest: list[dict[str, Any]] = []
    for day in days:
        if len(newest) >= LISTED:
            break
        newest += _listed(day)[: LISTED - len(newest)]
    total = sum(one.total() for _, one in counts)
    return html.render("judgements.html", title=f"Data quality of {pipeline}", days=counts, entries=newest, total=total)


def _interval_page(judgement: Judgement, data_docs: Mapping[str, str], measures: Mapping[str, float | None]) -> str:
    return html.render(
        "judgement.html",
        title=f"{judgement.pipeline} {judgement.interval}",
        judgement=judgement,
        explanation=explain_failure(judgement),
        suites=list(data_docs),
        results=sorted(judgement.results, key=lambda r: (not r.blocks, r.verdict == "passed")),
        measures=[(name, number(value)) for name, value in sorted(measures.items())],
    )
