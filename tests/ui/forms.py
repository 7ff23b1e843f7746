"""Airflow's forms, filled in as a person does it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from support.running_airflow import Running, until


def open_form(page: Any, running: Running, dag_id: str) -> Any:
    """Go to a DAG's page and press *Trigger*; returns the dialog."""
    page.goto(f"{running.airflow.url}/dags/{dag_id}")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    return dialog


def fill_instant(page: Any, dialog: Any, position: int, at: datetime) -> None:
    """Fill in the n-th instant of a form; a click opens its date and time."""
    field = dialog.get_by_test_id("datetime-input").nth(position)
    field.click()
    page.get_by_placeholder("YYYY/MM/DD").last.fill(f"{at.astimezone(UTC):%Y/%m/%d}")
    page.get_by_placeholder("HH:mm").last.fill(f"{at.astimezone(UTC):%H:%M}")
    field.click()


def backfill(page: Any, running: Running, dag_id: str, first: datetime, last: datetime) -> None:
    """Send the form for a backfill of two intervals, published ones too; the DAG stays paused."""
    dialog = open_form(page, running, dag_id)
    dialog.get_by_text("Run this Dag for a range of dates").click()
    fill_instant(page, dialog, 0, first)
    fill_instant(page, dialog, 1, last)
    dialog.get_by_text("All Runs").click()
    dialog.get_by_text("2 runs will be triggered.").wait_for()
    dialog.get_by_text(f"Unpause {dag_id} on trigger").click()
    dialog.get_by_role("button", name="Run Backfill").click()
    dialog.wait_for(state="hidden")


def unpause(page: Any) -> None:
    """Unpause the DAG whose page is open."""
    switch = page.get_by_test_id("toggle-pause").first
    switch.click()
    page.locator("[data-testid='toggle-pause'][data-state='checked']").first.wait_for()
    leave(page)


def leave(page: Any) -> None:
    """Leave the page: while a test waits, an open one would poll Airflow all the time."""
    page.goto("about:blank")


def table(page: Any, column: str = "") -> list[dict[str, str]]:
    """The rows of a page's first table, or of the first that has a column: text by column."""
    tables = page.get_by_role("table")
    if column:
        tables = tables.filter(has=page.get_by_role("columnheader", name=column))
    lines = tables.first.get_by_role("row")
    lines.nth(1).get_by_text(re.compile(r"\d")).first.wait_for()  # while it loads, its lines are there and empty
    names, *rows = [line.locator("th, td").all_inner_texts() for line in lines.all()]
    return [dict(zip((name.lower() for name in names), row, strict=True)) for row in rows]


def rebuild_on_page(page: Any, running: Running, name: str, begin: datetime, end: datetime) -> str:
    """Send the form of an interval's own page for a dry run; returns the id of the run when it has ended well."""
    page.goto(f"{running.airflow.url}/windrow/pipelines/{name}/intervals/{begin:%Y-%m-%dT%H:%M:%SZ}")
    page.get_by_label("To, not included").fill(f"{end:%Y-%m-%dT%H:%M:%SZ}")
    page.get_by_label("Why", exact=True).fill("an order came late")
    page.get_by_role("button", name="Rebuild").click()
    page.wait_for_url(lambda url: f"/dags/{name}.rebuild/runs/" in url)
    run = unquote(page.url.partition("/runs/")[2].partition("/")[0].partition("?")[0])
    leave(page)
    running.finished(f"{name}.rebuild", run, "success")
    return run


def rebuild(page: Any, running: Running, dag_id: str, begin: datetime, end: datetime, *, dry_run: bool) -> str:
    """Fill in a rebuild form and send it; returns the id of the run when it has ended well."""
    api = running.airflow.api
    known = {run["dag_run_id"] for run in api.dag_runs(dag_id)}
    dialog = open_form(page, running, dag_id)
    fill_instant(page, dialog, 1, begin)  # the first is the logical date
    fill_instant(page, dialog, 2, end)
    dialog.locator("#element_reason").fill("an order came late")
    if not dry_run:
        dialog.locator("[id='switch:element_dry_run']").click()
    dialog.get_by_role("button", name="Trigger").click()
    new = until(lambda: {run["dag_run_id"] for run in api.dag_runs(dag_id)} - known, "the form has made a run")
    (run,) = new
    leave(page)
    running.finished(dag_id, run, "success")
    return str(run)
