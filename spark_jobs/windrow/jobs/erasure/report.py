"""The report of an erasure, for the person who asked: what was erased where, and what remains until when. No key.

<reports>/erasures/<erasure>/index.html      to read
<reports>/erasures/<erasure>/report.json     the same for programs
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from windrow.files import write_whole
from windrow.quality import html
from windrow.text import counted, instant_of, instant_text, shown_instant

Section = tuple[str, str, Sequence[str], Sequence[Sequence[Any]]]
"""Heading, sentence, heads of a table, and its lines."""


def write(report: Mapping[str, Any], reports: Path) -> Path:
    """Write the report; return the path of the page.

    Args:
        report: what `jobs.erasure.erase.erase` has found.
        reports: folder of the pipeline's reports.
    """
    folder = (
        reports / "erasures" / "".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in report["erasure"])
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "report.json", json.dumps(report, indent=1, sort_keys=True, default=_plain))
    what = counted(report["keys"], "key") if report["keys"] else "every key that was erased before"
    headline = (
        f"{shown_instant(report['at'])}: {what} of {report['pipeline']}, by {', '.join(report['columns'])}. "
        "The key itself stands nowhere here; the platform keeps a salted hash of it, so that it stays erased."
    )
    page = folder / "index.html"
    sections = list(_sections(report))
    write_whole(page, html.render("erasure.html", title="Erasure", headline=headline, sections=sections))
    return page


def _plain(value: Any) -> Any:
    return instant_text(value) if isinstance(value, datetime) else str(value)


def _sections(report: Mapping[str, Any]) -> Iterator[Section]:
    landed = report["landing"]
    was = "left the table" if report["mode"] == "delete" else "stay without any value"
    lines = [(f"landing/{topic}", one["rows"], "emptied: no value, no bytes") for topic, one in landed.items()]
    lines += [("training", report["training"]["rows"], was)]
    lines += [("candidates", report["candidates"], "candidates that were discarded")]
    yield "Erased", "", ("table", "rows", "what became of them"), lines
    if report["other_rows"]:
        yield (
            "Rows of other keys that still have a record of the key",
            f"A rebuild of these intervals takes it out: windrow rebuild {report['pipeline']}.",
            ("interval (UTC)", "rows"),
            [(shown_instant(instant_of(start)), rows) for start, rows in report["other_rows"].items()],
        )
    yield "Until the bytes are gone", _until(report), (), ()
    yield (
        "Snapshots that still hold rows of the key",
        "A snapshot keeps its files until somebody deletes it: windrow snapshots NAME --delete SNAPSHOT."
        if report["snapshots"]
        else "None.",
        ("snapshot", "rows"),
        sorted(report["snapshots"].items()),
    )
    yield (
        "Exports that may hold rows of the key",
        "They were written by windrow export, and are outside of the platform: delete them, or export them again. "
        "Exports by other programs, and copies, are not known here.",
        ("location", "written", "rows"),
        [
            (one["location"], one["exported_at"], "not finished" if one["rows"] is None else one["rows"])
            for one in report["exports"]
        ],
    )
    parts = unsearched(report)
    yield "What could not be searched", "; ".join(parts) + "." if parts else "Nothing.", (), ()


def _until(report: Mapping[str, Any]) -> str:
    return (
        f"Files of past versions are deleted by the first maintenance after {shown_instant(report['gone_after'])} "
        f"({report['retention_days']} days, or as its retention says). Until then past versions still have them. "
        "Kafka keeps its records as long as the topics are configured to; what is read from it again lands empty."
    )


def unsearched(report: Mapping[str, Any]) -> list[str]:
    """Return what an erasure could not search, each with its reason or the next move.

    Args:
        report: as for `write`.
    """
    hidden = {topic: one["unsearchable"] for topic, one in report["landing"].items() if one["unsearchable"]}
    parts = [
        f"{counted(n, 'record')} of {topic} that kept their bytes: a key could not be read, and the bytes may hold it"
        for topic, n in hidden.items()
    ]
    parts += [f"the stream {name}: it has no column of the key" for name in report["not_covered"]]
    parts += [
        f"the table landing/{topic}, whose topic left the pipeline file: delete its folder, or put the stream back and "
        "erase again"
        for topic in report["unknown_tables"]
    ]
    return parts
