"""The page of one interval: every plan, verdict and publication, with links to runs and reports, and its forms.

The forms are filled in: whoever may trigger the pipeline's DAGs sends them from here, and `request` starts the run.
Names and counts only, no rows of data; what is read is of this interval alone, however long the history is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from windrow.config import PipelineInvalid, find
from windrow.home import Home
from windrow.places import Places
from windrow.quality import html
from windrow.semantics.fleet.health import override_move
from windrow.semantics.intervals import shifted
from windrow.text import parse_instant, short_instant_text, shown_instant
from windrow_airflow.pages.request import FORMS

if TYPE_CHECKING:
    from windrow.jobs.upkeep.interval import Judgement, Planned, Story

UP = "../../../"
"""From the page's address to the application's root."""
COUNTS = ("rows", "positive", "negative", "unknown", "left_duplicate")
"""Counts of the register that pages show."""


def page(
    name: str, text: str, places: Places, may_send: Mapping[str, bool], paused: Collection[str] = ()
) -> str | None:
    """Return the page of an interval of a pipeline; None where no interval starts at that instant.

    Args:
        name: of the pipeline.
        text: start of the interval, as `2026-11-01T00:10:00Z`.
        may_send: which of `request.FORMS` the reader may send.
        paused: those of them whose DAG is paused.
    """
    from windrow.jobs.upkeep import interval  # loads delta-rs

    try:
        start = parse_instant(text)
    except ValueError:
        return None
    title = f"{name}, interval of {text}"
    try:
        home = Home(find(name, places.pipelines, places.expectations), places)
    except PipelineInvalid as invalid:
        return html.render("interval.html", title=title, up=UP, name=name, problems=str(invalid))
    story = interval.story(home, start)
    return None if story is None else _page(story, home, may_send, paused)


def link(start: datetime) -> str:
    """Return the path of an interval's page below that of its pipeline."""
    return f"intervals/{short_instant_text(start)}"


def run_link(row: Mapping[str, Any], name: str) -> str:
    """Return the link to the run of `<name>.training` that made a publication; empty where a form or a command did."""
    run = (row["run"] or "").partition("#")[0]
    is_ours = re.fullmatch(r"(scheduled|backfill|manual)__[0-9A-Za-z:+.-]+", run) and row["kind"] in (None, "train")
    return f"/dags/{name}.training/runs/{quote(run, safe='')}" if is_ours else ""


def report_link(report: str | None, name: str, places: Places, up: str) -> str:
    """Return the link to a report; empty if its file is not below the pipeline's reports.

    Args:
        up: relative path from the linking page to the application's root.
    """
    root, path = places.reports(name), Path(report or "")
    return f"{up}reports/{name}/{path.relative_to(root).as_posix()}" if path.is_relative_to(root) else ""


def _page(story: Story, home: Home, may_send: Mapping[str, bool], paused: Collection[str]) -> str:
    pipeline, places, at = home.pipeline, home.places, story.interval.start
    name = pipeline.name
    neighbours = [
        (words, f"{short_instant_text(start)}")
        for words, start in (("earlier", shifted(at, -pipeline.interval)), ("later", story.interval.end))
        if start >= pipeline.start
    ]
    wanted = {"override": story.may_override, "rebuild": story.is_closed and bool(story.published)}
    return html.render(
        "interval.html",
        title=f"{name}, interval of {shown_instant(at)}",
        up=UP,
        name=name,
        problems="",
        story=story,
        state=story.cell.state,
        neighbours=neighbours,
        counts=COUNTS,
        published=[(row, report_link(row["report"], name, places, UP), run_link(row, name)) for row in story.published],
        planned=[_planned(one, name, places) for one in story.planned],
        forms={kind: may_send.get(kind, False) for kind in FORMS if wanted[kind]},
        paused=paused,
        start=short_instant_text(at),
        end=short_instant_text(story.interval.end),
        override_move=override_move(name, at),
    )


def _planned(one: Planned, name: str, places: Places) -> dict[str, Any]:
    kind = "rebuild" if one.reason and not one.is_forced else "train"
    return {
        "id": one.plan.id,
        "run": one.plan.run,
        "run_link": run_link({"run": one.plan.run, "kind": kind}, name),
        "recorded_at": one.recorded_at,
        "asked_by": one.asked_by,
        "reason": one.reason,
        "pins": one.plan.pins,
        "remarks": [words for words, holds in (("forced", one.is_forced), ("drained", one.plan.drained)) if holds],
        "publication": one.publication,
        "judged": [_judged(judgement, name, places) for judgement in one.judged],
    }


def _judged(one: Judgement, name: str, places: Places) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "why": one.why,
        "judged_at": one.judged_at,
        "report": report_link(one.report, name, places, UP),
        "measures": sorted((row for row in one.rows if row["verdict"] != "passed"), key=lambda row: row["metric"]),
        "passed": sum(row["verdict"] == "passed" for row in one.rows),
    }
