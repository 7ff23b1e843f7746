"""The two pages that Windrow shows in Airflow: all pipelines, and one pipeline with its newest publications.

Server-rendered and bounded: a register of a million publications makes a page of a hundred lines. Counts and names
only, no row of anybody's data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from windrow.config import PipelineInvalid, find
from windrow.home import Home
from windrow.places import Places
from windrow_airflow.pipeline_files import names

NEWEST, FEW = 100, 5
TITLES = {
    "data_docs": "every judgement",
    "lag_impact": "lag impact",
    "late": "late ledger",
    "rebuilds": "rebuild plans",
    "summary": "daily summary",
}
_CSS = """
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:76rem;padding:0 1rem}
body{color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}a{color:#0a58ca}code{overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd}
td.n,th.n{font-variant-numeric:tabular-nums;text-align:right}small{color:#57606a}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}a{color:#79b8ff}th,td{border-color:#30363d}
small{color:#9da7b1}}
"""
_COUNTS = ("rows", "positive", "negative", "unknown", "left_duplicate")


def pipelines(places: Places) -> list[str]:
    """Names of the pipelines that have a file."""
    return sorted(names(places))


def index_page(shown: Sequence[str], places: Places) -> str:
    """A line a pipeline."""
    lines = "".join(
        f'<tr><td><a href="pipelines/{name}">{name}</a></td><td>{_reports(name, places, "")}</td></tr>'
        for name in shown
    )
    table = f"<table><tr><th>pipeline</th><th>reports</th></tr>{lines}</table>"
    return _page("Windrow", table if shown else "<p>No pipeline file, or none that you may see.</p>")


def pipeline_page(name: str, places: Places) -> str:
    """Its newest publications, where its tables are, and its reports."""
    from windrow.io.delta import tables  # delta-rs is not wanted at import
    from windrow.io.registers import publications

    try:
        pipeline = find(name, places.pipelines)
    except PipelineInvalid as invalid:
        return _page(f"Pipeline {name}", f"<p>Its file cannot be used:</p><pre>{escape(str(invalid))}</pre>")
    rows = publications.registered(Home(pipeline, places))
    newest = sorted(rows, key=lambda row: row["number"], reverse=True)[:NEWEST]
    standing = {row["number"] for row in publications.standing(rows).values()}
    table = tables.opened(places.table(name, "training"))
    version = f", version {table.version()}" if table is not None else ", nothing published yet"
    more = f"<p>The newest {NEWEST} of {len(rows)}; <code>windrow publications {name}</code> lists all.</p>"
    return _page(
        f"Pipeline {name}",
        f'<p><a href="../">All pipelines</a></p><p>Reports: {_reports(name, places, "../")}</p>'
        f"<h2>Publications</h2>{more if len(rows) > NEWEST else ''}{_publications(newest, standing, name, places)}"
        f'<h2 id="tables">Tables</h2><ul><li>training{version}: '
        f"<code>{escape(places.table(name, 'training'))}</code></li>{_landing(Home(pipeline, places))}</ul>",
    )


def _publications(rows: Sequence[Mapping[str, Any]], standing: set[int], name: str, places: Places) -> str:
    head = "".join(f'<th class="n">{column.replace("_", " ").replace("left ", "")}</th>' for column in _COUNTS)
    lines = []
    for row in rows:
        counts = "".join(f'<td class="n">{row[column]:,}</td>' for column in _COUNTS)
        verdict = escape(row["verdict"])
        if link := _report_of(row, name, places):
            verdict = f'<a href="{escape(link)}">{verdict}</a>'
        if row["overridden_by"]:
            verdict += f" <small>by {escape(row['overridden_by'])}: {escape(row['override_reason'] or '')}</small>"
        lines.append(
            f'<tr><td class="n">{row["number"]}</td><td>{row["interval"]:%Y-%m-%d %H:%M:%S}Z</td>{counts}<td>{verdict}'
            f'</td><td class="n">{row["training_version"]}</td><td>{"yes" if row["number"] in standing else "replaced"}'
            f"</td><td>{row['published_at']:%Y-%m-%d %H:%M:%S}Z</td></tr>"
        )
    return (
        f'<table><tr><th class="n">number</th><th>interval (UTC)</th>{head}<th>verdict</th><th class="n">table version'
        f"</th><th>stands</th><th>published (UTC)</th></tr>{''.join(lines)}</table>"
    )


def _report_of(row: Mapping[str, Any], name: str, places: Places) -> str:
    root, report = places.reports(name), Path(row["report"] or "")
    return f"../reports/{name}/{report.relative_to(root).as_posix()}" if report.is_relative_to(root) else ""


def _landing(home: Home) -> str:
    tables = ((topic, home.landing(topic)) for topic in home.pipeline.topics)
    return "".join(f"<li>landed {escape(topic)}: <code>{escape(path)}</code></li>" for topic, path in tables)


def _reports(name: str, places: Places, up: str) -> str:
    """A link to the front page of each kind of report; where a kind has none, to its newest pages."""
    root = places.reports(name)
    links = []
    for kind in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else ():
        title = escape(TITLES.get(kind.name, kind.name))
        for n, page in enumerate(_fronts(kind)):
            link = escape(f"{up}reports/{name}/{page.relative_to(root).as_posix()}")
            links.append(f'<a href="{link}">{title if n == 0 else n + 1}</a>')
    return " · ".join(links) or "<small>none yet</small>"


def _fronts(kind: Path) -> list[Path]:
    front = kind / "index.html"
    if front.is_file():
        return [front]
    pages = [path for path in (*kind.glob("*.html"), *kind.glob("*/index.html")) if path.is_file()]
    return sorted(pages, key=lambda path: path.stat().st_mtime, reverse=True)[:FEW]


def _page(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
