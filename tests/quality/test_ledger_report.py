"""The page of the late ledger: plots and numbers of the newest intervals, names as text, nothing fetched."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windrow.quality import ledger_report

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)


def total(n: int, **more: Any) -> dict[str, Any]:
    row = {
        "interval": MIDNIGHT + n * timedelta(minutes=10),
        "publication": n + 1,
        "rows": 12_345,
        "labels": 90,
        "late_labels": 10,
        "late_lefts": 2,
        "other": 1,
        "flips": 3,
        "recall": 0.9,
        "flip_rate": 0.00024,
        "missed_by_p50": timedelta(minutes=12, seconds=3),
        "missed_by_p90": timedelta(seconds=0.25),
        "missed_by_max": None,
        "causes": {"late": 9, "gap": 1},
    }
    return {**row, **more}


def page(tmp_path: Path, *totals: dict[str, Any], pipeline: str = "feed") -> str:
    return ledger_report.write(pipeline, totals, {"feed.likes": 7, "feed.<b>": 3}, tmp_path).read_text()


def test_the_numbers_of_an_interval_are_on_the_page(tmp_path: Path) -> None:
    text = page(tmp_path, total(0), total(1, recall=0.5))
    for shown in ("2026-11-01 00:00:00Z", "12,345", "90.00%", "50.00%", "0.02%", "12m 3s", "0.25s", "gap 1, late 9"):
        assert f">{shown}</td>" in text, shown
    assert text.index(">2026-11-01 00:10:00Z</td>") < text.index(">2026-11-01 00:00:00Z</td>")
    assert "feed.&lt;b&gt; 3, feed.likes 7" in text


def test_an_interval_without_a_rate_has_no_dot_and_none_at_all_no_plot(tmp_path: Path) -> None:
    text = page(tmp_path, total(0), total(1, recall=None), total(2))
    recall, flips = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert (recall.count("<circle"), flips.count("<circle")) == (2, 3)
    nothing = page(tmp_path, total(0, recall=None, flip_rate=None))
    assert nothing.count("Nothing to draw yet") == 2
    assert "<svg" not in nothing


def test_only_the_newest_intervals_are_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_report, "LISTED", 2)
    text = page(tmp_path, *(total(n) for n in range(3)))
    assert ">2026-11-01 00:00:00Z</td>" not in text
    assert text.count("Z</td>") == 2


def test_the_page_fetches_nothing_and_shows_names_as_text(tmp_path: Path) -> None:
    text = page(tmp_path, total(0), pipeline="<b>feed")
    assert "<b>feed" not in text
    assert not re.search(r"https?://|<script|<img|<link|\son[a-z]+=|@import", text, re.IGNORECASE)
