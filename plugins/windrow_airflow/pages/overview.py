"""The page of one pipeline that Windrow serves in Airflow, with its newest publications.

Rendered on the server and bounded in size, however long the register is. Names and counts only, no rows of data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.config import PipelineInvalid, find
from windrow.home import Home, Table
from windrow.places import Places
from windrow.quality import html, pictures
from windrow.semantics.balance import rate
from windrow.semantics.clock import holder
from windrow.semantics.fleet.health import age, holder_reason
from windrow.semantics.fleet.strip import Cell, CellState
from windrow.text import counted, rounded_duration, shown_duration, shown_instant, size_text
from windrow_airflow.pages import fleet, interval
from windrow_airflow.pipeline_files import names

if TYPE_CHECKING:
    from windrow.io.registers.clocks import Observation
    from windrow.io.registers.recent import Recent
    from windrow.jobs.upkeep.health import Health, Runs

NEWEST = 100
"""Publications that a pipeline's page shows."""
DRIFTED = 12
"""Columns whose drift a pipeline's page shows, the farthest ones."""
FEW = 5
"""Most pages linked per kind of report that has no front page."""
TITLES = {
    "card": "data card",
    "data_docs": "every judgement",
    "lag_impact": "lag impact",
    "late": "late ledger",
    "rebuilds": "rebuild plans",
    "summary": "daily summary",
}
"""Link text of each kind of report, by the name of its folder."""


def pipelines(places: Places) -> list[str]:
    """Names of the pipelines that have a file, usable or not."""
    return sorted(names(places))


def pipeline_page(name: str, places: Places, runs: Mapping[str, Runs] | None = None) -> str:
    """Return a pipeline's page: state, newest intervals, clock, figures, publications, and where its tables are.

    Args:
        runs: what Airflow knows of its DAGs.
    """
    from windrow.io.delta import tables  # loads delta-rs, which Airflow's processes must not load at import
    from windrow.io.registers import clocks, publications, recent

    title, now = f"Pipeline {name}", datetime.now(UTC)
    try:
        home = Home(find(name, places.pipelines, places.expectations), places)
    except PipelineInvalid as invalid:
        return html.render("pipeline.html", title=title, problems=str(invalid))
    found = fleet.look([name], places, now, runs or {})[0]
    with fleet.known() as known:
        count = len(recent.grid(home, known).starts)
        newest = recent.newest_publications(home, count, NEWEST, known)
        figures, drifts = _figures(home, found, known), _drifts(home, found, known)
    standing = {row["number"] for row in publications.standing(newest).values()}  # whatever replaces a row is newer
    training = home.table(Table.TRAINING)
    table, observed = tables.opened(training), clocks.observe(home)
    gaps = observed.shown_gaps
    return html.render(
        "pipeline.html",
        title=title,
        problems="",
        name=name,
        status=found.status,
        findings=found.findings,
        age=_age(found, now),
        strip=[_cell(cell, name) for cell in found.strip],
        strip_words=pictures.strip_words(found.strip),
        states=list(CellState),
        figures=figures,
        drifts=drifts,
        clock=pictures.clock(
            found.seen.clocks, found.seen.watermark, observed.frontier(home.pipeline), found.seen.landed_at
        ),
        clock_words=holder_reason(found.seen.clocks, found.seen.terms.idle_mode),
        partitions=_partitions(observed),
        waiting=_waiting(found, home),
        watermark=observed.watermark,
        frontier=observed.frontier(home.pipeline),
        blocked=[(start, f"{name}/{interval.link(start)}", why) for start, why in sorted(found.seen.blocked.items())],
        reports=list(_reports(name, places, "../")),
        canaries=_canaries(newest, home),
        count=count,
        counts=interval.COUNTS,
        publications=[
            (
                row,
                row["number"] in standing,
                interval.report_link(row["report"], name, places, "../"),
                interval.run_link(row, name),
                f"{name}/{interval.link(row['interval'])}",
            )
            for row in newest
        ],
        training=training,
        version=None if table is None else table.version(),
        gaps=gaps.gaps[-NEWEST:],
        more_gaps=len(gaps.gaps) > NEWEST,
        landing=[(topic, home.landing(topic)) for topic in home.pipeline.topics],
    )


def _canaries(newest: list[dict[str, Any]], home: Home) -> dict[str, Any]:
    """Pairs of canaries over the newest publications that stand, and in each that lacks one; empty without canaries."""
    from windrow.io.registers import publications

    probed = [row for row in publications.standing(newest).values() if row["canary_pairs"]]
    if home.pipeline.canary is None and not probed:
        return {}
    pairs, matched = (sum(row[name] or 0 for row in probed) for name in ("canary_pairs", "canary_matched"))
    delays = [row["canary_delay_s"] for row in probed if row["canary_delay_s"] is not None]
    return {
        "pairs": pairs,
        "matched": matched,
        "recall": rate(matched, pairs),
        "delay": shown_duration(timedelta(seconds=max(delays))) if delays else "",
        "published": shown_duration(
            max((row["published_at"] - row["interval"] for row in probed), default=timedelta(0))
        ),
        "newest": max((row["interval_end"] for row in probed), default=None),
        "lacking": [row for row in probed if row["canary_matched"] < row["canary_pairs"]][::-1][:FEW],
    }


def _waiting(found: Health, home: Home) -> dict[str, Any]:
    """How much waits for the clock beside each bound; empty before the first landing."""
    if found.seen.waiting is None:
        return {}
    beyond, bounds = found.seen.waiting, home.pipeline.waiting
    waiting, age = beyond.waiting, bounds.max_age
    return {
        "policy": bounds.policy,
        "oldest": waiting.oldest,
        "is_beyond": bool(beyond.exceeded),
        "forced": len(beyond.forced),
        "figures": [
            ("rows", f"{waiting.rows:,}", "" if bounds.max_rows is None else f"{bounds.max_rows:,}"),
            ("bytes", size_text(waiting.bytes), "" if bounds.max_bytes is None else size_text(bounds.max_bytes)),
            ("age", shown_duration(waiting.age), "" if age is None else shown_duration(age)),
        ],
    }


def _age(found: Health, now: datetime) -> str:
    old, promise = age(found.seen, now), rounded_duration(found.seen.terms.promise)
    shown = "nothing is published" if old is None else f"the newest publication is {rounded_duration(old)} old"
    return f"{shown}, promised {promise}"


def _cell(cell: Cell, name: str) -> dict[str, Any]:
    """A cell of the strip: its words, and its page."""
    rows = "" if cell.rows is None else f", {counted(cell.rows, 'row')}"
    words = f"{shown_instant(cell.interval.start)} {cell.state.word}{rows}"
    return {"state": cell.state, "words": words, "link": f"{name}/{interval.link(cell.interval.start)}"}


def _partitions(observed: Observation) -> list[dict[str, Any]]:
    slowest = holder(observed.clocks)
    return [
        {
            **{name: row[name] for name in ("topic", "partition", "newest_at", "clock_at", "landed_at", "idle")},
            "lag": max(0, row["end_offset"] - row["next_offset"]),
            "holds": slowest is not None and (row["topic"], row["epoch"], row["partition"]) == slowest.identity,
        }
        for row in observed.rows
    ]


def _figures(home: Home, found: Health, known: Recent) -> dict[str, Any]:
    """Pictures over the strip, and the table behind them, the newest interval first."""
    from windrow.io.registers import recent

    if not any(cell.row for cell in found.strip):
        return {}
    since = found.strip[0].interval.start
    reasons: dict[str, dict[str, int]] = {}
    for row in recent.measures_since(home, since, known):
        kind, _, reason = row["name"].partition(".")
        if kind == "unknown" and reason:
            reasons.setdefault(row["plan"], {})[reason] = int(row["value"] or 0)
    judged = recent.distances_since(home, since, known)
    distances = {row["plan"]: row for row in sorted(judged, key=lambda row: row["judged_at"])}

    def of(cell: Cell) -> dict[str, Any]:
        plan = cell.row["plan_id"] if cell.row else None
        z = distances.get(plan) if plan else None
        return {
            "at": cell.interval.start,
            "state": cell.state,
            "rows": cell.rows,
            "label_rate": cell.label_rate,
            "unknown_rate": cell.unknown_rate,
            "z": z["value"] if z else None,
            "band": z["bound"] if z else "",
            "outside": bool(z) and z["verdict"] != "passed",
            "reasons": {reason: n for reason, n in sorted(reasons.get(plan or "", {}).items()) if n},
        }

    rows = [of(cell) for cell in found.strip]
    lines = [
        ("Label rate", "label_rate", html.percent),
        ("Distance of the label rate from its history, in standard deviations", "z", "{:+.1f}".format),
        ("Rows", "rows", "{:,.0f}".format),
        ("Unknown share", "unknown_rate", html.percent),
    ]
    drawn = [
        (title, pictures.line(title, values, shown, high=60), pictures.line_words(values, shown))
        for title, key, shown in lines
        if (values := [row[key] for row in rows])
    ]
    return {"lines": [one for one in drawn if one[1]], "rows": rows[::-1]}


def _drifts(home: Home, found: Health, known: Recent) -> list[dict[str, Any]]:
    """Columns that have moved farthest over the strip, with a line each; empty where no column is compared."""
    from windrow.io.registers import recent

    cells = [cell for cell in found.strip if cell.row]
    if not cells:
        return []
    moved: dict[str, dict[str, dict[str, Any]]] = {}
    for row in sorted(recent.drifts_since(home, cells[0].interval.start, known), key=lambda row: row["recorded_at"]):
        moved.setdefault(row["column"], {})[row["plan"]] = row
    rows = []
    for column, by_plan in moved.items():
        of_cells = [by_plan.get(cell.row["plan_id"], {}) for cell in cells if cell.row]
        psis = [one.get("psi") for one in of_cells]
        most = max((psi for psi in psis if psi is not None), default=None)
        if most is not None:
            newest, line = of_cells[-1], pictures.line(f"PSI of {column}", psis, "{:.2f}".format)
            rows.append(
                {"column": column, "psi": newest.get("psi"), "ks": newest.get("ks"), "most": most, "line": line}
            )
    return sorted(rows, key=lambda row: -row["most"])[:DRIFTED]


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
