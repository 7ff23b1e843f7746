"""A browser that is signed in to the one Airflow of the suite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.running_airflow import Running, the_airflow
from ui.browser import installed_or_fetched
from windrow.places import Places


@pytest.fixture
def running(
    broker: Any, request: pytest.FixtureRequest, session_places: Any, tmp_path_factory: pytest.TempPathFactory
) -> Running:
    return the_airflow(request.config, session_places, lambda: tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser. Not for the session: while Playwright runs, nothing else in this thread may run an event loop."""
    from playwright.sync_api import sync_playwright

    browser = installed_or_fetched(Places.from_env(os.environ).cache)
    environ = {name: value for name, value in os.environ.items() if name != "TZ"} | browser.environ
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=str(browser.path), args=["--no-sandbox", "--disable-dev-shm-usage"], env=environ
        )
        yield started
        started.close()


@pytest.fixture
def stranger(chromium: Any) -> Iterator[Any]:
    """A tab of somebody who has not signed in."""
    context = chromium.new_context(locale="en-GB", timezone_id="UTC", viewport={"width": 1500, "height": 1100})
    context.set_default_timeout(120_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(stranger: Any, running: Running) -> Iterator[Any]:
    """A signed-in tab. What it showed last is printed with a failure."""
    login = running.airflow.login
    stranger.goto(login.address)
    stranger.locator("input[name=username]").fill(login.user)
    stranger.locator("input[name=password]").fill(login.password)
    stranger.locator("button[type=submit]").click()
    stranger.wait_for_url(lambda url: "/auth/login" not in url)
    yield stranger
    print("the browser was at", stranger.url, "and showed:", stranger.inner_text("body")[:3000])
