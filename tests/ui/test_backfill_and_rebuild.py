"""What a person does in the browser: looks, backfills published and unpublished intervals, rebuilds."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from support.running_airflow import INTERVAL, Running, ordered, until
from ui import forms
from windrow.jobs import train

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]


def test_the_pages_are_for_those_who_have_signed_in(running: Running, stranger: Any) -> None:
    for path in ("", "pipelines/shop", "reports/shop/"):
        answer = stranger.goto(f"{running.airflow.url}/windrow/{path}")
        assert answer.status == 401
        assert "shop" not in stranger.inner_text("body")


def test_the_pages_are_in_the_navigation(running: Running, page: Any) -> None:
    page.goto(running.airflow.url)
    page.get_by_role("button", name="Browse").click()
    with page.expect_popup() as opened:
        page.get_by_text("Windrow", exact=True).click()
    tab = opened.value
    tab.get_by_role("link", name="shop", exact=True).click()
    tab.get_by_role("heading", name="Pipeline shop").wait_for()


def test_a_backfill_from_the_form_while_scheduled_runs_go_on(running: Running, spark: Any, page: Any) -> None:
    start, second = running.start, running.start + INTERVAL
    published_by_hand(running, start)  # one interval of the range is published, one is not
    late(running, 3)

    forms.backfill(page, running, "shop.training", start, second)
    forms.unpause(page)
    first_run, second_run = backfill_runs(running)
    for run in (first_run, second_run):
        running.finished("shop.training", run, "success")

    standing = running.standing("shop")
    assert standing[start]["run"].partition("#")[0] == first_run
    # a scheduled run takes along what is closed and unpublished, and may be faster
    by = standing[second]["run"].partition("#")[0]
    assert by == second_run or by in scheduled(running)
    assert "s3" in running.ordered_ids("shop")
    assert [row["shown_id"] for row in running.rows("shop")] == [f"s{n}" for n in range(300)]

    # scheduled runs go on behind the range
    until(lambda: scheduled(running, state="success"), "a scheduled run has ended")
    assert min(scheduled(running).values()) == second + INTERVAL

    # the browser says that it is done, the pipeline's page what stands, and why is a click away
    (done,) = until(lambda: completed_backfills(running, page), "the browser shows it as done")
    assert (done["from"], done["to"]) == (f"{start:%Y-%m-%d %H:%M:%S}", f"{second:%Y-%m-%d %H:%M:%S}")
    page.goto(f"{running.airflow.url}/windrow/pipelines/shop")
    shown = forms.table(page, "stands")
    stands = {row["interval (utc)"]: row["number"] for row in shown if row["stands"] == "yes"}
    for at in (start, second):
        assert stands[f"{at:%Y-%m-%d %H:%M:%S}Z"] == str(standing[at]["number"])
    assert "replaced" in {row["stands"] for row in shown}  # the publication that was made by hand
    rows = page.get_by_role("row").filter(has_text=f"{start:%Y-%m-%d %H:%M:%S}Z")
    rows.get_by_role("link", name=re.compile("passed|warned")).first.click()
    page.get_by_text("rows_outside_interval").first.wait_for()  # a measure of the quality report


def test_a_rebuild_from_the_form_is_shown_in_a_dry_run_and_carried_out_when_it_is_meant(
    running: Running, spark: Any, page: Any
) -> None:
    api, start = running.airflow.api, running.start
    for at in (start, start + INTERVAL):
        published_by_hand(running, at)
    late(running, 4)
    before = running.numbers("shop")

    dry = forms.rebuild_on_page(page, running, "shop", start, start + 2 * INTERVAL)
    states = api.task_states("shop.rebuild", dry)
    assert (states["plan"], states["is_no_dry_run"]) == ("success", "success")
    assert {states[task] for task in ("join", "check", "publish", "rebuilt")} == {"skipped"}
    page.goto(f"{running.airflow.url}/dags/shop.rebuild/runs/{dry}/tasks/plan")
    page.get_by_text("Details", exact=True).click()
    page.get_by_role("link", name="Report", exact=True).click()
    page.get_by_text("Dry run, nothing is changed: 2 replaced").first.wait_for()
    assert "an order came late" in page.inner_text("body")
    page.goto(f"{running.airflow.url}/windrow/pipelines/shop")
    page.get_by_role("link", name="rebuild plans").wait_for()
    assert running.numbers("shop") == before

    meant = forms.rebuild(page, running, "shop.rebuild", start, start + 2 * INTERVAL, dry_run=False)
    assert api.task_states("shop.rebuild", meant)["rebuilt"] == "success"
    standing = running.standing("shop")
    for at, number in before.items():
        assert standing[at]["number"] > number
        assert (standing[at]["reason"], standing[at]["asked_by"]) == ("an order came late", "admin")
    assert "s4" in running.ordered_ids("shop")
    assert [row["shown_id"] for row in running.rows("shop")] == [f"s{n}" for n in range(300)]


def published_by_hand(running: Running, at: datetime) -> None:
    """Publish an interval unless it is published."""
    ctx = running.contexts["shop"]
    if at not in running.standing("shop"):
        running.world.land(ctx)
        train.train_one(ctx, f"by hand {at}", at, "publish")


def late(running: Running, n: int) -> None:
    """Land an order after its row's interval was published."""
    running.world.produce([ordered("shop", running.start, n)])
    running.world.land(running.contexts["shop"])
    assert f"s{n}" not in running.ordered_ids("shop")


def backfill_runs(running: Running) -> list[str]:
    """Ids of the backfill runs, oldest interval first."""
    runs = running.airflow.api.dag_runs("shop.training", run_type="backfill")
    return [run["dag_run_id"] for run in sorted(runs, key=lambda run: run["logical_date"])]


def completed_backfills(running: Running, page: Any) -> list[dict[str, str]]:
    """Rows of the DAG's tab *Backfills* that are completed."""
    page.goto(f"{running.airflow.url}/dags/shop.training/backfills")
    return [row for row in forms.table(page) if row["completed at"].strip()]


def scheduled(running: Running, **state: str) -> dict[str, datetime]:
    """Scheduled runs: id to interval."""
    runs = running.airflow.api.dag_runs("shop.training", run_type="scheduled", **state)
    return {run["dag_run_id"]: datetime.fromisoformat(run["logical_date"]) for run in runs}
