"""The fleet page as a person on call opens it: through Airflow's navigation, compared with the tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from support.running_airflow import Running
from windrow.jobs.upkeep.health import look
from windrow.quality.pictures import strip_words

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]


def test_the_fleet_is_in_the_navigation_and_says_what_the_tables_say(running: Running, page: Any) -> None:
    page.goto(running.airflow.url)
    page.get_by_role("button", name="Browse").click()
    strips = [strip_of(running)]  # a run may publish from here on
    with page.expect_popup() as opened:
        page.get_by_text("Windrow", exact=True).click()
    tab = opened.value
    row = tab.get_by_role("row").filter(has=tab.get_by_role("rowheader", name="shop", exact=True))
    row.wait_for()
    strips.append(strip_of(running))
    shown = row.inner_text()
    strips.append(strip_of(running))
    assert any(words in shown for words in strips)
    assert "held by" in shown or "nothing has landed" in shown

    tab.get_by_label("Name contains").fill("sho")
    tab.get_by_role("button", name="Show").press("Enter")  # by keyboard
    tab.get_by_role("rowheader", name="good", exact=True).wait_for(state="detached")
    assert tab.get_by_role("rowheader").count() == 1
    assert "name=sho" in tab.url
    tab.get_by_role("link", name="shop", exact=True).press("Enter")
    tab.get_by_role("heading", name="Pipeline shop").wait_for()
    tab.locator("ol.strip a").first.press("Enter")  # a cell leads to its interval
    tab.get_by_role("heading", name="shop, interval of").wait_for()
    tab.get_by_role("heading", name="Plans and verdicts").wait_for()
    tab.get_by_role("link", name="shop", exact=True).click()
    tab.get_by_role("link", name="explain a row").click()
    tab.get_by_label("Row or event id").fill("shop.served/0/999999")
    tab.get_by_role("button", name="Explain").press("Enter")
    tab.locator("pre.problem").wait_for()


def strip_of(running: Running) -> str:
    """The strip of `shop` in words, from its tables."""
    [found] = look(["shop"], running.contexts["shop"].home.places, datetime.now(UTC))
    return strip_words(found.strip)
