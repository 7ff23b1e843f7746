"""The two pages that Windrow serves in Airflow: all pipelines, and one pipeline with its newest publications.

Rendered on the server and bounded in size, however long the register is. Names and counts only, no rows of data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from windrow.config import PipelineInvalid, find
from windrow.home import Home, Table
from windrow.places import Places
from windrow.quality import html
from windrow.semantics.health import findings, state
from windrow_airflow.pipeline_files import names

NEWEST = 100
"""Publications that a pipeline's page shows."""
FEW = 5
"""Most pages linked per kind of report that has no front page."""
TITLES = {
    "data_docs": "every judgement",
    "lag_impact": "lag impact",
    "late": "late ledger",
    "rebuilds": "rebuild plans",
    "summary": "daily summary",
}
"""Link text of each kind of report, by the name of its folder."""
_COUNTS = ("rows", "positive", "negative", "unknown", "left_duplicate")


def pipelines(places: Places) -> list[str]:
    """Names of the pipelines that have a file, usable or not."""
    return sorted(names(places))


def index_page(shown: Sequence[str], places: Places) -> str:
    """Return the page of all pipelines to show: state and findings of each, the worst first, with its reports."""
    from windrow.jobs import health  # loads delta-rs

    now = datetime.now(UTC)
    found = [(seen, findings(seen, now)) for seen in health.look(shown, places)]
    entries = [(seen, state(notes), notes, list(_reports(seen.name, places, ""))) for seen, notes in found]
    return html.render(
        "pipelines.html", title="Windrow", pipelines=sorted(entries, key=lambda entry: (-entry[1], entry[0].name))
    )


def pipeline_page(name: str, places: Places) -> str:
    """Return a pipeline's page: its reports, its newest publications and where its tables are."""
    from windrow.io.delta import tables  # loads delta-rs, which Airflow's processes must not load at import
    from windrow.io.registers import clocks, publications
    from windrow.jobs import health

    title = f"Pipeline {name}"
    try:
        home = Home(find(name, places.pipelines, places.expectations), places)
    except PipelineInvalid as invalid:
        return html.render("pipeline.html", title=title, problems=str(invalid))
    rows = publications.registered(home)
    seen = health.look([name], places)[0]
    newest = sorted(rows, key=lambda row: row["number"], reverse=True)[:NEWEST]
    standing = {row["number"] for row in publications.standing(rows).values()}
    training = home.table(Table.TRAINING)
    table = tables.opened(training)
    return html.render(
        "pipeline.html",
        title=title,
        problems="",
        name=name,
        findings=findings(seen, datetime.now(UTC)),
        blocked=sorted(seen.blocked.items()),
        reports=list(_reports(name, places, "../")),
        count=len(rows),
        counts=_COUNTS,
        publications=[(row, row["number"] in standing, _report_of(row, name, places)) for row in newest],
        training=training,
        version=None if table is None else table.version(),
        gaps=clocks.observe(home).gaps,
        landing=[(topic, home.landing(topic)) for topic in home.pipeline.topics],
    )


def _report_of(row: Mapping[str, Any], name: str, places: Places) -> str:
    """Link to the report of a publication, empty if its file is not below the pipeline's reports."""
    root, report = places.reports(name), Path(row["report"] or "")
    return f"../reports/{name}/{report.relative_to(root).as_posix()}" if report.is_relative_to(root) else ""


def _reports(name: str, places: Places, up: str) -> Iterator[tuple[str, str]]:
    """Link and text of each kind of report: its front page, or its newest pages if it has none.

    Args:
        up: relative path from the linking page to the application's root.
    """
    root = places.reports(name)
    for kind in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else ():
        for number, page in enumerate(_fronts(kind), start=1):
            text = TITLES.get(kind.name, kind.name) if number == 1 else str(number)
            yield f"{up}reports/{name}/{page.relative_to(root).as_posix()}", text


def _fronts(kind: Path) -> list[Path]:
    """The front page of a folder of reports, or its newest pages."""
    front = kind / "index.html"
    if front.is_file():
        return [front]
    pages = [path for path in (*kind.glob("*.html"), *kind.glob("*/index.html")) if path.is_file()]
    return sorted(pages, key=lambda path: path.stat().st_mtime, reverse=True)[:FEW]
