"""Tests that write have folders of their own, the others share one table; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.training.feed import feed_home
from support.training.table import empty_places
from windrow.home import Home
from windrow.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Places with an empty home and one folder for pipeline files."""
    return empty_places(tmp_path)


@pytest.fixture(scope="session")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """What `support.training.feed.life` has published; tests only read it."""
    return feed_home(empty_places(tmp_path_factory.mktemp("feed") / "feed"))
