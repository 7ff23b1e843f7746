"""Every test has folders of its own; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.training.table import empty_places
from windrow.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Places with an empty home and one folder for pipeline files."""
    return empty_places(tmp_path)
