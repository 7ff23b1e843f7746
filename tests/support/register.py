"""How the register of publications is read."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.home import Home, Table
from windrow.io.delta import tables


def whole_reads(home: Home, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Return the columns of each look at every publication that follows, and fail at one that reads all columns."""
    arrow, seen = tables.arrow, list[set[str]]()

    def noted(path: str, columns: Any = None, filters: Any = None) -> Any:
        if path == home.table(Table.PUBLICATIONS) and not filters:
            assert columns, "all columns of every publication are read"
            seen.append(set(columns))
        return arrow(path, columns, filters)

    monkeypatch.setattr(tables, "arrow", noted)
    return seen
